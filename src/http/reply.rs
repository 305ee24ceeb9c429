//! What a handler answers with. How it becomes a response, with conditions, codings and ranges, is
//! for `render` to say.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use super::error::ApiError;
use super::response_body::ResponseStream;
use super::response_cache::{CachedResponse, CompressibleBody};
use super::xmltv_cache::GzipExport;
use crate::types::UnixSeconds;

/// Media types that we send.
pub mod media {
    use http::HeaderValue;

    /// JSON.
    pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
    /// Newline-delimited JSON.
    pub const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
    /// XMLTV.
    pub const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=utf-8");
    /// SOAP 1.1.
    pub const SOAP: HeaderValue = HeaderValue::from_static("text/xml; charset=utf-8");
    /// An M3U playlist.
    pub const M3U: HeaderValue = HeaderValue::from_static("audio/x-mpegurl; charset=utf-8");
    /// HTML.
    pub const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
    /// A style sheet.
    pub const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
    /// A script.
    pub const SCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");
    /// A drawing.
    pub const SVG: HeaderValue = HeaderValue::from_static("image/svg+xml");
    /// Plain text.
    pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    /// Prometheus' text form.
    pub const METRICS: HeaderValue =
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    /// TOML.
    pub const TOML: HeaderValue = HeaderValue::from_static("application/toml; charset=utf-8");
    /// Bytes.
    pub const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
}

/// How a body may be kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// What the strong tag is made of: equal bytes, equal tag.
    pub tag: u64,
    /// Seconds for which it may be kept.
    pub max_age: u32,
}

/// A body that clients may keep, compressed for those that take gzip.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its media type.
    pub media: HeaderValue,
    /// The bytes.
    pub body: Arc<CompressibleBody>,
    /// How it may be kept.
    pub kept: Kept,
    /// When it will be another one; `None` if nobody can tell.
    pub until: Option<UnixSeconds>,
}

impl Kept {
    /// A tag for bytes that bring none of their own.
    #[must_use]
    pub fn tag_of(bytes: &[u8]) -> u64 {
        // The hasher's keys are fixed, so that a tag outlives a restart.
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        hasher.finish()
    }

    /// The seconds from `now` to `until`, at most `most`: an answer must not outlive its next change.
    #[must_use]
    pub fn age(now: UnixSeconds, until: Option<UnixSeconds>, most: u32) -> u32 {
        until.map_or(most, |until| {
            u32::try_from(until.since(now).max(0)).map_or(most, |left| left.min(most))
        })
    }
}

/// What a file consists of.
#[derive(Debug)]
pub enum FileContent {
    /// An open file of this length.
    Disk(File, u64),
    /// One that was made for the request.
    Made(Bytes),
}

impl FileContent {
    /// Its length in bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        match self {
            Self::Disk(_, length) => *length,
            Self::Made(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        }
    }
}

/// A file of the origin, served with ranges.
#[derive(Debug)]
pub struct FileReply {
    /// What it consists of.
    pub content: FileContent,
    /// Its media type.
    pub media: HeaderValue,
    /// What the tag is made of: equal bytes, equal tag.
    pub tag: u64,
    /// The value of `Cache-Control`.
    pub caching: HeaderValue,
}

/// The content of a reply.
pub(super) enum Content {
    Empty,
    Bytes(HeaderValue, Bytes),
    Prepared(Prepared),
    File(FileReply),
    Export(Kept, HeaderValue, GzipExport),
    /// The length is `None` where it is not known.
    Stream(HeaderValue, Option<u64>, ResponseStream),
}

/// The answer of a handler.
pub struct Reply {
    pub(super) status: StatusCode,
    pub(super) content: Content,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// What is added to the target of the audit entry: the id of what was made, or counts.
    pub(super) audited: Option<String>,
}

impl Reply {
    fn new(status: StatusCode, content: Content) -> Self {
        Self {
            status,
            content,
            headers: Vec::new(),
            audited: None,
        }
    }

    /// 200 with a wire type as JSON, not to be kept.
    ///
    /// # Errors
    /// `INTERNAL` if the value cannot be written as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, ApiError> {
        Self::json_with(StatusCode::OK, value)
    }

    /// A wire type as JSON with another status.
    ///
    /// # Errors
    /// `INTERNAL` if the value cannot be written as JSON.
    pub fn json_with(status: StatusCode, value: &impl Serialize) -> Result<Self, ApiError> {
        let bytes = serde_json::to_vec(value).map_err(ApiError::internal)?;
        Ok(Self::new(status, Content::Bytes(media::JSON, bytes.into())))
    }

    /// 200 with a wire type as JSON that tells of something new with this id.
    ///
    /// # Errors
    /// `INTERNAL` if the value cannot be written as JSON.
    pub fn made(id: &str, value: &impl Serialize) -> Result<Self, ApiError> {
        let mut reply = Self::json(value)?;
        reply.audited = Some(format!("/{id}"));
        Ok(reply)
    }

    /// 200 with a wire type as JSON, and counts for the audit entry.
    ///
    /// # Errors
    /// `INTERNAL` if the value cannot be written as JSON.
    pub fn counted(counts: &str, value: &impl Serialize) -> Result<Self, ApiError> {
        let mut reply = Self::json(value)?;
        reply.audited = Some(format!(": {counts}"));
        Ok(reply)
    }

    /// 200 with ready bytes, not to be kept.
    #[must_use]
    pub fn bytes(media: HeaderValue, bytes: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, Content::Bytes(media, bytes.into()))
    }

    /// 200 with `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        Self::bytes(media::JSON, Bytes::from_static(b"{}"))
    }

    /// 204.
    #[must_use]
    pub fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, Content::Empty)
    }

    /// 200 with a body that clients may keep; 304 where they have it.
    #[must_use]
    pub fn prepared(prepared: Prepared) -> Self {
        Self::new(StatusCode::OK, Content::Prepared(prepared))
    }

    /// The part of a prepared reply that the response cache keeps.
    pub(super) fn cacheable(&self) -> Option<CachedResponse> {
        let Content::Prepared(prepared) = &self.content else {
            return None;
        };
        Some(CachedResponse {
            body: Arc::clone(&prepared.body),
            tag: prepared.kept.tag,
            until: prepared.until,
        })
    }

    /// A file, or the range of it that was asked for.
    #[must_use]
    pub fn file(file: FileReply) -> Self {
        Self::new(StatusCode::OK, Content::File(file))
    }

    /// 200 with a body that is made as it is sent, not to be kept.
    #[must_use]
    pub fn stream(media: HeaderValue, length: Option<u64>, body: ResponseStream) -> Self {
        Self::new(StatusCode::OK, Content::Stream(media, length, body))
    }

    /// 200 with an export that clients may keep; 304 where they have it.
    #[must_use]
    pub fn export(kept: Kept, media: HeaderValue, export: GzipExport) -> Self {
        Self::new(StatusCode::OK, Content::Export(kept, media, export))
    }

    /// The same with another status.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The same with a header more.
    #[must_use]
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_beyond_its_next_change() {
        let now = UnixSeconds(1_000);
        assert_eq!(Kept::age(now, None, 10), 10);
        assert_eq!(Kept::age(now, Some(UnixSeconds(1_003)), 10), 3);
        assert_eq!(Kept::age(now, Some(UnixSeconds(9_999)), 10), 10);
        assert_eq!(Kept::age(now, Some(now), 10), 0);
        assert_eq!(Kept::age(now, Some(UnixSeconds(1)), 10), 0);
        assert_eq!(Kept::age(now, Some(UnixSeconds(i64::MAX)), 10), 10);
    }
}
