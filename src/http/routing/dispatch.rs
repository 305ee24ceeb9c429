//! Calls the handler of a parsed request: one exhaustive match, without logic.

#![deny(clippy::wildcard_enum_match_arm)]

use std::pin::Pin;
use std::sync::Arc;

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
use crate::http::state::HttpState;

pub(crate) type Answer = Result<Reply, ApiError>;

/// A finished answer or a future. Requests that need only memory are answered without boxing a future.
pub(crate) enum Outcome {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

#[must_use]
pub(crate) fn dispatch(http: &Arc<HttpState>, cx: Context, endpoint: Endpoint) -> Outcome {
    match endpoint {
        Endpoint::Open(endpoint) => open(http, cx, endpoint),
        Endpoint::Partner(auth, endpoint) => partner(http, cx, auth, endpoint),
        Endpoint::User(auth, endpoint) => user(http, cx, auth, endpoint),
        Endpoint::Operator(auth, endpoint) => operator(http, cx, auth, endpoint),
    }
}

/// Boxes the future of an asynchronous handler, which owns its arguments.
macro_rules! later {
    ($http:ident, $cx:ident, $handler:path $(, $argument:expr)*) => {{
        let http = Arc::clone($http);
        Outcome::Later(Box::pin(async move { $handler((&*http).into(), &$cx $(, $argument)*).await }))
    }};
}

fn open(http: &Arc<HttpState>, cx: Context, endpoint: PublicEndpoint) -> Outcome {
    use PublicEndpoint as E;
    match endpoint {
        E::Origin(request) => later!(http, cx, media::origin, request),
        E::ResetPage(request) => later!(http, cx, reset_page::show, request),
        E::ResetForm(request) => later!(http, cx, reset_page::complete, request),
        E::Openapi(table) => Outcome::Now(openapi::openapi((&**http).into(), table)),
        E::Docs(table) => Outcome::Now(openapi::docs((&**http).into(), table)),
        E::Livez => Outcome::Now(probes::livez((&**http).into())),
        E::Readyz => Outcome::Now(probes::readyz((&**http).into())),
        E::Metrics => Outcome::Now(probes::metrics((&**http).into())),
        E::ConsoleEntry => Outcome::Now(console::entry()),
        E::Console => Outcome::Now(console::page((&**http).into())),
        E::ConsoleFile(name) => Outcome::Now(console::file((&**http).into(), &name)),
    }
}

fn partner(
    http: &Arc<HttpState>,
    cx: Context,
    auth: PartnerAuth,
    endpoint: PartnerEndpoint,
) -> Outcome {
    use PartnerEndpoint as E;
    match endpoint {
        E::Live(request) => Outcome::Now(schedule::live((&**http).into(), &cx, auth, request)),
        E::LiveOne(request) => {
            Outcome::Now(schedule::live_one((&**http).into(), &cx, auth, request))
        }
        E::Day(request) => Outcome::Now(schedule::day((&**http).into(), &cx, auth, request)),
        E::DayOne(request) => Outcome::Now(schedule::day_one((&**http).into(), &cx, auth, request)),
        E::Broadcast(request) => {
            Outcome::Now(schedule::broadcast((&**http).into(), &cx, auth, request))
        }
        E::Broadcasts(request) => {
            Outcome::Now(schedule::broadcasts((&**http).into(), &cx, auth, request))
        }
        E::Xmltv => later!(http, cx, guide_export::xmltv, auth),
        E::M3u(request) => Outcome::Now(guide_export::m3u((&**http).into(), &cx, auth, &request)),
        E::Watch(request) => {
            Outcome::Now(guide_export::watch((&**http).into(), &cx, auth, request))
        }
        E::Livestreams(page) => {
            Outcome::Now(catalog::livestreams((&**http).into(), &cx, auth, &page))
        }
        E::Assets(page) => Outcome::Now(catalog::assets((&**http).into(), &cx, auth, &page)),
        E::SignUp(request) => later!(http, cx, login::sign_up, auth, *request),
        E::Login(request) => later!(http, cx, login::login, auth, request),
        E::SendReset(request) => later!(http, cx, login::send_reset, auth, request),
        E::Reset(request) => later!(http, cx, login::reset, auth, request),
        E::FairplayCertificate => later!(http, cx, license::fairplay_certificate, auth),
    }
}

fn user(http: &Arc<HttpState>, cx: Context, auth: UserAuth, endpoint: UserEndpoint) -> Outcome {
    use UserEndpoint as E;
    match endpoint {
        E::Heartbeat(request) => playback::heartbeat((&**http).into(), &cx, auth, &request),
        E::EndPlayback(request) => later!(http, cx, playback::end_playback, auth, request),
        E::Entitlement(request) => later!(http, cx, playback::entitlement, auth, request),
        E::Preflight(request) => later!(http, cx, playback::preflight, auth, request),
        E::License(request) => later!(http, cx, license::license, auth, request),
        E::Telemetry(request) => later!(http, cx, telemetry::telemetry, auth, request),
        E::Logout => later!(http, cx, login::logout, auth),
        E::ReadUser => later!(http, cx, users::read_user, auth),
        E::UpdateUser(request) => later!(http, cx, users::update_user, auth, *request),
        E::DeleteUser(request) => later!(http, cx, users::delete_user, auth, request),
        E::ChangePassword(request) => later!(http, cx, users::change_password, auth, request),
        E::ChangePin(request) => later!(http, cx, users::change_pin, auth, request),
        E::ResetPin => later!(http, cx, users::reset_pin, auth),
        E::Devices => later!(http, cx, devices::devices, auth),
        E::Device(request) => later!(http, cx, devices::device, auth, request),
        E::ClearDevices => later!(http, cx, devices::clear_devices, auth),
        E::RemoveDevice(request) => later!(http, cx, devices::remove_device, auth, request),
        E::Sessions => later!(http, cx, sessions::sessions, auth),
        E::Session(request) => later!(http, cx, sessions::session, auth, request),
        E::EndSessions => later!(http, cx, sessions::end_sessions, auth),
        E::EndSession(request) => later!(http, cx, sessions::end_session, auth, request),
        E::Offers => later!(http, cx, offers::offers, auth),
        E::Export => later!(http, cx, users::export, auth),
    }
}

fn operator(
    http: &Arc<HttpState>,
    cx: Context,
    auth: OperatorAuth,
    endpoint: OperatorEndpoint,
) -> Outcome {
    use OperatorEndpoint as E;
    match endpoint {
        E::About => Outcome::Now(about::about((&**http).into(), &cx, auth)),
        E::ReadClock => Outcome::Now(clock::read((&**http).into(), &cx, auth)),
        E::MoveClock(request) => later!(http, cx, clock::shift, auth, request),
        E::ResetClock => later!(http, cx, clock::reset, auth),
        E::AcceptClock => later!(http, cx, clock::accept, auth),
        E::Partners => later!(http, cx, partners::partners, auth),
        E::AddPartner(request) => later!(http, cx, partners::add_partner, auth, request),
        E::ChangePartner(request) => later!(http, cx, partners::change_partner, auth, request),
        E::RemovePartner(request) => later!(http, cx, partners::remove_partner, auth, request),
        E::PartnerTokens(request) => later!(http, cx, partners::tokens, auth, request),
        E::AddPartnerToken(request) => later!(http, cx, partners::add_token, auth, request),
        E::RevokePartnerToken(request) => later!(http, cx, partners::revoke_token, auth, request),
        E::Operators => later!(http, cx, operators::operators, auth),
        E::AddOperator(request) => later!(http, cx, operators::add_operator, auth, request),
        E::RevokeOperator(request) => later!(http, cx, operators::revoke_operator, auth, request),
        E::OperatorTokens(request) => later!(http, cx, operators::tokens, auth, request),
        E::AddOperatorToken(request) => later!(http, cx, operators::add_token, auth, request),
        E::RevokeOperatorToken(request) => later!(http, cx, operators::revoke_token, auth, request),
        E::Audit(request) => later!(http, cx, changes::audit, auth, request),
        E::ExportCatalog(request) => later!(http, cx, catalog_file::export_catalog, auth, request),
        E::CatalogHistory => later!(http, cx, catalog_file::history, auth),
        E::UndoCatalog(request) => later!(http, cx, catalog_file::undo, auth, request),
        E::ImportCatalog(request) => later!(http, cx, catalog_file::import_catalog, auth, request),
        E::ImportGuide(request) => later!(http, cx, content::import_guide, auth, request),
        E::WhyRights(request) => later!(http, cx, rights::why, auth, request),
        E::SetRights(request) => later!(http, cx, rights::set, auth, request),
        E::ClearRights(request) => later!(http, cx, rights::clear, auth, request),
        E::SetDefaults(request) => later!(http, cx, rights::set_defaults, auth, request),
        E::Rules => Outcome::Now(rights::rules((&**http).into(), &cx, auth)),
        E::AddRule(request) => later!(http, cx, rights::add_rule, auth, request),
        E::RemoveRule(request) => later!(http, cx, rights::remove_rule, auth, request),
        E::ScheduleLive(request) => Outcome::Now(guide::live((&**http).into(), &cx, auth, request)),
        E::ScheduleDay(request) => Outcome::Now(guide::day((&**http).into(), &cx, auth, request)),
        E::GuideSources => Outcome::Now(epg_sources::sources((&**http).into(), &cx, auth)),
        E::GuideSource(request) => {
            Outcome::Now(epg_sources::source((&**http).into(), &cx, auth, &request))
        }
        E::RefreshSource(request) => later!(http, cx, epg_sources::refresh, auth, request),
        E::Users(request) => later!(http, cx, people::users, auth, request),
        E::AddUser(request) => later!(http, cx, people::add_user, auth, *request),
        E::ImportUsers(request) => later!(http, cx, user_import::import_users, auth, request),
        E::ShowUser(request) => later!(http, cx, people::show_user, auth, request),
        E::ChangeUser(request) => later!(http, cx, people::change_user, auth, *request),
        E::RemoveUser(request) => later!(http, cx, people::remove_user, auth, request),
        E::Grants(request) => later!(http, cx, grants::grants, auth, request),
        E::Grant(request) => later!(http, cx, grants::grant, auth, request),
        E::RevokeGrant(request) => later!(http, cx, grants::revoke_grant, auth, request),
        E::SetPin(request) => later!(http, cx, people::set_pin, auth, request),
        E::MailReset(request) => later!(http, cx, people::mail_reset, auth, request),
        E::UserSessions(request) => later!(http, cx, people::sessions, auth, request),
        E::LogoutUser(request) => later!(http, cx, people::logout, auth, request),
        E::ClearUserDevices(request) => later!(http, cx, people::clear_devices, auth, request),
        E::Why(request) => later!(http, cx, grants::why, auth, request),
        E::Mails => later!(http, cx, mail::mails, auth),
        E::ShowMail(request) => later!(http, cx, mail::show, auth, request),
        E::PreviewMail(request) => {
            Outcome::Now(mail::preview((&**http).into(), &cx, auth, request))
        }
        E::TestMail(request) => later!(http, cx, mail::test, auth, request),
        E::PlaybackSessions => later!(http, cx, running::sessions, auth),
        E::EndPlaybackSession(request) => later!(http, cx, running::end, auth, request),
        E::ExportTelemetry(request) => later!(http, cx, events::export, auth, request),
        E::ReportTelemetry(request) => later!(http, cx, events::report, auth, request),
        E::VerifyStore => later!(http, cx, store::verify, auth),
        E::RebuildStore => later!(http, cx, store::rebuild, auth),
        E::RenewBase => later!(http, cx, store::base, auth),
        E::CompactStore => later!(http, cx, store::compact, auth),
        E::Backups => later!(http, cx, backups::list, auth),
        E::CreateBackup => later!(http, cx, backups::create, auth),
        E::VerifyBackup(request) => later!(http, cx, backups::verify, auth, request),
        E::RestoreBackup(request) => later!(http, cx, backups::restore, auth, request),
        E::RestoreSentBackup(request) => later!(http, cx, backups::restore_sent, auth, request),
    }
}
