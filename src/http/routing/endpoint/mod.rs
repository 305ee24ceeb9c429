//! Endpoints: the request type, the parser and the handler of each route.
//!
//! A request becomes a value of its type, or an error that names the parameter, before any work is done. One file per
//! resource; parsers are next to their request types. A parser reports all mistakes of a request together. Parsers do
//! not access the store.
//!
//! A row of the route table names the type that its requests are parsed into, if they have parameters, and its handler:
//! `now!(LiveRequest => api::schedule::live)` or `later!(api::offers::offers)`. All handlers have one form: what they
//! need of the server (the [`Services`](crate::services::Services), or the whole
//! [`HttpState`](crate::http::state::HttpState)), the context of the request, the proof of its authentication, and the
//! parsed request. A row cannot bind a handler that needs another proof than the one the route checks.

#![deny(clippy::wildcard_enum_match_arm)]

pub(crate) mod admin;
pub(crate) mod login;
pub(crate) mod playback;
pub(crate) mod public;
pub(crate) mod reset_page;
pub(crate) mod schedule;
pub(crate) mod telemetry;
pub(crate) mod users;

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::str::FromStr;

use bytes::Bytes;

use crate::http::errors::api_error::{ApiError, CombineResults as _};
use crate::http::pipeline::HandlerCall;
use crate::http::request::body::{BodyStream, SentBody};
use crate::http::request::headers::{HeaderNames, RequestHeaders};
use crate::http::request::query::Query;
use crate::http::request::strict_json::Object;
use crate::http::response::reply::Reply;
use crate::http::routing::router::Params;
use crate::types::{Malformed, UnixSeconds};

/// The parts of a request that parsers read, except its body.
pub(crate) struct Input<'a> {
    pub path: &'a str,
    pub params: Params,
    pub query: Query<'a>,
    pub heads: &'a RequestHeaders<'a>,
    pub names: &'a HeaderNames,
    pub password_min: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn text(&self, name: &'static str) -> Result<Cow<'a, str>, ApiError> {
        self.params.text(self.path, name)
    }

    pub(crate) fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, ApiError> {
        parse(&self.text(name)?).map_err(|why| ApiError::field(name, why.0))
    }

    /// Parses a number of at most `most` digits.
    fn number<T: FromStr>(
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

    fn number_in<T: FromStr + PartialOrd>(
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

    fn instant(&self, name: &'static str) -> Result<Option<UnixSeconds>, ApiError> {
        let seconds = self.number(name, 12, "must be a time in Unix seconds")?;
        Ok(seconds.map(UnixSeconds))
    }

    /// Parses `from` and `to` (exclusive), either of which may be absent.
    fn time_range(&self) -> Result<(Option<UnixSeconds>, Option<UnixSeconds>), ApiError> {
        let (from, to) = (self.instant("from"), self.instant("to")).combine()?;
        // No instant lies in such a range, and an empty answer would hide the mistake.
        if from > to && to.is_some() {
            return Err(ApiError::field("from", "must not be after `to`"));
        }
        Ok((from, to))
    }

    /// Parses the page size of a long list. The default is the maximum.
    fn page(&self) -> Result<usize, ApiError> {
        const PAGE_MAX: usize = 1_000;
        let limit = self.number_in("limit", 1..=PAGE_MAX, "must be from 1 to 1000")?;
        Ok(limit.unwrap_or(PAGE_MAX))
    }
}

/// Parses a number of digits only: `parse` alone would accept a plus sign.
fn digits<T: FromStr>(text: &str) -> Option<T> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain)
}

pub(crate) enum Payload {
    Whole(Bytes),
    /// Compressed with gzip.
    Packed(SentBody),
    Streamed(BodyStream),
}

impl Payload {
    pub(crate) fn whole(self) -> Result<Bytes, ApiError> {
        match self {
            Self::Whole(bytes) => Ok(bytes),
            Self::Packed(body) => body.unpack(),
            Self::Streamed(_) => Err(ApiError::internal("the route streams its body")),
        }
    }

    /// Returns the body as it was sent. The handler unpacks it in a worker pool, after its own checks.
    ///
    /// # Errors
    /// `INTERNAL` if the body is streamed.
    pub(crate) fn sent(self) -> Result<SentBody, ApiError> {
        match self {
            Self::Packed(body) => Ok(body),
            Self::Whole(_) | Self::Streamed(_) => self.whole().map(SentBody::plain),
        }
    }

    /// Parses the complete body as a JSON object. A body that is not an object is reported when a
    /// member is read.
    ///
    /// # Errors
    /// `INTERNAL` if the body is streamed.
    pub(crate) fn object(self) -> Result<Object, ApiError> {
        Ok(Object::read(&self.whole()?))
    }

    pub(crate) fn streamed(self) -> Result<BodyStream, ApiError> {
        match self {
            Self::Streamed(stream) => Ok(stream),
            Self::Whole(bytes) => Ok(BodyStream::ready(bytes)),
            Self::Packed(body) => body.unpack().map(BodyStream::ready),
        }
    }
}

/// A typed request. It is parsed before anything is done for it, and its parser reports all mistakes together.
pub(crate) trait ParseRequest: Sized + Send + 'static {
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

pub(crate) type Answer = Result<Reply, ApiError>;

/// A finished answer or a future. Requests that need only memory are answered without boxing a future.
pub(crate) enum HandlerOutcome {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl From<Answer> for HandlerOutcome {
    fn from(answer: Answer) -> Self {
        Self::Now(answer)
    }
}

/// The parser and the handler of a route whose requests need the proof `A`.
#[derive(Clone, Copy, Debug)]
pub struct Handler<A: 'static> {
    pub(crate) serve: fn(HandlerCall<'_>, A) -> Result<HandlerOutcome, ApiError>,
    #[cfg(any(test, fuzzing))]
    pub(crate) parse: fn(&Input<'_>, Payload) -> Result<(), ApiError>,
}

macro_rules! handler {
    ($request:ty, $handler:expr) => {
        $crate::http::routing::endpoint::Handler {
            serve: |call, auth| call.serve::<_, $request, _>(auth, $handler),
            #[cfg(any(test, fuzzing))]
            parse: |input, payload| {
                <$request as $crate::http::routing::endpoint::ParseRequest>::parse(input, payload)
                    .map(drop)
            },
        }
    };
}

/// Binds a handler that needs only memory.
macro_rules! now {
    ($handler:path) => {
        handler!((), |http, cx, auth, ()| HandlerOutcome::from($handler(
            (&**http).into(),
            &cx,
            auth
        )))
    };
    ($request:ty => $handler:path) => {
        handler!($request, |http, cx, auth, request| HandlerOutcome::from(
            $handler((&**http).into(), &cx, auth, request)
        ))
    };
}

/// Binds an asynchronous handler. Its future owns the arguments.
macro_rules! later {
    ($handler:path) => {
        handler!((), |http, cx, auth, ()| {
            let http = ::std::sync::Arc::clone(http);
            HandlerOutcome::Later(Box::pin(async move {
                $handler((&*http).into(), &cx, auth).await
            }))
        })
    };
    ($request:ty => $handler:path) => {
        handler!($request, |http, cx, auth, request| {
            let http = ::std::sync::Arc::clone(http);
            HandlerOutcome::Later(Box::pin(async move {
                $handler((&*http).into(), &cx, auth, request).await
            }))
        })
    };
}

pub(crate) use {handler, later, now};
