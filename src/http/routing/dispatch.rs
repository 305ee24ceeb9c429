//! Calls the handler of a parsed request: one exhaustive match, without logic.

#![deny(clippy::wildcard_enum_match_arm)]

use std::pin::Pin;
use std::sync::Arc;

use crate::app::App;
use crate::http::access::auth::{OperatorAuth, PartnerAuth, UserAuth};
use crate::http::admin::{
    about, audit as changes, backups, catalog as catalog_file, clock, console, content,
    epg_sources, grants, mail, operators, partners, playback as running, probes, rights,
    schedule as guide, store, telemetry as events, user_import, users as people,
};
use crate::http::api::{
    catalog, devices, guide_export, license, login, media, offers, openapi, playback, reset_page,
    schedule, sessions, telemetry, users,
};
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::{
    Endpoint, OperatorEndpoint, PartnerEndpoint, PublicEndpoint, UserEndpoint,
};

pub(crate) type Answer = Result<Reply, ApiError>;

/// A finished answer or a future. Requests that need only memory are answered without boxing a future.
pub(crate) enum Outcome {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

#[must_use]
pub(crate) fn dispatch(app: &Arc<App>, cx: Context, endpoint: Endpoint) -> Outcome {
    match endpoint {
        Endpoint::Open(endpoint) => open(app, cx, endpoint),
        Endpoint::Partner(auth, endpoint) => partner(app, cx, auth, endpoint),
        Endpoint::User(auth, endpoint) => user(app, cx, auth, endpoint),
        Endpoint::Operator(auth, endpoint) => operator(app, cx, auth, endpoint),
    }
}

/// Boxes the future of an asynchronous handler, which owns its arguments.
macro_rules! later {
    ($app:ident, $cx:ident, $handler:path $(, $argument:expr)*) => {{
        let app = Arc::clone($app);
        Outcome::Later(Box::pin(async move { $handler(&app, &$cx $(, $argument)*).await }))
    }};
}

fn open(app: &Arc<App>, cx: Context, endpoint: PublicEndpoint) -> Outcome {
    use PublicEndpoint as E;
    match endpoint {
        E::Origin(request) => later!(app, cx, media::origin, request),
        E::ResetPage(request) => later!(app, cx, reset_page::show, request),
        E::ResetForm(request) => later!(app, cx, reset_page::complete, request),
        E::Openapi(table) => Outcome::Now(openapi::openapi(app, table)),
        E::Docs(table) => Outcome::Now(openapi::docs(app, table)),
        E::Livez => Outcome::Now(probes::livez(app)),
        E::Readyz => Outcome::Now(probes::readyz(app)),
        E::Metrics => Outcome::Now(probes::metrics(app)),
        E::ConsoleEntry => Outcome::Now(console::entry()),
        E::Console => Outcome::Now(console::page(app)),
        E::ConsoleFile(name) => Outcome::Now(console::file(app, &name)),
    }
}

fn partner(app: &Arc<App>, cx: Context, auth: PartnerAuth, endpoint: PartnerEndpoint) -> Outcome {
    use PartnerEndpoint as E;
    match endpoint {
        E::Live(request) => Outcome::Now(schedule::live(app, &cx, auth, request)),
        E::LiveOne(request) => Outcome::Now(schedule::live_one(app, &cx, auth, request)),
        E::Day(request) => Outcome::Now(schedule::day(app, &cx, auth, request)),
        E::DayOne(request) => Outcome::Now(schedule::day_one(app, &cx, auth, request)),
        E::Broadcast(request) => Outcome::Now(schedule::broadcast(app, &cx, auth, request)),
        E::Broadcasts(request) => Outcome::Now(schedule::broadcasts(app, &cx, auth, request)),
        E::Xmltv => later!(app, cx, guide_export::xmltv, auth),
        E::M3u(request) => Outcome::Now(guide_export::m3u(app, &cx, auth, &request)),
        E::Watch(request) => Outcome::Now(guide_export::watch(app, &cx, auth, request)),
        E::Livestreams(page) => Outcome::Now(catalog::livestreams(app, &cx, auth, &page)),
        E::Assets(page) => Outcome::Now(catalog::assets(app, &cx, auth, &page)),
        E::SignUp(request) => later!(app, cx, login::sign_up, auth, *request),
        E::Login(request) => later!(app, cx, login::login, auth, request),
        E::SendReset(request) => later!(app, cx, login::send_reset, auth, request),
        E::Reset(request) => later!(app, cx, login::reset, auth, request),
        E::FairplayCertificate => later!(app, cx, license::fairplay_certificate, auth),
    }
}

fn user(app: &Arc<App>, cx: Context, auth: UserAuth, endpoint: UserEndpoint) -> Outcome {
    use UserEndpoint as E;
    match endpoint {
        E::Heartbeat(request) => playback::heartbeat(app, &cx, auth, &request),
        E::EndPlayback(request) => later!(app, cx, playback::end_playback, auth, request),
        E::Entitlement(request) => later!(app, cx, playback::entitlement, auth, request),
        E::Preflight(request) => later!(app, cx, playback::preflight, auth, request),
        E::License(request) => later!(app, cx, license::license, auth, request),
        E::Telemetry(request) => later!(app, cx, telemetry::telemetry, auth, request),
        E::Logout => later!(app, cx, login::logout, auth),
        E::ReadUser => later!(app, cx, users::read_user, auth),
        E::UpdateUser(request) => later!(app, cx, users::update_user, auth, *request),
        E::DeleteUser(request) => later!(app, cx, users::delete_user, auth, request),
        E::ChangePassword(request) => later!(app, cx, users::change_password, auth, request),
        E::ChangePin(request) => later!(app, cx, users::change_pin, auth, request),
        E::ResetPin => later!(app, cx, users::reset_pin, auth),
        E::Devices => later!(app, cx, devices::devices, auth),
        E::Device(request) => later!(app, cx, devices::device, auth, request),
        E::ClearDevices => later!(app, cx, devices::clear_devices, auth),
        E::RemoveDevice(request) => later!(app, cx, devices::remove_device, auth, request),
        E::Sessions => later!(app, cx, sessions::sessions, auth),
        E::Session(request) => later!(app, cx, sessions::session, auth, request),
        E::EndSessions => later!(app, cx, sessions::end_sessions, auth),
        E::EndSession(request) => later!(app, cx, sessions::end_session, auth, request),
        E::Offers => later!(app, cx, offers::offers, auth),
        E::Export => later!(app, cx, users::export, auth),
    }
}

fn operator(
    app: &Arc<App>,
    cx: Context,
    auth: OperatorAuth,
    endpoint: OperatorEndpoint,
) -> Outcome {
    use OperatorEndpoint as E;
    match endpoint {
        E::About => Outcome::Now(about::about(app, &cx, auth)),
        E::ReadClock => Outcome::Now(clock::read(app, &cx, auth)),
        E::MoveClock(request) => later!(app, cx, clock::shift, auth, request),
        E::ResetClock => later!(app, cx, clock::reset, auth),
        E::AcceptClock => later!(app, cx, clock::accept, auth),
        E::Partners => later!(app, cx, partners::partners, auth),
        E::AddPartner(request) => later!(app, cx, partners::add_partner, auth, request),
        E::ChangePartner(request) => later!(app, cx, partners::change_partner, auth, request),
        E::RemovePartner(request) => later!(app, cx, partners::remove_partner, auth, request),
        E::PartnerTokens(request) => later!(app, cx, partners::tokens, auth, request),
        E::AddPartnerToken(request) => later!(app, cx, partners::add_token, auth, request),
        E::RevokePartnerToken(request) => later!(app, cx, partners::revoke_token, auth, request),
        E::Operators => later!(app, cx, operators::operators, auth),
        E::AddOperator(request) => later!(app, cx, operators::add_operator, auth, request),
        E::RevokeOperator(request) => later!(app, cx, operators::revoke_operator, auth, request),
        E::OperatorTokens(request) => later!(app, cx, operators::tokens, auth, request),
        E::AddOperatorToken(request) => later!(app, cx, operators::add_token, auth, request),
        E::RevokeOperatorToken(request) => later!(app, cx, operators::revoke_token, auth, request),
        E::Audit(request) => later!(app, cx, changes::audit, auth, request),
        E::ExportCatalog(request) => later!(app, cx, catalog_file::export_catalog, auth, request),
        E::CatalogHistory => later!(app, cx, catalog_file::history, auth),
        E::UndoCatalog(request) => later!(app, cx, catalog_file::undo, auth, request),
        E::ImportCatalog(request) => later!(app, cx, catalog_file::import_catalog, auth, request),
        E::ImportGuide(request) => later!(app, cx, content::import_guide, auth, request),
        E::WhyRights(request) => later!(app, cx, rights::why, auth, request),
        E::SetRights(request) => later!(app, cx, rights::set, auth, request),
        E::ClearRights(request) => later!(app, cx, rights::clear, auth, request),
        E::SetDefaults(request) => later!(app, cx, rights::set_defaults, auth, request),
        E::Rules => Outcome::Now(rights::rules(app, &cx, auth)),
        E::AddRule(request) => later!(app, cx, rights::add_rule, auth, request),
        E::RemoveRule(request) => later!(app, cx, rights::remove_rule, auth, request),
        E::ScheduleLive(request) => Outcome::Now(guide::live(app, &cx, auth, request)),
        E::ScheduleDay(request) => Outcome::Now(guide::day(app, &cx, auth, request)),
        E::GuideSources => Outcome::Now(epg_sources::sources(app, &cx, auth)),
        E::GuideSource(request) => Outcome::Now(epg_sources::source(app, &cx, auth, &request)),
        E::RefreshSource(request) => later!(app, cx, epg_sources::refresh, auth, request),
        E::Users(request) => later!(app, cx, people::users, auth, request),
        E::AddUser(request) => later!(app, cx, people::add_user, auth, *request),
        E::ImportUsers(request) => later!(app, cx, user_import::import_users, auth, request),
        E::ShowUser(request) => later!(app, cx, people::show_user, auth, request),
        E::ChangeUser(request) => later!(app, cx, people::change_user, auth, *request),
        E::RemoveUser(request) => later!(app, cx, people::remove_user, auth, request),
        E::Grants(request) => later!(app, cx, grants::grants, auth, request),
        E::Grant(request) => later!(app, cx, grants::grant, auth, request),
        E::RevokeGrant(request) => later!(app, cx, grants::revoke_grant, auth, request),
        E::SetPin(request) => later!(app, cx, people::set_pin, auth, request),
        E::MailReset(request) => later!(app, cx, people::mail_reset, auth, request),
        E::UserSessions(request) => later!(app, cx, people::sessions, auth, request),
        E::LogoutUser(request) => later!(app, cx, people::logout, auth, request),
        E::ClearUserDevices(request) => later!(app, cx, people::clear_devices, auth, request),
        E::Why(request) => later!(app, cx, grants::why, auth, request),
        E::Mails => later!(app, cx, mail::mails, auth),
        E::ShowMail(request) => later!(app, cx, mail::show, auth, request),
        E::PreviewMail(request) => Outcome::Now(mail::preview(app, &cx, auth, request)),
        E::TestMail(request) => later!(app, cx, mail::test, auth, request),
        E::PlaybackSessions => later!(app, cx, running::sessions, auth),
        E::EndPlaybackSession(request) => later!(app, cx, running::end, auth, request),
        E::ExportTelemetry(request) => later!(app, cx, events::export, auth, request),
        E::ReportTelemetry(request) => later!(app, cx, events::report, auth, request),
        E::VerifyStore => later!(app, cx, store::verify, auth),
        E::RebuildStore => later!(app, cx, store::rebuild, auth),
        E::RenewBase => later!(app, cx, store::base, auth),
        E::CompactStore => later!(app, cx, store::compact, auth),
        E::Backups => later!(app, cx, backups::list, auth),
        E::CreateBackup => later!(app, cx, backups::create, auth),
        E::VerifyBackup(request) => later!(app, cx, backups::verify, auth, request),
        E::RestoreBackup(request) => later!(app, cx, backups::restore, auth, request),
        E::RestoreSentBackup(request) => later!(app, cx, backups::restore_sent, auth, request),
    }
}
