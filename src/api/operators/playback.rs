//! The running playback sessions.

use crate::partner::sessions::PlaybackSession;
use playgate_http::routing::resolve::known;
use playgate_http::{
    ApiError, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{AssetId, SessionId};

crate::openapi::words::words! { => r##"
[operations.admin_playback_sessions]
summary = "List running playback sessions"
text = "Oldest first, at most 1000."
query.asset = "AssetId?: Only sessions of this livestream, catch-up broadcast or video. Those that began with a broadcast on air are sessions of its livestream."
returns."200" = "[PlaybackSession]: The running sessions."

[operations.admin_end_playback_session]
summary = "End a playback session"
text = "The player's next heartbeat gets 410."
returns."204" = { text = "The session has ended." }
errors = ["SESSION_NOT_FOUND", "SESSION_ENDED"]
"## }

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaybackSessionsRequest {
    pub asset: Option<AssetId>,
}

impl ParseRequest for PlaybackSessionsRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            asset: input.query.parsed("asset", AssetId::parse)?,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndPlaybackSessionRequest {
    pub session: SessionId,
}

impl ParseRequest for EndPlaybackSessionRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            session: known(
                SessionId::parse(&input.text("session")?),
                ErrorCode::SessionNotFound,
            )?,
        })
    }
}

/// Maximum number of sessions in a response: enough for a console, far below what a server can
/// hold.
const SESSIONS_MAX: usize = 1_000;

pub(crate) async fn sessions(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: PlaybackSessionsRequest,
) -> Result<Reply, ApiError> {
    let (playback, now) = (services.playback.clone(), cx.now);
    // In a pool: this iterates over all sessions, too long for a thread of the runtime.
    let views = services
        .cold
        .run(move |()| playback.all_sessions(request.asset.as_ref(), SESSIONS_MAX, now))?
        .await?;
    let bodies: Vec<_> = views
        .into_iter()
        .map(|view| PlaybackSession::for_operator(services, view))
        .collect();
    Reply::json(&bodies)
}

pub(crate) async fn end(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: EndPlaybackSessionRequest,
) -> Result<Reply, ApiError> {
    services.playback.revoke(&request.session, cx.now)?.await?;
    Ok(Reply::no_content())
}
