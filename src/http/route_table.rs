//! The static route table. The router, the service, the metrics, the OpenAPI description and the coverage
//! tests read it.

use std::sync::{Arc, LazyLock};

use crate::catalog_file::FILE_MAX as CATALOG_FILE_MAX;
use crate::config::http::HttpSettings;
use crate::config::limits::{
    BODY_BACKUP, BODY_GUIDE, BODY_LICENSE, BODY_SMALL, BODY_TELEMETRY, BODY_USERS,
};
use crate::http::access::auth::{
    Anyone, Authenticator, OperatorAuth, PartnerAuth, RateClass, UserAuth,
};
use crate::http::request::payload::BodyRule;
use crate::http::request::payload::BodyRule::{Gzip, Ignored, Streamed, Whole};
use crate::http::response::descriptions::About;
use crate::http::response::localized_messages::Messages;
use crate::http::route_facts::RouteMethod::{Delete, Get, Post, Put};
use crate::http::route_facts::{RouteMethod, RouteSet};
use crate::http::routing::endpoint::admin::activity::ActivityRequest;
use crate::http::routing::endpoint::admin::audit::AuditRequest;
use crate::http::routing::endpoint::admin::backups::{
    BackupRequest, RestoreBackupRequest, RestoreSentBackupRequest,
};
use crate::http::routing::endpoint::admin::clock::MoveClockRequest;
use crate::http::routing::endpoint::admin::conformance::ConformanceRequest;
use crate::http::routing::endpoint::admin::content::{
    ExportCatalogRequest, ImportCatalogRequest, ImportGuideRequest, RefreshSourceRequest,
    SourceRequest, UndoCatalogRequest,
};
use crate::http::routing::endpoint::admin::fleet::HandOverRequest;
use crate::http::routing::endpoint::admin::lab::{
    AddFaultRequest, FaultRequest, MovePartnerClockRequest, ReportScenarioRequest,
    ResetPartnerRequest,
};
use crate::http::routing::endpoint::admin::mail::{
    MailRequest, PreviewMailRequest, RetryMailRequest, TestMailRequest,
};
use crate::http::routing::endpoint::admin::new_user::AddUserRequest;
use crate::http::routing::endpoint::admin::operators::{
    AddOperatorRequest, AddOperatorTokenRequest, OperatorRequest, OperatorTokenRequest,
};
use crate::http::routing::endpoint::admin::partners::{
    AddPartnerRequest, AddPartnerTokenRequest, ChangePartnerRequest, PartnerRequest,
    PartnerTokenRequest,
};
use crate::http::routing::endpoint::admin::playback::EndPlaybackSessionRequest;
use crate::http::routing::endpoint::admin::requests::{RequestRequest, RequestsRequest};
use crate::http::routing::endpoint::admin::rights::{
    AddRuleRequest, BroadcastRightsRequest, RemoveRuleRequest, SetDefaultsRequest, SetRightsRequest,
};
use crate::http::routing::endpoint::admin::schedule::{ScheduleDayRequest, ScheduleLiveRequest};
use crate::http::routing::endpoint::admin::telemetry::{
    ExportTelemetryRequest, ReportTelemetryRequest, TelemetrySeriesRequest, TelemetryViewsRequest,
};
use crate::http::routing::endpoint::admin::users::{
    ChangeUserRequest, ExplainEntitlementRequest, GrantRequest, ImportUsersRequest,
    RevokeGrantRequest, SetPinRequest, UserDeviceRequest, UserRequest, UsersRequest,
};
use crate::http::routing::endpoint::login::{
    LoginRequest, ResetRequest, SendResetRequest, SignUpRequest,
};
use crate::http::routing::endpoint::playback::{
    EndPlaybackRequest, EntitlementRequest, HeartbeatRequest, LicenseRequest, PreflightRequest,
    SignedLicenseRequest,
};
use crate::http::routing::endpoint::public::{
    EmbeddedFileRequest, FrontPageRequest, OriginRequest,
};
use crate::http::routing::endpoint::reset_page::{ResetFormRequest, ResetPageRequest};
use crate::http::routing::endpoint::schedule::{
    BroadcastRequest, BroadcastsRequest, DayRequest, LiveRequest, LivestreamDayRequest,
    LivestreamNowRequest, M3uRequest, PageRequest, PlaylistRedirectRequest, XmltvRequest,
};
use crate::http::routing::endpoint::telemetry::{CmcdRequest, TelemetryRequest};
use crate::http::routing::endpoint::users::{
    ChangeEmailRequest, ChangePasswordRequest, ChangePinRequest, DeleteUserRequest, DeviceRequest,
    SessionRequest, UpdateUserRequest,
};
use crate::http::routing::endpoint::{Handler, HandlerOutcome, handler, later, now};
use crate::http::routing::route::JournalRule::{Changes, Everything};
use crate::http::routing::route::WorkClass::{self, Bulk, Hashing, Memory, Store, Upstream};
use crate::http::routing::route::{Endpoint, Route};
use crate::http::routing::router::{Router, Routers};
use crate::http::state::{HttpState, InvalidSetting};
use crate::http::{admin, api, openapi};
use crate::services::Services;
use crate::types::{AssetId, LivestreamId, Role};

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
    partner(Get, "/api/schedule/v1/broadcasts/live", "live", now!(LiveRequest => api::schedule::live), Ignored, Memory).cached_from(MANY_IDS).at_any_member().described_as("schedule_live"),
    partner(Get, "/api/schedule/v1/broadcasts/day/{date}", "day", now!(DayRequest => api::schedule::day), Ignored, Memory).cached_from(MANY_IDS).at_any_member().described_as("schedule_day"),
    partner(Get, "/api/schedule/v1/broadcasts", "broadcasts", now!(BroadcastsRequest => api::schedule::broadcasts), Ignored, Memory).cached_from(0).at_any_member(),
    partner(Get, "/api/schedule/v1/broadcasts/{broadcastId}", "broadcast", now!(BroadcastRequest => api::schedule::broadcast), Ignored, Memory).at_any_member(),
    partner(Get, "/api/schedule/v1/livestreams/{livestreamId}/day/{date}", "day_one", now!(LivestreamDayRequest => api::schedule::day_one), Ignored, Memory).described_as("livestream_day")
        .replaced_by("/api/schedule/v1/broadcasts/day/{date}").at_any_member(),
    partner(Get, "/api/schedule/v1/livestreams/{livestreamId}/live", "live_one", now!(LivestreamNowRequest => api::schedule::live_one), Ignored, Memory).described_as("livestream_live")
        .replaced_by("/api/schedule/v1/broadcasts/live").at_any_member(),
    partner(Get, "/api/schedule/v1/xmltv", "xmltv", later!(XmltvRequest => api::guide_export::xmltv), Ignored, Store).with_query_token().at_any_member(),
    partner(Get, "/api/schedule/v1/m3u", "m3u", now!(M3uRequest => api::guide_export::m3u), Ignored, Memory).with_query_token().at_any_member(),
    partner(Get, "/api/schedule/v1/m3u/{livestreamId}/{manifest}", "watch", now!(PlaylistRedirectRequest => api::guide_export::watch), Ignored, Memory).with_query_token().at_any_member().described_as("m3u_manifest"),
    // Catalogue for clients.
    partner(Get, "/api/catalog/v1/livestreams", "livestreams", now!(PageRequest<LivestreamId> => api::catalog::livestreams), Ignored, Memory).at_any_member(),
    partner(Get, "/api/catalog/v1/assets", "assets", now!(PageRequest<AssetId> => api::catalog::assets), Ignored, Memory).at_any_member(),
    // The lab, for lab partners.
    partner(Get, "/api/lab/v1/clock", "lab_clock", now!(api::lab::clock), Ignored, Memory),
    partner(Get, "/api/lab/v1/mail", "lab_mail", later!(api::lab::mails), Ignored, Store),
    // Sign-up, login and password reset.
    partner(Put, "/api/login/v2/auth/email", "sign_up", later!(SignUpRequest => api::login::sign_up), SMALL, Hashing).rated(RateClass::SignUp).journaled(Everything),
    partner(Post, "/api/login/v2/auth/email", "login", later!(LoginRequest => api::login::login), SMALL, Hashing).rated(RateClass::Login).journaled(Everything),
    user(Post, "/api/login/v2/auth/logout", "logout", later!(api::login::logout), Ignored, Store).journaled(Everything),
    partner(Post, "/api/login/v2/password/send-reset-password", "send_reset", later!(SendResetRequest => api::login::send_reset), SMALL, Store)
        .rated(RateClass::ResetMail),
    partner(Post, "/api/login/v2/password/send-reset-email", "send_reset_email", later!(SendResetRequest => api::login::send_reset), SMALL, Store)
        .rated(RateClass::ResetMail),
    partner(Post, "/api/login/v2/password/reset", "reset", later!(ResetRequest => api::login::reset), SMALL, Hashing).rated(RateClass::Reset),
    // Default target of `accounts.reset_url`. The token in the link of the mail authorizes the reset.
    open("/reset", "reset_page", later!(ResetPageRequest => api::reset_page::show), Store).html_page(),
    form("/reset", "reset_form", later!(ResetFormRequest => api::reset_page::complete), Hashing).html_page().rated(RateClass::Reset),
    // The user's account: profile, PIN, devices, sessions, offers and data export.
    user(Get, "/api/user/v1/users/{userId}", "read_user", later!(api::users::read_user), Ignored, Store).at_any_member(),
    user(Put, "/api/user/v1/users/{userId}", "update_user", later!(UpdateUserRequest => api::users::update_user), SMALL, Hashing),
    user(Delete, "/api/user/v1/users/{userId}", "delete_user", later!(DeleteUserRequest => api::users::delete_user), SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/email", "change_email", later!(ChangeEmailRequest => api::users::change_email), SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/password", "change_password", later!(ChangePasswordRequest => api::users::change_password), SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/pin", "change_pin", later!(ChangePinRequest => api::users::change_pin), SMALL, Hashing),
    user(Post, "/api/user/v1/users/{userId}/pin/reset", "reset_pin", later!(api::users::reset_pin), Ignored, Hashing),
    user(Get, "/api/user/v1/users/{userId}/devices", "devices", later!(api::devices::devices), Ignored, Store).at_any_member(),
    user(Delete, "/api/user/v1/users/{userId}/devices", "clear_devices", later!(api::devices::clear_devices), Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/devices/{deviceId}", "device", later!(DeviceRequest => api::devices::device), Ignored, Store).at_any_member(),
    user(Delete, "/api/user/v1/users/{userId}/devices/{deviceId}", "remove_device", later!(DeviceRequest => api::devices::remove_device), Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/sessions", "sessions", later!(api::sessions::sessions), Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/sessions", "end_sessions", later!(api::sessions::end_sessions), Ignored, Store).journaled(Everything),
    user(Get, "/api/user/v1/users/{userId}/sessions/{sessionId}", "session", later!(SessionRequest => api::sessions::session), Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/sessions/{sessionId}", "end_session", later!(SessionRequest => api::sessions::end_session), Ignored, Store).journaled(Everything),
    user(Get, "/api/user/v1/users/{userId}/offers", "offers", later!(api::offers::offers), Ignored, Store).at_any_member(),
    user(Get, "/api/user/v1/users/{userId}/export", "export", later!(api::users::export), Ignored, Store).described_as("export_user"),
    // Entitlement, playback, licenses and telemetry.
    user(Post, "/api/entitlement/v2/asset/{assetId}", "entitlement", later!(EntitlementRequest => api::playback::entitlement), SMALL, Hashing).journaled(Everything),
    user(Post, "/api/playback/v2/preflight/asset/{assetId}", "preflight", later!(PreflightRequest => api::playback::preflight), Ignored, Store).journaled(Everything),
    user(Post, "/api/playback/v1/preflight/asset/{assetId}", "preflight_v1", later!(PreflightRequest => api::playback::preflight), Ignored, Store).journaled(Everything),
    user(Post, "/api/playback/v1/widevine/license", "license_widevine", later!(LicenseRequest => api::license::license), CHALLENGE, Upstream).journaled(Everything),
    user(Post, "/api/playback/v1/playready/license", "license_playready", later!(LicenseRequest => api::license::license), CHALLENGE, Upstream).with_soap_faults().journaled(Everything),
    user(Post, "/api/playback/v1/fairplay/license", "license_fairplay", later!(LicenseRequest => api::license::license), CHALLENGE, Upstream).journaled(Everything),
    user(Post, "/api/playback/v1/clearkey/license", "license_clearkey", later!(LicenseRequest => api::license::license), CHALLENGE, Upstream).journaled(Everything),
    form("/api/playback/v1/license/{token}", "license_signed", later!(SignedLicenseRequest => api::license::license_signed), Upstream).with_body(CHALLENGE).with_soap_faults().journaled(Everything).names_session(),
    // Every application has it, and players fetch it by its address alone.
    open("/api/playback/v1/fairplay/certificate", "fairplay_certificate", later!(api::license::fairplay_certificate), Memory).at_any_member(),
    user(Post, "/api/playback/v1/heartbeat", "heartbeat", now!(HeartbeatRequest => api::playback::heartbeat), Ignored, Memory).journaled(Changes).without_freshness_check().at_any_member(),
    user(Delete, "/api/playback/v1/heartbeat", "end_playback", later!(EndPlaybackRequest => api::playback::end_playback), Ignored, Store).journaled(Everything),
    user(Post, "/api/tracker/v1/telemetry-events", "telemetry", later!(TelemetryRequest => api::telemetry::telemetry), EVENTS, Store).without_freshness_check(),
    form("/api/tracker/v1/cmcd/{token}", "cmcd", later!(CmcdRequest => api::telemetry::cmcd), Store).with_body(EVENTS).names_session(),
    // The request journal, for the developers of lab partners.
    partner(Get, "/api/lab/v1/requests", "lab_requests", later!(RequestsRequest => api::lab::requests), Ignored, Bulk),
    partner(Get, "/api/lab/v1/requests/{request}", "lab_request", later!(RequestRequest => api::lab::request), Ignored, Store),
    open("/origin/v1/{token}/{*path}", "origin", later!(OriginRequest => api::media::origin), Store).at_any_member(),
    // The front page for browsers, and the player page of demo and lab installations.
    open("/", "front_page", now!(FrontPageRequest => api::front_page::show), Memory).at_any_member(),
    open("/lab", "lab_entry", now!(api::lab_player::entry), Memory).own_origin(),
    open("/lab/", "lab_player", now!(api::lab_player::page), Memory).own_origin(),
    open("/lab/settings.json", "lab_settings", now!(api::lab_player::settings), Memory).own_origin(),
    open("/lab/{file}", "lab_file", now!(EmbeddedFileRequest => api::lab_player::file), Memory).own_origin(),
    // OpenAPI description and documentation.
    open("/openapi.json", "openapi", now!(api::openapi::public_document), Memory).at_any_member(),
    open("/docs", "docs", now!(api::openapi::public_page), Memory).at_any_member(),
];

/// Routes of the operations listener and of the local administration socket.
#[rustfmt::skip] // one route a line: it is read as a table
static OPS: &[Route] = &[
    // The console. It loads its data from the routes below, with the operator's token.
    open("/", "console_root", now!(admin::console::entry), Memory),
    open("/console", "console_entry", now!(admin::console::entry), Memory),
    open("/console/", "console", now!(admin::console::page), Memory),
    open("/console/{file}", "console_file", now!(EmbeddedFileRequest => admin::console::file), Memory),
    open("/livez", "livez", now!(admin::probes::livez), Memory).at_any_member(),
    open("/readyz", "readyz", now!(admin::probes::readyz), Memory).at_any_member(),
    open("/metrics", "metrics", now!(admin::probes::metrics), Memory).at_any_member(),
    open("/openapi.json", "ops_openapi", now!(api::openapi::ops_document), Memory),
    open("/docs", "ops_docs", now!(api::openapi::ops_page), Memory),
    ops(Get, "/admin/v1/about", "admin_about", ANY_ROLE, now!(admin::about::about), Ignored, Memory).without_freshness_check(),
    ops(Get, "/admin/v1/activity", "admin_activity", ANY_ROLE, now!(ActivityRequest => admin::activity::activity), Ignored, Memory).without_freshness_check(),
    ops(Get, "/admin/v1/fleet", "admin_fleet", READ_SYSTEM, now!(admin::fleet::fleet), Ignored, Memory).without_freshness_check(),
    ops(Post, "/admin/v1/fleet/handover", "admin_hand_over", EDIT_SYSTEM, later!(HandOverRequest => admin::fleet::hand_over), SMALL, Store).read_only(),
    ops(Get, "/admin/v1/clock", "admin_read_clock", ANY_ROLE, now!(admin::clock::read), Ignored, Memory),
    ops(Put, "/admin/v1/clock", "admin_move_clock", EDIT_SYSTEM, later!(MoveClockRequest => admin::clock::shift), SMALL, Store),
    ops(Delete, "/admin/v1/clock", "admin_reset_clock", EDIT_SYSTEM, later!(admin::clock::reset), Ignored, Store),
    ops(Post, "/admin/v1/clock/accept", "admin_accept_clock", EDIT_SYSTEM, later!(admin::clock::accept), Ignored, Store),
    ops(Get, "/admin/v1/partners", "admin_partners", ANY_ROLE, later!(admin::partners::partners), Ignored, Store),
    ops(Post, "/admin/v1/partners", "admin_add_partner", EDIT_SYSTEM, later!(AddPartnerRequest => admin::partners::add_partner), SMALL, Store),
    ops(Put, "/admin/v1/partners/{partner}", "admin_change_partner", EDIT_SYSTEM, later!(ChangePartnerRequest => admin::partners::change_partner), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}", "admin_remove_partner", EDIT_SYSTEM, later!(PartnerRequest => admin::partners::remove_partner), Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/tokens", "admin_partner_tokens", READ_SYSTEM, later!(PartnerRequest => admin::partners::tokens), Ignored, Store),
    ops(Post, "/admin/v1/partners/{partner}/tokens", "admin_add_partner_token", EDIT_SYSTEM, later!(AddPartnerTokenRequest => admin::partners::add_token), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}/tokens/{token}", "admin_revoke_partner_token", EDIT_SYSTEM, later!(PartnerTokenRequest => admin::partners::revoke_token), Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/faults", "admin_faults", READ_SYSTEM, now!(PartnerRequest => admin::faults::faults), Ignored, Memory),
    ops(Post, "/admin/v1/partners/{partner}/faults", "admin_add_fault", EDIT_SYSTEM, later!(AddFaultRequest => admin::faults::add_fault), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}/faults", "admin_clear_faults", EDIT_SYSTEM, later!(PartnerRequest => admin::faults::clear_faults), Ignored, Store),
    ops(Delete, "/admin/v1/partners/{partner}/faults/{fault}", "admin_clear_fault", EDIT_SYSTEM, later!(FaultRequest => admin::faults::clear_fault), Ignored, Store),
    ops(Post, "/admin/v1/partners/{partner}/reset", "admin_reset_partner", EDIT_SYSTEM, later!(ResetPartnerRequest => admin::reset::reset), SMALL, Bulk),
    ops(Get, "/admin/v1/partners/{partner}/clock", "admin_read_partner_clock", READ_SYSTEM, now!(PartnerRequest => admin::clock::read_partner), Ignored, Memory),
    ops(Put, "/admin/v1/partners/{partner}/clock", "admin_move_partner_clock", EDIT_SYSTEM, later!(MovePartnerClockRequest => admin::clock::shift_partner), SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}/clock", "admin_reset_partner_clock", EDIT_SYSTEM, later!(PartnerRequest => admin::clock::reset_partner), Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/scenario", "admin_scenario", READ_SYSTEM, now!(PartnerRequest => admin::lab::scenario), Ignored, Memory),
    ops(Put, "/admin/v1/partners/{partner}/scenario", "admin_report_scenario", EDIT_SYSTEM, now!(ReportScenarioRequest => admin::lab::report_scenario), SMALL, Memory).read_only(),
    ops(Get, "/admin/v1/partners/{partner}/conformance", "admin_conformance", READ_USERS, later!(ConformanceRequest => admin::conformance::conformance), Ignored, Bulk),
    ops(Get, "/admin/v1/operators", "admin_operators", READ_SYSTEM, later!(admin::operators::operators), Ignored, Store),
    ops(Post, "/admin/v1/operators", "admin_add_operator", EDIT_SYSTEM, later!(AddOperatorRequest => admin::operators::add_operator), SMALL, Store),
    ops(Delete, "/admin/v1/operators/{operator}", "admin_revoke_operator", EDIT_SYSTEM, later!(OperatorRequest => admin::operators::revoke_operator), Ignored, Store),
    ops(Get, "/admin/v1/operators/{operator}/tokens", "admin_operator_tokens", READ_SYSTEM, later!(OperatorRequest => admin::operators::tokens), Ignored, Store),
    ops(Post, "/admin/v1/operators/{operator}/tokens", "admin_add_operator_token", EDIT_SYSTEM, later!(AddOperatorTokenRequest => admin::operators::add_token), SMALL, Store),
    ops(Delete, "/admin/v1/operators/{operator}/tokens/{token}", "admin_revoke_operator_token", EDIT_SYSTEM, later!(OperatorTokenRequest => admin::operators::revoke_token), Ignored, Store),
    ops(Get, "/admin/v1/audit", "admin_audit", READ_SYSTEM, later!(AuditRequest => admin::audit::audit), Ignored, Store),
    ops(Get, "/admin/v1/catalog", "admin_export_catalog", READ_CONTENT, later!(ExportCatalogRequest => admin::catalog::export_catalog), Ignored, Store),
    ops(Get, "/admin/v1/catalog/history", "admin_catalog_history", READ_CONTENT, later!(admin::catalog::history), Ignored, Store),
    ops(Post, "/admin/v1/catalog/undo", "admin_undo_catalog", EDIT_CONTENT, later!(UndoCatalogRequest => admin::catalog::undo), Ignored, Bulk).with_dry_run(),
    ops(Post, "/admin/v1/catalog/import", "admin_import_catalog", EDIT_CONTENT, later!(ImportCatalogRequest => admin::catalog::import_catalog), CATALOG, Bulk).with_dry_run(),
    ops(Post, "/admin/v1/epg/import", "admin_import_guide", EDIT_CONTENT, later!(ImportGuideRequest => admin::epg_sources::import_guide), GUIDE, Bulk).with_dry_run(),
    ops(Get, "/admin/v1/broadcasts/{broadcast}/why", "admin_why_rights", READ_CONTENT, later!(BroadcastRightsRequest => admin::rights::why), Ignored, Store),
    ops(Put, "/admin/v1/broadcasts/{broadcast}/rights", "admin_set_rights", EDIT_CONTENT, later!(SetRightsRequest => admin::rights::set), SMALL, Bulk),
    ops(Delete, "/admin/v1/broadcasts/{broadcast}/rights", "admin_clear_rights", EDIT_CONTENT, later!(BroadcastRightsRequest => admin::rights::clear), Ignored, Bulk),
    ops(Put, "/admin/v1/livestreams/{livestream}/rights", "admin_set_defaults", EDIT_CONTENT, later!(SetDefaultsRequest => admin::rights::set_defaults), SMALL, Bulk),
    ops(Get, "/admin/v1/rules", "admin_rules", READ_CONTENT, now!(admin::rights::rules), Ignored, Memory),
    ops(Post, "/admin/v1/rules", "admin_add_rule", EDIT_CONTENT, later!(AddRuleRequest => admin::rights::add_rule), SMALL, Bulk),
    ops(Delete, "/admin/v1/rules/{rule}", "admin_remove_rule", EDIT_CONTENT, later!(RemoveRuleRequest => admin::rights::remove_rule), Ignored, Bulk),
    ops(Get, "/admin/v1/schedule/live", "admin_schedule_live", ANY_ROLE, now!(ScheduleLiveRequest => admin::schedule::live), Ignored, Memory),
    ops(Get, "/admin/v1/schedule/day/{date}", "admin_schedule_day", ANY_ROLE, now!(ScheduleDayRequest => admin::schedule::day), Ignored, Memory),
    ops(Get, "/admin/v1/epg/sources", "admin_guide_sources", READ_CONTENT, now!(admin::epg_sources::sources), Ignored, Memory),
    ops(Get, "/admin/v1/epg/sources/{source}", "admin_guide_source", READ_CONTENT, now!(SourceRequest => admin::epg_sources::source), Ignored, Memory),
    ops(Post, "/admin/v1/epg/sources/{source}/refresh", "admin_refresh_source", EDIT_CONTENT, later!(RefreshSourceRequest => admin::epg_sources::refresh), Ignored, Bulk).with_dry_run(),
    ops(Get, "/admin/v1/users", "admin_users", READ_USERS, later!(UsersRequest => admin::users::users), Ignored, Store),
    ops(Post, "/admin/v1/users", "admin_add_user", EDIT_USERS, later!(AddUserRequest => admin::users::add_user), SMALL, Hashing),
    ops(Post, "/admin/v1/users/import", "admin_import_users", EDIT_USERS, later!(ImportUsersRequest => admin::user_import::import_users), USERS, Bulk).with_dry_run(),
    ops(Get, "/admin/v1/users/{user}", "admin_show_user", READ_USERS, later!(UserRequest => admin::users::show_user), Ignored, Store),
    ops(Put, "/admin/v1/users/{user}", "admin_change_user", EDIT_USERS, later!(ChangeUserRequest => admin::users::change_user), SMALL, Hashing),
    ops(Delete, "/admin/v1/users/{user}", "admin_remove_user", EDIT_USERS, later!(UserRequest => admin::users::remove_user), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/grants", "admin_grants", READ_USERS, later!(UserRequest => admin::grants::grants), Ignored, Store),
    ops(Put, "/admin/v1/users/{user}/grants/{offer}", "admin_grant", EDIT_USERS, later!(GrantRequest => admin::grants::grant), SMALL, Store),
    ops(Delete, "/admin/v1/users/{user}/grants/{offer}", "admin_revoke_grant", EDIT_USERS, later!(RevokeGrantRequest => admin::grants::revoke_grant), Ignored, Store),
    ops(Put, "/admin/v1/users/{user}/pin", "admin_set_pin", EDIT_USERS, later!(SetPinRequest => admin::users::set_pin), SMALL, Hashing),
    ops(Post, "/admin/v1/users/{user}/reset-mail", "admin_mail_reset", EDIT_USERS, later!(UserRequest => admin::users::mail_reset), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/sessions", "admin_user_sessions", READ_USERS, later!(UserRequest => admin::users::sessions), Ignored, Store),
    ops(Post, "/admin/v1/users/{user}/logout", "admin_logout_user", EDIT_USERS, later!(UserRequest => admin::users::logout), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/devices", "admin_user_devices", READ_USERS, later!(UserRequest => admin::user_devices::devices), Ignored, Store),
    ops(Delete, "/admin/v1/users/{user}/devices/{device}", "admin_remove_device", EDIT_USERS, later!(UserDeviceRequest => admin::user_devices::remove), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/streams", "admin_user_streams", READ_USERS, later!(UserRequest => admin::user_devices::streams), Ignored, Store),
    ops(Delete, "/admin/v1/users/{user}/devices", "admin_clear_devices", EDIT_USERS, later!(UserRequest => admin::users::clear_devices), Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/why/{asset}", "admin_why", READ_USERS, later!(ExplainEntitlementRequest => admin::grants::why), Ignored, Store),
    ops(Get, "/admin/v1/mail", "admin_mails", READ_USERS, later!(admin::mail::mails), Ignored, Store),
    ops(Get, "/admin/v1/mail/{mail}", "admin_show_mail", READ_USERS, later!(MailRequest => admin::mail::show), Ignored, Store).with_secrets(),
    ops(Get, "/admin/v1/mail/preview/{kind}", "admin_preview_mail", READ_USERS, now!(PreviewMailRequest => admin::mail::preview), Ignored, Memory),
    ops(Post, "/admin/v1/mail/retry", "admin_retry_mail", EDIT_USERS, later!(RetryMailRequest => admin::mail::retry), SMALL, Store),
    ops(Post, "/admin/v1/mail/test", "admin_test_mail", EDIT_SYSTEM, later!(TestMailRequest => admin::mail::test), SMALL, Bulk),
    ops(Get, "/admin/v1/sessions", "admin_playback_sessions", READ_USERS, later!(admin::playback::sessions), Ignored, Memory),
    ops(Delete, "/admin/v1/sessions/{session}", "admin_end_playback_session", EDIT_USERS, later!(EndPlaybackSessionRequest => admin::playback::end), Ignored, Store),
    ops(Get, "/admin/v1/telemetry/events", "admin_export_telemetry", READ_SYSTEM, later!(ExportTelemetryRequest => admin::telemetry::export), Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/report", "admin_report_telemetry", READ_CONTENT, later!(ReportTelemetryRequest => admin::telemetry::report), Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/series", "admin_telemetry_series", READ_CONTENT, later!(TelemetrySeriesRequest => admin::telemetry::series), Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/views", "admin_telemetry_views", READ_USERS, later!(TelemetryViewsRequest => admin::telemetry::views), Ignored, Bulk),
    ops(Get, "/admin/v1/requests", "admin_requests", READ_USERS, later!(RequestsRequest => admin::requests::requests), Ignored, Bulk),
    ops(Get, "/admin/v1/requests.har", "admin_requests_har", READ_USERS, later!(RequestsRequest => admin::requests::archive), Ignored, Bulk),
    ops(Get, "/admin/v1/requests/{request}", "admin_request", READ_USERS, later!(RequestRequest => admin::requests::request), Ignored, Store),
    ops(Post, "/admin/v1/store/verify", "admin_verify_store", EDIT_SYSTEM, later!(admin::store::verify), Ignored, Bulk).read_only(),
    ops(Post, "/admin/v1/store/rebuild", "admin_rebuild_store", EDIT_SYSTEM, later!(admin::store::rebuild), Ignored, Bulk),
    ops(Post, "/admin/v1/store/snapshot", "admin_write_snapshot", EDIT_SYSTEM, later!(admin::store::write_snapshot), Ignored, Bulk).read_only(),
    ops(Post, "/admin/v1/store/compact", "admin_compact_store", EDIT_SYSTEM, later!(admin::store::compact), Ignored, Bulk),
    ops(Get, "/admin/v1/backups", "admin_backups", READ_SYSTEM, later!(admin::backups::list), Ignored, Bulk),
    ops(Post, "/admin/v1/backups", "admin_create_backup", EDIT_SYSTEM, later!(admin::backups::create), Ignored, Bulk),
    ops(Post, "/admin/v1/backups/{backup}/verify", "admin_verify_backup", EDIT_SYSTEM, later!(BackupRequest => admin::backups::verify), Ignored, Bulk).read_only(),
    ops(Post, "/admin/v1/backups/{backup}/restore", "admin_restore_backup", EDIT_SYSTEM, later!(RestoreBackupRequest => admin::backups::restore), Ignored, Bulk),
    ops(Post, "/admin/v1/backups/restore", "admin_restore_sent_backup", EDIT_SYSTEM, later!(RestoreSentBackupRequest => admin::backups::restore_sent), BACKUP, Bulk),
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
    use crate::types::Role;

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
            let ours = ["/api/", "/origin/"].map(|base| route.pattern.starts_with(base));
            let described = ["openapi", "docs", "front_page"].contains(&route.label);
            let other = route.is_own_origin || described;
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
