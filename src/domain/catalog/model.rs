//! What the catalogue holds: livestreams, assets, offers, and the ids of their content keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use chrono_tz::Tz;
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};

use crate::domain::loop_channel::{self, ManifestRange};
use crate::domain::schedule::Image;
use crate::types::{AssetId, Country, LivestreamId, Malformed, OfferId, Protocol, UnixSeconds};

/// The longest name or title, in bytes. This and the next bounds keep a record under the 16 KiB
/// that the store takes as one value.
pub const NAME_MAX: usize = 500;
/// How many images a livestream or an asset has.
pub const IMAGES_MAX: usize = 8;
/// The longest location of a playlist, in bytes.
pub const LOCATION_MAX: usize = 1_500;
/// How many content keys a livestream or an asset has: one for each track and quality is plenty.
pub const KEYS_MAX: usize = 64;
/// The most bytes in the ids of the livestreams of one rule.
pub const RULE_IDS_MAX: usize = 12 * 1024;
/// The longest catch-up window, in days.
pub const CATCHUP_DAYS_MAX: u16 = 366;
/// The longest duration of an offer, in days.
pub const DURATION_DAYS_MAX: u32 = 36_600;
/// The highest age rating.
pub const PG_AGE_MAX: u8 = 99;
/// The highest stream limit.
pub const STREAMS_MAX: u32 = 1_000;

/// What a viewer may do with a running program besides watching it (interface part 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtendedRights {
    /// Pause.
    pub pause: bool,
    /// Go back.
    pub rewind: bool,
    /// Go forward.
    pub fast_forward: bool,
}

/// What a program counts as that nobody has rated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unrated {
    /// It asks for the PIN, whatever the user's limit.
    Pin,
    /// Anybody may see it.
    Allow,
    /// It counts as rated from this age on.
    Age(u8),
}

impl Unrated {
    /// Reads a word, or an age in digits. `free` is what versions before called `allow`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "pin" => Some(Self::Pin),
            "allow" | "free" => Some(Self::Allow),
            age => Self::age(age.parse().ok()?),
        }
    }

    /// An age, if it is one that ratings have.
    #[must_use]
    pub fn age(age: i64) -> Option<Self> {
        let age = u8::try_from(age).ok()?;
        (age <= PG_AGE_MAX).then_some(Self::Age(age))
    }

    /// Whether a user with this limit has to give the PIN.
    #[must_use]
    pub const fn needs_pin(self, limit: u8) -> bool {
        match self {
            Self::Pin => true,
            Self::Allow => false,
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

/// A livestream, which viewers call a channel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Livestream {
    /// Its id, shared namespace with assets and broadcasts.
    pub id: LivestreamId,
    /// What viewers call it.
    pub name: String,
    /// Its pictures.
    pub images: Vec<Image>,
    /// The zone that the catalogue gives it.
    #[serde(with = "zone_name")]
    pub own_zone: Option<Tz>,
    /// The zone that counts: its own, else the configured one. Not stored, so that a change of the
    /// configuration reaches every livestream without a zone of its own.
    #[serde(skip, default = "utc")]
    pub zone: Tz,
    /// Whether its broadcasts may be seen live, unless a rule says otherwise.
    pub live_rights: bool,
    /// How long its broadcasts can be caught up with, in days; 0 for not at all.
    pub catchup_days: u16,
    /// Whether a running broadcast can be started over.
    pub start_over: bool,
    /// What else its broadcasts allow.
    pub extended: ExtendedRights,
    /// Whether the `watershed` rule looks at the age rating too.
    pub verify_age: bool,
    /// How many streams of it one user may have, if fewer than of others.
    pub streams: Option<u32>,
    /// Where its manifests are.
    pub playlist: Playlists,
    /// Whether it is protected; if not, players may ask for no DRM system.
    pub encrypted: bool,
    /// The keys that its segments are encrypted with.
    pub keys: Vec<KeyId>,
    /// What its unrated programs count as, if not what the configuration says.
    pub unrated: Option<Unrated>,
}

impl Livestream {
    /// A livestream as a catalogue file makes it that gives nothing but id and name.
    ///
    /// Decision: live rights and no others. What may be kept or moved within must be said; what
    /// goes out over the air anyway need not.
    #[must_use]
    pub fn new(id: LivestreamId, name: String) -> Self {
        Self {
            id,
            name,
            images: Vec::new(),
            own_zone: None,
            zone: Tz::UTC,
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
        }
    }
}

fn utc() -> Tz {
    Tz::UTC
}

/// A time zone is stored by its name: the numbers of an enumeration change with the tz database.
mod zone_name {
    use super::{Deserialize, Tz};
    use serde::{Deserializer, Serialize, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(zone: &Option<Tz>, to: S) -> Result<S::Ok, S::Error> {
        zone.map(Tz::name).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Tz>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        name.map(|name| name.parse().map_err(D::Error::custom))
            .transpose()
    }
}

/// A video on demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    /// Its id.
    pub id: AssetId,
    /// Its title.
    pub title: String,
    /// Its pictures.
    pub images: Vec<Image>,
    /// From what age on it may be seen without a PIN; absent where nobody rated it.
    pub pg_age: Option<u8>,
    /// When it may be seen at all.
    pub available: Window,
    /// Whether it is protected; if not, players may ask for no DRM system.
    pub encrypted: bool,
    /// The keys that it is encrypted with.
    pub keys: Vec<KeyId>,
    /// Where its manifests are.
    pub playlist: Playlists,
    /// How many streams of it one user may have, if fewer than of others.
    pub streams: Option<u32>,
}

/// A stretch of time, open at an end that is absent: from its first second to just before its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The first second.
    pub from: Option<UnixSeconds>,
    /// The first second after it.
    pub to: Option<UnixSeconds>,
}

