//! A source as it is configured, and what is told of its last guide.

use std::sync::Arc;

use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::domain::accounts::PARENTAL_LIMIT_MAX;
use crate::domain::catalog::Unrated;
use crate::domain::schedule::import::parsed_guide::ChannelMap;
use crate::domain::schedule::import::xmltv::XmltvOptions;
use crate::domain::schedule::ratings::Ratings;
use crate::domain::schedule::{ImportReport, Outcome};
use crate::types::UnixSeconds;

/// How many unmapped and new channels of a guide are kept by name.
const NAMED_MAX: usize = 20;

/// A source of guides.
#[derive(Debug, Clone)]
pub struct EpgSource {
    /// Its name, unique.
    pub name: String,
    /// Where it is: an address of the web, or an absolute path.
    pub place: String,
    /// Seconds from one fetch to the next.
    pub interval: i64,
    /// Which source wins where two have the same livestream: the higher.
    pub priority: u32,
    /// How its guides are to be understood.
    pub reading: GuideOptions,
    /// Whether livestreams are made of channels that the catalogue does not know.
    pub create_livestreams: bool,
}

/// How guides of a source are to be understood.
#[derive(Debug, Clone, Default)]
pub struct GuideOptions {
    /// The zone of times that name none.
    pub zone: Tz,
    /// Takes every time as local in that zone.
    pub ignore_offsets: bool,
    /// Languages of titles and descriptions, the preferred first.
    pub languages: Vec<String>,
    /// The guide's channel ids that are called otherwise in the catalogue.
    pub channels: ChannelMap,
    /// What its unrated programmes are rated as.
    pub unrated: Option<Unrated>,
}

impl GuideOptions {
    /// The rating of programmes that the guide does not rate, if the source is to give them one.
    ///
    /// Decision: `pin` is the highest limit that a user can have, so that it asks every user whose
    /// parental control is on, whatever livestream or configuration say of unrated programs.
    #[must_use]
    pub fn rating(&self) -> Option<u8> {
        self.unrated.map(|unrated| match unrated {
            Unrated::Pin => PARENTAL_LIMIT_MAX,
            Unrated::Allow => 0,
            Unrated::Age(age) => age,
        })
    }

    /// The same, for the reader of XMLTV.
    #[must_use]
    pub fn options(&self, ratings: &Arc<Ratings>) -> XmltvOptions {
        XmltvOptions {
            zone: self.zone,
            ignore_offsets: self.ignore_offsets,
            languages: self.languages.clone(),
            ratings: Arc::clone(ratings),
        }
    }
}

/// What the sources are given by the configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// All of them.
    pub feeds: Vec<EpgSource>,
    /// What ratings mean, in every guide.
    pub ratings: Arc<Ratings>,
    /// How many days back broadcasts are kept.
    pub retention_days: u32,
}

/// Why a guide that was read is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldReason {
    /// It is served.
    None,
    /// The brake holds it until somebody accepts it.
    Held,
}

/// What the last guide of a source was, and did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastImport {
    /// When it was read.
    pub at: UnixSeconds,
    /// Whether it is served.
    pub standstill: HoldReason,
    /// How many channels it names.
    pub channels: u64,
    /// How many programmes it has.
    pub programmes: u64,
    /// New broadcasts.
    pub added: u64,
    /// Broadcasts with other times or facts.
    pub changed: u64,
    /// Broadcasts that went.
    pub removed: u64,
    /// Broadcasts that stayed as they were.
    pub unchanged: u64,
    /// Rows that were not taken.
    pub skipped: u64,
    /// How many of its channels no livestream carries.
    pub unmapped: u64,
    /// The first of them.
    pub unmapped_ids: Vec<String>,
    /// How many of its channels its last guide had not.
    pub new: u64,
    /// The first of them.
    pub new_ids: Vec<String>,
    /// What the brake has against it.
    pub doubts: Vec<String>,
}

impl LastImport {
    pub(super) fn from_report(report: &ImportReport, at: UnixSeconds) -> Self {
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let unmapped = report.unmapped.iter().take(NAMED_MAX);
        let new = report.newly_seen.iter().take(NAMED_MAX);
        Self {
            at,
            standstill: match report.outcome {
                Outcome::Held => HoldReason::Held,
                Outcome::Applied | Outcome::DryRun => HoldReason::None,
            },
            channels: report.channels,
            programmes: report.programmes,
            added: report.difference.added,
            changed: report.difference.changed,
            removed: report.difference.removed,
            unchanged: report.difference.unchanged,
            skipped: report.skipped.total(),
            unmapped: count(report.unmapped.len()),
            unmapped_ids: unmapped.map(|channel| channel.id.to_string()).collect(),
            new: count(report.newly_seen.len()),
            new_ids: new.map(ToString::to_string).collect(),
            doubts: report.doubts.iter().map(ToString::to_string).collect(),
        }
    }
}
