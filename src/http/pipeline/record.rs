//! What the pipeline knows about a request.

use std::net::IpAddr;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, StatusCode, Version};

use crate::access::auth::PartnerIdentity;
use crate::pipeline::authentication::Proof;
use crate::request::context::RequestId;
use crate::request::headers::RequestHeaders;
use crate::response::soap;
use crate::route_facts::RouteSet;
use crate::routing::route::{JournalRule, Route};
use crate::routing::router::Router;
use crate::state::HttpState;
use playgate_domain::decision::DecisionTrace;
use playgate_domain::lab::AppliedFault;
use playgate_ports::Clock as _;
use playgate_types::{LoginId, PartnerId, TokenHash, UnixSeconds, UserId};

const LOGIN_PREFIX: &str = "/api/login/";

/// What the pipeline knows about a request, for its response, the log and the journal.
pub(crate) struct RequestRecord {
    pub(crate) router: &'static Router,
    pub(crate) started: Instant,
    pub(crate) id: RequestId,
    pub(crate) route: Option<(usize, &'static Route)>,
    pub(crate) user: Option<UserId>,
    pub(crate) fault: Option<AppliedFault>,
    /// The time of the request, if it may differ from the clock of the machine.
    pub(crate) lab_time: Option<UnixSeconds>,
    pub(crate) successor: Option<String>,
    pub(crate) head: bool,
    /// Errors repeat the message at top level, where clients of the login routes read it.
    pub(super) flat: bool,
    pub(super) soap: bool,
    pub(crate) close: bool,
    pub(crate) draft: JournalDraft,
}

impl RequestRecord {
    pub(super) fn route_label(&self) -> &'static str {
        self.route.map_or("none", |(_, route)| route.label)
    }

    pub(crate) fn new(
        http: &HttpState,
        router: &'static Router,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
    ) -> Self {
        Self {
            router,
            started: Instant::now(),
            id: http.ids.for_request(heads),
            route: None,
            user: None,
            fault: None,
            lab_time: http.services.lab_clock.as_ref().map(|clock| clock.now()),
            successor: None,
            head: parts.method == Method::HEAD,
            // Decided by path instead of route, so that a wrong method below it gets the same format.
            flat: parts.uri.path().starts_with(LOGIN_PREFIX),
            soap: parts.headers.contains_key(soap::ACTION),
            draft: JournalDraft::default(),
            // Parsers disagree about the end of some chunked bodies: `0\r\n\n` ends one for hyper, which then
            // drops the rest of the packet. Closing the connection ensures that no later request is lost or
            // read differently by a proxy.
            close: !heads.transfer_encoding.is_absent() && parts.version < Version::HTTP_2,
        }
    }

    /// Whether the request journal keeps the request if it is answered with this status.
    pub(crate) fn is_journaled(&self, status: StatusCode) -> bool {
        // The audit record has the changes of operators.
        if self.router.set() != RouteSet::Public {
            return false;
        }
        let refused = status.as_u16() >= 400;
        let rule = self
            .route
            .map_or(JournalRule::Refusals, |(_, route)| route.journal);
        let kept = match rule {
            JournalRule::Refusals => refused,
            JournalRule::Everything => true,
            JournalRule::Changes => !self.draft.trace.is_unchanged(),
        };
        kept || self.draft.lab
    }
}

/// The part of a [`RequestRecord`] that the request journal needs.
#[derive(Default)]
pub(crate) struct JournalDraft {
    /// When the request was checked; `None` if it was refused before.
    pub(crate) at_millis: Option<i64>,
    pub(crate) partner: Option<PartnerId>,
    /// Set only if the partner token was accepted. Other text could be another secret, whose hash must not be recorded.
    pub(crate) token: Option<TokenHash>,
    /// Whether it is a lab partner, all of whose requests are recorded.
    pub(crate) lab: bool,
    pub(crate) login: Option<LoginId>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) body: Option<Bytes>,
    pub(crate) trace: DecisionTrace,
}

impl JournalDraft {
    /// Records the partner of a request, also of one that is refused before it is authenticated.
    pub(crate) fn identify(&mut self, identity: Option<PartnerIdentity>) {
        self.partner = identity.map(|identity| identity.partner);
        self.token = identity.map(|identity| identity.token);
        self.lab = identity.is_some_and(|identity| identity.is_lab());
    }

    /// Records the identity of an authenticated request. Its decision is traced if its record may be kept.
    pub(crate) fn admit(&mut self, proof: &Proof, route: &Route) {
        self.identify(proof.identity());
        self.login = proof.login();
        if route.journal != JournalRule::Refusals || self.lab || route.names_session {
            self.trace = DecisionTrace::on();
        }
    }
}
