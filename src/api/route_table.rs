//! The static route table. The router, the service, the metrics, the OpenAPI description and the coverage
//! tests read it.

use std::sync::{Arc, LazyLock};

use crate::embedded_files::EmbeddedFileRequest;
use crate::openapi;
use crate::operators::activity::ActivityRequest;
use crate::operators::audit::AuditRequest;
use crate::operators::backups::{BackupRequest, RestoreBackupRequest, RestoreSentBackupRequest};
use crate::operators::catalog::{ExportCatalogRequest, ImportCatalogRequest, UndoCatalogRequest};
use crate::operators::clock::MoveClockRequest;
use crate::operators::clock::MovePartnerClockRequest;
use crate::operators::conformance::ConformanceRequest;
use crate::operators::epg_sources::{ImportGuideRequest, RefreshSourceRequest, SourceRequest};
use crate::operators::faults::request::{AddFaultRequest, FaultRequest};
use crate::operators::fleet::HandOverRequest;
use crate::operators::grants::{ExplainEntitlementRequest, GrantRequest, RevokeGrantRequest};
use crate::operators::lab::ReportScenarioRequest;
use crate::operators::mail::{MailRequest, PreviewMailRequest, RetryMailRequest, TestMailRequest};
use crate::operators::operator_accounts::{
    AddOperatorRequest, AddOperatorTokenRequest, OperatorRequest, OperatorTokenRequest,
};
use crate::operators::partners::{
    AddPartnerRequest, AddPartnerTokenRequest, ChangePartnerRequest, PartnerTokenRequest,
};
use crate::operators::pictures::PictureRequest;
use crate::operators::playback::{EndPlaybackSessionRequest, PlaybackSessionsRequest};
use crate::operators::request_members::PartnerRequest;
use crate::operators::requests::request::{RequestRequest, RequestsRequest};
use crate::operators::reset::ResetPartnerRequest;
use crate::operators::rights::{
    AddRuleRequest, BroadcastRightsRequest, RemoveRuleRequest, SetDefaultsRequest, SetRightsRequest,
};
use crate::operators::rule_preview::PreviewRuleRequest;
use crate::operators::schedule::{ScheduleDayRequest, ScheduleLiveRequest};
use crate::operators::telemetry::request::{
    ExportTelemetryRequest, ReportTelemetryRequest, TelemetrySeriesRequest, TelemetryViewsRequest,
};
use crate::operators::users::new_user::AddUserRequest;
use crate::operators::users::request::{
    ChangeUserRequest, ImportUsersRequest, SetPinRequest, UserDeviceRequest, UserRequest,
    UsersRequest,
};
use crate::partner::catalog::PageRequest;
use crate::partner::devices::DeviceRequest;
use crate::partner::front_page::FrontPageRequest;
use crate::partner::guide_export::{M3uRequest, PlaylistRedirectRequest, XmltvRequest};
use crate::partner::license::{LicenseRequest, SignedLicenseRequest};
use crate::partner::login::{LoginRequest, ResetRequest, SendResetRequest, SignUpRequest};
use crate::partner::media::OriginRequest;
use crate::partner::openapi::GuideRequest;
use crate::partner::playback::request::{
    EndPlaybackRequest, EntitlementRequest, HeartbeatRequest, PreflightRequest,
};
use crate::partner::reset_page::{ResetFormRequest, ResetPageRequest};
use crate::partner::schedule::{
    BroadcastRequest, BroadcastsRequest, DayRequest, LiveRequest, LivestreamDayRequest,
    LivestreamNowRequest,
};
use crate::partner::sessions::SessionRequest;
use crate::partner::telemetry::{CmcdRequest, TelemetryRequest};
use crate::partner::users::request::{
    ChangeEmailRequest, ChangePasswordRequest, ChangePinRequest, DeleteUserRequest,
    UpdateUserRequest,
};
use crate::{operators, partner};
use playgate_config::HttpSettings;
use playgate_config::limits::{
    BODY_BACKUP, BODY_GUIDE, BODY_LICENSE, BODY_SMALL, BODY_TELEMETRY, BODY_USERS,
};
use playgate_formats::catalog_file::FILE_MAX as CATALOG_FILE_MAX;
use playgate_http::request::payload::BodyRule::{Gzip, Ignored, Streamed, Whole};
use playgate_http::route_facts::RouteMethod::{self, Delete, Get, Post, Put};
use playgate_http::routing::endpoint::{Handler, HandlerOutcome, bind};
use playgate_http::routing::route::JournalRule::{Changes, Everything};
use playgate_http::routing::route::WorkClass::{self, Bulk, Hashing, Memory, Store, Upstream};
use playgate_http::routing::router::Routers;
use playgate_http::state::InvalidSetting;
use playgate_http::{
    About, Anyone, Authenticator, BodyRule, Endpoint, HttpState, Messages, OperatorAuth,
    PartnerAuth, RateClass, Route, RouteSet, Router, UserAuth,
};
use playgate_services::Services;
use playgate_types::{AssetId, LivestreamId, Role};