impl Window {
    /// Whether `now` lies in it.
    #[must_use]
    pub fn contains(&self, now: UnixSeconds) -> bool {
        self.from.is_none_or(|from| from <= now) && self.to.is_none_or(|to| now < to)
    }
}

/// What kind of deal an offer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfferKind {
    /// Belongs to everybody.
    Default,
    /// Runs on until it is ended.
    Subscription,
    /// All of a pack for a time.
    Pass,
    /// One thing for a time.
    Rental,
    /// One thing for good (electronic sell-through).
    Est,
    /// Sold and accounted for by somebody else.
    ThirdParty,
}

impl OfferKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Default,
        Self::Subscription,
        Self::Pass,
        Self::Rental,
        Self::Est,
        Self::ThirdParty,
    ];

    /// The word in files and bodies.
    #[must_use]
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

/// What an offer opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pack {
    /// Everything there is and will be.
    All,
    /// What is listed.
    Listed {
        /// Livestreams, with the catch-up of their broadcasts.
        livestreams: BTreeSet<LivestreamId>,
        /// Videos on demand.
        assets: BTreeSet<AssetId>,
    },
}

/// Something that users have or get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its id.
    pub id: OfferId,
    /// What kind of deal it is.
    pub kind: OfferKind,
    /// What it opens.
    pub pack: Pack,
    /// Where it holds; everywhere if empty. Sorted.
    pub countries: Vec<Country>,
    /// When it can be got. A default offer, which nobody gets, belongs to everybody only then.
    pub sale: Window,
    /// For how long one has it, in days; until revoked if absent.
    pub duration_days: Option<u32>,
}

/// Where the manifests of a livestream or an asset are, by [`Protocol::family`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Playlists(pub BTreeMap<Protocol, String>);

/// The place of one manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location<'a> {
    /// A path below the media directory, of segments that are names.
    Origin(&'a str),
    /// The path of a clip's manifest below the media directory: a livestream that plays the clip
    /// round and round.
    Loop(&'a str),
    /// An http or https address, or a template of one.
    Address(&'a str),
}

impl<'a> Location<'a> {
    /// Reads `origin:path`, `loop:path` or an address.
    ///
    /// # Errors
    /// [`Malformed`] for another form, and for a path that leaves the media directory.
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        if text.len() > LOCATION_MAX {
            return Err(Malformed("has at most 1500 bytes"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(Malformed("has no blanks and no control characters"));
        }
        if let Some(path) = text.strip_prefix("origin:") {
            let names = path
                .split('/')
                .all(|name| !matches!(name, "" | "." | "..") && !name.contains('\\'));
            return names
                .then_some(Self::Origin(path))
                .ok_or(Malformed("must be a path below the media directory"));
        }
        if let Some(path) = text.strip_prefix("loop:") {
            let manifest = loop_channel::manifest(path, ManifestRange::Live);
            return manifest.map(|_| Self::Loop(path)).ok_or(Malformed(
                "must be the path of a `.mpd` or `.m3u8` below the media directory",
            ));
        }
        let host = ["https://", "http://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match host {
            Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(Self::Address(text)),
            _ => Err(Malformed(
                "must be `origin:PATH`, `loop:PATH` or an http or https address",
            )),
        }
    }
}

impl Playlists {
    /// The place of the manifest for a protocol, without regard to whether its scheme will do.
    #[must_use]
    pub fn location(&self, protocol: Protocol) -> Option<Location<'_>> {
        let text = self.0.get(&protocol.family())?;
        Location::parse(text).ok()
    }
}

/// The id of a content key, as manifests and licenses name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyId([u8; 16]);

impl KeyId {
    /// An id of 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Reads 32 hexadecimal digits, or the same as a UUID.
    ///
    /// # Errors
    /// [`Malformed`] for another form.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be 32 hexadecimal digits or a UUID");
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

/// A content key in clear: only between the file or the vault and the license. Neither printed nor
/// stored; it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct ContentKey([u8; 16]);

impl ContentKey {
    /// A key of 16 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads 32 hexadecimal digits.
    ///
    /// # Errors
    /// [`Malformed`] for another form.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        sixteen_bytes(text)
            .map(Self)
            .ok_or(Malformed("must be 32 hexadecimal digits"))
    }

    /// Reads a key file: 16 bytes, or 32 hexadecimal digits with white space around them.
    ///
    /// # Errors
    /// [`Malformed`] for another content.
    pub fn read_file(content: &[u8]) -> Result<Self, Malformed> {
        let malformed = Malformed("must hold 16 bytes or 32 hexadecimal digits");
        if let Ok(bytes) = content.try_into() {
            return Ok(Self(bytes));
        }
        let text = std::str::from_utf8(content).map_err(|_| malformed)?;
        Self::parse(text.trim()).map_err(|_| malformed)
    }

    /// The bytes.
    #[must_use]
    pub const fn reveal(&self) -> &[u8; 16] {
        &self.0
    }
}

fn sixteen_bytes(hex: &str) -> Option<[u8; 16]> {
    // Checked first: nothing of unbounded length is decoded.
    if hex.len() != 32 {
        return None;
    }
    let bytes = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_stays_below_the_media_directory() {
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
    fn a_window_is_half_open() {
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
