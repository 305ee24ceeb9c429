//! Identifiers. Playgate's own ids are 128 random bits; ids of the catalogue and of EPG sources are kept as
//! given.

use std::fmt;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Malformed;
use super::shared_text::{self, read_text, shared_text};

pub(crate) const FOREIGN_ID_MAX: usize = 128;

fn check_foreign(text: &str) -> Result<(), Malformed> {
    // Nearly every id, and a request may list hundreds. Ids with dots or in other alphabets take the longer way.
    let is_plain =
        |byte| matches!(byte, b'!'..=b'~') && !matches!(byte, b',' | b'.' | b'/' | b'\\');
    if (1..=FOREIGN_ID_MAX).contains(&text.len()) && text.bytes().all(is_plain) {
        return Ok(());
    }
    // The cheap check first: it bounds the work for oversized input.
    if text.len() > FOREIGN_ID_MAX * 4 || text.chars().count() > FOREIGN_ID_MAX {
        return Err(Malformed("an id has at most 128 characters"));
    }
    if text.is_empty() {
        return Err(Malformed("an id has at least one character"));
    }
    // Clients and proxies resolve these before the request reaches the router.
    if text == "." || text == ".." {
        return Err(Malformed("`.` and `..` are not ids"));
    }
    if text
        .chars()
        // Ids occur in paths and in comma-separated lists.
        .any(|c| c.is_control() || matches!(c, ',' | '/' | '\\'))
    {
        return Err(Malformed(
            "an id has no control characters, commas or slashes",
        ));
    }
    Ok(())
}

/// An id that partners or guides chose.
pub trait ForeignId: Sized {
    /// Like [`ForeignId::parse`], without making the id.
    fn check(text: &str) -> Result<(), Malformed>;
    fn parse(text: &str) -> Result<Self, Malformed>;
}

macro_rules! foreign_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, Malformed> {
                check_foreign(text)?;
                Ok(Self(shared_text(text)))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ForeignId for $name {
            fn check(text: &str) -> Result<(), Malformed> {
                check_foreign(text)
            }

            fn parse(text: &str) -> Result<Self, Malformed> {
                Self::parse(text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                read_text(deserializer, Self::parse)
            }
        }
    };
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 16]);

        impl $name {
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            pub fn parse(text: &str) -> Result<Self, Malformed> {
                let malformed = Malformed("this id has 22 URL-safe characters");
                // Bounds the input of the decoder.
                if text.len() != 22 {
                    return Err(malformed);
                }
                // The decoder rejects stray trailing bits, so each id has one spelling.
                let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| malformed)?;
                bytes.try_into().map(Self).map_err(|_| malformed)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&BASE64URL_NOPAD.encode(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                // Records of the store are binary: 16 bytes instead of 22.
                if serializer.is_human_readable() {
                    serializer.collect_str(self)
                } else {
                    self.0.serialize(serializer)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    read_text(deserializer, Self::parse)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

foreign_id! {
    LivestreamId
}
foreign_id! {
    /// An asset that a viewer may play: a livestream, a broadcast or a video on demand. They share one
    /// namespace.
    AssetId
}
foreign_id! {
    /// One broadcast of a livestream; also the asset id of its catch-up.
    BroadcastId
}
foreign_id! {
    OfferId
}

random_id! {
    /// A partner: the operator of a client application, with its own users.
    PartnerId
}
random_id! {
    UserId
}
random_id! {
    /// A login session, which a User Authorization Token belongs to.
    LoginId
}
random_id! {
    /// A playback session, created by preflight and kept alive by heartbeats.
    SessionId
}
random_id! {
    /// The record behind an entitlement token.
    EntitlementId
}
random_id! {
    MailId
}
random_id! {
    OperatorId
}

impl From<&LivestreamId> for AssetId {
    fn from(id: &LivestreamId) -> Self {
        Self(id.0.clone())
    }
}

impl From<&BroadcastId> for AssetId {
    fn from(id: &BroadcastId) -> Self {
        Self(id.0.clone())
    }
}

impl From<&AssetId> for LivestreamId {
    fn from(id: &AssetId) -> Self {
        Self(id.0.clone())
    }
}

impl From<&AssetId> for BroadcastId {
    fn from(id: &AssetId) -> Self {
        Self(id.0.clone())
    }
}

pub(crate) const DEVICE_TEXT_MAX: usize = 256;

/// The identity of a device: the opaque value of `Service-Play-DeviceId`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId(#[serde(deserialize_with = "shared_text::deserialize")] Arc<str>);

impl DeviceId {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        // Bytes first: it bounds the count.
        if text.is_empty() || text.len() > DEVICE_TEXT_MAX * 4 {
            return Err(Malformed("must have 1 to 256 characters"));
        }
        if text.chars().count() > DEVICE_TEXT_MAX {
            return Err(Malformed("must have 1 to 256 characters"));
        }
        Ok(Self(shared_text(text)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub const fn as_shared(&self) -> &Arc<str> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_from_outside_are_validated() {
        for good in ["a", "news", "TV 4 HD", "ä", "a.b", "...", &"x".repeat(128)] {
            assert_eq!(LivestreamId::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            ".",
            "..",
            "a,b",
            "a/b",
            "a\nb",
            "a\0b",
            &"x".repeat(129),
        ] {
            assert!(LivestreamId::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn random_ids_are_parsed_back() {
        let id = UserId::from_bytes([7; 16]);
        assert_eq!(UserId::parse(&id.to_string()), Ok(id));
        assert!(UserId::parse("").is_err());
        assert!(UserId::parse(&"A".repeat(23)).is_err());
        // Characters that decode to the same bytes would be a second id of the same user.
        assert!(UserId::parse("AAAAAAAAAAAAAAAAAAAAAB").is_err());
    }
}
