//! nginx's `secure_link`: an MD5 of expiry, directory and key (nginx.org,
//! `ngx_http_secure_link_module`). `packaging/nginx-secure-link.conf` is the other side.
//!
//! A segment `KEY.EXPIRES.TAG` stands after the directory, so that relative addresses inherit it.
//! MD5 is the module's choice. What is known to be broken in it, collisions, is of no use to
//! somebody who cannot choose what we sign; the key at the end keeps a tag from being extended.

use data_encoding::BASE64URL_NOPAD;
use md5::{Digest as _, Md5};

use crate::types::{Malformed, UnixSeconds};

use super::target::Target;

/// The key, and the name by which the edge knows it.
pub(super) struct Key {
    id: String,
    key: String,
}

impl Key {
    /// Characters that would mean something in nginx's configuration are refused.
    pub(super) fn parse(id: &str, secret: &str) -> Result<Self, Malformed> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+/=".contains(&byte);
        if !(32..=256).contains(&secret.len()) || !secret.bytes().all(plain) {
            return Err(Malformed("must have 32 to 256 letters, digits and -._+/="));
        }
        Ok(Self {
            id: id.to_owned(),
            key: secret.to_owned(),
        })
    }

    pub(super) fn sign(&self, target: &Target<'_>, expires: UnixSeconds) -> String {
        // To nginx the second that it names is the last good one.
        let last = expires.0.saturating_sub(1);
        let mut hash = Md5::new();
        hash.update(last.to_string());
        // nginx compares what it has decoded.
        hash.update(&target.decoded);
        hash.update(" ");
        hash.update(&self.key);
        let tag = BASE64URL_NOPAD.encode(&hash.finalize());
        target.with_segment(&format!("{}.{last}.{tag}", self.id))
    }
}
