//! Handlers of entitlement, preflight and heartbeat.

pub(crate) mod answer;
pub(crate) mod request;

use std::sync::Arc;

use crate::partner::playback::answer::{CmcdTarget, EntitlementBody, PreflightBody};
use crate::partner::playback::request::{
    EndPlaybackRequest, EntitlementRequest, HeartbeatRequest, PinEntry, PreflightRequest,
};
use playgate_domain::accounts::{PinError, User};
use playgate_domain::playback::{
    Beat, Device, EndReason, GrantedRight, Heartbeat, HeartbeatOutcome, Issuable, PinCheck,
    PinRequired, PlaybackError, Playlist, Start, Started, Viewer,
};
use playgate_http::offload::pool;
use playgate_http::response::reply::media;
use playgate_http::routing::endpoint::HandlerOutcome;
use playgate_http::{ApiError, Context, ErrorCode, HttpState, Reply, UserAuth};
use playgate_process::Turn;
use playgate_records::quality::OpenedSession;
use playgate_services::Services;
use playgate_types::{Drm, UnixSeconds};

const HEARTBEAT_INTERVAL: u32 = 10;

pub(crate) async fn entitlement(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: EntitlementRequest,
) -> Result<Reply, ApiError> {
    let user = user(services, auth)?;
    let asset = request.asset;
    let country = cx.country(services.geoip.as_deref());
    // Rights come before the PIN: a wrong PIN must not count where the asset is denied anyway.
    let granted =
        services
            .entitlement
            .decide(&user, &asset, request.offset, country, &cx.trace, cx.now)?;
    let viewer = Viewer::new(
        &user,
        services
            .entitlement
            .settings()
            .viewer_country(&user, country),
    );
    let checked = services.playback.check_pin(
        viewer,
        asset,
        GrantedRight::from_decision(granted, cx.now),
        request.session.as_ref(),
        cx.time(),
    );
    let grant = match checked {
        PinCheck::Open(grant) => grant,
        PinCheck::Locked(locked) => {
            let unlocked = unlock(services, cx, &user, locked, request.pin).await;
            cx.trace
                .step("pinEntry", unlocked.is_ok(), || match &unlocked {
                    Ok(_) => "the PIN was right".to_owned(),
                    Err(error) => error.message().to_owned(),
                });
            unlocked?
        }
    };
    let issued = services.playback.issue(grant, cx.time()).await?;
    Reply::json(&EntitlementBody::new(&issued))
}

async fn unlock(
    services: &Services,
    cx: &Context,
    user: &User,
    locked: PinRequired,
    pin: PinEntry,
) -> Result<Issuable, ApiError> {
    let pin = match pin {
        PinEntry::Given(pin) => pin,
        PinEntry::Absent => return Err(PinError::Required.into()),
        PinEntry::Misnamed(name) => {
            let message =
                format!("pinCode: the PIN is required; `{name}` is called `pinCode` here");
            return Err(ApiError::new(ErrorCode::PinCodeRequired, message));
        }
        // Text that is not a PIN at all is rejected, but not counted as a wrong guess.
        PinEntry::Unreadable => {
            return Err(ApiError::field("pinCode", "must have four to six digits"));
        }
    };
    // Checked before the hash: a user with locked PIN entry gets the error without waiting for the pool.
    services.accounts.check_pin_lock(&user.id, cx.now)?;
    let pool = pool(services, cx, Some(user.partner));
    let checking = services.accounts.check_pin(&user.id, &pin, cx.now, &pool);
    pool.guess(checking).await?;
    locked.unlock(|_| Ok(()))
}

pub(crate) async fn preflight(
    http: &HttpState,
    cx: &Context,
    auth: UserAuth,
    request: PreflightRequest,
) -> Result<Reply, ApiError> {
    let services = &http.services;
    let (partner, login) = (auth.partner(), auth.login());
    let user = user(services, auth)?;
    let drm = request.drm;
    let token = request.token;
    let country = cx.country(services.geoip.as_deref());
    let country = services
        .entitlement
        .settings()
        .viewer_country(&user, country);
    let start = Start {
        viewer: Viewer::new(&user, country),
        asset: request.asset,
        drm,
        protocol: request.protocol,
        token: request.entitlement,
        device: Device {
            id: request.device.id,
            platform: request.device.platform,
            kind: request.device.kind,
            model: request.device.model,
        },
        trace: cx.trace.clone(),
    };
    let https = http.settings.public_url.starts_with("https://");
    let (playback, time) = (services.playback.clone(), cx.time());
    let preflight = move || playback.preflight(start, https, time);
    let turn = Turn::for_client(Some(partner), cx.peer);
    // An RSA signature takes 0.6 ms, too long for a thread of the runtime.
    let begun = if services.playback.signs_slowly() {
        services.cold.run_for(turn, move |()| preflight())?.await?
    } else {
        preflight()
    };
    let started = begun?.await?;
    if let Some(session) = services.playback.session(&started.session) {
        session.use_by(login);
        services
            .quality
            .opened(OpenedSession::new(&session, country));
    }
    Reply::json(&preflight_body(http, drm, token, started))
}

