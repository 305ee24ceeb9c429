//! The static route table. The router, the service, the metrics, the OpenAPI description and the coverage
//! tests read it.

use crate::config::limits::{
    BODY_BACKUP, BODY_CATALOG, BODY_GUIDE, BODY_LICENSE, BODY_SMALL, BODY_TELEMETRY, BODY_USERS,
};
use crate::http::routing::route::BodyRule::{self, Gzip, Ignored, Streamed, Whole};
use crate::http::routing::route::OperatorRoute as O;
use crate::http::routing::route::PartnerRoute as P;
use crate::http::routing::route::RouteMethod::{self, Delete, Get, Post, Put};
use crate::http::routing::route::UserRoute as U;
use crate::http::routing::route::WorkClass::{self, Bulk, Hashing, Memory, Store, Upstream};
use crate::http::routing::route::{
    Endpoint, OperatorRoute, PartnerRoute, PublicRoute, RateClass, Route, UserRoute,
};
use crate::http::routing::router::RouteSet;
use crate::types::Drm;

const fn open(
    pattern: &'static str,
    label: &'static str,
    target: PublicRoute,
    lane: WorkClass,
) -> Route {
    Route::new(Get, pattern, label, Endpoint::Open(target), Ignored, lane)
}

const fn form(
    pattern: &'static str,
    label: &'static str,
    target: PublicRoute,
    lane: WorkClass,
) -> Route {
    Route::new(Post, pattern, label, Endpoint::Open(target), SMALL, lane)
}

const fn partner(
    method: RouteMethod,
    pattern: &'static str,
    label: &'static str,
    target: PartnerRoute,
    body: BodyRule,
    lane: WorkClass,
) -> Route {
    Route::new(
        method,
        pattern,
        label,
        Endpoint::Partner(target),
        body,
        lane,
    )
}

const fn user(
    method: RouteMethod,
    pattern: &'static str,
    label: &'static str,
    target: UserRoute,
    body: BodyRule,
    lane: WorkClass,
) -> Route {
    Route::new(method, pattern, label, Endpoint::User(target), body, lane)
}

const fn ops(
    method: RouteMethod,
    pattern: &'static str,
    label: &'static str,
    target: OperatorRoute,
    body: BodyRule,
    lane: WorkClass,
) -> Route {
    Route::new(
        method,
        pattern,
        label,
        Endpoint::Operator(target),
        body,
        lane,
    )
}

/// From this length of path and query, a request names so many livestreams that looking up its response is
/// faster than building it.
const MANY_IDS: usize = 256;
const SMALL: BodyRule = Whole(BODY_SMALL);
const CHALLENGE: BodyRule = Whole(BODY_LICENSE);
const CATALOG: BodyRule = Whole(BODY_CATALOG);
const BACKUP: BodyRule = Streamed(BODY_BACKUP);
const GUIDE: BodyRule = Streamed(BODY_GUIDE);
const USERS: BodyRule = Streamed(BODY_USERS);
const EVENTS: BodyRule = Gzip(BODY_TELEMETRY);

