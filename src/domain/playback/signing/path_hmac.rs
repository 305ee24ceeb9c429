//! HMAC-SHA256 in the path, for edges that can be programmed.
//!
//! A segment `KEY.EXPIRES.TAG` stands after the directory, so that relative addresses inherit it.
//! `EXPIRES` is in Unix seconds, the first at which the address is no longer good. `TAG` is, in
//! lower-case hexadecimal, the HMAC of `EXPIRES` followed by the directory with a slash at either
//! end, both as they stand in the request. The edge takes the segment out again.

use data_encoding::HEXLOWER;
use ring::hmac;

use crate::types::{Malformed, UnixSeconds};

use super::target::Target;

/// The key, and the name by which the edge knows it.
pub(super) struct Key {
    id: String,
    key: hmac::Key,
}

impl Key {
    pub(super) fn parse(id: &str, secret: &str) -> Result<Self, Malformed> {
        if secret.len() < 32 {
            return Err(Malformed("must have at least 32 characters"));
        }
        Ok(Self {
            id: id.to_owned(),
            key: hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
        })
    }

    pub(super) fn sign(&self, target: &Target<'_>, expires: UnixSeconds) -> String {
        let message = format!("{expires}{}", target.directory);
        let tag = hmac::sign(&self.key, message.as_bytes());
        let tag = HEXLOWER.encode(tag.as_ref());
        target.with_segment(&format!("{}.{expires}.{tag}", self.id))
    }
}
