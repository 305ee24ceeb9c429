//! nginx `secure_link`: an MD5 of expiry, directory and key (nginx.org, `ngx_http_secure_link_module`).
//! `packaging/nginx-secure-link.conf` is the configuration of the edge.
//!
//! A segment `KEY.EXPIRES.TAG` follows the directory, so that relative URLs inherit it. The module dictates
//! MD5. Its known weakness, collisions, does not help an attacker who cannot choose what is signed; the key
//! comes last, which prevents length extension.

use data_encoding::BASE64URL_NOPAD;
use md5::{Digest as _, Md5};

use playgate_types::{Malformed, UnixSeconds};

use super::target::SignedTarget;

pub(super) struct SecureLinkKey {
    id: String,
    key: String,
}

impl SecureLinkKey {
    pub(super) fn parse(id: &str, secret: &str) -> Result<Self, Malformed> {
        // No character that has a meaning in nginx configuration files.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+/=".contains(&byte);
        if !(32..=256).contains(&secret.len()) || !secret.bytes().all(plain) {
            return Err(Malformed("must have 32 to 256 letters, digits and -._+/="));
        }
        Ok(Self {
            id: id.to_owned(),
            key: secret.to_owned(),
        })
    }

    pub(super) fn sign(&self, target: &SignedTarget<'_>, expires: UnixSeconds) -> String {
        // For nginx the named second is the last valid one.
        let last = expires.0.saturating_sub(1);
        let mut hash = Md5::new();
        hash.update(last.to_string());
        // nginx compares the decoded path.
        hash.update(&target.decoded);
        hash.update(" ");
        hash.update(&self.key);
        let tag = BASE64URL_NOPAD.encode(&hash.finalize());
        target.with_segment(&format!("{}.{last}.{tag}", self.id))
    }
}
