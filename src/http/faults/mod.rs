//! Faults of lab partners: finds the fault of a request and applies it to the answer.
//!
//! The pipeline calls this for lab partners only.

mod cut;
mod rewrite;
pub(crate) mod targets;

use http::{HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER};

pub(crate) use cut::{ConnectionCut, cut};

use crate::domain::lab::{AppliedFault, FaultAction, FaultableCall};
use crate::http::access::auth::Proof;
use crate::http::errors::api_error::ApiError;
use crate::http::errors::code::ErrorCode;
use crate::http::request::headers::RequestHeaders;
use crate::http::response::reply::{Reply, media};
use crate::http::response::respond::RequestRecord;
use crate::http::routing::endpoint::Answer;
use crate::http::routing::route::Route;
use crate::http::routing::router::Params;
use crate::http::state::HttpState;
use crate::types::{PartnerId, SessionId, UnixSeconds, UserId};

/// Header of an answer with a fault: the fault's id and what it did.
pub(crate) const FAULT: HeaderName = HeaderName::from_static("x-playgate-fault");

pub(crate) struct LabRequest<'a> {
    partner: PartnerId,
    user: Option<UserId>,
    route: &'static Route,
    path: &'a str,
    params: Params,
    heads: &'a RequestHeaders<'a>,
}

impl<'a> LabRequest<'a> {
    pub(crate) fn new(
        partner: PartnerId,
        proof: &Proof,
        route: &'static Route,
        path: &'a str,
        params: Params,
        heads: &'a RequestHeaders<'a>,
    ) -> Self {
        Self {
            partner,
            user: proof.user(),
            route,
            path,
            params,
            heads,
        }
    }
}

/// Finds the fault of the request. Returns the answer if the fault replaces the handler.
pub(crate) fn begin(
    http: &HttpState,
    record: &mut RequestRecord,
    request: &LabRequest<'_>,
    now: UnixSeconds,
) -> Option<Answer> {
    record.lab_time = Some(now);
    record.fault = find(http, record, request);
    replacement(record.fault.as_ref()?, request.route)
}

/// Counts the request against the partner's faults, and returns the one that affects it.
fn find(
    http: &HttpState,
    record: &RequestRecord,
    request: &LabRequest<'_>,
) -> Option<AppliedFault> {
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
        label: request.route.label,
        user: request.user,
        asset: named.as_deref().or(of_session),
        device: play.device_id.ascii().or(device),
        session,
    };
    services
        .lab
        .fault_for(&request.partner, &call, record.started)
}

fn replacement(fault: &AppliedFault, route: &Route) -> Option<Answer> {
    match fault.action {
        FaultAction::Refuse(code) => {
            let code = match ErrorCode::parse(code)? {
                // Two statuses share this code: a heartbeat gets the one that leaves the session open.
                ErrorCode::NoLiveRights if route.label == "heartbeat" => ErrorCode::NoLiveRightsNow,
                code => code,
            };
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

/// Applies a fault to the answer of the handler. `cut::cut` handles faults that cut the connection.
pub(crate) async fn apply(http: &HttpState, record: &mut RequestRecord, answer: Answer) -> Answer {
    let Some(fault) = &record.fault else {
        return answer;
    };
    // The delay comes before anything is built, so it holds no lock and no thread.
    tokio::time::sleep(fault.delay).await;
    let rewritten = match (&fault.action, &answer) {
        (FaultAction::License(kind), Ok(reply)) => rewrite::license(*kind, fault.random, reply),
        (FaultAction::Playlist(kind), Ok(reply)) => rewrite::playlist(http, *kind, reply),
        (FaultAction::License(_) | FaultAction::Playlist(_), Err(_)) => None,
        (
            FaultAction::Refuse(_)
            | FaultAction::Delay { .. }
            | FaultAction::Status { .. }
            | FaultAction::Cut(_),
            _,
        ) => return answer,
    };
    if rewritten.is_none() {
        // Neither header nor journal may claim a fault that changed nothing.
        record.fault = None;
    }
    rewritten.unwrap_or(answer)
}

pub(crate) fn header(fault: &AppliedFault) -> HeaderValue {
    HeaderValue::from_str(&fault.to_string()).unwrap_or(HeaderValue::from_static("fault"))
}
