//! Completes a response: common headers, metrics, the access log and the request journal.
//!
//! The log names the route and never the path: a path may contain a signed token, a query anything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use http::header::{CONNECTION, DATE, LINK, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::connection_state::{ConnectionState, InFlightGuard};
use crate::errors::api_error::ApiError;
use crate::errors::code::{ErrorCode, NO_LIVE_RIGHTS_STATUS};
use crate::faults;
use crate::pipeline::cors;
use crate::pipeline::journal_entry::{journal, recorded_method};
use crate::pipeline::record::RequestRecord;
use crate::request::headers::RequestHeaders;
use crate::response::body::{ConnectionCut, ResponseBody};
use crate::response::pages::ResetPageView;
use crate::response::render::{CompressionJobs, ErrorForm, ResponseOptions, render, render_error};
use crate::response::reply::{Answer, Reply};
use crate::route_facts::RouteSet;
use crate::state::HttpState;
use playgate_types::UnixSeconds;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");
const SUNSET: HeaderName = HeaderName::from_static("sunset");

/// The two livestream routes were deprecated with the first release, on 1 January 2026 (RFC 9745).
const DEPRECATED_SINCE: HeaderValue = HeaderValue::from_static("@1767225600");

pub(crate) type Answered = Response<ResponseBody>;

pub(crate) enum ResponseFuture {
    Ready(Option<Answered>),
    Later(Pin<Box<dyn Future<Output = Result<Answered, ConnectionCut>> + Send>>),
}

impl Future for ResponseFuture {
    type Output = Result<Answered, ConnectionCut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            // hyper does not poll it again after its answer.
            Self::Ready(answer) => answer.take().map_or(Poll::Pending, |a| Poll::Ready(Ok(a))),
            Self::Later(future) => future.as_mut().poll(cx),
        }
    }
}

