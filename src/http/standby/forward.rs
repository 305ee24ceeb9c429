//! Forwards requests to the owner of the fleet.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    CONNECTION, EXPECT, HOST, HeaderName, PROXY_AUTHENTICATE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::{BodyExt as _, Either, Empty};
use hyper::body::{Body as _, Incoming};
use tokio::time::{Instant, timeout, timeout_at};

use super::connections::{ForwardedBody, OwnerConnections};
use crate::access::auth::PartnerIdentity;
use crate::connection_state::InFlightGuard;
use crate::errors::api_error::{ApiError, ErrorCode};
use crate::pipeline::Service;
use crate::pipeline::authentication::partner_of;
use crate::pipeline::record::RequestRecord;
use crate::pipeline::response::{Answered, build_response};
use crate::request::headers::RequestHeaders;
use crate::response::body::{ConnectionCut, ResponseBody};
use crate::route_facts::RouteSet;
use crate::routing::route::Route;
use crate::standby_fleet::{NoOwner, OWNER_WAIT_MAX};
use playgate_config::limits::DEADLINE_MEMORY;

/// How much later than the deadline of its route the response to a request without a body may be. An owner that hangs is
/// replaced, unless etcd is away.
const RELAY_MAX: Duration = Duration::from_secs(5);

/// Sends a request to the owner and returns its response.
///
/// # Errors
/// The connection to the owner ended after a change was sent, or the owner did not respond. The connection of the client ends
/// in the same way, because the client must not believe that the request had no effect.
pub(super) async fn forward(
    service: &Service,
    owner: &OwnerConnections,
    route: Option<&Route>,
    parts: Parts,
    body: Incoming,
) -> Result<Answered, ConnectionCut> {
    let until = Instant::now() + OWNER_WAIT_MAX;
    let policy = ForwardPolicy::for_request(service, route, &parts, &body);
    let mut body = Some(body);
    loop {
        let taken = timeout_at(until, owner.take(parts.version)).await;
        let mut sender = match taken.unwrap_or(Err(NoOwner::Absent)) {
            Ok(sender) => sender,
            Err(NoOwner::Absent) => {
                let reason = "the fleet has no owner at present";
                return Ok(refused(service, &parts, reason));
            }
            Err(NoOwner::Busy) => {
                let reason = "this member and the owner of the fleet have too many connections";
                return Ok(refused(service, &parts, reason));
            }
        };
        let content = match body.take() {
            Some(body) if !body.is_end_stream() => Either::Left(body),
            Some(_) | None => Either::Right(Empty::new()),
        };
        let responding = sender.send(outgoing(&parts, content));
        let Ok(responded) = timeout(policy.response_max, responding).await else {
            return match policy.is_read {
                true => Ok(refused(service, &parts, "the owner does not respond")),
                false => Err(ConnectionCut),
            };
        };
        match responded {
            Ok(response) => {
                owner.keep(sender);
                return Ok(answered(service, &parts, response));
            }
            Err(mut error) => match error.take_message() {
                // It was not sent.
                Some(unsent) => {
                    body = match unsent.into_body() {
                        Either::Left(body) => Some(body),
                        Either::Right(_) => None,
                    };
                }
                None if policy.may_repeat => {}
                None => return Err(ConnectionCut),
            },
        }
    }
}

/// When a request is sent again, and when it is given up.
struct ForwardPolicy {
    /// The request changes nothing, so a refusal is right whether it reached the owner or not.
    is_read: bool,
    /// The owner may have got the request, and it can be sent again.
    may_repeat: bool,
    response_max: Duration,
}

impl ForwardPolicy {
    fn for_request(
        service: &Service,
        route: Option<&Route>,
        parts: &Parts,
        body: &Incoming,
    ) -> Self {
        let deadline = route.map_or(DEADLINE_MEMORY, |route| route.work.deadline());
        let heads = RequestHeaders::read(&parts.headers, &service.http.names);
        let now = service.http.services.clock.now();
        let partner = partner_of(&service.http, &heads, now);
        let is_lab = partner.as_ref().is_some_and(PartnerIdentity::is_lab);
        let is_read = matches!(parts.method, Method::GET | Method::HEAD) && body.is_end_stream();
        Self {
            is_read,
            // The owner may have cut the connection of a lab partner on purpose.
            may_repeat: is_read
                && !is_lab
                && (partner.is_some() || service.router.set() == RouteSet::Ops),
            // It may also delay its response on purpose, and the client of a request with a body decides when that ends.
            response_max: match is_lab || !body.is_end_stream() {
                true => Duration::MAX,
                false => deadline + RELAY_MAX,
            },
        }
    }
}

