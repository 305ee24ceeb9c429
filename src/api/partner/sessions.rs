//! A user's login and playback sessions.
//!
//! Both kinds are in one list, distinguished by `kind`. A viewer who reached the stream limit can end the blocking
//! playback session, whose id is in that error; a user who lost a phone can end its login session.

use serde::Serialize;

use crate::operators::asset_names::AssetNames;
use playgate_domain::accounts::LoginInfo;
use playgate_domain::playback::{EndReason, SessionView};
use playgate_http::offload::cold_for;
use playgate_http::{ApiError, Context, ErrorCode, Input, ParseRequest, Payload, Reply, UserAuth};
use playgate_services::Services;
use playgate_types::{
    AssetId, BroadcastId, Described, Drm, JsonType, LoginId, Protocol, SessionId, UnixSeconds,
    UserId,
};

crate::openapi::words::words! { LoginSession, PlaybackSession, LoginSessionItem, PlaybackSessionItem => r##"
[operations.sessions]
summary = "List the user's sessions"
text = '''
Login sessions first, then playback sessions; each group oldest first. A viewer at the stream limit can end another playback session by its id. A viewer who lost a device can end its login session.'''
returns."200" = "[Session]: The sessions."
errors = ["USER_NOT_FOUND"]

[operations.end_sessions]
summary = "End all sessions"
text = "Ends all login sessions and playback sessions, the login session of this request included."
returns."204" = { text = "All sessions have ended." }
errors = ["USER_NOT_FOUND"]

[operations.session]
summary = "Show a session"
text = "A login session or a playback session; `kind` says which."
returns."200" = "Session: The session."
errors = ["USER_NOT_FOUND", "SESSION_NOT_FOUND"]

[operations.end_session]
summary = "End a session"
text = "Logs a device out if the session is a login session; otherwise ends playback, and the player's next heartbeat is 410."
returns."204" = { text = "The session has ended." }
errors = ["USER_NOT_FOUND", "SESSION_NOT_FOUND", "SESSION_ENDED"]
"## }

pub(crate) async fn sessions(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    let (accounts, now) = (services.accounts.clone(), cx.now);
    let logins = cold_for(services, cx, Some(auth.partner()), move || {
        accounts.logins(&auth.user(), now)
    })
    .await?;
    let logins = logins
        .iter()
        .map(|login| SessionBody::login(login, auth.login()));
    let playing = services.playback.sessions_of(&auth.user(), cx.server_now);
    let playing = playing.into_iter().map(SessionBody::playback);
    Reply::json(&logins.chain(playing).collect::<Vec<_>>())
}

pub(crate) async fn session(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: SessionRequest,
) -> Result<Reply, ApiError> {
    // Searched among the sessions of this user only: an id of another user is unknown here.
    let mut playing = services
        .playback
        .sessions_of(&auth.user(), cx.server_now)
        .into_iter();
    if let Some(view) = playing.find(|view| view.id == request.playback) {
        return Reply::json(&SessionBody::playback(view));
    }
    let (accounts, now) = (services.accounts.clone(), cx.now);
    let login = cold_for(services, cx, Some(auth.partner()), move || {
        accounts.login(&auth.user(), request.login, now)
    })
    .await?;
    Reply::json(&SessionBody::login(&login, auth.login()))
}

pub(crate) async fn end_sessions(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
) -> Result<Reply, ApiError> {
    // Playback first: if this fails, the logins are still there and the request can be repeated.
    services
        .playback
        .end_all(&auth.user(), EndReason::SignedOut, cx.server_now)
        .await?;
    services.accounts.end_logins(auth.user()).await?;
    Ok(Reply::no_content())
}

pub(crate) async fn end_session(
    services: &Services,
    cx: &Context,
    auth: UserAuth,
    request: SessionRequest,
) -> Result<Reply, ApiError> {
    let mut playing = services
        .playback
        .sessions_of(&auth.user(), cx.server_now)
        .into_iter();
    if playing.any(|view| view.id == request.playback) {
        let session = Some(&request.playback);
        services
            .playback
            .stop(&auth.user(), session, EndReason::Revoked, cx.server_now)?
            .await?;
        return Ok(Reply::no_content());
    }
    // Playback first: if this fails, the login is still there and the request can be repeated.
    end_playback_of(services, cx, &auth.user(), |login| login == request.login).await?;
    services
        .accounts
        .end_login(auth.user(), request.login)
        .await?;
    // And what was started meanwhile.
    end_playback_of(services, cx, &auth.user(), |login| login == request.login).await?;
    Ok(Reply::no_content())
}

/// Ends the playback of a user's logins that `ends` selects.
pub(super) async fn end_playback_of(
    services: &Services,
    cx: &Context,
    user: &UserId,
    ends: impl Fn(LoginId) -> bool,
) -> Result<(), ApiError> {
    if let Some(ended) = services.playback.end_of_logins(user, ends, cx.server_now) {
        ended.await?;
    }
    Ok(())
}

/// A login session or a playback session. Ids of both kinds are 128 random bits, so an id
/// identifies only one of them.
pub(crate) struct SessionRequest {
    pub login: LoginId,
    pub playback: SessionId,
}

impl ParseRequest for SessionRequest {
    /// Ids are opaque to clients: malformed text is answered as an unknown id.
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let id = input.text("sessionId")?;
        let unknown = |_| ApiError::new(ErrorCode::SessionNotFound, "there is no such session");
        Ok(Self {
            login: LoginId::parse(&id).map_err(unknown)?,
            playback: SessionId::parse(&id).map_err(unknown)?,
        })
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum SessionBody {
    Login(LoginSessionItem),
    Playback(Box<PlaybackSessionItem>),
}

#[derive(Described, Serialize)]
struct LoginSessionItem {
    /// Always `login`.
    #[described(JsonType::Named("LoginKind"))]
    kind: &'static str,
    #[serde(flatten)]
    session: LoginSession,
}

#[derive(Described, Serialize)]
struct PlaybackSessionItem {
    /// Always `playback`.
    #[described(JsonType::Named("PlaybackKind"))]
    kind: &'static str,
    #[serde(flatten)]
    session: PlaybackSession,
}

impl SessionBody {
    fn login(login: &LoginInfo, asking: LoginId) -> Self {
        Self::Login(LoginSessionItem {
            kind: "login",
            session: LoginSession::new(login, Some(asking)),
        })
    }

    fn playback(view: SessionView) -> Self {
        Self::Playback(Box::new(PlaybackSessionItem {
            kind: "playback",
            session: PlaybackSession::for_user(view),
        }))
    }
}

#[derive(Debug, Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlaybackSession {
    /// Id of the playback session.
    session_id: SessionId,
    /// User who plays. Present only in responses to operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<UserId>,
    /// The user's e-mail address. Present only in responses to operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// Id of the asset that is playing.
    asset_id: AssetId,
    /// Broadcast at the playing position. Absent if not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast_id: Option<BroadcastId>,
    /// Id of the device. Sessions with the same id are on one device.
    device_id: String,
    /// Device model sent at preflight.
    device_model: String,
    /// Device platform sent at preflight.
    device_platform: String,
    /// Device type sent at preflight.
    device_type: String,
    /// DRM system that the player named at preflight.
    drm: Drm,
    /// Streaming protocol that the player named at preflight.
    protocol: Protocol,
    /// Time at which the session was opened.
    since: UnixSeconds,
    /// Time of the last heartbeat.
    last_seen: UnixSeconds,
    /// Bit rate of the last heartbeat, in bits per second. 0 before the first heartbeat.
    bitrate: u64,
    /// Picture width of the last heartbeat, in pixels.
    resolution_width: u32,
    /// Picture height of the last heartbeat, in pixels.
    resolution_height: u32,
    #[serde(flatten)]
    names: AssetNames,
}

impl PlaybackSession {
    pub(crate) fn for_user(view: SessionView) -> Self {
        let (width, height) = view.resolution;
        Self {
            session_id: view.id,
            // Omitted, because it is the user's own list.
            user_id: None,
            email: None,
            asset_id: view.asset,
            broadcast_id: view.program,
            device_id: view.device.id.as_str().to_owned(),
            device_model: view.device.model.to_string(),
            device_platform: view.device.platform.to_string(),
            device_type: view.device.kind.to_string(),
            drm: view.drm,
            protocol: view.protocol,
            since: view.since,
            last_seen: view.seen,
            bitrate: view.bitrate,
            resolution_width: width,
            resolution_height: height,
            names: AssetNames::default(),
        }
    }

    /// A session for an operator, with the e-mail address of its user if the user still exists, and the names of what
    /// plays.
    pub(crate) fn for_operator(services: &Services, view: SessionView) -> Self {
        let user = services.accounts.user(&view.user);
        let place = (&services.catalog, &*services.schedule);
        let names = AssetNames::new(place, &view.asset, view.program.as_ref(), view.seen);
        Self {
            user_id: Some(view.user),
            email: user.map(|user| user.email.to_string()),
            names,
            ..Self::for_user(view)
        }
    }
}

/// A login session.
#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginSession {
    /// Id of the login session.
    pub session_id: LoginId,
    /// Time of login.
    pub created_timestamp: UnixSeconds,
    /// Expiry time: of the absolute limit, or of the idle limit, which moves with use.
    pub expires: UnixSeconds,
    /// Time of the last use, exact to an hour.
    pub last_used_timestamp: UnixSeconds,
    /// What the client called itself in `User-Agent` when it logged in. Absent if it sent none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// `Service-Play-DeviceId` of the login. Absent if the client sent none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    /// Whether this request uses the session. Absent in responses to operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
}

impl LoginSession {
    /// A session as seen by the session `asking`, or by an operator if that is `None`.
    pub(crate) fn new(login: &LoginInfo, asking: Option<LoginId>) -> Self {
        Self {
            session_id: login.id,
            created_timestamp: login.created,
            expires: login.expires,
            last_used_timestamp: login.used,
            program: login.program.clone(),
            device_id: login.device.clone(),
            current: asking.map(|asking| asking == login.id),
        }
    }
}