#[rustfmt::skip] // one route a line: it is read as a table
pub(crate) static PUBLIC: &[Route] = &[
    // Schedule.
    partner(Get, "/api/schedule/v1/broadcasts/live", "live", P::Live, Ignored, Memory).cached_from(MANY_IDS),
    partner(Get, "/api/schedule/v1/broadcasts/day/{date}", "day", P::Day, Ignored, Memory).cached_from(MANY_IDS),
    partner(Get, "/api/schedule/v1/broadcasts", "broadcasts", P::Broadcasts, Ignored, Memory).cached_from(0),
    partner(Get, "/api/schedule/v1/broadcasts/{broadcastId}", "broadcast", P::Broadcast, Ignored, Memory),
    partner(Get, "/api/schedule/v1/livestreams/{livestreamId}/day/{date}", "day_one", P::LivestreamDay, Ignored, Memory)
        .replaced_by("/api/schedule/v1/broadcasts/day/{date}"),
    partner(Get, "/api/schedule/v1/livestreams/{livestreamId}/live", "live_one", P::LivestreamNow, Ignored, Memory)
        .replaced_by("/api/schedule/v1/broadcasts/live"),
    partner(Get, "/api/schedule/v1/xmltv", "xmltv", P::Xmltv, Ignored, Store).with_query_token(),
    partner(Get, "/api/schedule/v1/m3u", "m3u", P::M3u, Ignored, Memory).with_query_token(),
    partner(Get, "/api/schedule/v1/m3u/{livestreamId}/{manifest}", "watch", P::PlaylistRedirect, Ignored, Memory).with_query_token(),
    // Catalogue for clients.
    partner(Get, "/api/catalog/v1/livestreams", "livestreams", P::Livestreams, Ignored, Memory),
    partner(Get, "/api/catalog/v1/assets", "assets", P::Assets, Ignored, Memory),
    // Sign-up, login and password reset.
    partner(Put, "/api/login/v2/auth/email", "sign_up", P::SignUp, SMALL, Hashing).rated(RateClass::SignUp),
    partner(Post, "/api/login/v2/auth/email", "login", P::Login, SMALL, Hashing).rated(RateClass::Login),
    user(Post, "/api/login/v2/auth/logout", "logout", U::Logout, Ignored, Store),
    partner(Post, "/api/login/v2/password/send-reset-password", "send_reset", P::SendReset, SMALL, Store)
        .rated(RateClass::ResetMail),
    partner(Post, "/api/login/v2/password/send-reset-email", "send_reset_email", P::SendReset, SMALL, Store)
        .rated(RateClass::ResetMail),
    partner(Post, "/api/login/v2/password/reset", "reset", P::Reset, SMALL, Hashing).rated(RateClass::Reset),
    // Default target of `accounts.reset_url`. The token in the link of the mail authorizes the reset.
    open("/reset", "reset_page", PublicRoute::ResetPage, Store),
    form("/reset", "reset_form", PublicRoute::ResetForm, Hashing).rated(RateClass::Reset),
    // The user's account: profile, PIN, devices, sessions, offers and data export.
    user(Get, "/api/user/v1/users/{userId}", "read_user", U::ReadUser, Ignored, Store),
    user(Put, "/api/user/v1/users/{userId}", "update_user", U::UpdateUser, SMALL, Hashing),
    user(Delete, "/api/user/v1/users/{userId}", "delete_user", U::DeleteUser, SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/password", "change_password", U::ChangePassword, SMALL, Hashing),
    user(Put, "/api/user/v1/users/{userId}/pin", "change_pin", U::ChangePin, SMALL, Hashing),
    user(Post, "/api/user/v1/users/{userId}/pin/reset", "reset_pin", U::ResetPin, Ignored, Hashing),
    user(Get, "/api/user/v1/users/{userId}/devices", "devices", U::Devices, Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/devices", "clear_devices", U::ClearDevices, Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/devices/{deviceId}", "device", U::Device, Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/devices/{deviceId}", "remove_device", U::RemoveDevice, Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/sessions", "sessions", U::Sessions, Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/sessions", "end_sessions", U::EndSessions, Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/sessions/{sessionId}", "session", U::Session, Ignored, Store),
    user(Delete, "/api/user/v1/users/{userId}/sessions/{sessionId}", "end_session", U::EndSession, Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/offers", "offers", U::Offers, Ignored, Store),
    user(Get, "/api/user/v1/users/{userId}/export", "export", U::Export, Ignored, Store),
    // Entitlement, playback, licenses and telemetry.
    user(Post, "/api/entitlement/v2/asset/{assetId}", "entitlement", U::Entitlement, SMALL, Hashing),
    user(Post, "/api/playback/v2/preflight/asset/{assetId}", "preflight", U::Preflight, Ignored, Store),
    user(Post, "/api/playback/v1/preflight/asset/{assetId}", "preflight_v1", U::Preflight, Ignored, Store),
    user(Post, "/api/playback/v1/widevine/license", "license_widevine", U::License(Drm::Widevine), CHALLENGE, Upstream),
    user(Post, "/api/playback/v1/playready/license", "license_playready", U::License(Drm::Playready), CHALLENGE, Upstream),
    user(Post, "/api/playback/v1/fairplay/license", "license_fairplay", U::License(Drm::Fairplay), CHALLENGE, Upstream),
    user(Post, "/api/playback/v1/clearkey/license", "license_clearkey", U::License(Drm::Clearkey), CHALLENGE, Upstream),
    partner(Get, "/api/playback/v1/fairplay/certificate", "fairplay_certificate", P::FairplayCertificate, Ignored, Memory),
    user(Post, "/api/playback/v1/heartbeat", "heartbeat", U::Heartbeat, Ignored, Memory),
    user(Delete, "/api/playback/v1/heartbeat", "end_playback", U::EndPlayback, Ignored, Store),
    user(Post, "/api/tracker/v1/telemetry-events", "telemetry", U::Telemetry, EVENTS, Store),
    open("/origin/v1/{token}/{*path}", "origin", PublicRoute::Origin, Store),
    // OpenAPI description and documentation.
    open("/openapi.json", "openapi", PublicRoute::Openapi(RouteSet::Public), Memory),
    open("/docs", "docs", PublicRoute::Docs(RouteSet::Public), Memory),
];

/// Routes of the operations listener and of the local administration socket.
#[rustfmt::skip] // one route a line: it is read as a table
pub(crate) static OPS: &[Route] = &[
    // The console. It loads its data from the routes below, with the operator's token.
    open("/", "console_root", PublicRoute::ConsoleEntry, Memory),
    open("/console", "console_entry", PublicRoute::ConsoleEntry, Memory),
    open("/console/", "console", PublicRoute::Console, Memory),
    open("/console/{file}", "console_file", PublicRoute::ConsoleFile, Memory),
    open("/livez", "livez", PublicRoute::Livez, Memory),
    open("/readyz", "readyz", PublicRoute::Readyz, Memory),
    open("/metrics", "metrics", PublicRoute::Metrics, Memory),
    open("/openapi.json", "ops_openapi", PublicRoute::Openapi(RouteSet::Ops), Memory),
    open("/docs", "ops_docs", PublicRoute::Docs(RouteSet::Ops), Memory),
    ops(Get, "/admin/v1/about", "admin_about", O::About, Ignored, Memory),
    ops(Get, "/admin/v1/clock", "admin_read_clock", O::ReadClock, Ignored, Memory),
    ops(Put, "/admin/v1/clock", "admin_move_clock", O::MoveClock, SMALL, Store),
    ops(Delete, "/admin/v1/clock", "admin_reset_clock", O::ResetClock, Ignored, Store),
    ops(Post, "/admin/v1/clock/accept", "admin_accept_clock", O::AcceptClock, Ignored, Store),
    ops(Get, "/admin/v1/partners", "admin_partners", O::Partners, Ignored, Store),
    ops(Post, "/admin/v1/partners", "admin_add_partner", O::AddPartner, SMALL, Store),
    ops(Put, "/admin/v1/partners/{partner}", "admin_change_partner", O::ChangePartner, SMALL, Store),
    ops(Delete, "/admin/v1/partners/{partner}", "admin_remove_partner", O::RemovePartner, Ignored, Store),
    ops(Get, "/admin/v1/partners/{partner}/tokens", "admin_partner_tokens", O::PartnerTokens, Ignored, Store),
    ops(Post, "/admin/v1/partners/{partner}/tokens", "admin_add_partner_token", O::AddPartnerToken, Ignored, Store),
    ops(Delete, "/admin/v1/partners/{partner}/tokens/{token}", "admin_revoke_partner_token", O::RevokePartnerToken, Ignored, Store),
    ops(Get, "/admin/v1/operators", "admin_operators", O::Operators, Ignored, Store),
    ops(Post, "/admin/v1/operators", "admin_add_operator", O::AddOperator, SMALL, Store),
    ops(Delete, "/admin/v1/operators/{operator}", "admin_revoke_operator", O::RevokeOperator, Ignored, Store),
    ops(Get, "/admin/v1/operators/{operator}/tokens", "admin_operator_tokens", O::OperatorTokens, Ignored, Store),
    ops(Post, "/admin/v1/operators/{operator}/tokens", "admin_add_operator_token", O::AddOperatorToken, Ignored, Store),
    ops(Delete, "/admin/v1/operators/{operator}/tokens/{token}", "admin_revoke_operator_token", O::RevokeOperatorToken, Ignored, Store),
    ops(Get, "/admin/v1/audit", "admin_audit", O::Audit, Ignored, Store),
    ops(Get, "/admin/v1/catalog", "admin_export_catalog", O::ExportCatalog, Ignored, Store),
    ops(Get, "/admin/v1/catalog/history", "admin_catalog_history", O::CatalogHistory, Ignored, Store),
    ops(Post, "/admin/v1/catalog/undo", "admin_undo_catalog", O::UndoCatalog, Ignored, Bulk),
    ops(Post, "/admin/v1/catalog/import", "admin_import_catalog", O::ImportCatalog, CATALOG, Bulk),
    ops(Post, "/admin/v1/epg/import", "admin_import_guide", O::ImportGuide, GUIDE, Bulk),
    ops(Get, "/admin/v1/broadcasts/{broadcast}/why", "admin_why_rights", O::ExplainRights, Ignored, Store),
    ops(Put, "/admin/v1/broadcasts/{broadcast}/rights", "admin_set_rights", O::SetRights, SMALL, Bulk),
    ops(Delete, "/admin/v1/broadcasts/{broadcast}/rights", "admin_clear_rights", O::ClearRights, Ignored, Bulk),
    ops(Put, "/admin/v1/livestreams/{livestream}/rights", "admin_set_defaults", O::SetDefaults, SMALL, Bulk),
    ops(Get, "/admin/v1/rules", "admin_rules", O::Rules, Ignored, Memory),
    ops(Post, "/admin/v1/rules", "admin_add_rule", O::AddRule, SMALL, Bulk),
    ops(Delete, "/admin/v1/rules/{rule}", "admin_remove_rule", O::RemoveRule, Ignored, Bulk),
    ops(Get, "/admin/v1/schedule/live", "admin_schedule_live", O::ScheduleLive, Ignored, Memory),
    ops(Get, "/admin/v1/schedule/day/{date}", "admin_schedule_day", O::ScheduleDay, Ignored, Memory),
    ops(Get, "/admin/v1/epg/sources", "admin_guide_sources", O::GuideSources, Ignored, Memory),
    ops(Get, "/admin/v1/epg/sources/{source}", "admin_guide_source", O::GuideSource, Ignored, Memory),
    ops(Post, "/admin/v1/epg/sources/{source}/refresh", "admin_refresh_source", O::RefreshSource, Ignored, Bulk),
    ops(Get, "/admin/v1/users", "admin_users", O::Users, Ignored, Store),
    ops(Post, "/admin/v1/users", "admin_add_user", O::AddUser, SMALL, Hashing),
    ops(Post, "/admin/v1/users/import", "admin_import_users", O::ImportUsers, USERS, Bulk),
    ops(Get, "/admin/v1/users/{user}", "admin_show_user", O::ShowUser, Ignored, Store),
    ops(Put, "/admin/v1/users/{user}", "admin_change_user", O::ChangeUser, SMALL, Hashing),
    ops(Delete, "/admin/v1/users/{user}", "admin_remove_user", O::RemoveUser, Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/grants", "admin_grants", O::Grants, Ignored, Store),
    ops(Put, "/admin/v1/users/{user}/grants/{offer}", "admin_grant", O::AddGrant, SMALL, Store),
    ops(Delete, "/admin/v1/users/{user}/grants/{offer}", "admin_revoke_grant", O::RevokeGrant, Ignored, Store),
    ops(Put, "/admin/v1/users/{user}/pin", "admin_set_pin", O::SetPin, SMALL, Hashing),
    ops(Post, "/admin/v1/users/{user}/reset-mail", "admin_mail_reset", O::MailReset, Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/sessions", "admin_user_sessions", O::UserSessions, Ignored, Store),
    ops(Post, "/admin/v1/users/{user}/logout", "admin_logout_user", O::LogoutUser, Ignored, Store),
    ops(Delete, "/admin/v1/users/{user}/devices", "admin_clear_devices", O::ClearUserDevices, Ignored, Store),
    ops(Get, "/admin/v1/users/{user}/why/{asset}", "admin_why", O::ExplainEntitlement, Ignored, Store),
    ops(Get, "/admin/v1/mail", "admin_mails", O::Mails, Ignored, Store),
    ops(Get, "/admin/v1/mail/{mail}", "admin_show_mail", O::ShowMail, Ignored, Store),
    ops(Get, "/admin/v1/mail/preview/{kind}", "admin_preview_mail", O::PreviewMail, Ignored, Memory),
    ops(Post, "/admin/v1/mail/test", "admin_test_mail", O::TestMail, SMALL, Bulk),
    ops(Get, "/admin/v1/sessions", "admin_playback_sessions", O::PlaybackSessions, Ignored, Memory),
    ops(Delete, "/admin/v1/sessions/{session}", "admin_end_playback_session", O::EndPlaybackSession, Ignored, Store),
    ops(Get, "/admin/v1/telemetry/events", "admin_export_telemetry", O::ExportTelemetry, Ignored, Bulk),
    ops(Get, "/admin/v1/telemetry/report", "admin_report_telemetry", O::ReportTelemetry, Ignored, Bulk),
    ops(Post, "/admin/v1/store/verify", "admin_verify_store", O::VerifyStore, Ignored, Bulk),
    ops(Post, "/admin/v1/store/rebuild", "admin_rebuild_store", O::RebuildStore, Ignored, Bulk),
    ops(Post, "/admin/v1/store/base", "admin_renew_base", O::CreateSnapshot, Ignored, Bulk),
    ops(Post, "/admin/v1/store/compact", "admin_compact_store", O::CompactStore, Ignored, Bulk),
    ops(Get, "/admin/v1/backups", "admin_backups", O::Backups, Ignored, Bulk),
    ops(Post, "/admin/v1/backups", "admin_create_backup", O::CreateBackup, Ignored, Bulk),
    ops(Post, "/admin/v1/backups/{backup}/verify", "admin_verify_backup", O::VerifyBackup, Ignored, Bulk),
    ops(Post, "/admin/v1/backups/{backup}/restore", "admin_restore_backup", O::RestoreBackup, Ignored, Bulk),
    ops(Post, "/admin/v1/backups/restore", "admin_restore_sent_backup", O::RestoreSentBackup, BACKUP, Bulk),
];

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
                !matches!(route.target, Endpoint::Operator(_)),
                "{}",
                route.label
            );
            let ours = ["/api/", "/origin/"].map(|base| route.pattern.starts_with(base));
            let described = route.label == "openapi" || route.label == "docs";
            let other = route.is_page() || described;
            assert!(ours.contains(&true) || other, "{}", route.label);
        }
        for route in OPS.iter().filter(|r| r.pattern.starts_with("/admin/")) {
            assert!(
                matches!(route.target, Endpoint::Operator(_)),
                "{}",
                route.label
            );
            assert!(
                route
                    .roles()
                    .is_some_and(|roles| roles.contains(&Role::Admin))
            );
        }
    }

    #[test]
    fn a_path_that_names_a_user_is_checked_against_the_token() {
        for route in PUBLIC {
            if let Endpoint::User(target) = route.target {
                let named = route.pattern.contains("{userId}");
                assert_eq!(target.is_of_own_record(), named, "{}", route.label);
            }
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
