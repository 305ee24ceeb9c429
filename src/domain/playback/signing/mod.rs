//! Signs playlist URLs: those of the built-in origin, which the server verifies itself, and those of CDNs,
//! which verify them at the edge.
//!
//! A CDN is selected by URL prefix. In every scheme a signed URL is valid for the directory of the manifest
//! and everything below it, until it expires, and never longer than its entitlement. It contains no user:
//! anyone who has the URL may fetch until then.

mod akamai;
mod cloudfront;
mod origin;
mod path_hmac;
mod secure_link;
mod session_address;
mod target;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use playgate_types::{Malformed, UnixSeconds};

pub(crate) use origin::{OriginAccess, OriginSigner};
use session_address::SessionSigner;
use target::{SignedTarget, split};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    PathHmac,
    SecureLink,
    /// Akamai Auth Token 2.0, in the query.
    Akamai,
    /// CloudFront signed URL with a custom policy, in the query.
    Cloudfront,
}

pub struct SigningKey(Kind);

enum Kind {
    PathHmac(path_hmac::PathHmacKey),
    SecureLink(secure_link::SecureLinkKey),
    Akamai(akamai::AkamaiKey),
    Cloudfront(cloudfront::CloudFrontKey),
}

impl SigningKey {
    /// `id` is the key id that the edge knows, of letters, digits, `-` and `_`; `parameter` names the
    /// query parameter of Akamai tokens. The error describes the expected form of the key.
    pub fn parse(
        scheme: Scheme,
        id: &str,
        secret: &str,
        parameter: &str,
    ) -> Result<Self, Malformed> {
        Ok(Self(match scheme {
            Scheme::PathHmac => Kind::PathHmac(path_hmac::PathHmacKey::parse(id, secret)?),
            Scheme::SecureLink => Kind::SecureLink(secure_link::SecureLinkKey::parse(id, secret)?),
            Scheme::Akamai => Kind::Akamai(akamai::AkamaiKey::parse(secret, parameter)?),
            Scheme::Cloudfront => Kind::Cloudfront(cloudfront::CloudFrontKey::parse(id, secret)?),
        }))
    }

    /// `None` if the scheme cannot sign it.
    fn sign(&self, target: &SignedTarget<'_>, expires: UnixSeconds) -> Option<String> {
        match &self.0 {
            Kind::PathHmac(key) => Some(key.sign(target, expires)),
            Kind::SecureLink(key) => Some(key.sign(target, expires)),
            Kind::Akamai(key) => key.sign(target, expires),
            Kind::Cloudfront(key) => key.sign(target, expires),
        }
    }
}

#[derive(Clone)]
pub struct CdnScheme {
    name: String,
    prefix: String,
    scheme: Scheme,
    lifetime: i64,
    key: Arc<SigningKey>,
}

impl CdnScheme {
    /// `prefix` is an http or https URL without trailing slash, query and fragment. `lifetime` is in
    /// seconds.
    pub fn new(name: &str, prefix: &str, scheme: Scheme, lifetime: i64, key: SigningKey) -> Self {
        Self {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            scheme,
            lifetime,
            key: Arc::new(key),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether the URL has the host of the prefix and a path at or below that of the prefix.
    fn serves(&self, address: &str) -> bool {
        let (Some((ours, below)), Some((origin, path))) = (split(&self.prefix), split(address))
        else {
            return false;
        };
        let rest = path.strip_prefix(below);
        origin.eq_ignore_ascii_case(ours)
            // A prefix `/vod` must not match `/vod2`.
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }
}

pub struct Signing {
    pub(super) origin: OriginSigner,
    pub(super) reports: SessionSigner,
    pub(super) licenses: SessionSigner,
    /// Sorted: the longest prefix comes first.
    networks: Vec<CdnScheme>,
}

impl Signing {
    pub fn new(origin_key: &[u8; 32], mut networks: Vec<CdnScheme>) -> Self {
        networks.sort_by_key(|network| std::cmp::Reverse(network.prefix.len()));
        Self {
            origin: OriginSigner::new(origin_key),
            reports: SessionSigner::for_reports(origin_key),
            licenses: SessionSigner::for_licenses(origin_key),
            networks,
        }
    }

    /// Signed if the URL belongs to a CDN, valid until `until` at most. `None` if it must be signed and
    /// cannot be: see [`SignedTarget::parse`].
    pub(super) fn signed(
        &self,
        address: String,
        now: UnixSeconds,
        until: UnixSeconds,
    ) -> Option<String> {
        let mut networks = self.networks.iter();
        let Some(network) = networks.find(|network| network.serves(&address)) else {
            return Some(address);
        };
        // Never longer than the entitlement.
        let expires = until.min(now + network.lifetime);
        network.key.sign(&SignedTarget::parse(&address)?, expires)
    }

    pub(super) fn is_slow(&self) -> bool {
        let slow =
            |network: &CdnScheme| matches!(&network.key.0, Kind::Cloudfront(key) if key.is_slow());
        self.networks.iter().any(slow)
    }
}
