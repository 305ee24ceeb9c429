//! Signed playlist addresses: those of the built-in origin, which we check ourselves, and those of
//! content delivery networks, which check them at their edges.
//!
//! A network is known by the prefix of its addresses. Whatever its scheme, an address is good for
//! the directory of the manifest and what lies under it, until it expires, and never longer than
//! the entitlement that it was given for. It names no user: whoever has it may fetch until then.

mod akamai;
mod cloudfront;
mod origin;
mod path_hmac;
mod secure_link;
mod target;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::types::{Malformed, UnixSeconds};

pub use origin::OriginSigner;
use target::{Target, split};

/// How the edge of a network checks an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// HMAC-SHA256 in the path.
    PathHmac,
    /// nginx's `secure_link`, in the path.
    SecureLink,
    /// Akamai's Auth Token 2.0, in the query.
    Akamai,
    /// A signed address of CloudFront with a policy of its own, in the query.
    Cloudfront,
}

/// A key that signs addresses. Secret: it has no `Debug`.
pub struct Key(Kind);

enum Kind {
    PathHmac(path_hmac::Key),
    SecureLink(secure_link::Key),
    Akamai(akamai::Key),
    Cloudfront(cloudfront::Key),
}

impl Key {
    /// Reads a key as its scheme writes keys. `id` is the name by which the edge knows it, of
    /// letters, digits, `-` and `_`; `parameter` names the query parameter of Akamai's tokens.
    ///
    /// # Errors
    /// [`Malformed`] says what a key of the scheme looks like.
    pub fn parse(
        scheme: Scheme,
        id: &str,
        secret: &str,
        parameter: &str,
    ) -> Result<Self, Malformed> {
        Ok(Self(match scheme {
            Scheme::PathHmac => Kind::PathHmac(path_hmac::Key::parse(id, secret)?),
            Scheme::SecureLink => Kind::SecureLink(secure_link::Key::parse(id, secret)?),
            Scheme::Akamai => Kind::Akamai(akamai::Key::parse(secret, parameter)?),
            Scheme::Cloudfront => Kind::Cloudfront(cloudfront::Key::parse(id, secret)?),
        }))
    }

    /// The address with its signature; nothing if it has no form that can be signed.
    fn sign(&self, target: &Target<'_>, expires: UnixSeconds) -> Option<String> {
        match &self.0 {
            Kind::PathHmac(key) => Some(key.sign(target, expires)),
            Kind::SecureLink(key) => Some(key.sign(target, expires)),
            Kind::Akamai(key) => key.sign(target, expires),
            Kind::Cloudfront(key) => key.sign(target, expires),
        }
    }
}

/// A content delivery network.
#[derive(Clone)]
pub struct CdnScheme {
    name: String,
    prefix: String,
    scheme: Scheme,
    lifetime: i64,
    key: Arc<Key>,
}

impl CdnScheme {
    /// A network of the addresses that begin with `prefix`, an http or https address without
    /// closing slash, query and fragment. `lifetime`: how long an address is good, in seconds.
    #[must_use]
    pub fn new(name: &str, prefix: &str, scheme: Scheme, lifetime: i64, key: Key) -> Self {
        Self {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            scheme,
            lifetime,
            key: Arc::new(key),
        }
    }

    /// Its name in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its addresses begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How its edge checks an address.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Whether an address lies under the prefix: of the same host, and at or below the path.
    fn serves(&self, address: &str) -> bool {
        let (Some((ours, below)), Some((origin, path))) = (split(&self.prefix), split(address))
        else {
            return false;
        };
        let rest = path.strip_prefix(below);
        origin.eq_ignore_ascii_case(ours)
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
    }
}

/// What addresses are signed with.
pub struct Signing {
    /// The signer of the built-in origin.
    pub(super) origin: OriginSigner,
    /// Those with the longest prefixes first.
    networks: Vec<CdnScheme>,
}

impl Signing {
    /// Signs with the key of the built-in origin, and for networks.
    #[must_use]
    pub fn new(origin_key: &[u8; 32], mut networks: Vec<CdnScheme>) -> Self {
        networks.sort_by_key(|network| std::cmp::Reverse(network.prefix.len()));
        Self {
            origin: OriginSigner::new(origin_key),
            networks,
        }
    }

    /// The address as a client may have it: signed if a network serves it, until `until` at the
    /// most. Nothing if it would have to be signed and cannot be: see [`Target::parse`].
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
        let expires = until.min(now + network.lifetime);
        network.key.sign(&Target::parse(&address)?, expires)
    }

    /// Whether a signature of some network takes so long that it must not hold up a thread that
    /// serves others.
    pub(super) fn is_slow(&self) -> bool {
        let slow =
            |network: &CdnScheme| matches!(&network.key.0, Kind::Cloudfront(key) if key.is_slow());
        self.networks.iter().any(slow)
    }
}
