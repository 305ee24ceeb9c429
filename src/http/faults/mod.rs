//! Faults of lab partners: finds the fault of a request and applies it to the answer.
//!
//! The pipeline calls this for lab partners only.

mod cut;
mod rewrite;

use std::time::Instant;

use http::{HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER};

pub(crate) use cut::cut;

use crate::errors::api_error::ApiError;
use crate::errors::code::ErrorCode;
use crate::request::headers::RequestHeaders;
use crate::request::params::Params;
use crate::response::reply::{Answer, Reply, media};
use crate::state::HttpState;
use playgate_domain::lab::{AppliedFault, FaultAction, FaultableCall};
use playgate_domain::playback::{EndReason, PlaybackError};
use playgate_types::{PartnerId, SessionId, UserId};

/// Header of an answer with a fault: the fault's id and what it did.
pub(crate) const FAULT: HeaderName = HeaderName::from_static("x-playgate-fault");

/// A request of a lab partner.
pub(crate) struct LabRequest<'a> {
    pub(crate) partner: PartnerId,
    pub(crate) user: Option<UserId>,
    /// The label of its route.
    pub(crate) label: &'static str,
    pub(crate) path: &'a str,
    pub(crate) params: Params,
    pub(crate) heads: &'a RequestHeaders<'a>,
    pub(crate) started: Instant,
}

/// Counts the request against the partner's faults, and returns the one that affects it.
pub(crate) fn find(http: &HttpState, request: &LabRequest<'_>) -> Option<AppliedFault> {
    let services = &http.services;
    let play = &request.heads.play;
    let session = play.session.ascii();
    let session = session.and_then(|text| SessionId::parse(text).ok());
    // Heartbeats and licenses name only their session; asset and device come from it.
    let running = session.and_then(|id| services.playback.session(&id));
    let named = ["assetId", "livestreamId"]
        .into_iter()
        .find(|name| request.params.has(name))
        .and_then(|name| request.params.text(request.path, name).ok());
    let of_session = running.as_ref().map(|session| session.start.asset.as_str());
    let device = running
        .as_ref()
        .map(|session| session.start.device.id.as_str());
    let call = FaultableCall {
        label: request.label,
        user: request.user,
        asset: named.as_deref().or(of_session),
        device: play.device_id.ascii().or(device),
        session,
    };
    services
        .lab
        .fault_for(&request.partner, &call, request.started)
}

/// Returns the answer of a fault that replaces the handler.
pub(crate) fn replacement(fault: &AppliedFault, label: &str) -> Option<Answer> {
    match fault.action {
        FaultAction::Refuse(code) => {
            let code = match ErrorCode::parse(code)? {
                // Two statuses share this code: a heartbeat gets the one that leaves the session open.
                ErrorCode::NoLiveRights if label == "heartbeat" => ErrorCode::NoLiveRightsNow,
                code => code,
            };
            // The reason tells viewers what happened to their stream.
            if code == ErrorCode::SessionEnded {
                return Some(Err(PlaybackError::SessionEnded(EndReason::Displaced).into()));
            }
            Some(Err(ApiError::new(
                code,
                format!("fault {} of the lab", fault.id),
            )))
        }
        FaultAction::Status {
            status,
            retry_after,
        } => {
            let status = StatusCode::from_u16(status).ok()?;
            let body = format!("fault {} of the lab\n", fault.id);
            let reply = Reply::bytes(media::TEXT, body).with_status(status);
            Some(Ok(match retry_after {
                Some(seconds) => reply.with_header(RETRY_AFTER, seconds.into()),
                None => reply,
            }))
        }
        FaultAction::Delay { .. }
        | FaultAction::Cut(_)
        | FaultAction::License(_)
        | FaultAction::Playlist(_) => None,
    }
}

/// What a fault makes of the answer of the handler.
pub(crate) enum Rewritten {
    /// The answer stays: the fault acts before or after it.
    Kept,
    Changed(Answer),
    /// The answer has nothing that the fault could change.
    Nothing,
}

/// Rewrites the answer of the handler. `cut` handles faults that cut the connection.
pub(crate) fn rewrite(http: &HttpState, fault: &AppliedFault, answer: &Answer) -> Rewritten {
    let rewritten = match (&fault.action, answer) {
        (FaultAction::License(kind), Ok(reply)) => rewrite::license(*kind, fault.random, reply),
        (FaultAction::Playlist(kind), Ok(reply)) => rewrite::playlist(http, *kind, reply),
        (FaultAction::License(_) | FaultAction::Playlist(_), Err(_)) => None,
        (
            FaultAction::Refuse(_)
            | FaultAction::Delay { .. }
            | FaultAction::Status { .. }
            | FaultAction::Cut(_),
            _,
        ) => return Rewritten::Kept,
    };
    rewritten.map_or(Rewritten::Nothing, Rewritten::Changed)
}

pub(crate) fn header(fault: &AppliedFault) -> HeaderValue {
    HeaderValue::from_str(&fault.to_string()).unwrap_or(HeaderValue::from_static("fault"))
}
