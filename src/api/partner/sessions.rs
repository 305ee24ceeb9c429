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
use playgate_types::LoginId;
use playgate_types::{SessionId, UserId};

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
        .map(|login| SessionBody::Login(LoginLine::new(login, Some(auth.login()))));
    let playing = services.playback.sessions_of(&auth.user(), cx.server_now);
    let playing = playing
        .into_iter()
        .map(|view| SessionBody::Playback(Box::new(PlaybackSessionBody::for_user(view))));
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
        return Reply::json(&SessionBody::Playback(Box::new(
            PlaybackSessionBody::for_user(view),
        )));
    }
    let (accounts, now) = (services.accounts.clone(), cx.now);
    let login = cold_for(services, cx, Some(auth.partner()), move || {
        accounts.login(&auth.user(), request.login, now)
    })
    .await?;
    let line = LoginLine::new(&login, Some(auth.login()));
    Reply::json(&SessionBody::Login(line))
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
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum SessionBody {
    Login(LoginLine),
    Playback(Box<PlaybackSessionBody>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlaybackSessionBody {
    session_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    asset_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    broadcast_id: Option<String>,
    device_id: String,
    device_model: String,
    device_platform: String,
    device_type: String,
    drm: &'static str,
    protocol: &'static str,
    since: i64,
    last_seen: i64,
    bitrate: u64,
    resolution_width: u32,
    resolution_height: u32,
    #[serde(flatten)]
    names: AssetNames,
}

impl PlaybackSessionBody {
    pub(crate) fn for_user(view: SessionView) -> Self {
        let (width, height) = view.resolution;
        Self {
            session_id: view.id.to_string(),
            // Omitted, because it is the user's own list.
            user_id: None,
            email: None,
            asset_id: view.asset.as_str().to_owned(),
            broadcast_id: view.program.map(|id| id.as_str().to_owned()),
            device_id: view.device.id.as_str().to_owned(),
            device_model: view.device.model,
            device_platform: view.device.platform,
            device_type: view.device.kind,
            drm: view.drm.as_str(),
            protocol: view.protocol.as_str(),
            since: view.since.0,
            last_seen: view.seen.0,
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
            user_id: Some(view.user.to_string()),
            email: user.map(|user| user.email.to_string()),
            names,
            ..Self::for_user(view)
        }
    }
}

/// A login session.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LoginLine {
    pub session_id: String,
    pub created_timestamp: i64,
    pub expires: i64,
    pub last_used_timestamp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
}

impl LoginLine {
    /// A session as seen by the session `asking`, or by an operator if that is `None`.
    pub(crate) fn new(login: &LoginInfo, asking: Option<LoginId>) -> Self {
        Self {
            session_id: login.id.to_string(),
            created_timestamp: login.created.0,
            expires: login.expires.0,
            last_used_timestamp: login.used.0,
            program: login.program.clone(),
            device_id: login.device.clone(),
            current: asking.map(|asking| asking == login.id),
        }
    }
}
