//! HMAC-SHA256 in the path, for programmable edges.
//!
//! A segment `KEY.EXPIRES.TAG` follows the directory, so that relative URLs inherit it. `EXPIRES` is the
//! first Unix second at which the URL is no longer valid. `TAG` is the HMAC, in lower-case hexadecimal, of
//! `EXPIRES` followed by the directory with a slash at either end, both as they appear in the request. The
//! edge removes the segment.

use data_encoding::HEXLOWER;
use ring::hmac;

use playgate_types::{Malformed, UnixSeconds};

use super::target::SignedTarget;

pub(super) struct PathHmacKey {
    id: String,
    key: hmac::Key,
}

impl PathHmacKey {
    pub(super) fn parse(id: &str, secret: &str) -> Result<Self, Malformed> {
        if secret.len() < 32 {
            return Err(Malformed("must have at least 32 characters"));
        }
        Ok(Self {
            id: id.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        })
    }

    pub(super) fn sign(&self, target: &SignedTarget<'_>, expires: UnixSeconds) -> String {
        // Not escaped: the edge computes the tag over what it receives.
        let message = format!("{expires}{}", target.directory);
        let tag = hmac::sign(&self.key, message.as_bytes());
        let tag = HEXLOWER.encode(tag.as_ref());
        target.with_segment(&format!("{}.{expires}.{tag}", self.id))
    }
}