fn finish(
    http: &HttpState,
    mut record: RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    answer: Answer,
) -> Response<ResponseBody> {
    if record.route.is_some_and(|(_, route)| route.names_session) {
        let (partner, user) = record.draft.trace.named();
        record.draft.partner = record.draft.partner.or(partner);
        record.user = record.user.or(user);
    }
    let options = ResponseOptions {
        heads,
        head: record.head,
        compression: Some(CompressionJobs {
            pool: &http.services.compression,
            partner: record.draft.partner,
            peer: record.draft.peer,
        }),
    };
    let (mut response, error) = match answer.and_then(|reply| render(reply, options)) {
        Ok(response) => (response, None),
        Err(error) => {
            log_error(&record, &error);
            (refuse(http, &record, options, parts, &error), Some(error))
        }
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, record.id.header());
    // A JSON body must never be taken for a script or a page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Pages and operators' responses are only for their own origin: a script on another page must not read
    // them, even in a browser of an operator.
    let same_origin = record.route.is_some_and(|(_, route)| route.is_same_origin);
    if record.router.set() == RouteSet::Public && !same_origin {
        cors::allow(http, heads, headers);
    }
    if let Some(fault) = &record.fault {
        headers.insert(faults::FAULT, faults::header(fault));
    }
    if let Some(date) = record.lab_time.and_then(http_date) {
        headers.insert(DATE, date);
    }
    if record.close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if record
        .route
        .is_some_and(|(_, route)| route.deprecated.is_some())
    {
        headers.insert(DEPRECATION, DEPRECATED_SINCE);
        if let Some(sunset) = &http.sunset {
            headers.insert(SUNSET, sunset.clone());
        }
        if let Some(link) = successor(http, &record) {
            headers.insert(LINK, link);
        }
    }
    // Measured before the body is sent, because that time depends on the client.
    let elapsed = record.started.elapsed();
    let route = record.route.map(|(index, _)| index);
    http.metrics
        .answered(record.router.set(), route, response.status(), elapsed);
    if let Some(error) = &error {
        let partner = record.draft.partner;
        let name = || partner.and_then(|partner| http.services.partners.name(&partner));
        http.metrics
            .refusals
            .count(record.route_label(), error.code().as_str(), partner, name);
    }
    let status = response.status();
    if record.is_journaled(status) {
        journal(http, &record, parts, heads, status, error.as_ref());
    }
    if http.settings.access_log {
        let partner = record.draft.partner;
        let partner = partner.and_then(|partner| http.services.partners.name(&partner));
        tracing::info!(
            request_id = %record.id,
            method = recorded_method(&parts.method),
            route = record.route_label(),
            partner = partner.as_deref(),
            user = record.user.map(display),
            code = error.as_ref().map(|error| error.code().as_str()),
            status = response.status().as_u16(),
            micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
    response
}

/// Formats `Date` by the clock of a lab. hyper adds the real date to responses without one.
fn http_date(now: UnixSeconds) -> Option<HeaderValue> {
    /// The year 10000, for which httpdate panics.
    const YEAR_10000: u64 = 253_402_300_800;
    let seconds = u64::try_from(now.0)
        .ok()
        .filter(|seconds| *seconds < YEAR_10000)?;
    // chrono's formatter takes 4,100 instructions, an eighth of a schedule answer.
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
    HeaderValue::from_str(&text).ok()
}

fn refuse(
    http: &HttpState,
    record: &RequestRecord,
    options: ResponseOptions<'_>,
    parts: &Parts,
    error: &ApiError,
) -> Response<ResponseBody> {
    let accept = options.heads.accept_language.joined();
    let accept = accept.as_ref().and_then(|value| value.to_str().ok());
    let locale = record.user.and_then(|user| http.authenticator.locale(user));
    let text = http.messages.pick_for(error, accept, locale.as_ref());
    let page = if record.route.is_some_and(|(_, route)| route.is_page) {
        Some(page(http, accept, error, text))
    } else if is_lost_reader(record, options.heads, parts.uri.path(), error) {
        let language = http.messages.language(accept, None);
        Some(http.pages.missing(language, &http.settings.public_url))
    } else {
        None
    };
    if let Some(Ok(page)) = page.map(|page| render(page, options)) {
        return page;
    }
    let form = match record.flat {
        _ if record.soap && record.route.is_some_and(|(_, route)| route.speaks_soap) => {
            ErrorForm::Soap
        }
        true => ErrorForm::Flat,
        false => ErrorForm::Json,
    };
    render_error(error, text, form, &http.names, options)
}

/// Whether somebody opened a wrong address in a browser. Below `/api/` the reader is a developer, who needs the message.
fn is_lost_reader(
    record: &RequestRecord,
    heads: &RequestHeaders<'_>,
    path: &str,
    error: &ApiError,
) -> bool {
    record.route.is_none()
        && error.code() == ErrorCode::PathNotFound
        && record.router.set() == RouteSet::Public
        && !path.starts_with("/api/")
        && heads.names_html()
}

fn page(http: &HttpState, accept: Option<&str>, error: &ApiError, text: &str) -> Reply {
    let language = http.messages.language(accept, None);
    let minutes = http.services.config.accounts.reset_token_minutes;
    let view = match error.code() == ErrorCode::ResetTokenInvalid {
        true => ResetPageView::DeadLink(text, minutes),
        false => ResetPageView::Refused(text),
    };
    let page = http.pages.reset(language, error.code().status(), &view);
    match error.retry_after() {
        Some(seconds) => page.with_header(RETRY_AFTER, seconds.into()),
        None => page,
    }
}

fn successor(http: &HttpState, record: &RequestRecord) -> Option<HeaderValue> {
    let address = record.successor.as_ref()?;
    let base = &http.settings.public_url;
    HeaderValue::from_str(&format!("<{base}{address}>; rel=\"successor-version\"")).ok()
}

fn log_error(record: &RequestRecord, error: &ApiError) {
    let status = error.code().status();
    // 552 is a regular answer of the interface, 501 a mistake of the client, and a lab fault is intended.
    let ours = record.fault.is_none()
        && status.is_server_error()
        && status.as_u16() != NO_LIVE_RIGHTS_STATUS
        && status != StatusCode::NOT_IMPLEMENTED;
    if !ours {
        tracing::debug!(
            request_id = %record.id,
            route = record.route_label(),
            code = error.code().as_str(),
            why = error.loggable(),
            "request refused"
        );
        return;
    }
    // Only the log gets the causes: a body must not repeat what lower layers said.
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
        route = record.route_label(),
        code = error.code().as_str(),
        cause = causes,
        "request failed"
    );
}

/// Builds the response. Marks the request as ended in the connection state: immediately for a complete body, at the end
/// of the stream for a streamed one.
pub(crate) fn build_response(
    http: &HttpState,
    conn_state: &Arc<ConnectionState>,
    record: RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    answer: Answer,
) -> Answered {
    // A panic must not unwind into hyper, which would drop the connection and all its requests.
    let built = catch_unwind(AssertUnwindSafe(|| {
        try_build_response(http, conn_state, record, parts, heads, answer)
    }));
    built.unwrap_or_else(|_| {
        http.metrics.panics.one();
        conn_state.end();
        let mut response = Answered::new(ResponseBody::Empty);
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}

fn try_build_response(
    http: &HttpState,
    conn_state: &Arc<ConnectionState>,
    mut record: RequestRecord,
    parts: &Parts,
    heads: &RequestHeaders<'_>,
    answer: Answer,
) -> Answered {
    // Announced before the listener closes, so that proxies open their next connection elsewhere.
    record.close |= conn_state.is_lame_duck();
    let mut answer = finish(http, record, parts, heads, answer);
    match answer.body_mut() {
        ResponseBody::Stream(_, busy) => *busy = Some(InFlightGuard::new(Arc::clone(conn_state))),
        ResponseBody::Empty | ResponseBody::Full(_) => conn_state.end(),
    }
    answer
}
