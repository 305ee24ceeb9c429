//! How the body of a request is admitted, and what its parser gets of it.

use bytes::Bytes;
use http_body::Body as _;
use hyper::body::Incoming;

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::body::{BodyStream, SentBody, too_large};
use crate::request::body_budget::BodyCharge;
use crate::request::headers::{RequestHeaders, SingleHeader};
use crate::request::object::Object;
use playgate_config::limits::BODY_SMALL;

/// How a route treats a request body. Limits are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRule {
    /// Read up to [`BODY_SMALL`] and ignored: some clients send `{}` to routes without a body.
    Ignored,
    Whole(usize),
    /// Buffered; gzip is accepted and the limit applies to the unpacked size.
    Gzip(usize),
    Streamed(usize),
}

impl BodyRule {
    pub const fn limit(self) -> usize {
        match self {
            Self::Ignored => BODY_SMALL,
            Self::Whole(limit) | Self::Gzip(limit) | Self::Streamed(limit) => limit,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Identity,
    Gzip,
}

/// Checks size and content coding as declared in the headers, before the body is read.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE`, `UNSUPPORTED_CODING`.
pub(crate) fn check(
    body: &Incoming,
    heads: &RequestHeaders<'_>,
    rule: BodyRule,
) -> Result<Coding, ApiError> {
    let limit = rule.limit();
    // A declared length is refused before a byte of the body is read. Chunked bodies are counted as they
    // arrive.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    match heads.content_encoding.ascii().map(str::trim) {
        None if matches!(heads.content_encoding, SingleHeader::Absent) => Ok(Coding::Identity),
        Some(coding) if coding.eq_ignore_ascii_case("identity") => Ok(Coding::Identity),
        Some(coding)
            if coding.eq_ignore_ascii_case("gzip") && matches!(rule, BodyRule::Gzip(_)) =>
        {
            Ok(Coding::Gzip)
        }
        _ => Err(ApiError::new(
            ErrorCode::UnsupportedCoding,
            match rule {
                BodyRule::Gzip(_) => "Content-Encoding must be gzip or absent",
                _ => "this route does not accept Content-Encoding",
            },
        )),
    }
}

pub enum Payload {
    Whole(Bytes),
    /// Compressed with gzip.
    Packed(SentBody),
    Streamed(BodyStream),
}

impl Payload {
    pub fn whole(self) -> Result<Bytes, ApiError> {
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
    pub fn sent(self) -> Result<SentBody, ApiError> {
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
    pub fn object(self) -> Result<Object, ApiError> {
        Ok(Object::read(&self.whole()?))
    }

    pub fn streamed(self) -> Result<BodyStream, ApiError> {
        match self {
            Self::Streamed(stream) => Ok(stream),
            Self::Whole(bytes) => Ok(BodyStream::ready(bytes)),
            Self::Packed(body) => body.unpack().map(BodyStream::ready),
        }
    }
}

/// Reads the body of an admitted request. A streamed body is left to its handler.
///
/// # Errors
/// Those of [`BodyStream::whole`].
pub(crate) async fn read(
    body: Incoming,
    rule: BodyRule,
    coding: Coding,
    mut charge: BodyCharge,
) -> Result<Payload, ApiError> {
    let limit = rule.limit();
    let mut stream = BodyStream::new(body, limit);
    let read = match rule {
        BodyRule::Streamed(_) => return Ok(Payload::Streamed(stream)),
        // Read, so that the connection can serve its next request.
        BodyRule::Ignored => stream.discard().await.map(|()| Bytes::new()),
        BodyRule::Whole(_) | BodyRule::Gzip(_) => stream.whole(&mut charge).await,
    };
    let whole = match read {
        Ok(whole) => whole,
        Err(error) => {
            // The bytes are gone.
            drop(charge);
            // A client that is still sending would see a reset instead of the response.
            stream.drain().await;
            return Err(error);
        }
    };
    Ok(match coding {
        Coding::Identity => Payload::Whole(charge.attach(whole)),
        // The handler unpacks it: that takes too long for a thread of the runtime.
        Coding::Gzip => Payload::Packed(SentBody::gzip(whole, limit, charge)),
    })
}
