//! Endpoints: the request type, the parser and the handler of each route.
//!
//! A request becomes a value of its type, or an error that names the parameter, before any work is done. One file per
//! resource; parsers are next to their request types. A parser reports all mistakes of a request together. Parsers do
//! not access the store.
//!
//! A row of the route table names the type that its requests are parsed into, if they have parameters, and its handler:
//! `now!(LiveRequest => api::schedule::live)` or `later!(api::offers::offers)`. All handlers have one form: what they
//! need of the server (the [`Services`](playgate_services::Services), or the whole
//! [`HttpState`]), the context of the request, the proof of its authentication, and the
//! parsed request. A row cannot bind a handler that needs another proof than the one the route checks.

#![deny(clippy::wildcard_enum_match_arm)]

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::errors::api_error::{ApiError, CombineResults as _};
use crate::request::context::Context;
use crate::request::headers::{HeaderNames, RequestHeaders};
use crate::request::params::Params;
use crate::request::payload::Payload;
use crate::request::query::Query;
use crate::response::reply::Answer;
use crate::route_facts::RouteFacts;
use crate::state::HttpState;
use playgate_types::{Malformed, UnixSeconds};

/// The parts of a request that parsers read, except its body.
pub struct Input<'a> {
    pub path: &'a str,
    pub params: Params,
    pub query: Query<'a>,
    pub heads: &'a RequestHeaders<'a>,
    pub names: &'a HeaderNames,
    pub password_min: usize,
    /// Those of the partner interface.
    pub partner_routes: &'a [RouteFacts],
}

impl<'a> Input<'a> {
    pub fn text(&self, name: &'static str) -> Result<Cow<'a, str>, ApiError> {
        self.params.text(self.path, name)
    }

    pub fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, ApiError> {
        parse(&self.text(name)?).map_err(|why| ApiError::field(name, why.0))
    }

    /// Parses a number of at most `most` digits.
    pub fn number<T: FromStr>(
        &self,
        name: &'static str,
        most: usize,
        why: &'static str,
    ) -> Result<Option<T>, ApiError> {
        self.query.parsed(name, |text| {
            let number = digits(text).filter(|_| text.len() <= most);
            number.ok_or(Malformed(why))
        })
    }

    pub fn number_in<T: FromStr + PartialOrd>(
        &self,
        name: &'static str,
        range: RangeInclusive<T>,
        why: &'static str,
    ) -> Result<Option<T>, ApiError> {
        self.query.parsed(name, |text| {
            let number = digits(text).filter(|number| range.contains(number));
            number.ok_or(Malformed(why))
        })
    }

    pub(crate) fn instant(&self, name: &'static str) -> Result<Option<UnixSeconds>, ApiError> {
        let seconds = self.number(name, 12, "must be a time in Unix seconds")?;
        Ok(seconds.map(UnixSeconds))
    }

    /// Parses `from` and `to` (exclusive), either of which may be absent.
    pub fn time_range(&self) -> Result<(Option<UnixSeconds>, Option<UnixSeconds>), ApiError> {
        let (from, to) = (self.instant("from"), self.instant("to")).combine()?;
        // No instant lies in such a range, and an empty answer would hide the mistake.
        if from > to && to.is_some() {
            return Err(ApiError::field("from", "must not be after `to`"));
        }
        Ok((from, to))
    }

    /// Parses the page size of a long list. The default is the maximum.
    pub fn page(&self) -> Result<usize, ApiError> {
        const PAGE_MAX: usize = 1_000;
        let limit = self.number_in("limit", 1..=PAGE_MAX, "must be from 1 to 1000")?;
        Ok(limit.unwrap_or(PAGE_MAX))
    }
}

/// Parses a number of digits only: `parse` alone would accept a plus sign.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

/// A typed request. It is parsed before anything is done for it, and its parser reports all mistakes together.
pub trait ParseRequest: Sized + Send + 'static {
    /// Parses the parameters and the body.
    ///
    /// # Errors
    /// `INVALID_REQUEST` and the like, naming the parameters; a "not found" code for a malformed id in an operator's
    /// path.
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError>;

    /// Returns the cache key if the response may be cached. Requests with equal keys get equal responses.
    fn cache_key(&self) -> Option<String> {
        None
    }

    fn successor(&self) -> Option<String> {
        None
    }
}

impl ParseRequest for () {
    fn parse(_input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(())
    }
}

/// A finished answer or a future. Requests that need only memory are answered without boxing a future.
pub enum HandlerOutcome {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl From<Answer> for HandlerOutcome {
    fn from(answer: Answer) -> Self {
        Self::Now(answer)
    }
}

/// A parsed request with the proof of its authentication and its handler.
pub trait BoundRequest: Send {
    /// See [`ParseRequest::cache_key`].
    fn cache_key(&self) -> Option<String>;

    /// See [`ParseRequest::successor`].
    fn successor(&self) -> Option<String>;

    fn handle(self: Box<Self>, http: &Arc<HttpState>, cx: Context) -> HandlerOutcome;
}

struct Bound<A, R, F> {
    auth: A,
    request: R,
    handler: F,
}

impl<A, R, F> BoundRequest for Bound<A, R, F>
where
    A: Send,
    R: ParseRequest,
    F: FnOnce(&Arc<HttpState>, Context, A, R) -> HandlerOutcome + Send,
{
    fn cache_key(&self) -> Option<String> {
        self.request.cache_key()
    }

    fn successor(&self) -> Option<String> {
        self.request.successor()
    }

    fn handle(self: Box<Self>, http: &Arc<HttpState>, cx: Context) -> HandlerOutcome {
        (self.handler)(http, cx, self.auth, self.request)
    }
}

/// Parses a request and binds it to its handler.
///
/// # Errors
/// Those of [`ParseRequest::parse`].
pub fn bind<A, R, F>(
    input: &Input<'_>,
    payload: Payload,
    auth: A,
    handler: F,
) -> Result<Box<dyn BoundRequest>, ApiError>
where
    A: Send + 'static,
    R: ParseRequest,
    F: FnOnce(&Arc<HttpState>, Context, A, R) -> HandlerOutcome + Send + 'static,
{
    let request = R::parse(input, payload)?;
    Ok(Box::new(Bound {
        auth,
        request,
        handler,
    }))
}

/// The parser and the handler of a route whose requests need the proof `A`.
#[derive(Clone, Copy, Debug)]
pub struct Handler<A: 'static> {
    pub bind: fn(&Input<'_>, Payload, A) -> Result<Box<dyn BoundRequest>, ApiError>,
}
