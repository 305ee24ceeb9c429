//! The reply type of handlers. It says what is sent; `render` turns it into a response with conditions,
//! codings and ranges.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use serde::Serialize;

use crate::errors::api_error::ApiError;
use crate::response::body::ResponseStream;
use crate::response::prepared::{CachedResponse, Kept, Prepared};
use crate::response::xmltv_cache::GzipExport;
use playgate_types::UnixSeconds;

pub mod media {
    use http::HeaderValue;

    pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
    pub const NDJSON: HeaderValue = HeaderValue::from_static("application/x-ndjson");
    pub const XML: HeaderValue = HeaderValue::from_static("application/xml; charset=utf-8");
    pub(crate) const SOAP: HeaderValue = HeaderValue::from_static("text/xml; charset=utf-8");
    pub const M3U: HeaderValue = HeaderValue::from_static("audio/x-mpegurl; charset=utf-8");
    pub const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
    pub const CSS: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
    pub const SCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");
    pub const SVG: HeaderValue = HeaderValue::from_static("image/svg+xml");
    pub const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
    pub const METRICS: HeaderValue =
        HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    pub const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
}

#[derive(Debug)]
pub enum FileContent {
    Disk(File, u64),
    Made(Bytes),
}

impl FileContent {
    pub fn length(&self) -> u64 {
        match self {
            Self::Disk(_, length) => *length,
            Self::Made(bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        }
    }
}

#[derive(Debug)]
pub struct FileReply {
    pub content: FileContent,
    pub media: HeaderValue,
    /// Number behind the strong entity tag. Equal bytes must have equal tags.
    pub tag: u64,
    pub caching: HeaderValue,
}

pub(crate) enum Content {
    Empty,
    Bytes(HeaderValue, Bytes),
    Prepared(Prepared),
    File(FileReply),
    Export(Kept, HeaderValue, GzipExport),
    Stream(HeaderValue, Option<u64>, ResponseStream),
}

/// What a handler returns.
pub type Answer = Result<Reply, ApiError>;

pub struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content: Content,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Added to the target of the audit entry: the id of a created object, or counts.
    pub(crate) audited: Option<String>,
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

    /// Replies 200 with JSON that must not be cached.
    pub fn json(value: &impl Serialize) -> Result<Self, ApiError> {
        Self::json_with(StatusCode::OK, value)
    }

    pub fn json_with(status: StatusCode, value: &impl Serialize) -> Result<Self, ApiError> {
        let bytes = serde_json::to_vec(value).map_err(ApiError::internal)?;
        Ok(Self::new(status, Content::Bytes(media::JSON, bytes.into())))
    }

    /// Replies 200 with JSON about a created object; `id` goes to the audit entry.
    pub fn made(id: &str, value: &impl Serialize) -> Result<Self, ApiError> {
        let mut reply = Self::json(value)?;
        reply.audited = Some(format!("/{id}"));
        Ok(reply)
    }

    /// Replies 200 with JSON; `counts` goes to the audit entry.
    pub fn counted(counts: &str, value: &impl Serialize) -> Result<Self, ApiError> {
        let mut reply = Self::json(value)?;
        reply.audited = Some(format!(": {counts}"));
        Ok(reply)
    }

    pub fn bytes(media: HeaderValue, bytes: impl Into<Bytes>) -> Self {
        Self::new(StatusCode::OK, Content::Bytes(media, bytes.into()))
    }

    pub fn empty_object() -> Self {
        Self::bytes(media::JSON, Bytes::from_static(b"{}"))
    }

    pub fn no_content() -> Self {
        Self::new(StatusCode::NO_CONTENT, Content::Empty)
    }

    pub fn prepared(prepared: Prepared) -> Self {
        Self::new(StatusCode::OK, Content::Prepared(prepared))
    }

    /// Replies with a JSON body that is valid until its content changes, but for at most `max_age` seconds.
    pub fn cached(response: CachedResponse, now: UnixSeconds, max_age: u32) -> Self {
        let CachedResponse { body, tag, until } = response;
        Self::prepared(Prepared {
            media: media::JSON,
            body,
            kept: Kept {
                tag,
                max_age: Kept::age(now, until, max_age),
            },
            until,
        })
    }

    pub(crate) fn cacheable(&self) -> Option<CachedResponse> {
        let Content::Prepared(prepared) = &self.content else {
            return None;
        };
        Some(CachedResponse {
            body: Arc::clone(&prepared.body),
            tag: prepared.kept.tag,
            until: prepared.until,
        })
    }

    pub fn file(file: FileReply) -> Self {
        Self::new(StatusCode::OK, Content::File(file))
    }

    pub fn stream(media: HeaderValue, length: Option<u64>, body: ResponseStream) -> Self {
        Self::new(StatusCode::OK, Content::Stream(media, length, body))
    }

    pub fn export(kept: Kept, media: HeaderValue, export: GzipExport) -> Self {
        Self::new(StatusCode::OK, Content::Export(kept, media, export))
    }

    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }
}
