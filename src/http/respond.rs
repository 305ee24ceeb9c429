//! The end of a request: what every answer carries, the count and the log line.
//!
//! The log names the route, never the path: a path can hold a signed token, a query anything.

use std::time::Instant;

use http::header::{CONNECTION, LINK, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Version};

use super::context::RequestId;
use super::cors;
use super::dispatch::Answer;
use super::error::ApiError;
use super::error_code::{ErrorCode, NO_LIVE_RIGHTS_STATUS};
use super::fair_queue::Turn;
use super::headers::RequestHeaders;
use super::render::{ErrorForm, ResponseOptions, render, render_error};
use super::reply::Reply;
use super::reset_page_view::View;
use super::response_body::ResponseBody;
use super::route::Route;
use super::router::RouteSet;
use super::soap;
use crate::app::App;
use crate::types::UserId;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
/// Below it stand the routes of login and passwords. Decision: what is refused there before a route
/// is found, as another method or version, is an answer of theirs too.
const LOGIN: &str = "/api/login/";
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// When S1 and S2 were deprecated (RFC 9745): with the first release, on 1 January 2026.
const DEPRECATED_SINCE: HeaderValue = HeaderValue::from_static("@1767225600");

/// What is known of a request, for its answer, its count and its log line.
pub(super) struct RequestRecord {
    pub(super) table: RouteSet,
    pub(super) started: Instant,
    pub(super) id: RequestId,
    pub(super) route: Option<(usize, &'static Route)>,
    pub(super) user: Option<UserId>,
    /// Whose turn costly work for the request takes.
    pub(super) turn: Turn,
    /// The address that replaces a deprecated one.
    pub(super) successor: Option<String>,
    /// A HEAD: the answer has no body.
    pub(super) head: bool,
    /// An error repeats its message at top level: clients of such services read it there.
    flat: bool,
    /// The request is one of SOAP.
    soap: bool,
    /// The connection ends with this answer.
    pub(super) close: bool,
}

impl RequestRecord {
    /// What is known when a request has come.
    pub(super) fn new(
        app: &App,
        table: RouteSet,
        parts: &Parts,
        heads: &RequestHeaders<'_>,
    ) -> Self {
        Self {
            table,
            started: Instant::now(),
            id: app.front.ids.for_request(heads),
            route: None,
            user: None,
            turn: Turn::default(),
            successor: None,
            head: parts.method == Method::HEAD,
            flat: parts.uri.path().starts_with(LOGIN),
            soap: parts.headers.contains_key(soap::ACTION),
            // Of a chunked body two readers may see two ends: `0\r\n\n` ends it for hyper, which then
            // drops what follows in the same packet. No request after one is answered, so none is lost
            // in silence or read differently by a proxy in front.
            close: !heads.transfer_encoding.is_absent() && parts.version < Version::HTTP_2,
        }
    }
}

/// Makes the response of an answer, counts and logs it.
pub(super) fn finish(
    app: &App,
    record: RequestRecord,
    heads: &RequestHeaders<'_>,
    answer: Answer,
) -> Response<ResponseBody> {
    let wish = ResponseOptions {
        heads,
        head: record.head,
        compression: Some((&app.compression, record.turn)),
    };
    let mut response = match answer.and_then(|reply| render(reply, wish)) {
        Ok(response) => response,
        Err(error) => {
            log_error(&record, &error);
            refuse(app, &record, wish, &error)
        }
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, record.id.header());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Pages are for the browser that asked, not for scripts of other origins; and no page of another
    // origin has a reason to read what is meant for operators, on a machine of theirs least of all.
    let page = record.route.is_some_and(|(_, route)| route.is_page());
    if record.table == RouteSet::Public && !page {
        cors::allow(&app.front, heads, headers);
    }
    if record.close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if record
        .route
        .is_some_and(|(_, route)| route.deprecated.is_some())
    {
        headers.insert(DEPRECATION, DEPRECATED_SINCE);
        if let Some(sunset) = &app.front.sunset {
            headers.insert(SUNSET, sunset.clone());
        }
        if let Some(link) = successor(app, &record) {
            headers.insert(LINK, link);
        }
    }
    let took = record.started.elapsed();
    let route = record.route.map(|(index, _)| index);
    app.front
        .metrics
        .answered(record.table, route, response.status(), took);
    if app.http.access_log {
        tracing::info!(
            request_id = %record.id,
            route = record.route.map_or("none", |(_, route)| route.label),
            status = response.status().as_u16(),
            micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
    response
}

fn refuse(
    app: &App,
    record: &RequestRecord,
    wish: ResponseOptions<'_>,
    error: &ApiError,
) -> Response<ResponseBody> {
    let accept = wish.heads.accept_language.joined();
    let accept = accept.as_ref().and_then(|value| value.to_str().ok());
    let locale = record.user.and_then(|user| app.gate.locale(user));
    let text = app.front.messages.pick_for(error, accept, locale.as_ref());
    if record.route.is_some_and(|(_, route)| route.is_page())
        && let Ok(page) = render(page(app, accept, error, text), wish)
    {
        return page;
    }
    let form = match record.flat {
        _ if record.soap && record.route.is_some_and(|(_, route)| route.speaks_soap()) => {
            ErrorForm::Soap
        }
        true => ErrorForm::Flat,
        false => ErrorForm::Json,
    };
    render_error(error, text, form, &app.front.names, wish)
}

/// An error as a person reads it.
fn page(app: &App, accept: Option<&str>, error: &ApiError, text: &str) -> Reply {
    let language = app.front.messages.language(accept, None);
    let view = View::Refused(text);
    let page = app
        .front
        .pages
        .reset(language, error.code().status(), &view);
    match error.retry_after() {
        Some(seconds) => page.with_header(RETRY_AFTER, seconds.into()),
        None => page,
    }
}

fn successor(app: &App, record: &RequestRecord) -> Option<HeaderValue> {
    let address = record.successor.as_ref()?;
    let base = &app.http.public_url;
    HeaderValue::from_str(&format!("<{base}{address}>; rel=\"successor-version\"")).ok()
}

/// What the log may have of a message: not that of an unknown path, which it repeats and which may hold
/// anything.
fn loggable(error: &ApiError) -> &str {
    match error.code() == ErrorCode::PathNotFound {
        true => "no route matches",
        false => error.message(),
    }
}

/// Failures of ours are logged once, here, with what caused them; what a client did wrong is for who
/// looks closer.
fn log_error(record: &RequestRecord, error: &ApiError) {
    let status = error.code().status();
    let ours = status.is_server_error()
        && status.as_u16() != NO_LIVE_RIGHTS_STATUS
        && status != StatusCode::NOT_IMPLEMENTED;
    if !ours {
        tracing::debug!(
            request_id = %record.id,
            route = record.route.map_or("none", |(_, route)| route.label),
            code = error.code().as_str(),
            why = loggable(error),
            "a request was refused"
        );
        return;
    }
    let mut causes = String::new();
    let mut cause: Option<&dyn std::error::Error> = error.cause().map(|cause| cause as _);
    while let Some(one) = cause {
        if !causes.is_empty() {
            causes.push_str(": ");
        }
        causes.push_str(&one.to_string());
        cause = one.source();
    }
    if causes.is_empty() {
        causes.push_str(error.message());
    }
    tracing::error!(
        request_id = %record.id,
        route = record.route.map_or("none", |(_, route)| route.label),
        code = error.code().as_str(),
        cause = causes,
        "a request failed"
    );
}