macro_rules! handler {
    ($request:ty, $handler:expr) => {
        Handler {
            bind: |input, payload, auth| bind::<_, $request, _>(input, payload, auth, $handler),
        }
    };
}

/// Binds a handler that needs only memory.
macro_rules! now {
    ($handler:path) => {
        handler!((), |http, cx, auth, ()| HandlerOutcome::from($handler(
            (&**http).into(),
            &cx,
            auth
        )))
    };
    ($request:ty => $handler:path) => {
        handler!($request, |http, cx, auth, request| HandlerOutcome::from(
            $handler((&**http).into(), &cx, auth, request)
        ))
    };
}

/// Binds an asynchronous handler. Its future owns the arguments.
macro_rules! later {
    ($handler:path) => {
        handler!((), |http, cx, auth, ()| {
            let http = ::std::sync::Arc::clone(http);
            HandlerOutcome::Later(Box::pin(async move {
                $handler((&*http).into(), &cx, auth).await
            }))
        })
    };
    ($request:ty => $handler:path) => {
        handler!($request, |http, cx, auth, request| {
            let http = ::std::sync::Arc::clone(http);
            HandlerOutcome::Later(Box::pin(async move {
                $handler((&*http).into(), &cx, auth, request).await
            }))
        })
    };
}

const fn open(
    pattern: &'static str,
    label: &'static str,
    handler: Handler<Anyone>,
    work: WorkClass,
) -> Route {
    Route::new(Get, pattern, label, Endpoint::Open(handler), Ignored, work)
}

const fn form(
    pattern: &'static str,
    label: &'static str,
    handler: Handler<Anyone>,
    work: WorkClass,
) -> Route {
    Route::new(Post, pattern, label, Endpoint::Open(handler), SMALL, work)
}

const fn partner(
    method: RouteMethod,
    pattern: &'static str,
    label: &'static str,
    handler: Handler<PartnerAuth>,
    body: BodyRule,
    work: WorkClass,
) -> Route {
    Route::new(
        method,
        pattern,
        label,
        Endpoint::Partner(handler),
        body,
        work,
    )
}

const fn user(
    method: RouteMethod,
    pattern: &'static str,
    label: &'static str,
    handler: Handler<UserAuth>,
    body: BodyRule,
    work: WorkClass,
) -> Route {
    Route::new(method, pattern, label, Endpoint::User(handler), body, work)
}

const fn ops(
    method: RouteMethod,
    pattern: &'static str,
    label: &'static str,
    roles: &'static [Role],
    handler: Handler<OperatorAuth>,
    body: BodyRule,
    work: WorkClass,
) -> Route {
    Route::new(
        method,
        pattern,
        label,
        Endpoint::Operator(handler),
        body,
        work,
    )
    .for_roles(roles)
}

// The roles of operators' routes: content for catalogue and guide, agent for users, observer for all that only reads.
const ANY_ROLE: &[Role] = &[Role::Admin, Role::Content, Role::Agent, Role::Observer];
const READ_CONTENT: &[Role] = &[Role::Admin, Role::Content, Role::Observer];
const EDIT_CONTENT: &[Role] = &[Role::Admin, Role::Content];
const READ_USERS: &[Role] = &[Role::Admin, Role::Agent, Role::Observer];
const EDIT_USERS: &[Role] = &[Role::Admin, Role::Agent];
const READ_SYSTEM: &[Role] = &[Role::Admin, Role::Observer];
const EDIT_SYSTEM: &[Role] = &[Role::Admin];

/// From this length of path and query, a request names so many livestreams that looking up its response is
/// faster than building it.
const MANY_IDS: usize = 256;
const SMALL: BodyRule = Whole(BODY_SMALL);
const CHALLENGE: BodyRule = Whole(BODY_LICENSE);
const CATALOG: BodyRule = Whole(CATALOG_FILE_MAX);
const BACKUP: BodyRule = Streamed(BODY_BACKUP);
const GUIDE: BodyRule = Streamed(BODY_GUIDE);
const USERS: BodyRule = Streamed(BODY_USERS);
const EVENTS: BodyRule = Gzip(BODY_TELEMETRY);

