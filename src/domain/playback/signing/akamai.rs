//! Akamai Auth Token 2.0 (`EdgeAuth`): `exp=…~acl=…~hmac=…` in a query parameter.
//!
//! The hash is the HMAC-SHA256 of the preceding text, in lower-case hexadecimal, with a hexadecimal key. The
//! path list is not escaped, as in Akamai's own generators. `st` is omitted, as Akamai's generators do by
//! default: it would only reject viewers where this server's clock is ahead. The token has no key id: the
//! edge tries the main key and the transition key of the property.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use ring::hmac;

use playgate_types::{Malformed, UnixSeconds};

use super::target::SignedTarget;

pub(super) struct AkamaiKey {
    key: hmac::Key,
    parameter: String,
}

impl AkamaiKey {
    pub(super) fn parse(secret: &str, parameter: &str) -> Result<Self, Malformed> {
        const FORM: Malformed =
            Malformed("must have 32 to 128 hexadecimal digits, an even number of them");
        let bytes = HEXLOWER_PERMISSIVE.decode(secret.as_bytes());
        let bytes = bytes.map_err(|_| FORM)?;
        if !(16..=64).contains(&bytes.len()) {
            return Err(FORM);
        }
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &bytes),
            parameter: parameter.to_owned(),
        })
    }

    pub(super) fn sign(&self, target: &SignedTarget<'_>, expires: UnixSeconds) -> Option<String> {
        // The wildcard covers the segments below the manifest.
        let fields = format!("exp={expires}~acl={}*", target.directory);
        let tag = hmac::sign(&self.key, fields.as_bytes());
        let tag = HEXLOWER.encode(tag.as_ref());
        target.with_parameters(&format!("{}={fields}~hmac={tag}", self.parameter))
    }
}
