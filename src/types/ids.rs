//! Identifiers. Ours are 128 random bits; those of the catalogue and the guide are kept as given.

use std::fmt;
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Malformed;

/// The longest id that a catalogue or a guide may bring, in characters.
pub const FOREIGN_ID_MAX: usize = 128;

/// The rule for ids that come from outside: they travel in paths and in comma-separated lists, so
/// neither separator may occur in them, and `.` and `..` would be path segments of another meaning.
fn check_foreign(text: &str) -> Result<(), Malformed> {
    // The cheap bound first: no walk over a text of unbounded length.
    if text.len() > FOREIGN_ID_MAX * 4 || text.chars().count() > FOREIGN_ID_MAX {
        return Err(Malformed("an id has at most 128 characters"));
    }
    if text.is_empty() {
        return Err(Malformed("an id has at least one character"));
    }
    if text == "." || text == ".." {
        return Err(Malformed("`.` and `..` are not ids"));
    }
    if text
        .chars()
        .any(|c| c.is_control() || matches!(c, ',' | '/' | '\\'))
    {
        return Err(Malformed(
            "an id has no control characters, commas or slashes",
        ));
    }
    Ok(())
}

macro_rules! foreign_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text as an id if it keeps the rules for ids.
            ///
            /// # Errors
            /// [`Malformed`] names the rule that it breaks.
            pub fn parse(text: &str) -> Result<Self, Malformed> {
                check_foreign(text)?;
                Ok(Self(text.into()))
            }

            /// The id as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
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
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
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
            /// An id of 16 bytes that the caller drew at random.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The bytes, as keys are made of.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Reads the 22 URL-safe characters that [`fmt::Display`] writes.
            ///
            /// # Errors
            /// [`Malformed`] for anything else.
            pub fn parse(text: &str) -> Result<Self, Malformed> {
                let malformed = Malformed("this id has 22 URL-safe characters");
                // Checked first: nothing of unbounded length is decoded.
                if text.len() != 22 {
                    return Err(malformed);
                }
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
                    let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                    Self::parse(&text).map_err(serde::de::Error::custom)
                } else {
                    <[u8; 16]>::deserialize(deserializer).map(Self)
                }
            }
        }
    };
}

foreign_id! {
    /// A livestream, which viewers call a channel.
    LivestreamId
}
foreign_id! {
    /// What a viewer may play: a livestream, a broadcast or a video on demand; they share one
    /// namespace.
    AssetId
}
foreign_id! {
    /// One broadcast of a livestream; also the asset id of its catch-up.
    BroadcastId
}
foreign_id! {
    /// An offer of the catalogue.
    OfferId
}

random_id! {
    /// A partner: a client application's operator, with its own users.
    PartnerId
}
random_id! {
    /// A user of one partner.
    UserId
}
random_id! {
    /// A login session: what a User Authorization Token lives in.
    LoginId
}
random_id! {
    /// A playback session, made by preflight and kept alive by heartbeats.
    SessionId
}
random_id! {
    /// The record behind an entitlement token.
    EntitlementId
}
random_id! {
    /// A message of the mail queue.
    MailId
}
random_id! {
    /// An operator of the administration interface.
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

/// The longest value of a `Service-Play-Device*` header, in characters.
pub const DEVICE_TEXT_MAX: usize = 256;

/// What counts as one device: the value of `Service-Play-DeviceId`, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceId(Arc<str>);

impl DeviceId {
    /// Takes 1 to 256 characters.
    ///
    /// # Errors
    /// [`Malformed`] for an empty or longer text.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if text.is_empty() || text.len() > DEVICE_TEXT_MAX * 4 {
            return Err(Malformed("has 1 to 256 characters"));
        }
        if text.chars().count() > DEVICE_TEXT_MAX {
            return Err(Malformed("has 1 to 256 characters"));
        }
        Ok(Self(text.into()))
    }

    /// The text as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_ids_keep_the_rules() {
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
    fn random_ids_are_read_back() {
        let id = UserId::from_bytes([7; 16]);
        assert_eq!(UserId::parse(&id.to_string()), Ok(id));
        assert!(UserId::parse("").is_err());
        assert!(UserId::parse(&"A".repeat(23)).is_err());
        // Characters that decode to the same bytes would be a second name of the same user.
        assert!(UserId::parse("AAAAAAAAAAAAAAAAAAAAAB").is_err());
    }
}
