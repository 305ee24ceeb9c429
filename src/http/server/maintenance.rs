//! Serves the listeners while the store cannot be opened: the probes report the reason, every other request
//! gets 503. It does not depend on the service.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::errors::api_error::{ApiError, ErrorResponse};
use crate::errors::code::ErrorCode;
use crate::pipeline::cors;
use crate::pipeline::response::REQUEST_ID;
use crate::request::context::RequestIds;
use crate::request::head_validation::{check_answers_for, check_framing};
use crate::request::headers::{HeaderNames, RequestHeaders};
use crate::response::localized_messages::Messages;
use crate::response::reply::media;
use crate::route_facts::RouteSet;
use crate::server::acceptor::ListenerOptions;
use crate::server::listener::{Listener, Socket};
use crate::state::InvalidSetting;
use playgate_config::limits::ACCEPT_PAUSE;
use playgate_ports::entropy::{Entropy, SystemEntropy};
use playgate_ports::tls::HTTP_1_1;

/// Connections of the public listeners together, and of the operations listeners together: silent public connections
/// must not delay the probes.
const CONNECTIONS_MAX: usize = 256;
/// Time for a request head, and for all responses of a connection.
const TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("10");

pub struct Notice {
    reason: String,
    messages: Messages,
    names: HeaderNames,
    ids: RequestIds,
    ops_hosts: Vec<String>,
}

impl Notice {
    pub fn new(
        reason: String,
        header_prefix: &str,
        ops_hosts: Vec<String>,
    ) -> Result<Self, InvalidSetting> {
        let entropy: &dyn Entropy = &SystemEntropy::default();
        Ok(Self {
            reason,
            messages: Messages::built_in("en")?,
            names: HeaderNames::new(header_prefix).map_err(InvalidSetting::Prefix)?,
            ids: RequestIds::new(u64::from_be_bytes(entropy.array())),
            ops_hosts,
        })
    }

    fn check(
        &self,
        routes: RouteSet,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
    ) -> Result<(), ApiError> {
        // A response to an ambiguous request could be attributed to another one by a proxy.
        check_framing(parts, heads)?;
        match routes {
            RouteSet::Public => Ok(()),
            RouteSet::Ops => check_answers_for(parts, heads, &self.ops_hosts),
        }
    }
}

pub fn serve(listeners: &[Arc<Listener>], notice: Notice) -> JoinSet<()> {
    let notice = Arc::new(notice);
    let [public, ops] = [(); 2].map(|()| Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    let mut tasks = JoinSet::new();
    for listener in listeners {
        let slots = match listener.options.routes {
            RouteSet::Public => &public,
            RouteSet::Ops => &ops,
        };
        tasks.spawn(accept(
            Arc::clone(listener),
            Arc::clone(&notice),
            Arc::clone(slots),
        ));
    }
    tasks
}

async fn accept(listener: Arc<Listener>, notice: Arc<Notice>, slots: Arc<Semaphore>) {
    // A slot is acquired before `accept`: over the limit, connections wait in the kernel's backlog and cost nothing
    // here.
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        let (options, notice) = (listener.options.clone(), Arc::clone(&notice));
        let accepted = match &listener.socket {
            Socket::Tcp(socket) => socket.accept().await.map(|(stream, _)| {
                tokio::spawn(serve_connection(stream, options, notice, slot));
            }),
            Socket::Unix(socket) => socket.accept().await.map(|(stream, _)| {
                tokio::spawn(serve_connection(stream, options, notice, slot));
            }),
        };
        if accepted.is_err() {
            // Out of file descriptors, for instance: an immediate retry would spin.
            sleep(ACCEPT_PAUSE).await;
        }
    }
}

async fn serve_connection<S>(
    stream: S,
    options: ListenerOptions,
    notice: Arc<Notice>,
    _slot: OwnedSemaphorePermit,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answering = async {
        let Some(tls) = options.tls else {
            return connection(stream, options.routes, notice).await;
        };
        // HTTP/1 is enough for refusals.
        let mut config = ServerConfig::clone(&tls.config());
        config.alpn_protocols = vec![HTTP_1_1.to_vec()];
        if let Ok(stream) = TlsAcceptor::from(Arc::new(config)).accept(stream).await {
            connection(stream, options.routes, notice).await;
        }
    };
    // A failed or slow connection needs no report.
    let _ = timeout(TIMEOUT, answering).await;
}

async fn connection<S>(stream: S, routes: RouteSet, notice: Arc<Notice>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let reply = response(routes, &request.into_parts().0, &notice);
        async move { Ok::<_, Infallible>(reply) }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        // The addresses are handed to the service as soon as the store opens.
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn response(routes: RouteSet, parts: &Parts, notice: &Notice) -> Response<Full<Bytes>> {
    let heads = RequestHeaders::read(&parts.headers, &notice.names);
    let checked = notice.check(routes, parts, &heads);
    let is_well_formed = checked.is_ok();
    let reading = matches!(parts.method, Method::GET | Method::HEAD);
    let (status, kind, body) = match (checked, routes, parts.uri.path()) {
        (Err(error), ..) => refusal(&error, &heads, notice),
        (Ok(()), RouteSet::Ops, "/livez") if reading => {
            (StatusCode::OK, media::TEXT, "ok\n".to_owned())
        }
        // Only operators see the reason: it may name files of this machine.
        (Ok(()), RouteSet::Ops, "/readyz") if reading => {
            let body = json!({"ready": false, "reasons": {"store": notice.reason}});
            let status = StatusCode::SERVICE_UNAVAILABLE;
            (status, media::JSON, body.to_string())
        }
        (Ok(()), ..) => {
            let error = ApiError::new(
                ErrorCode::StoreUnavailable,
                "the service is in maintenance; operators find the reason at /readyz",
            );
            refusal(&error, &heads, notice)
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, notice.ids.for_request(&heads).header());
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Players in browsers must be able to read the refusal.
    if routes == RouteSet::Public && cors::allow_refusal(parts, headers) && is_well_formed {
        *response.status_mut() = StatusCode::NO_CONTENT;
        *response.body_mut() = Full::default();
        return response;
    }
    headers.insert(CONTENT_TYPE, kind);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
    }
    response
}

fn refusal(
    error: &ApiError,
    heads: &RequestHeaders<'_>,
    notice: &Notice,
) -> (StatusCode, HeaderValue, String) {
    let languages = heads.accept_language.joined();
    let languages = languages.as_ref().and_then(|value| value.to_str().ok());
    let words = notice.messages.pick(error.code(), languages, None);
    let body = json!(ErrorResponse::new(error, words, false));
    (error.code().status(), media::JSON, body.to_string())
}