#[rustfmt::skip] // one route a line: it is read as a table
static PUBLIC: &[Route] = &[
    // Schedule.
    partner(Get, "/api/schedule/v1/broadcasts/live", "live", now!(LiveRequest => partner::schedule::live), Ignored, Memory).cached_from(MANY_IDS).at_any_member().described_as("schedule_live"),
    partner(Get, "/api/schedule/v1/broadcasts/day/{date}", "day", now!(DayRequest => partner::schedule::day), Ignored, Memory).cached_from(MANY_IDS).at_any_member().described_as("schedule_day"),
    partner(Get, "/api/schedule/v1/broadcasts", "broadcasts", now!(BroadcastsRequest => partner::schedule::broadcasts), Ignored, Memory).cached_from(0).at_any_member(),
    partner(Get, "/api/schedule/v1/broadcasts/{broadcastId}", "broadcast", now!(BroadcastRequest => partner::schedule::broadcast), Ignored, Memory).at_any_member(),
    partner(Get, "/api/schedule/v1/livestreams/{livestreamId}/day/{date}", "day_one", now!(LivestreamDayRequest => partner::schedule::day_one), Ignored, Memory).described_as("livestream_day")
        .replaced_by("/api/schedule/v1/broadcasts/day/{date}").at_any_member(),
    partner(Get, "/api/schedule/v1/livestreams/{livestreamId}/live", "live_one", now!(LivestreamNowRequest => partner::schedule::live_one), Ignored, Memory).described_as("livestream_live")
        .replaced_by("/api/schedule/v1/broadcasts/live").at_any_member(),
    partner(Get, "/api/schedule/v1/xmltv", "xmltv", later!(XmltvRequest => partner::guide_export::xmltv), Ignored, Store).with_query_token().at_any_member(),
    partner(Get, "/api/schedule/v1/m3u", "m3u", now!(M3uRequest => partner::guide_export::m3u), Ignored, Memory).with_query_token().at_any_member(),
    partner(Get, "/api/schedule/v1/m3u/{livestreamId}/{manifest}", "watch", now!(PlaylistRedirectRequest => partner::guide_export::watch), Ignored, Memory).with_query_token().at_any_member().described_as("m3u_manifest"),
    // Catalogue for clients.
    partner(Get, "/api/catalog/v1/livestreams", "livestreams", now!(PageRequest<LivestreamId> => partner::catalog::livestreams), Ignored, Memory).at_any_member(),
    partner(Get, "/api/catalog/v1/assets", "assets", now!(PageRequest<AssetId> => partner::catalog::assets), Ignored, Memory).at_any_member(),
    // The lab, for lab partners.
    partner(Get, "/api/lab/v1/clock", "lab_clock", now!(partner::lab::clock), Ignored, Memory),
    partner(Get, "/api/lab/v1/mail", "lab_mail", later!(partner::lab::mails), Ignored, Store),
    // Sign-up, login and password reset.
    partner(Put, "/api/login/v2/auth/email", "sign_up", later!(SignUpRequest => partner::login::sign_up), SMALL, Hashing).rated(RateClass::SignUp).journaled(Everything),
    partner(Post, "/api/login/v2/auth/email", "login", later!(LoginRequest => partner::login::login), SMALL, Hashing).rated(RateClass::Login).journaled(Everything),
    user(Post, "/api/login/v2/auth/logout", "logout", later!(partner::login::logout), Ignored, Store).journaled(Everything),
    partner(Post, "/api/login/v2/password/send-reset-password", "send_reset", later!(SendResetRequest => partner::login::send_reset), SMALL, Store)
        .rated(RateClass::ResetMail),
    partner(Post, "/api/login/v2/password/send-reset-email", "send_reset_email", later!(SendResetRequest => partner::login::send_reset), SMALL, Store)
        .rated(RateClass::ResetMail),
    partner(Post, "/api/login/v2/password/reset", "reset", later!(ResetRequest => partner::login::reset), SMALL, Hashing).rated(RateClass::Reset),
    // Default target of `accounts.reset_url`. The token in the link of the mail authorizes the reset.
    open("/reset", "reset_page", later!(ResetPageRequest => partner::reset_page::show), Store).html_page(),
    form("/reset", "reset_form", later!(ResetFormRequest => partner::reset_page::complete), Hashing).html_page().rated(RateClass::Reset),
    // The user's account: profile, PIN, devices, sessions, offers and data export.
    user(Get, "/api/user/v1/users/{userId}", "read_user", later!(partner::users::read_user), Ignored, Store).at_any_member(),
    user(Put, "/api/user/v1/users/{userId}", "update_user", later!(UpdateUserRequest => partner::users::update_user), SMALL, Hashing),
    user(Delete, "/api/user/v1/users/{userId}", "delete_user", later!(DeleteUserRequest => partner::users::delete_user), SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/email", "change_email", later!(ChangeEmailRequest => partner::users::change_email), SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/password", "change_password", later!(ChangePasswordRequest => partner::users::change_password), SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/pin", "change_pin", later!(ChangePinRequest => partner::users::change_pin), SMALL, Hashing),
    user(Post, "/api/user/v1/users/{userId}/pin/reset", "reset_pin", later!(partner::users::reset_pin), Ignored, Hashing),
    user(Get, "/api/user/v1/users/{userId}/devices", "devices", later!(partner::devices::devices), Ignored, Store).at_any_member(),
    user(Delete, "/api/user/v1/users/{userId}/devices", "clear_devices", later!(partner::devices::clear_devices), Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/devices/{deviceId}", "device", later!(DeviceRequest => partner::devices::device), Ignored, Store).at_any_member(),
    user(Delete, "/api/user/v1/users/{userId}/devices/{deviceId}", "remove_device", later!(DeviceRequest => partner::devices::remove_device), Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/sessions", "sessions", later!(partner::sessions::sessions), Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/sessions", "end_sessions", later!(partner::sessions::end_sessions), Ignored, Store).journaled(Everything),
    user(Get, "/api/user/v1/users/{userId}/sessions/{sessionId}", "session", later!(SessionRequest => partner::sessions::session), Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/sessions/{sessionId}", "end_session", later!(SessionRequest => partner::sessions::end_session), Ignored, Store).journaled(Everything),
    user(Get, "/api/user/v1/users/{userId}/offers", "offers", later!(partner::offers::offers), Ignored, Store).at_any_member(),
    user(Get, "/api/user/v1/users/{userId}/export", "export", later!(partner::users::export), Ignored, Store).described_as("export_user"),
    // Entitlement, playback, licenses and telemetry.
    user(Post, "/api/entitlement/v2/asset/{assetId}", "entitlement", later!(EntitlementRequest => partner::playback::entitlement), SMALL, Hashing).journaled(Everything),
    user(Post, "/api/playback/v2/preflight/asset/{assetId}", "preflight", later!(PreflightRequest => partner::playback::preflight), Ignored, Store).journaled(Everything),
    user(Post, "/api/playback/v1/preflight/asset/{assetId}", "preflight_v1", later!(PreflightRequest => partner::playback::preflight), Ignored, Store).journaled(Everything),
    user(Post, "/api/playback/v1/widevine/license", "license_widevine", later!(LicenseRequest => partner::license::license), CHALLENGE, Upstream).journaled(Everything),
    user(Post, "/api/playback/v1/playready/license", "license_playready", later!(LicenseRequest => partner::license::license), CHALLENGE, Upstream).with_soap_faults().journaled(Everything),
    user(Post, "/api/playback/v1/fairplay/license", "license_fairplay", later!(LicenseRequest => partner::license::license), CHALLENGE, Upstream).journaled(Everything),
    user(Post, "/api/playback/v1/clearkey/license", "license_clearkey", later!(LicenseRequest => partner::license::license), CHALLENGE, Upstream).journaled(Everything),
    form("/api/playback/v1/license/{token}", "license_signed", later!(SignedLicenseRequest => partner::license::license_signed), Upstream).with_body(CHALLENGE).with_soap_faults().journaled(Everything).names_session(),
    // Every application has it, and players fetch it by its address alone.
    open("/api/playback/v1/fairplay/certificate", "fairplay_certificate", later!(partner::license::fairplay_certificate), Memory).at_any_member(),
    user(Post, "/api/playback/v1/heartbeat", "heartbeat", now!(HeartbeatRequest => partner::playback::heartbeat), Ignored, Memory).journaled(Changes).without_freshness_check().at_any_member(),
    user(Delete, "/api/playback/v1/heartbeat", "end_playback", later!(EndPlaybackRequest => partner::playback::end_playback), Ignored, Store).journaled(Everything),
    user(Post, "/api/tracker/v1/telemetry-events", "telemetry", later!(TelemetryRequest => partner::telemetry::telemetry), EVENTS, Store).without_freshness_check(),
    form("/api/tracker/v1/cmcd/{token}", "cmcd", later!(CmcdRequest => partner::telemetry::cmcd), Store).with_body(EVENTS).names_session(),
    // The request journal, for the developers of lab partners.
    partner(Get, "/api/lab/v1/requests", "lab_requests", later!(RequestsRequest => partner::lab::requests), Ignored, Bulk),
    partner(Get, "/api/lab/v1/requests/{request}", "lab_request", later!(RequestRequest => partner::lab::request), Ignored, Store),
    open("/origin/v1/{token}/{*path}", "origin", later!(OriginRequest => partner::media::origin), Store).at_any_member(),
    // The front page for browsers, and the player page of demo and lab installations.
    open("/", "front_page", now!(FrontPageRequest => partner::front_page::show), Memory).at_any_member(),
    open("/lab", "lab_entry", now!(partner::lab_player::entry), Memory).same_origin_only(),
    open("/lab/", "lab_player", now!(partner::lab_player::page), Memory).same_origin_only(),
    open("/lab/settings.json", "lab_settings", now!(partner::lab_player::settings), Memory).same_origin_only(),
    open("/lab/{file}", "lab_file", now!(EmbeddedFileRequest => partner::lab_player::file), Memory).same_origin_only(),
    // The JavaScript packages.
    open("/client/index.json", "client_index", now!(partner::client_packages::index), Memory).at_any_member(),
    open("/client/{file}", "client_file", now!(EmbeddedFileRequest => partner::client_packages::file), Memory).at_any_member(),
    // OpenAPI description and documentation.
    open("/openapi.json", "openapi", now!(partner::openapi::public_document), Memory).at_any_member(),
    open("/docs", "docs", now!(partner::openapi::public_page), Memory).at_any_member(),
    open("/docs/{guide}/", "docs_guide", now!(GuideRequest => partner::openapi::public_guide), Memory).at_any_member(),
];

/// Routes of the operations listener and of the local administration socket.
#[rustfmt::skip] // one route a line: it is read as a table
static OPS: &[Route] = &[
    // The console. It loads its data from the routes below, with the operator's token.
    open("/", "console_root", now!(operators::console::entry), Memory),
    open("/console", "console_entry", now!(operators::console::entry), Memory),
    open("/console/", "console", now!(operators::console::page), Memory),
    open("/console/{file}", "console_file", now!(EmbeddedFileRequest => operators::console::file), Memory),
    open("/livez", "livez", now!(operators::probes::livez), Memory).at_any_member(),
    open("/readyz", "readyz", now!(operators::probes::readyz), Memory).at_any_member(),
    open("/metrics", "metrics", now!(operators::probes::metrics), Memory).at_any_member(),
    open("/openapi.json", "ops_openapi", now!(partner::openapi::ops_document), Memory),
    open("/docs", "ops_docs", now!(partner::openapi::ops_page), Memory),
    open("/docs/{guide}/", "ops_docs_guide", now!(GuideRequest => partner::openapi::ops_guide), Memory),
    ops(Get, "/admin/v1/about", "admin_about", ANY_ROLE, now!(operators::about::about), Ignored, Memory).without_freshness_check(),
    ops(Get, "/admin/v1/activity", "admin_activity", ANY_ROLE, now!(ActivityRequest => operators::activity::activity), Ignored, Memory).without_freshness_check(),
    ops(Get, "/admin/v1/fleet", "admin_fleet", READ_SYSTEM, now!(operators::fleet::fleet), Ignored, Memory).without_freshness_check(),
    ops(Post, "/admin/v1/fleet/handover", "admin_hand_over", EDIT_SYSTEM, later!(HandOverRequest => operators::fleet::hand_over), SMALL, Store).read_only(),
    ops(Get, "/admin/v1/clock", "admin_read_clock", ANY_ROLE, now!(operators::clock::read), Ignored, Memory),
    ops(Put, "/admin/v1/clock", "admin_move_clock", EDIT_SYSTEM, later!(MoveClockRequest => operators::clock::shift), SMALL, Store),
    ops(Delete, "/admin/v1/clock", "admin_reset_clock", EDIT_SYSTEM, later!(operators::clock::reset), Ignored, Store),
    ops(Post, "/admin/v1/clock/accept", "admin_accept_clock", EDIT_SYSTEM, later!(operators::clock::accept), Ignored, Store),
    ops(Get, "/admin/v1/partners", "admin_partners", ANY_ROLE, later!(operators::partners::partners), Ignored, Store),
    ops(Post, "/admin/v1/partners", "admin_add_partner", EDIT_SYSTEM, later!(AddPartnerRequest => operators::partners::add_partner), SMALL, Store),
    ops(Put, "/admin/v1/partners/{partner}", "admin_change_partner", EDIT_SYSTEM, later!(ChangePartnerRequest => operators::partners::change_partner), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}", "admin_remove_partner", EDIT_SYSTEM, later!(PartnerRequest => operators::partners::remove_partner), Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/tokens", "admin_partner_tokens", READ_SYSTEM, later!(PartnerRequest => operators::partners::tokens), Ignored, Store),
    ops(Post, "/admin/v1/partners/{partner}/tokens", "admin_add_partner_token", EDIT_SYSTEM, later!(AddPartnerTokenRequest => operators::partners::add_token), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}/tokens/{token}", "admin_revoke_partner_token", EDIT_SYSTEM, later!(PartnerTokenRequest => operators::partners::revoke_token), Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/faults", "admin_faults", READ_SYSTEM, now!(PartnerRequest => operators::faults::faults), Ignored, Memory),
    ops(Post, "/admin/v1/partners/{partner}/faults", "admin_add_fault", EDIT_SYSTEM, later!(AddFaultRequest => operators::faults::add_fault), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}/faults", "admin_clear_faults", EDIT_SYSTEM, later!(PartnerRequest => operators::faults::clear_faults), Ignored, Store),
    ops(Delete, "/admin/v1/partners/{partner}/faults/{fault}", "admin_clear_fault", EDIT_SYSTEM, later!(FaultRequest => operators::faults::clear_fault), Ignored, Store),
    ops(Post, "/admin/v1/partners/{partner}/reset", "admin_reset_partner", EDIT_SYSTEM, later!(ResetPartnerRequest => operators::reset::reset), SMALL, Bulk),
    ops(Get, "/admin/v1/partners/{partner}/clock", "admin_read_partner_clock", READ_SYSTEM, now!(PartnerRequest => operators::clock::read_partner), Ignored, Memory),
    ops(Put, "/admin/v1/partners/{partner}/clock", "admin_move_partner_clock", EDIT_SYSTEM, later!(MovePartnerClockRequest => operators::clock::shift_partner), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}/clock", "admin_reset_partner_clock", EDIT_SYSTEM, later!(PartnerRequest => operators::clock::reset_partner), Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/scenario", "admin_scenario", READ_SYSTEM, now!(PartnerRequest => operators::lab::scenario), Ignored, Memory),
    ops(Put, "/admin/v1/partners/{partner}/scenario", "admin_report_scenario", EDIT_SYSTEM, now!(ReportScenarioRequest => operators::lab::report_scenario), SMALL, Memory).read_only(),
    ops(Get, "/admin/v1/partners/{partner}/conformance", "admin_conformance", READ_USERS, later!(ConformanceRequest => operators::conformance::conformance), Ignored, Bulk),
    ops(Get, "/admin/v1/operators", "admin_operators", READ_SYSTEM, later!(operators::operator_accounts::operators), Ignored, Store),
    ops(Post, "/admin/v1/operators", "admin_add_operator", EDIT_SYSTEM, later!(AddOperatorRequest => operators::operator_accounts::add_operator), SMALL, Store),
    ops(Delete, "/admin/v1/operators/{operator}", "admin_revoke_operator", EDIT_SYSTEM, later!(OperatorRequest => operators::operator_accounts::revoke_operator), Ignored, Store),
    ops(Get, "/admin/v1/operators/{operator}/tokens", "admin_operator_tokens", READ_SYSTEM, later!(OperatorRequest => operators::operator_accounts::tokens), Ignored, Store),
    ops(Post, "/admin/v1/operators/{operator}/tokens", "admin_add_operator_token", EDIT_SYSTEM, later!(AddOperatorTokenRequest => operators::operator_accounts::add_token), SMALL, Store),
    ops(Delete, "/admin/v1/operators/{operator}/tokens/{token}", "admin_revoke_operator_token", EDIT_SYSTEM, later!(OperatorTokenRequest => operators::operator_accounts::revoke_token), Ignored, Store),
    ops(Get, "/admin/v1/audit", "admin_audit", READ_SYSTEM, later!(AuditRequest => operators::audit::audit), Ignored, Store),
    ops(Get, "/admin/v1/catalog", "admin_export_catalog", READ_CONTENT, later!(ExportCatalogRequest => operators::catalog::export_catalog), Ignored, Store),
    ops(Get, "/admin/v1/catalog/history", "admin_catalog_history", READ_CONTENT, later!(operators::catalog::history), Ignored, Store),
    ops(Post, "/admin/v1/catalog/undo", "admin_undo_catalog", EDIT_CONTENT, later!(UndoCatalogRequest => operators::catalog::undo), Ignored, Bulk).with_dry_run(),
    ops(Post, "/admin/v1/catalog/import", "admin_import_catalog", EDIT_CONTENT, later!(ImportCatalogRequest => operators::catalog::import_catalog), CATALOG, Bulk).with_dry_run(),
    ops(Post, "/admin/v1/epg/import", "admin_import_guide", EDIT_CONTENT, later!(ImportGuideRequest => operators::epg_sources::import_guide), GUIDE, Bulk).with_dry_run(),
    ops(Get, "/admin/v1/broadcasts/{broadcast}/why", "admin_why_rights", READ_CONTENT, later!(BroadcastRightsRequest => operators::rights::why), Ignored, Store),
    ops(Put, "/admin/v1/broadcasts/{broadcast}/rights", "admin_set_rights", EDIT_CONTENT, later!(SetRightsRequest => operators::rights::set), SMALL, Bulk),
    ops(Delete, "/admin/v1/broadcasts/{broadcast}/rights", "admin_clear_rights", EDIT_CONTENT, later!(BroadcastRightsRequest => operators::rights::clear), Ignored, Bulk),
    ops(Put, "/admin/v1/livestreams/{livestream}/rights", "admin_set_defaults", EDIT_CONTENT, later!(SetDefaultsRequest => operators::rights::set_defaults), SMALL, Bulk),
    ops(Get, "/admin/v1/rules", "admin_rules", READ_CONTENT, now!(operators::rights::rules), Ignored, Memory),
    ops(Post, "/admin/v1/rules", "admin_add_rule", EDIT_CONTENT, later!(AddRuleRequest => operators::rights::add_rule), SMALL, Bulk),
    ops(Post, "/admin/v1/rules/preview", "admin_preview_rule", EDIT_CONTENT, later!(PreviewRuleRequest => operators::rule_preview::preview), SMALL, Bulk).read_only(),
    ops(Delete, "/admin/v1/rules/{rule}", "admin_remove_rule", EDIT_CONTENT, later!(RemoveRuleRequest => operators::rights::remove_rule), Ignored, Bulk),
    ops(Get, "/admin/v1/schedule/live", "admin_schedule_live", ANY_ROLE, now!(ScheduleLiveRequest => operators::schedule::live), Ignored, Memory),
    ops(Get, "/admin/v1/schedule/day/{date}", "admin_schedule_day", ANY_ROLE, now!(ScheduleDayRequest => operators::schedule::day), Ignored, Memory),
    ops(Get, "/admin/v1/pictures/{asset}", "admin_picture", ANY_ROLE, later!(PictureRequest => operators::pictures::picture), Ignored, Upstream),
    ops(Get, "/admin/v1/epg/sources", "admin_epg_sources", READ_CONTENT, now!(operators::epg_sources::sources), Ignored, Memory),
    ops(Get, "/admin/v1/epg/sources/{source}", "admin_epg_source", READ_CONTENT, now!(SourceRequest => operators::epg_sources::source), Ignored, Memory),
    ops(Post, "/admin/v1/epg/sources/{source}/refresh", "admin_refresh_source", EDIT_CONTENT, later!(RefreshSourceRequest => operators::epg_sources::refresh), Ignored, Bulk).with_dry_run(),
    ops(Get, "/admin/v1/users", "admin_users", READ_USERS, later!(UsersRequest => operators::users::users), Ignored, Store),
    ops(Post, "/admin/v1/users", "admin_add_user", EDIT_USERS, later!(AddUserRequest => operators::users::add_user), SMALL, Hashing),
    ops(Post, "/admin/v1/users/import", "admin_import_users", EDIT_USERS, later!(ImportUsersRequest => operators::users::import::import_users), USERS, Bulk).with_dry_run(),
    ops(Get, "/admin/v1/users/{user}", "admin_show_user", READ_USERS, later!(UserRequest => operators::users::show_user), Ignored, Store),
    ops(Put, "/admin/v1/users/{user}", "admin_change_user", EDIT_USERS, later!(ChangeUserRequest => operators::users::change_user), SMALL, Hashing),
    ops(Delete, "/admin/v1/users/{user}", "admin_remove_user", EDIT_USERS, later!(UserRequest => operators::users::remove_user), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/grants", "admin_grants", READ_USERS, later!(UserRequest => operators::grants::grants), Ignored, Store),
    ops(Put, "/admin/v1/users/{user}/grants/{offer}", "admin_grant", EDIT_USERS, later!(GrantRequest => operators::grants::grant), SMALL, Store),
    ops(Delete, "/admin/v1/users/{user}/grants/{offer}", "admin_revoke_grant", EDIT_USERS, later!(RevokeGrantRequest => operators::grants::revoke_grant), Ignored, Store),
    ops(Put, "/admin/v1/users/{user}/pin", "admin_set_pin", EDIT_USERS, later!(SetPinRequest => operators::users::set_pin), SMALL, Hashing),
    ops(Post, "/admin/v1/users/{user}/reset-mail", "admin_mail_reset", EDIT_USERS, later!(UserRequest => operators::users::mail_reset), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/sessions", "admin_user_sessions", READ_USERS, later!(UserRequest => operators::users::sessions), Ignored, Store),
    ops(Post, "/admin/v1/users/{user}/logout", "admin_logout_user", EDIT_USERS, later!(UserRequest => operators::users::logout), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/devices", "admin_user_devices", READ_USERS, later!(UserRequest => operators::users::devices::devices), Ignored, Store),
    ops(Delete, "/admin/v1/users/{user}/devices/{device}", "admin_remove_device", EDIT_USERS, later!(UserDeviceRequest => operators::users::devices::remove), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/streams", "admin_user_streams", READ_USERS, later!(UserRequest => operators::users::devices::streams), Ignored, Store),
    ops(Delete, "/admin/v1/users/{user}/devices", "admin_clear_devices", EDIT_USERS, later!(UserRequest => operators::users::devices::clear), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/why/{asset}", "admin_why", READ_USERS, later!(ExplainEntitlementRequest => operators::grants::why), Ignored, Store),
    ops(Get, "/admin/v1/mail", "admin_mails", READ_USERS, later!(operators::mail::mails), Ignored, Store),
    ops(Get, "/admin/v1/mail/{mail}", "admin_show_mail", READ_USERS, later!(MailRequest => operators::mail::show), Ignored, Store).with_secrets(),
    ops(Get, "/admin/v1/mail/preview/{kind}", "admin_preview_mail", READ_USERS, now!(PreviewMailRequest => operators::mail::preview), Ignored, Memory),
    ops(Post, "/admin/v1/mail/retry", "admin_retry_mail", EDIT_USERS, later!(RetryMailRequest => operators::mail::retry), SMALL, Store),
    ops(Post, "/admin/v1/mail/test", "admin_test_mail", EDIT_SYSTEM, later!(TestMailRequest => operators::mail::test), SMALL, Bulk),
    ops(Get, "/admin/v1/sessions", "admin_playback_sessions", READ_USERS, later!(PlaybackSessionsRequest => operators::playback::sessions), Ignored, Memory),
    ops(Delete, "/admin/v1/sessions/{session}", "admin_end_playback_session", EDIT_USERS, later!(EndPlaybackSessionRequest => operators::playback::end), Ignored, Store),
    ops(Get, "/admin/v1/telemetry/events", "admin_export_telemetry", READ_SYSTEM, later!(ExportTelemetryRequest => operators::telemetry::export), Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/report", "admin_report_telemetry", READ_CONTENT, later!(ReportTelemetryRequest => operators::telemetry::report), Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/series", "admin_telemetry_series", READ_CONTENT, later!(TelemetrySeriesRequest => operators::telemetry::series), Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/views", "admin_telemetry_views", READ_USERS, later!(TelemetryViewsRequest => operators::telemetry::views), Ignored, Bulk),
    ops(Get, "/admin/v1/requests", "admin_requests", READ_USERS, later!(RequestsRequest => operators::requests::requests), Ignored, Bulk),
    ops(Get, "/admin/v1/requests.har", "admin_requests_har", READ_USERS, later!(RequestsRequest => operators::requests::archive), Ignored, Bulk),
    ops(Get, "/admin/v1/requests/{request}", "admin_request", READ_USERS, later!(RequestRequest => operators::requests::request), Ignored, Store),
    ops(Post, "/admin/v1/store/verify", "admin_verify_store", EDIT_SYSTEM, later!(operators::store::verify), Ignored, Bulk).read_only(),
    ops(Post, "/admin/v1/store/rebuild", "admin_rebuild_store", EDIT_SYSTEM, later!(operators::store::rebuild), Ignored, Bulk),
    ops(Post, "/admin/v1/store/snapshot", "admin_write_snapshot", EDIT_SYSTEM, later!(operators::store::write_snapshot), Ignored, Bulk).read_only(),
    ops(Post, "/admin/v1/store/compact", "admin_compact_store", EDIT_SYSTEM, later!(operators::store::compact), Ignored, Bulk),
    ops(Get, "/admin/v1/backups", "admin_backups", READ_SYSTEM, later!(operators::backups::list), Ignored, Bulk),
    ops(Post, "/admin/v1/backups", "admin_create_backup", EDIT_SYSTEM, later!(operators::backups::create), Ignored, Bulk),
    ops(Post, "/admin/v1/backups/{backup}/verify", "admin_verify_backup", EDIT_SYSTEM, later!(BackupRequest => operators::backups::verify), Ignored, Bulk).read_only(),
    ops(Post, "/admin/v1/backups/{backup}/restore", "admin_restore_backup", EDIT_SYSTEM, later!(RestoreBackupRequest => operators::backups::restore), Ignored, Bulk),
    ops(Post, "/admin/v1/backups/restore", "admin_restore_sent_backup", EDIT_SYSTEM, later!(RestoreSentBackupRequest => operators::backups::restore_sent), BACKUP, Bulk),
];

/// The routes of both interfaces.
pub static ROUTERS: LazyLock<Routers> = LazyLock::new(|| Routers {
    public: Router::new(RouteSet::Public, PUBLIC),
    ops: Router::new(RouteSet::Ops, OPS),
});

/// Prepares the state of the HTTP layer, with what it has to know of the routes.
///
/// # Errors
/// Those of [`HttpState::new`].
pub fn http_state(
    services: Arc<Services>,
    settings: HttpSettings,
    authenticator: Arc<dyn Authenticator>,
    messages: Messages,
) -> Result<HttpState, InvalidSetting> {
    let describe = |set, about: &About<'_>| openapi::render(ROUTERS.of(set), about);
    let routes = ROUTERS.facts();
    HttpState::new(
        services,
        settings,
        authenticator,
        messages,
        routes,
        describe,
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use playgate_types::Role;

    #[test]
    fn labels_are_unique_and_metric_safe() {
        let mut seen = HashSet::new();
        for route in PUBLIC.iter().chain(OPS) {
            assert!(seen.insert(route.label), "{}", route.label);
            assert!(
                route
                    .label
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            );
        }
    }

    #[test]
    fn administration_is_never_public() {
        for route in PUBLIC {
            assert!(
                !matches!(route.endpoint, Endpoint::Operator(_)),
                "{}",
                route.label
            );
            let ours =
                ["/api/", "/client/", "/origin/"].map(|base| route.pattern.starts_with(base));
            let described = ["openapi", "docs", "docs_guide", "front_page"].contains(&route.label);
            let other = route.is_same_origin || described;
            assert!(ours.contains(&true) || other, "{}", route.label);
        }
        for route in OPS.iter().filter(|r| r.pattern.starts_with("/admin/")) {
            assert!(
                matches!(route.endpoint, Endpoint::Operator(_)),
                "{}",
                route.label
            );
            assert!(
                route
                    .roles
                    .is_some_and(|roles| roles.contains(&Role::Admin))
            );
        }
    }

    #[test]
    fn a_path_that_names_a_user_requires_the_user_token() {
        for route in PUBLIC {
            if route.pattern.contains("{userId}") {
                assert!(
                    matches!(route.endpoint, Endpoint::User(_)),
                    "{}",
                    route.label
                );
            }
        }
    }

    /// It answers from memory that follows the owner, and cannot change the store.
    #[test]
    fn a_standby_serves_reads_and_heartbeats_of_clients() {
        let probes = OPS.iter().filter(|route| route.is_served_by_standbys);
        let probes: Vec<_> = probes.map(|route| route.label).collect();
        assert_eq!(probes, ["livez", "readyz", "metrics"]);
        for route in PUBLIC.iter().filter(|route| route.is_served_by_standbys) {
            assert!(route.body == Ignored, "{}", route.label);
            assert!(route.journal != Everything, "{}", route.label);
            let is_heartbeat = route.label == "heartbeat";
            assert_eq!(route.is_change, is_heartbeat, "{}", route.label);
            // Only a heartbeat is answered without reading the log first.
            assert_eq!(route.skips_freshness_check, is_heartbeat, "{}", route.label);
        }
    }

    #[test]
    fn a_deprecated_route_names_one_that_exists() {
        for route in PUBLIC {
            if let Some(successor) = route.deprecated {
                assert!(
                    PUBLIC
                        .iter()
                        .any(|r| r.pattern == successor && r.deprecated.is_none())
                );
            }
        }
    }
}
