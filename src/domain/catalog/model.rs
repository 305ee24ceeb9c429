//! The objects of the catalogue: livestreams, assets, offers, ids of content keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};

use crate::schedule::Image;
use playgate_decode::{Node, Value};
use playgate_media::loop_channel;
use playgate_types::{
    AssetId, Country, LivestreamId, Malformed, OfferId, Protocol, UnixSeconds, Zone,
};

/// In bytes. This and the next limits keep a record below the 16 KiB that the store accepts as one value.
pub const NAME_MAX: usize = 500;
pub const GROUP_MAX: usize = 100;
pub const CHANNEL_NUMBER_MAX: u16 = 9_999;
pub const IMAGES_MAX: usize = 8;
/// In bytes.
pub(super) const LOCATION_MAX: usize = 1_500;
/// Enough for one key per track and quality.
pub const KEYS_MAX: usize = 64;
/// Bytes of the livestream ids in one rule.
pub const RULE_IDS_MAX: usize = 12 * 1024;
pub const CATCHUP_DAYS_MAX: u16 = 366;
pub const DURATION_DAYS_MAX: u32 = 36_600;
pub const PG_AGE_MAX: u8 = 99;
pub const STREAMS_MAX: u32 = 1_000;

/// `extendedRights` of the interface, for a running program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendedRights {
    pub pause: bool,
    pub rewind: bool,
    pub fast_forward: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unrated {
    Pin,
    Allow,
    Age(u8),
}

impl Unrated {
    pub fn read(node: &Node) -> Result<Self, String> {
        let found = match &node.value {
            Value::Text(text) | Value::Loose(text) => Self::parse(text),
            Value::Integer(age) => Self::age(*age),
            _ => None,
        };
        found.ok_or_else(|| format!("must be pin, allow or an age from 0 to {PG_AGE_MAX}"))
    }

    /// `free` is the former name of `allow`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "pin" => Some(Self::Pin),
            "allow" | "free" => Some(Self::Allow),
            age => Self::age(age.parse().ok()?),
        }
    }

    pub fn age(age: i64) -> Option<Self> {
        let age = u8::try_from(age).ok()?;
        (age <= PG_AGE_MAX).then_some(Self::Age(age))
    }

    pub const fn needs_pin(self, limit: u8) -> bool {
        match self {
            Self::Pin => true,
            Self::Allow => false,
            // `limit` is the lowest rating that needs the PIN.
            Self::Age(age) => age >= limit,
        }
    }
}

impl fmt::Display for Unrated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin => f.write_str("pin"),
            Self::Allow => f.write_str("allow"),
            Self::Age(age) => age.fmt(f),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Livestream {
    pub id: LivestreamId,
    pub name: String,
    pub images: Vec<Image>,
    #[serde(with = "zone_name")]
    pub own_zone: Option<Zone>,
    /// `own_zone`, else the configured one. It is not stored, so that a change of the configuration takes effect.
    #[serde(skip)]
    pub zone: Zone,
    pub live_rights: bool,
    /// In days; 0 disables catch-up.
    pub catchup_days: u16,
    pub start_over: bool,
    pub extended: ExtendedRights,
    /// Whether the `watershed` rule also checks the age rating.
    pub verify_age: bool,
    /// Limit of streams per user, if lower than the general one.
    pub streams: Option<u32>,
    pub playlist: Playlists,
    /// Whether the streams are encrypted. If not, requests that name a DRM system are rejected.
    pub encrypted: bool,
    pub keys: Vec<KeyId>,
    pub unrated: Option<Unrated>,
    /// The place on the remote control.
    pub number: Option<u16>,
    pub group: Option<String>,
}

