//! Route types: method, path, endpoint, and the requirements that a request must meet before it reaches the
//! endpoint. The routes themselves are listed in `route_table`.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use crate::access::auth::{Anyone, OperatorAuth, PartnerAuth, RateClass, UserAuth};
use crate::request::payload::BodyRule;
use crate::route_facts::{RequiredToken, RouteFacts, RouteMethod};
use crate::routing::endpoint::Handler;
use playgate_config::limits::{
    BODY_SMALL, DEADLINE_BULK, DEADLINE_HASHING, DEADLINE_MEMORY, DEADLINE_STORE, DEADLINE_UPSTREAM,
};
use playgate_types::Role;

/// What serves a route. The variant is the authentication that it requires: its handler takes the matching proof as an
/// argument.
#[derive(Clone, Copy, Debug)]
pub enum Endpoint {
    Open(Handler<Anyone>),
    Partner(Handler<PartnerAuth>),
    User(Handler<UserAuth>),
    Operator(Handler<OperatorAuth>),
}

/// What a request of the route waits for. It decides the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkClass {
    Memory,
    Hashing,
    Store,
    Upstream,
    Bulk,
}

impl WorkClass {
    pub const fn deadline(self) -> Duration {
        match self {
            Self::Memory => DEADLINE_MEMORY,
            Self::Hashing => DEADLINE_HASHING,
            Self::Store => DEADLINE_STORE,
            Self::Upstream => DEADLINE_UPSTREAM,
            Self::Bulk => DEADLINE_BULK,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalRule {
    Refusals,
    Everything,
    /// Only requests whose answer differs from the previous one in the same playback session.
    Changes,
}

#[derive(Debug)]
pub struct Route {
    pub method: RouteMethod,
    /// The path, with `{name}` for one segment and `{*name}` for the rest.
    pub pattern: &'static str,
    pub endpoint: Endpoint,
    pub body: BodyRule,
    pub work: WorkClass,
    pub rate: RateClass,
    pub deprecated: Option<&'static str>,
    /// Responses are cached from this length of path and query, in bytes: a shorter request is answered
    /// faster than looked up. `None` disables the cache.
    pub cached_from: Option<usize>,
    /// Whether the query parameter `accessToken` may carry the partner token, for players that only take an
    /// address.
    pub query_token: bool,
    /// Roles that may use the route; `None` for routes without an operator token.
    pub roles: Option<&'static [Role]>,
    /// Whether the route serves HTML pages to a browser. Its errors are HTML too.
    pub is_page: bool,
    /// Whether only pages of this origin may read the responses.
    pub is_same_origin: bool,
    pub speaks_soap: bool,
    /// Whether an operator's request changes anything. Verifying files or writing a new snapshot of the same
    /// data changes nothing.
    pub is_change: bool,
    pub has_dry_run: bool,
    /// Whether the response contains secrets of users (tokens and PINs in mail), for a role that may see
    /// them.
    pub shows_secrets: bool,
    /// Whether a member of a fleet answers it from its own state, even while it may no longer be the owner.
    pub skips_freshness_check: bool,
    /// Whether every member of a fleet serves it, and not only the owner. It needs no body and changes nothing that
    /// another member must know at once.
    pub is_served_by_standbys: bool,
    pub journal: JournalRule,
    /// Whether the path has a token that names a playback session, and with it partner and user.
    pub names_session: bool,
    /// Name in metrics, journal and faults, where it cannot change.
    pub label: &'static str,
    /// Name in the description of the interface.
    pub operation_id: &'static str,
}

impl Route {
    pub const fn new(
        method: RouteMethod,
        pattern: &'static str,
        label: &'static str,
        endpoint: Endpoint,
        body: BodyRule,
        work: WorkClass,
    ) -> Self {
        Self {
            method,
            pattern,
            endpoint,
            body,
            work,
            rate: RateClass::General,
            deprecated: None,
            cached_from: None,
            query_token: false,
            // Closed until the row names roles: a forgotten list lets no operator in.
            roles: None,
            is_page: false,
            is_same_origin: false,
            speaks_soap: false,
            // GET changes nothing (RFC 9110, 9.2.1); a POST that only reads says so with `read_only`.
            is_change: !matches!(method, RouteMethod::Get),
            has_dry_run: false,
            shows_secrets: false,
            skips_freshness_check: false,
            is_served_by_standbys: false,
            journal: JournalRule::Refusals,
            names_session: false,
            label,
            operation_id: label,
        }
    }

    pub const fn with_body(mut self, body: BodyRule) -> Self {
        self.body = body;
        self
    }

    pub const fn rated(mut self, rate: RateClass) -> Self {
        self.rate = rate;
        self
    }

    pub const fn names_session(mut self) -> Self {
        self.names_session = true;
        self
    }

    pub const fn replaced_by(mut self, pattern: &'static str) -> Self {
        self.deprecated = Some(pattern);
        self
    }

    pub const fn cached_from(mut self, length: usize) -> Self {
        self.cached_from = Some(length);
        self
    }

    pub const fn with_query_token(mut self) -> Self {
        self.query_token = true;
        self
    }

    pub const fn for_roles(mut self, roles: &'static [Role]) -> Self {
        self.roles = Some(roles);
        self
    }

    pub const fn html_page(mut self) -> Self {
        self.is_page = true;
        // No other site's script has a reason to read a page.
        self.same_origin_only()
    }

    pub const fn same_origin_only(mut self) -> Self {
        self.is_same_origin = true;
        self
    }

    pub const fn with_soap_faults(mut self) -> Self {
        self.speaks_soap = true;
        self
    }

    pub const fn with_dry_run(mut self) -> Self {
        self.has_dry_run = true;
        self
    }

    pub const fn with_secrets(mut self) -> Self {
        self.shows_secrets = true;
        self
    }

    pub const fn without_freshness_check(mut self) -> Self {
        self.skips_freshness_check = true;
        self
    }

    pub const fn at_any_member(mut self) -> Self {
        self.is_served_by_standbys = true;
        self
    }

    pub const fn described_as(mut self, operation_id: &'static str) -> Self {
        self.operation_id = operation_id;
        self
    }

    pub const fn journaled(mut self, rule: JournalRule) -> Self {
        self.journal = rule;
        self
    }

    pub const fn read_only(mut self) -> Self {
        self.is_change = false;
        self
    }

    pub(crate) const fn facts(&self) -> RouteFacts {
        RouteFacts {
            method: self.method,
            pattern: self.pattern,
            label: self.label,
            operation_id: self.operation_id,
            token: match self.endpoint {
                Endpoint::Open(_) => RequiredToken::None,
                Endpoint::Partner(_) => RequiredToken::Partner,
                Endpoint::User(_) => RequiredToken::User,
                Endpoint::Operator(_) => RequiredToken::Operator,
            },
        }
    }

    /// Whether the request journal may read the body. Other bodies are challenges, events and files.
    pub(crate) fn journals_body(&self) -> bool {
        self.body == BodyRule::Whole(BODY_SMALL)
    }

    /// Whether an operator's request is written to the audit record: every change and every read of secrets.
    pub(crate) fn is_recorded(&self, role: Role) -> bool {
        self.is_change || (self.shows_secrets && role.sees_secrets())
    }
}