fn outgoing(parts: &Parts, body: ForwardedBody) -> Request<ForwardedBody> {
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    let target = parts.uri.path_and_query().cloned();
    *request.uri_mut() = target.map_or_else(Uri::default, Uri::from);
    let mut headers = parts.headers.clone();
    remove_hop_by_hop(&mut headers);
    // The body is read when the owner reads it, so the client is asked for it by this member.
    headers.remove(EXPECT);
    // HTTP/2 has no `Host`, and an absolute target replaces it.
    if let Some(host) = parts.uri.authority().map(|authority| authority.as_str())
        && let Ok(host) = HeaderValue::from_str(host)
    {
        headers.insert(HOST, host);
    }
    *request.headers_mut() = headers;
    request
}

fn answered(service: &Service, parts: &Parts, response: Response<Incoming>) -> Answered {
    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    let is_chunked = parts.headers.contains_key(TRANSFER_ENCODING);
    // As for a request that is answered here: see `RequestRecord::close`.
    if parts.version < Version::HTTP_2 && (is_chunked || service.conn_state.is_lame_duck()) {
        head.headers
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    head.version = Version::default();
    let body = match body.is_end_stream() {
        true => {
            service.conn_state.end();
            ResponseBody::Empty
        }
        false => {
            let guard = InFlightGuard::new(Arc::clone(&service.conn_state));
            ResponseBody::Stream(Box::pin(body.map_err(Into::into)), Some(guard))
        }
    };
    Response::from_parts(head, body)
}

/// Removes the headers that concern one connection. Those that `Connection` names stay, although RFC 9110, 7.6.1 lets a proxy
/// remove them: a client could name a header that a proxy in front of this member has set, such as the one with the country,
/// and so take it away from the owner. The owner would not have removed it from the same request either.
fn remove_hop_by_hop(headers: &mut HeaderMap) {
    const HOP_BY_HOP: [HeaderName; 6] = [
        CONNECTION,
        PROXY_AUTHENTICATE,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

fn refused(service: &Service, parts: &Parts, reason: &str) -> Answered {
    let http = &service.http;
    let heads = RequestHeaders::read(&parts.headers, &http.names);
    let mut record = RequestRecord::new(http, service.router, parts, &heads);
    // The body was not read, so the next request cannot be found.
    record.close = true;
    let error = ApiError::new(
        ErrorCode::StoreUnavailable,
        format!("{reason}; try again shortly"),
    );
    build_response(http, &service.conn_state, record, parts, &heads, Err(error))
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;

    use super::*;

    fn head(request: http::request::Builder) -> Parts {
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_forwarded_request_has_a_host_and_no_header_of_the_client_connection() {
        let request = Request::get("https://play.example/a/b?c=d")
            .header("connection", "keep-alive")
            .header("keep-alive", "timeout=5")
            .header("te", "trailers")
            .header("expect", "100-continue")
            .header("transfer-encoding", "chunked")
            .header("authorization", "Bearer t");
        let sent = outgoing(&head(request), Either::Right(Empty::new()));
        assert_eq!(sent.uri(), "/a/b?c=d");
        let names: Vec<_> = sent.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["authorization", "host"]);
        assert_eq!(sent.headers()[HOST], "play.example");
    }

    /// Otherwise a client could hide its country or its address, which a proxy has added, from the owner.
    #[test]
    fn a_client_takes_no_header_away_by_naming_it_in_connection() {
        let names = "authorization, content-length, host, x-country, x-forwarded-for";
        let mut request = Request::get("/a").header("connection", names);
        for name in names.split(", ") {
            request = request.header(name, "1");
        }
        let sent = outgoing(&head(request), Either::Right(Empty::new()));
        let mut kept: Vec<_> = sent.headers().keys().map(HeaderName::as_str).collect();
        kept.sort_unstable();
        assert_eq!(kept.join(", "), names);
    }

    #[test]
    fn a_relative_target_keeps_its_host() {
        let request = Request::get("/a").header("host", "play.example");
        let sent = outgoing(&head(request), Either::Right(Empty::new()));
        assert_eq!(sent.headers()[HOST], "play.example");
    }
}
