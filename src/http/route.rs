//! What a route is: its method and path, the endpoint it leads to, and what must hold before a
//! request gets there. The table itself is beside this file, in `table`.

#![deny(clippy::wildcard_enum_match_arm)]

use std::time::Duration;

use super::router::RouteSet;
use crate::config::limits::{
    BODY_SMALL, DEADLINE_BULK, DEADLINE_HASHING, DEADLINE_MEMORY, DEADLINE_STORE, DEADLINE_UPSTREAM,
};
use crate::types::{Drm, Role};

/// The method of a route. HEAD goes wherever GET goes, OPTIONS everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RouteMethod {
    /// GET, and HEAD.
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// DELETE.
    Delete,
}

impl RouteMethod {
    /// The method's name.
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

/// Which endpoint a route leads to. The group is the proof that it requires: a handler of the
/// group takes that proof as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// No token; what the path carries authorises.
    Open(PublicRoute),
    /// The partner token.
    Partner(PartnerRoute),
    /// The partner token and the user token.
    User(UserRoute),
    /// An operator token, or the local administration socket.
    Operator(OperatorRoute),
}

/// Endpoints without a token.
#[expect(missing_docs, reason = "the table below tells what each is")]
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

/// Endpoints that take the partner token alone.
#[expect(missing_docs, reason = "the table below tells what each is")]
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

/// Endpoints that take the user token too.
#[expect(missing_docs, reason = "the table below tells what each is")]
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
#[expect(missing_docs, reason = "the table below tells what each is")]
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

/// What a route does with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRule {
    /// Read within [`BODY_SMALL`] and ignored: clients send `{}` where nothing is asked for.
    Ignored,
    /// Read whole, up to so many bytes.
    Whole(usize),
    /// Read whole, up to so many bytes after gzip is undone.
    Gzip(usize),
    /// Handed on as it arrives, up to so many bytes.
    Streamed(usize),
}

impl BodyRule {
    /// The most bytes that the route takes.
    #[must_use]
    pub const fn limit(self) -> usize {
        match self {
            Self::Ignored => BODY_SMALL,
            Self::Whole(limit) | Self::Gzip(limit) | Self::Streamed(limit) => limit,
        }
    }
}

/// What a request of the route waits for; decides its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkClass {
    /// Memory answers.
    Memory,
    /// A password or PIN is hashed.
    Hashing,
    /// The store is read or written.
    Store,
    /// Another server is asked.
    Upstream,
    /// An import or a verification.
    Bulk,
}

impl WorkClass {
    /// The time after which the request is answered with 503.
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

/// What a route is limited by per address, before its body is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateClass {
    /// Nothing but the partner's limit, if it has one.
    General,
    /// Sign-up.
    SignUp,
    /// Login.
    Login,
    /// A reset mail is asked for.
    ResetMail,
    /// A reset is completed.
    Reset,
}

/// A route.
#[derive(Debug)]
pub struct Route {
    /// The method.
    pub method: RouteMethod,
    /// The path, with `{name}` for a segment and `{*name}` for the rest.
    pub pattern: &'static str,
    /// Where it leads, and with that the proof it requires.
    pub target: Endpoint,
    /// What it does with a body.
    pub body: BodyRule,
    /// What it waits for.
    pub lane: WorkClass,
    /// What it is limited by.
    pub rate: RateClass,
    /// The pattern of the route that replaces it.
    pub deprecated: Option<&'static str>,
    /// The length of path and query from which on its responses are cached: the response to a
    /// shorter request is made faster than looked up. `None`: never.
    pub cached_from: Option<usize>,
    /// Whether the partner token may come in the query as `accessToken`: for players that take
    /// an address and nothing else.
    pub query_token: bool,
    /// Its name in metrics and logs.
    pub label: &'static str,
}

impl Route {
    pub(super) const fn new(
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

    pub(super) const fn rated(mut self, rate: RateClass) -> Self {
        self.rate = rate;
        self
    }

    pub(super) const fn replaced_by(mut self, pattern: &'static str) -> Self {
        self.deprecated = Some(pattern);
        self
    }

    pub(super) const fn cached_from(mut self, length: usize) -> Self {
        self.cached_from = Some(length);
        self
    }

    pub(super) const fn with_query_token(mut self) -> Self {
        self.query_token = true;
        self
    }

    /// Whether people read the answers in a browser, errors too: HTML then, and for no other origin.
    #[must_use]
    pub const fn is_page(&self) -> bool {
        matches!(
            self.target,
            Endpoint::Open(PublicRoute::ResetPage | PublicRoute::ResetForm)
        )
    }

    /// Whether clients that speak SOAP ask here.
    #[must_use]
    pub const fn speaks_soap(&self) -> bool {
        matches!(
            self.target,
            Endpoint::User(UserRoute::License(Drm::Playready))
        )
    }

    /// Whether an operator's request is in the audit record: every change, and every reading of
    /// secrets.
    #[must_use]
    pub fn is_recorded(&self, role: Role) -> bool {
        self.is_change() || (self.shows_secrets() && role.sees_secrets())
    }

    /// Whether the answer holds secrets of users, for a role that sees them: tokens and PINs in mail.
    #[must_use]
    pub fn shows_secrets(&self) -> bool {
        self.target == Endpoint::Operator(OperatorRoute::ShowMail)
    }

    /// Whether an operator's request changes something. A look at files that takes
    /// long, or makes them anew as they are, changes nothing.
    #[must_use]
    pub fn is_change(&self) -> bool {
        use OperatorRoute as O;
        let looks = [O::VerifyStore, O::VerifyBackup, O::CreateSnapshot].map(Endpoint::Operator);
        self.method != RouteMethod::Get && !looks.contains(&self.target)
    }

    /// Whether `dryRun` has the route tell what it would change; elsewhere the word means nothing.
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