fn preflight_body(http: &HttpState, drm: Drm, token: String, started: Started) -> PreflightBody {
    let base = &http.settings.public_url;
    let certificate = drm == Drm::Fairplay && http.services.licenses.fairplay_certificate.is_some();
    let names = &http.names;
    PreflightBody {
        playlist: match started.playlist {
            Playlist::Origin(path) => format!("{base}{path}"),
            Playlist::Absolute(address) => address,
        },
        license_signed: started
            .license_token
            .map(|token| format!("{base}/api/playback/v1/license/{token}")),
        license: started
            .encrypted
            .then(|| format!("{base}/api/playback/v1/{}/license", drm.as_str())),
        heartbeat: format!("{base}/api/playback/v1/heartbeat"),
        heartbeat_interval: HEARTBEAT_INTERVAL,
        headers: [
            (names.full("Play-EntitlementId"), token),
            (names.full("Play-Session"), started.session.to_string()),
        ]
        .into(),
        cmcd: CmcdTarget {
            url: format!("{base}/api/tracker/v1/cmcd/{}", started.report_token),
            version: 2,
        },
        certificate: certificate.then(|| format!("{base}/api/playback/v1/fairplay/certificate")),
    }
}

pub(crate) fn heartbeat(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: HeartbeatRequest,
) -> HandlerOutcome {
    // Odd values are recorded and not refused: a rejected heartbeat stops the player.
    let whole = |number: i64| u32::try_from(number).unwrap_or(0);
    let user = auth.user();
    let heartbeat = Heartbeat {
        user: &user,
        login: Some(auth.login()),
        session: Some(request.session),
        token: request.entitlement,
        device: request.device.as_str(),
        beat: Beat {
            position: request.timestamp,
            bitrate: u64::try_from(request.bitrate).unwrap_or(0),
            width: whole(request.width),
            height: whole(request.height),
        },
        trace: &cx.trace,
    };
    let now = cx.now;
    match services.playback.heartbeat(&heartbeat, cx.time()) {
        Ok(HeartbeatOutcome::Counted) => HandlerOutcome::Now(Ok(heartbeat_reply(now))),
        Ok(HeartbeatOutcome::Reviving(commit)) => HandlerOutcome::Later(Box::pin(async move {
            commit.await.map_err(heartbeat_error)?;
            Ok(heartbeat_reply(now))
        })),
        Err(error) => HandlerOutcome::Now(Err(heartbeat_error(error))),
    }
}

fn heartbeat_reply(now: UnixSeconds) -> Reply {
    // Formatted by hand: this is the most frequent response, and its two numbers need no escaping.
    let body = format!(r#"{{"interval":{HEARTBEAT_INTERVAL},"serverTime":{now}}}"#);
    Reply::bytes(media::JSON, body)
}

pub(crate) async fn end_playback(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: EndPlaybackRequest,
) -> Result<Reply, ApiError> {
    let session = Some(&request.session);
    services
        .playback
        .stop(&auth.user(), session, EndReason::Stopped, cx.server_now)?
        .await?;
    Ok(Reply::no_content())
}

pub(super) fn user(services: &Services, auth: UserAuth) -> Result<Arc<User>, ApiError> {
    // The account can be erased between authentication and this call.
    services.accounts.user(&auth.user()).ok_or_else(|| {
        ApiError::new(ErrorCode::UserTokenInvalid, "the user token is not valid").with_token_sent()
    })
}

fn heartbeat_error(error: PlaybackError) -> ApiError {
    match error {
        // Only on a livestream whose programs have live rights by default. Elsewhere a program without them is no
        // exception, and gets the usual status.
        PlaybackError::NoLiveRights { by_default: true } => ApiError::new(
            ErrorCode::NoLiveRightsNow,
            "the program at the playing position has no live rights",
        ),
        other => other.into(),
    }
}
