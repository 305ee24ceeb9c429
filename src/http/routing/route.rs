//! Route types: method, path, endpoint, and the requirements that a request must meet before it reaches the
//! endpoint. The routes themselves are listed in `route_table`.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use crate::config::limits::{
    BODY_SMALL, DEADLINE_BULK, DEADLINE_HASHING, DEADLINE_MEMORY, DEADLINE_STORE, DEADLINE_UPSTREAM,
};
use crate::http::routing::router::RouteSet;
use crate::types::{Drm, Role};

/// HTTP method of a route. Every GET route also answers HEAD, and every path answers OPTIONS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteMethod {
    Get,
    Post,
    Put,
    Delete,
}

impl RouteMethod {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The endpoint of a route. The variant is the authentication that it requires: each handler takes the
/// matching proof as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// No token, or a signed token in the path.
    Open(PublicRoute),
    Partner(PartnerRoute),
    /// Partner token and user token.
    User(UserRoute),
    /// Operator token, or the local administration socket.
    Operator(OperatorRoute),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PublicRoute {
    Origin,
    ResetPage,
    ResetForm,
    Openapi(RouteSet),
    Docs(RouteSet),
    Livez,
    Readyz,
    Metrics,
    ConsoleEntry,
    Console,
    ConsoleFile,
}

/// Endpoints that require only the partner token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartnerRoute {
    LivestreamNow,
    LivestreamDay,
    Broadcast,
    Broadcasts,
    Day,
    Live,
    Xmltv,
    M3u,
    PlaylistRedirect,
    Livestreams,
    Assets,
    SignUp,
    Login,
    SendReset,
    Reset,
    FairplayCertificate,
}

/// Endpoints that require the partner token and the user token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UserRoute {
    Logout,
    ReadUser,
    UpdateUser,
    DeleteUser,
    ChangePassword,
    ChangePin,
    ResetPin,
    Devices,
    Device,
    ClearDevices,
    RemoveDevice,
    Sessions,
    Session,
    EndSessions,
    EndSession,
    Offers,
    Export,
    Entitlement,
    Preflight,
    License(Drm),
    Heartbeat,
    EndPlayback,
    Telemetry,
}

/// Endpoints of the administration interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OperatorRoute {
    About,
    ReadClock,
    MoveClock,
    ResetClock,
    AcceptClock,
    Partners,
    AddPartner,
    ChangePartner,
    RemovePartner,
    PartnerTokens,
    AddPartnerToken,
    RevokePartnerToken,
    Operators,
    AddOperator,
    RevokeOperator,
    OperatorTokens,
    AddOperatorToken,
    RevokeOperatorToken,
    Audit,
    ExportCatalog,
    ImportCatalog,
    CatalogHistory,
    UndoCatalog,
    ImportGuide,
    ExplainRights,
    SetRights,
    ClearRights,
    SetDefaults,
    Rules,
    AddRule,
    RemoveRule,
    ScheduleLive,
    ScheduleDay,
    GuideSources,
    GuideSource,
    RefreshSource,
    Users,
    AddUser,
    ImportUsers,
    ShowUser,
    ChangeUser,
    RemoveUser,
    Grants,
    AddGrant,
    RevokeGrant,
    SetPin,
    MailReset,
    UserSessions,
    LogoutUser,
    ClearUserDevices,
    ExplainEntitlement,
    Mails,
    ShowMail,
    PreviewMail,
    TestMail,
    PlaybackSessions,
    EndPlaybackSession,
    ExportTelemetry,
    ReportTelemetry,
    VerifyStore,
    RebuildStore,
    CreateSnapshot,
    CompactStore,
    Backups,
    CreateBackup,
    VerifyBackup,
    RestoreBackup,
    RestoreSentBackup,
}

/// How a route treats a request body. Limits are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRule {
    /// Read up to [`BODY_SMALL`] and ignored: some clients send `{}` to routes without a body.
    Ignored,
    /// Buffered.
    Whole(usize),
    /// Buffered; gzip is accepted and the limit applies to the unpacked size.
    Gzip(usize),
    /// Streamed to the handler.
    Streamed(usize),
}

