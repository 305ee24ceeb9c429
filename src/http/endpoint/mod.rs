//! Parse, then act: a request becomes a variant with typed parameters, or an error that names the
//! parameter, before any work is done. One file per resource; the requests stand beside their parsers.
//! A parser that reads several things reports all that is wrong with them.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod admin;
pub mod login;
pub mod playback;
pub mod playback_headers;
pub mod public;
pub mod reset_page;
pub mod schedule;
pub mod telemetry;
pub mod users;

use std::borrow::Cow;
use std::str::FromStr;

use bytes::Bytes;

use super::auth::{OperatorAuth, PartnerAuth, Proof, UserAuth};
use super::body::BodyStream;
use super::error::ApiError;
use super::headers::{HeaderNames, RequestHeaders};
use super::query::Query;
use super::router::Params;
use super::strict_json::Object;
use crate::types::Malformed;
pub use admin::OperatorEndpoint;
pub use public::PublicEndpoint;
pub use schedule::PartnerEndpoint;
pub use users::UserEndpoint;

/// What a parser reads from, its body apart.
pub struct Input<'a> {
    /// The path as it was sent.
    pub path: &'a str,
    /// Where its parameters stand.
    pub params: Params,
    /// The query.
    pub query: Query<'a>,
    /// The headers.
    pub heads: &'a RequestHeaders<'a>,
    /// The names of our headers.
    pub names: &'a HeaderNames,
    /// The fewest characters of a new password.
    pub password_min: usize,
}

impl<'a> Input<'a> {
    /// A parameter of the path.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if it is no UTF-8.
    pub fn text(&self, name: &'static str) -> Result<Cow<'a, str>, ApiError> {
        self.params.text(self.path, name)
    }

    /// A parameter of the path, read by `parse`.
    ///
    /// # Errors
    /// `INVALID_REQUEST` that names the parameter.
    pub fn parsed<T>(
        &self,
        name: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Malformed>,
    ) -> Result<T, ApiError> {
        parse(&self.text(name)?).map_err(|why| ApiError::field(name, why.0))
    }

    /// A number of up to so many digits in the query, without a sign.
    fn number<T: FromStr>(
        &self,
        name: &'static str,
        most: usize,
        why: &'static str,
    ) -> Result<Option<T>, ApiError> {
        self.query.parsed(name, |text| {
            let plain =
                (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            text.parse().ok().filter(|_| plain).ok_or(Malformed(why))
        })
    }

    /// How much of a long list is asked for: up to a thousand, which is the default too.
    fn page(&self) -> Result<usize, ApiError> {
        const PAGE: usize = 1_000;
        let limit = self.query.parsed("limit", |text| {
            text.parse()
                .ok()
                .filter(|limit| (1..=PAGE).contains(limit))
                .ok_or(Malformed("must be from 1 to 1000"))
        })?;
        Ok(limit.unwrap_or(PAGE))
    }
}

/// The body of a request as its route takes it.
pub enum Payload {
    /// Read, or ignored and then empty.
    Whole(Bytes),
    /// Still arriving.
    Streamed(BodyStream),
}

impl Payload {
    /// The bytes of a body that was read.
    ///
    /// # Errors
    /// `INTERNAL` if it is still arriving: the table and the endpoint disagree.
    pub fn whole(self) -> Result<Bytes, ApiError> {
        match self {
            Self::Whole(bytes) => Ok(bytes),
            Self::Streamed(_) => Err(ApiError::internal("the route streams its body")),
        }
    }

    /// The object of a body that was read. That it is none is reported by what reads of it.
    ///
    /// # Errors
    /// `INTERNAL` if it is still arriving.
    pub fn object(self) -> Result<Object, ApiError> {
        Ok(Object::read(&self.whole()?))
    }

    /// A body that is still arriving.
    ///
    /// # Errors
    /// `INTERNAL` if it has been read: the table and the endpoint disagree.
    pub fn streamed(self) -> Result<BodyStream, ApiError> {
        match self {
            Self::Streamed(stream) => Ok(stream),
            Self::Whole(bytes) => Ok(BodyStream::ready(bytes)),
        }
    }
}

/// A request ready to be acted on, with the proof that its handler requires.
pub enum Endpoint {
    /// No token.
    Open(PublicEndpoint),
    /// A partner's.
    Partner(PartnerAuth, PartnerEndpoint),
    /// A user's.
    User(UserAuth, UserEndpoint),
    /// An operator's.
    Operator(OperatorAuth, OperatorEndpoint),
}

impl Endpoint {
    /// Reads the parameters of the route that the proof opens.
    ///
    /// # Errors
    /// What is wrong with which parameter.
    pub fn parse(proof: Proof, input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        match proof {
            Proof::Open(to) => PublicEndpoint::parse(to, input, payload).map(Self::Open),
            Proof::Partner(auth, to) => PartnerEndpoint::parse(to, input, payload)
                .map(|endpoint| Self::Partner(auth, endpoint)),
            Proof::User(auth, to) => UserEndpoint::parse(to, &auth, input, payload)
                .map(|endpoint| Self::User(auth, endpoint)),
            Proof::Operator(auth, to) => OperatorEndpoint::parse(to, input, payload)
                .map(|endpoint| Self::Operator(auth, endpoint)),
        }
    }

    /// What the request means, where its response may be cached: equal for all requests with the
    /// same response.
    #[must_use]
    pub fn cache_key(&self) -> Option<String> {
        match self {
            Self::Partner(_, endpoint) => endpoint.cache_key(),
            Self::Open(_) | Self::User(..) | Self::Operator(..) => None,
        }
    }

    /// The address that replaces a deprecated one, exactly, below the base address.
    #[must_use]
    pub fn successor(&self) -> Option<String> {
        match self {
            Self::Partner(_, endpoint) => endpoint.successor(),
            Self::Open(_) | Self::User(..) | Self::Operator(..) => None,
        }
    }
}
