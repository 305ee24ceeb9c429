//! Handlers of entitlement, preflight and heartbeat.

pub(crate) mod answer;
pub(crate) mod request;

use std::sync::Arc;

use crate::partner::playback::answer::{CmcdTarget, EntitlementBody, Preflight};
use crate::partner::playback::request::{
    EndPlaybackRequest, EntitlementRequest, HeartbeatRequest, PinEntry, PreflightRequest,
};
use playgate_domain::accounts::{PinError, User};
use playgate_domain::playback::{
    Beat, EndReason, GrantedRight, Heartbeat, HeartbeatOutcome, Issuable, PinCheck, PinRequired,
    PlaybackError, Playlist, Start, Started, Viewer,
};
use playgate_http::offload::pool;
use playgate_http::response::reply::media;
use playgate_http::routing::endpoint::HandlerOutcome;
use playgate_http::{ApiError, Context, ErrorCode, HttpState, Reply, UserAuth};
use playgate_process::Turn;
use playgate_records::quality::OpenedSession;
use playgate_services::Services;
use playgate_types::{Drm, UnixSeconds};

crate::openapi::words::words! { answer::EntitlementBody, answer::Preflight => r##"
[requests.EntitlementRequest]
pinCode = "string?: PIN entered by the viewer. If no PIN is required it is ignored and not counted. An empty string means absent."

[operations.entitlement]
summary = "Check whether the user may play an asset"
text = '''
The asset is a livestream (at the live point, or at `offset` before it), a broadcast (live while it is on air, then catch-up inside its window) or a video on demand.

Rights are checked at the position that the viewer sees: now plus `offset` for an entitlement, the session's position for a license, `Service-Play-Timestamp` for a heartbeat. All three follow the same table:

| Position | Response |
| --- | --- |
| live (within 60 seconds of now), the program has live rights | 200 |
| live, no live rights | 403 `NO_LIVE_RIGHTS`; a heartbeat gets 552 if the livestream has live rights by default |
| earlier, the program is on air and start-over is allowed | 200 |
| earlier, the program is on air, has live rights and the extended right `rewind` | 200 |
| earlier, the program is on air, has no live rights, and start-over is not allowed | same as live without live rights |
| earlier, the program is inside its catch-up window | 200 |
| earlier, none of these | 403 `NOT_AVAILABLE` |

In a gap of the guide the livestream's default rights apply. After `NOT_AVAILABLE`, ask without `offset` or go to the live point.

Denials are checked in this order: 404 `ASSET_NOT_FOUND`; 403 `GEO_BLOCKED`, `NOT_ENTITLED`, `NOT_AVAILABLE`, `NO_LIVE_RIGHTS`, `PIN_CODE_REQUIRED`, `PIN_CODE_WRONG`; 429 `PIN_CODE_LOCKED`. The PIN is required if the user's `parentalControl` is on (off for new users) and the age rating reaches the user's limit or is unknown. On `PIN_CODE_REQUIRED`, ask the viewer for the PIN. A value without the format of a PIN is 400 and does not count as a wrong PIN.

On a livestream, ask again when a program ends (`program.stop`) and when the viewer time-shifts into another program. With `Service-Play-Session` the response adds program and unlock to that running session. An unlock belongs to the user, the session and the program; each other program requires the PIN again. A token obtained with a PIN before a session exists carries the unlock into the first session that a preflight creates from it.'''
query.offset = "LiveOffset?: For time-shift on a livestream: offset from the live point."
headers = ["Service-Play-Session?: string: Id of the running playback session. An unknown or ended session, or one of another user or asset, is ignored."]
send = "EntitlementRequest?: The PIN, if required."
returns."200" = "Entitlement: The Entitlement Token."
errors = ["ASSET_NOT_FOUND", "GEO_BLOCKED", "NOT_ENTITLED", "NOT_AVAILABLE", "NO_LIVE_RIGHTS", "PIN_CODE_REQUIRED", "PIN_CODE_WRONG", "PIN_CODE_LOCKED"]

[operations.preflight]
summary = "Prepare playback"
text = '''
Creates a playback session and returns the addresses that the player needs. Preflight checks identity, entitlement and limits. License and heartbeat check the rights of the current program.

- A new start on the same device replaces the session of that device, so a crashed player does not count against the stream limit. If it plays the same asset, PIN unlocks are kept: a retry or another DRM system needs no second PIN.
- An asset without a playlist for the protocol, or encrypted with a DRM system that has no license server, is 404 `PROTOCOL_NOT_AVAILABLE`. `message` says which.
- At the stream limit the response is 409 and lists the running sessions. The service can be configured to end the oldest session instead.
- A device is registered at its first start. The default limit is five devices.'''
headers = ["Service-Play-DRM", "Service-Play-Protocol", "Service-Play-EntitlementId", "Service-Play-DevicePlatform", "Service-Play-DeviceType", "Service-Play-DeviceModel", "Service-Play-DeviceId"]
returns."200" = "Preflight: The addresses, and the headers to send to them."
errors = ["DRM_PROTOCOL_MISMATCH", "ENTITLEMENT_INVALID", "GEO_BLOCKED", "DEVICE_LIMIT_REACHED", "STREAM_LIMIT_REACHED", "ASSET_NOT_FOUND", "PROTOCOL_NOT_AVAILABLE"]

[operations.preflight_v1]
summary = "Prepare playback (older version)"
text = "Same as `preflight`, under the version that deployed clients call."
like = "preflight"

[operations.heartbeat]
summary = "Send a heartbeat"
text = '''
Send a heartbeat every ten seconds with the headers of the preflight. No body is needed. The session stays open after each of these responses:

- 552 `NO_LIVE_RIGHTS`: the program at the position has no live rights, but the livestream has them by default. Stop playing and continue heartbeats with the live point as position; playback can resume with the next program.
- 403 `NO_LIVE_RIGHTS`: neither the program nor the livestream has live rights. Stop playing.
- 403 `NOT_AVAILABLE`: the position is behind the live point and no right covers it (see `entitlement`). Stop playing or go to the live point.
- 403 `PIN_CODE_REQUIRED`: the program requires a PIN that this session has not given. Sent from 30 seconds after the program began. Stop playing and ask for the PIN.

Checks run in this order: tokens (401), headers (400, the session continues), 410 `SESSION_ENDED` for a recorded end (`details.reason` says why), 404 `SESSION_NOT_FOUND`, 429 `RATE_LIMITED`, 410 `SESSION_ENDED` for one that has expired, 403 `ENTITLEMENT_INVALID` (unknown token, or of another user), `ENTITLEMENT_EXPIRED` and `SESSION_MISMATCH`, then the position.

A session is alive until 35 seconds after the last heartbeat that was answered by 200 or one of these. A heartbeat within the next five minutes revives it if a stream is free. A position more than 25 hours back or more than 60 seconds ahead is treated as the live point. A catch-up session stays at its broadcast and may run up to 60 seconds past its stop.'''
headers = ["Service-Play-DRM", "Service-Play-Protocol", "Service-Play-EntitlementId", "Service-Play-DevicePlatform", "Service-Play-DeviceType", "Service-Play-DeviceModel", "Service-Play-DeviceId", "Service-Play-Session", "Service-Play-Timestamp", "Service-Play-Bitrate", "Service-Play-ResolutionWidth", "Service-Play-ResolutionHeight"]
returns."200" = "HeartbeatResult: Playback may continue."
errors = ["SESSION_NOT_FOUND", "SESSION_ENDED", "ENTITLEMENT_INVALID", "ENTITLEMENT_EXPIRED", "SESSION_MISMATCH", "NO_LIVE_RIGHTS", "NOT_AVAILABLE", "PIN_CODE_REQUIRED", "552 NO_LIVE_RIGHTS"]

[operations.end_playback]
summary = "End playback"
text = "Ends the session at once and frees its stream."
headers = ["Service-Play-Session"]
returns."204" = { text = "The session has ended." }
errors = ["SESSION_NOT_FOUND", "SESSION_ENDED", "SESSION_MISMATCH"]
"## }

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
        device: request.device,
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

fn preflight_body(http: &HttpState, drm: Drm, token: String, started: Started) -> Preflight {
    let base = http.settings.public_url.as_str();
    let certificate = drm == Drm::Fairplay && http.services.licenses.fairplay_certificate.is_some();
    let names = &http.names;
    Preflight {
        playlist: match started.playlist {
            Playlist::Origin(path) => [base, &path].concat(),
            Playlist::Absolute(address) => address,
        },
        license_signed: started
            .license_token
            .map(|token| [base, "/api/playback/v1/license/", &token].concat()),
        license: started
            .encrypted
            .then(|| [base, "/api/playback/v1/", drm.as_str(), "/license"].concat()),
        heartbeat: [base, "/api/playback/v1/heartbeat"].concat(),
        heartbeat_interval: HEARTBEAT_INTERVAL,
        headers: [
            (names.full("Play-EntitlementId"), token),
            (names.full("Play-Session"), started.session.to_string()),
        ]
        .into(),
        cmcd: CmcdTarget {
            url: [base, "/api/tracker/v1/cmcd/", &started.report_token].concat(),
            version: 2,
        },
        certificate: certificate.then(|| [base, "/api/playback/v1/fairplay/certificate"].concat()),
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