impl BodyRule {
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::Ignored => BODY_SMALL,
            Self::Whole(limit) | Self::Gzip(limit) | Self::Streamed(limit) => limit,
        }
    }
}

/// What a request of the route waits for. It decides the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkClass {
    Memory,
    Hashing,
    Store,
    /// Another server.
    Upstream,
    /// An import or a verification.
    Bulk,
}

impl WorkClass {
    /// Returns the time after which the request is answered with 503.
    #[must_use]
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

/// Rate limit by client address, applied before the body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateClass {
    /// Only the limit of the partner, if it has one.
    General,
    SignUp,
    Login,
    /// Request for a password-reset mail.
    ResetMail,
    /// Completion of a password reset.
    Reset,
}

#[derive(Debug)]
pub struct Route {
    pub method: RouteMethod,
    /// The path, with `{name}` for one segment and `{*name}` for the rest.
    pub pattern: &'static str,
    pub target: Endpoint,
    pub body: BodyRule,
    pub lane: WorkClass,
    pub rate: RateClass,
    /// The pattern of the route that replaces this one.
    pub deprecated: Option<&'static str>,
    /// Responses are cached from this length of path and query, in bytes: a shorter request is answered
    /// faster than looked up. `None` disables the cache.
    pub cached_from: Option<usize>,
    /// Whether the query parameter `accessToken` may carry the partner token, for players that only take an
    /// address.
    pub query_token: bool,
    /// Name in metrics and logs.
    pub label: &'static str,
}

impl Route {
    pub(crate) const fn new(
        method: RouteMethod,
        pattern: &'static str,
        label: &'static str,
        target: Endpoint,
        body: BodyRule,
        lane: WorkClass,
    ) -> Self {
        Self {
            method,
            pattern,
            target,
            body,
            lane,
            rate: RateClass::General,
            deprecated: None,
            cached_from: None,
            query_token: false,
            label,
        }
    }

    pub(crate) const fn rated(mut self, rate: RateClass) -> Self {
        self.rate = rate;
        self
    }

    pub(crate) const fn replaced_by(mut self, pattern: &'static str) -> Self {
        self.deprecated = Some(pattern);
        self
    }

    pub(crate) const fn cached_from(mut self, length: usize) -> Self {
        self.cached_from = Some(length);
        self
    }

    pub(crate) const fn with_query_token(mut self) -> Self {
        self.query_token = true;
        self
    }

    /// Whether the route serves HTML pages to a browser. Its errors are HTML too, and other origins may not
    /// read it.
    #[must_use]
    pub const fn is_page(&self) -> bool {
        matches!(
            self.target,
            Endpoint::Open(PublicRoute::ResetPage | PublicRoute::ResetForm)
        )
    }

    /// Whether SOAP clients use this route.
    #[must_use]
    pub const fn speaks_soap(&self) -> bool {
        matches!(
            self.target,
            Endpoint::User(UserRoute::License(Drm::Playready))
        )
    }

    /// Whether an operator's request is written to the audit record: every change and every read of secrets.
    #[must_use]
    pub fn is_recorded(&self, role: Role) -> bool {
        self.is_change() || (self.shows_secrets() && role.sees_secrets())
    }

    /// Whether the response contains secrets of users (tokens and PINs in mail), for a role that may see
    /// them.
    #[must_use]
    pub fn shows_secrets(&self) -> bool {
        self.target == Endpoint::Operator(OperatorRoute::ShowMail)
    }

    /// Whether an operator's request changes anything. Verifying files or writing a new snapshot of the same
    /// data changes nothing.
    #[must_use]
    pub fn is_change(&self) -> bool {
        use OperatorRoute as O;
        let looks = [O::VerifyStore, O::VerifyBackup, O::CreateSnapshot].map(Endpoint::Operator);
        self.method != RouteMethod::Get && !looks.contains(&self.target)
    }

    /// Whether the route supports `dryRun`. Other routes ignore the parameter.
    #[must_use]
    pub fn can_be_tried(&self) -> bool {
        use OperatorRoute as O;
        let tries = [
            O::ImportCatalog,
            O::UndoCatalog,
            O::ImportGuide,
            O::RefreshSource,
            O::ImportUsers,
        ]
        .map(Endpoint::Operator);
        tries.contains(&self.target)
    }
}
