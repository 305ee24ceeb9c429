//! Bodies that are made once and sent many times, with their entity tag, their age and their compressed form.

use std::hash::{DefaultHasher, Hasher};
use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;

use playgate_types::UnixSeconds;

#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Number behind the strong entity tag. Equal bytes must have equal tags.
    pub tag: u64,
    pub max_age: u32,
}

/// A body that clients may cache; compressed for clients that accept gzip.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub media: HeaderValue,
    pub body: Arc<CompressibleBody>,
    pub kept: Kept,
    pub until: Option<UnixSeconds>,
}

impl Kept {
    /// Returns a tag number for bytes without a version.
    pub fn tag_of(bytes: &[u8]) -> u64 {
        // The hasher uses fixed keys, so tags survive a restart.
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        hasher.finish()
    }

    /// Returns the seconds from `now` to `until`, at most `most`. A cached response must not outlive the next
    /// change of its content.
    pub fn age(now: UnixSeconds, until: Option<UnixSeconds>, most: u32) -> u32 {
        until.map_or(most, |until| {
            u32::try_from(until.since(now).max(0)).map_or(most, |left| left.min(most))
        })
    }
}

/// A body and, once a client has requested it, its compressed form.
#[derive(Debug)]
pub struct CompressibleBody {
    identity: Bytes,
    gzip: OnceLock<Option<Bytes>>,
}

impl CompressibleBody {
    pub const fn identity(&self) -> &Bytes {
        &self.identity
    }

    pub fn ready(&self) -> Option<&Bytes> {
        self.gzip.get()?.as_ref()
    }

    /// Returns the compressed body. Of concurrent callers, one compresses and the others wait.
    pub fn gzip(&self) -> Option<&Bytes> {
        self.gzip.get_or_init(|| pack(&self.identity)).as_ref()
    }
}

impl<B: Into<Bytes>> From<B> for CompressibleBody {
    fn from(identity: B) -> Self {
        Self {
            identity: identity.into(),
            gzip: OnceLock::new(),
        }
    }
}

fn pack(bytes: &[u8]) -> Option<Bytes> {
    // The fastest level: a response is compressed once for each change of the schedule, while viewers wait.
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[derive(Clone, Debug)]
pub struct CachedResponse {
    pub body: Arc<CompressibleBody>,
    pub tag: u64,
    /// When the response changes; `None` if only a schedule change affects it.
    pub until: Option<UnixSeconds>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_expires_with_its_next_change() {
        let now = UnixSeconds(1_000);
        assert_eq!(Kept::age(now, None, 10), 10);
        assert_eq!(Kept::age(now, Some(UnixSeconds(1_003)), 10), 3);
        assert_eq!(Kept::age(now, Some(UnixSeconds(9_999)), 10), 10);
        assert_eq!(Kept::age(now, Some(now), 10), 0);
        assert_eq!(Kept::age(now, Some(UnixSeconds(1)), 10), 0);
        assert_eq!(Kept::age(now, Some(UnixSeconds(i64::MAX)), 10), 10);
    }

    #[test]
    fn a_body_is_compressed_once() {
        let body = CompressibleBody::from(vec![b'x'; 10_000]);
        assert!(body.ready().is_none());
        let gzip = body.gzip().unwrap().as_ptr();
        assert_eq!(body.gzip().unwrap().as_ptr(), gzip);
        assert_eq!(body.ready().unwrap().as_ptr(), gzip);
    }
}