impl Livestream {
    /// The defaults of catalogue files.
    pub fn new(id: LivestreamId, name: String) -> Self {
        Self {
            id,
            name,
            images: Vec::new(),
            own_zone: None,
            zone: Zone::utc(),
            // Live rights only: catch-up, start-over and trick play must be granted explicitly.
            live_rights: true,
            catchup_days: 0,
            start_over: false,
            extended: ExtendedRights::default(),
            verify_age: false,
            streams: None,
            playlist: Playlists::default(),
            encrypted: true,
            keys: Vec::new(),
            unrated: None,
            number: None,
            group: None,
        }
    }
}

/// Stores a zone by its name. Its rules may be gone when it is read, and the livestream must not be.
mod zone_name {
    use super::{Deserialize, Zone};
    use serde::{Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(zone: &Option<Zone>, to: S) -> Result<S::Ok, S::Error> {
        zone.map(Zone::name).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Zone>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        Ok(name.map(|name| Zone::stored(&name)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    pub id: AssetId,
    pub title: String,
    pub images: Vec<Image>,
    pub pg_age: Option<u8>,
    pub available: Window,
    pub encrypted: bool,
    pub keys: Vec<KeyId>,
    pub playlist: Playlists,
    pub streams: Option<u32>,
}

/// A half-open interval; an absent end is unbounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
}

impl Window {
    pub fn contains(&self, now: UnixSeconds) -> bool {
        self.from.is_none_or(|from| from <= now) && self.to.is_none_or(|to| now < to)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfferKind {
    Default,
    Subscription,
    /// The content of a pack for a limited time.
    Pass,
    /// One title for a limited time.
    Rental,
    /// One title permanently (electronic sell-through).
    Est,
    /// Sold and accounted for by a third party.
    ThirdParty,
}

impl OfferKind {
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::Subscription,
        Self::Pass,
        Self::Rental,
        Self::Est,
        Self::ThirdParty,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Subscription => "subscription",
            Self::Pass => "pass",
            Self::Rental => "rental",
            Self::Est => "est",
            Self::ThirdParty => "thirdparty",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pack {
    All,
    Listed {
        livestreams: BTreeSet<LivestreamId>,
        assets: BTreeSet<AssetId>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub id: OfferId,
    pub kind: OfferKind,
    pub pack: Pack,
    /// Sorted; empty means everywhere.
    pub countries: Vec<Country>,
    /// The time in which it can be bought. A default offer is valid only in this window.
    pub sale: Window,
    pub duration_days: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playlists(pub BTreeMap<Protocol, String>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location<'a> {
    Origin(&'a str),
    /// A clip below the media directory, which the livestream loops.
    Loop(&'a str),
    Address(&'a str),
}

impl<'a> Location<'a> {
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        if text.len() > LOCATION_MAX {
            return Err(Malformed("must have at most 1500 bytes"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Malformed(
                "must not contain white space or control characters",
            ));
        }
        if let Some(path) = text.strip_prefix("origin:") {
            let names = path
                .split('/')
                // A name of dots would leave the media directory; backslashes are separators on other systems.
                .all(|name| !matches!(name, "" | "." | "..") && !name.contains('\\'));
            return names
                .then_some(Self::Origin(path))
                .ok_or(Malformed("must be a path below the media directory"));
        }
        if let Some(path) = text.strip_prefix("loop:") {
            return loop_channel::is_clip(path)
                .then_some(Self::Loop(path))
                .ok_or(Malformed(
                    "must be the path of a `.mpd` or `.m3u8` below the media directory",
                ));
        }
        let host = ["https://", "http://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match host {
            // A relative address would resolve against whatever host the player uses.
            Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(Self::Address(text)),
            _ => Err(Malformed(
                "must be `origin:PATH`, `loop:PATH` or an http or https address",
            )),
        }
    }
}

impl Playlists {
    pub fn location(&self, protocol: Protocol) -> Option<Location<'_>> {
        let text = self.0.get(&protocol.family())?;
        // Catalogues are validated at import, so an error here means an older, laxer version.
        Location::parse(text).ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId([u8; 16]);

impl KeyId {
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be 32 hexadecimal digits or a UUID");
        // `cenc:default_KID` of an MPD is written as a UUID.
        let uuid = text.len() == 36
            && [8, 13, 18, 23]
                .iter()
                .all(|at| text.as_bytes().get(*at) == Some(&b'-'));
        let bytes = if uuid {
            sixteen_bytes(&text.replace('-', ""))
        } else {
            sixteen_bytes(text)
        };
        bytes.map(Self).ok_or(malformed)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER_PERMISSIVE.encode(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// A content key in clear text. It exists only between import or unsealing and the license. It has no `Debug`, so that
/// it is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ContentKey([u8; 16]);

impl ContentKey {
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        sixteen_bytes(text)
            .map(Self)
            .ok_or(Malformed("must be 32 hexadecimal digits"))
    }

    /// 16 bytes, or 32 hexadecimal digits with surrounding white space.
    pub fn read_file(content: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("must hold 16 bytes or 32 hexadecimal digits");
        // 16 bytes are never hexadecimal digits: those are 32.
        if let Ok(bytes) = content.try_into() {
            return Ok(Self(bytes));
        }
        let text = std::str::from_utf8(content).map_err(|_| malformed)?;
        // Editors end a file with a line break.
        Self::parse(text.trim()).map_err(|_| malformed)
    }

    pub const fn reveal(&self) -> &[u8; 16] {
        &self.0
    }
}

fn sixteen_bytes(hex: &str) -> Option<[u8; 16]> {
    // Check the length first, so that no unbounded input is decoded.
    if hex.len() != 32 {
        return None;
    }
    // Upper-case digits are accepted, too.
    let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_stays_below_the_media_directory() {
        for (text, location) in [
            ("origin:a.mpd", Location::Origin("a.mpd")),
            ("origin:loop/news.mpd", Location::Origin("loop/news.mpd")),
            ("loop:a/b.mpd", Location::Loop("a/b.mpd")),
            ("loop:a.m3u8", Location::Loop("a.m3u8")),
            (
                "https://cdn.example/x.m3u8",
                Location::Address("https://cdn.example/x.m3u8"),
            ),
        ] {
            assert_eq!(Location::parse(text), Ok(location));
        }
        for bad in [
            "",
            "origin:",
            "origin:/etc/passwd",
            "origin:../a",
            "origin:a/../../b",
            "origin:a//b",
            "origin:a/",
            "origin:.",
            "origin:a\\..\\b",
            "loop:",
            "loop:a.mp4",
            "loop:a/mpd",
            "loop:../a.mpd",
            "loop:/a.mpd",
            "loop:a/.b.mpd",
            "loop:a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p.mpd",
            "a.mpd",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "ftp://h/x",
            "https://h/a b",
            "https://h/a\nb",
            "javascript:alert(1)",
        ] {
            assert!(Location::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn keys_are_sixteen_bytes() {
        let hex = "00112233445566778899AABBCCDDEEFF";
        let uuid = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(KeyId::parse(hex), KeyId::parse(uuid));
        assert_eq!(KeyId::parse(uuid).unwrap().to_string(), hex.to_lowercase());
        for bad in [
            "",
            "0011",
            &"0".repeat(33),
            "zz112233445566778899aabbccddeeff",
            &uuid[1..],
        ] {
            assert!(KeyId::parse(bad).is_err(), "{bad:?}");
        }
        let key = ContentKey::parse(hex).ok().unwrap();
        for content in [&key.reveal()[..], b"00112233445566778899aabbccddeeff\n"] {
            assert!(ContentKey::read_file(content) == Ok(key.clone()));
        }
        assert!(ContentKey::read_file(b"short").is_err());
    }

    #[test]
    fn window_is_half_open() {
        let window = Window {
            from: Some(UnixSeconds(5)),
            to: Some(UnixSeconds(7)),
        };
        let inside: Vec<i64> = (0..10)
            .filter(|at| window.contains(UnixSeconds(*at)))
            .collect();
        assert_eq!(inside, [5, 6]);
        assert!(Window::default().contains(UnixSeconds(0)));
    }
}
