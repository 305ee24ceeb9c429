//! Binds a route to what serves it. A row of the route table names the type that its requests are parsed into, if they
//! have parameters, and its handler: `now!(LiveRequest => api::schedule::live)` or `later!(api::offers::offers)`.
//!
//! All handlers have one form: what they need of the server (the [`Services`](crate::services::Services), or the whole
//! [`HttpState`](crate::http::state::HttpState)), the context of the request, the proof of its authentication, and the
//! parsed request. A row cannot bind a handler that needs another proof than the one the route checks.

use std::pin::Pin;

use crate::http::errors::api_error::ApiError;
use crate::http::pipeline::Call;
use crate::http::response::reply::Reply;
#[cfg(any(test, fuzzing))]
use crate::http::routing::endpoint::{Input, Payload};

pub(crate) type Answer = Result<Reply, ApiError>;

/// A finished answer or a future. Requests that need only memory are answered without boxing a future.
pub(crate) enum Outcome {
    Now(Answer),
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl From<Answer> for Outcome {
    fn from(answer: Answer) -> Self {
        Self::Now(answer)
    }
}

/// The parser and the handler of a route whose requests need the proof `A`.
#[derive(Clone, Copy, Debug)]
pub struct Handler<A: 'static> {
    pub(crate) serve: fn(Call<'_>, A) -> Result<Outcome, ApiError>,
    #[cfg(any(test, fuzzing))]
    pub(crate) parse: fn(&Input<'_>, Payload) -> Result<(), ApiError>,
}

macro_rules! handler {
    ($request:ty, $handler:expr) => {
        $crate::http::routing::handler::Handler {
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
        handler!((), |http, cx, auth, ()| Outcome::from($handler(
            (&**http).into(),
            &cx,
            auth
        )))
    };
    ($request:ty => $handler:path) => {
        handler!($request, |http, cx, auth, request| Outcome::from($handler(
            (&**http).into(),
            &cx,
            auth,
            request
        )))
    };
}

/// Binds an asynchronous handler. Its future owns the arguments.
macro_rules! later {
    ($handler:path) => {
        handler!((), |http, cx, auth, ()| {
            let http = ::std::sync::Arc::clone(http);
            Outcome::Later(Box::pin(async move {
                $handler((&*http).into(), &cx, auth).await
            }))
        })
    };
    ($request:ty => $handler:path) => {
        handler!($request, |http, cx, auth, request| {
            let http = ::std::sync::Arc::clone(http);
            Outcome::Later(Box::pin(async move {
                $handler((&*http).into(), &cx, auth, request).await
            }))
        })
    };
}

pub(crate) use {handler, later, now};
