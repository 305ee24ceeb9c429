//! Settings of an EPG source, and the summary of its last import.

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

/// Maximum unmapped and new channels of an import that are listed by id.
const NAMED_MAX: usize = 20;

/// A configured EPG source.
#[derive(Debug, Clone)]
pub struct EpgSource {
    /// Unique name.
    pub name: String,
    /// URL or absolute path of the guide.
    pub place: String,
    /// Seconds between fetches.
    pub interval: i64,
    /// If two sources cover the same livestream, the higher priority wins.
    pub priority: u32,
    pub reading: GuideOptions,
    /// Whether to create livestreams for channels that the catalogue does not have.
    pub create_livestreams: bool,
}

/// How to interpret the guides of a source.
#[derive(Debug, Clone, Default)]
pub struct GuideOptions {
    /// Time zone of times without one.
    pub zone: Tz,
    /// Whether to treat all times as local in `zone`, whatever their offset.
    pub ignore_offsets: bool,
    /// Languages of titles and descriptions, preferred first.
    pub languages: Vec<String>,
    /// Maps channel ids of the guide to livestream ids.
    pub channels: ChannelMap,
    /// Rating of programmes that the guide does not rate.
    pub unrated: Option<Unrated>,
}

impl GuideOptions {
    /// Returns the rating to give to unrated programmes, if configured.
    ///
    /// `pin` becomes the highest limit that a user can have. So every user with parental control on is asked for
    /// the PIN, whatever the livestream or the configuration say about unrated programs.
    #[must_use]
    pub fn rating(&self) -> Option<u8> {
        self.unrated.map(|unrated| match unrated {
            Unrated::Pin => PARENTAL_LIMIT_MAX,
            Unrated::Allow => 0,
            Unrated::Age(age) => age,
        })
    }

    /// Returns the options for the XMLTV reader.
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

/// Configuration of all sources.
#[derive(Debug, Clone)]
pub struct Settings {
    pub feeds: Vec<EpgSource>,
    /// Rating tables, shared by all guides.
    pub ratings: Arc<Ratings>,
    /// Days for which past broadcasts are kept.
    pub retention_days: u32,
}

/// Why the last guide of a source is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldReason {
    /// It is served.
    None,
    /// It looks implausible and waits for approval.
    Held,
}

/// Summary of the last guide of a source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastImport {
    /// When the guide was read.
    pub at: UnixSeconds,
    pub standstill: HoldReason,
    /// Channels in the guide.
    pub channels: u64,
    /// Programmes in the guide.
    pub programmes: u64,
    pub added: u64,
    /// Broadcasts with changed times or metadata.
    pub changed: u64,
    pub removed: u64,
    pub unchanged: u64,
    /// Skipped rows.
    pub skipped: u64,
    /// Channels without a livestream.
    pub unmapped: u64,
    /// Ids of the first ones.
    pub unmapped_ids: Vec<String>,
    /// Channels that the source's last accepted guide did not contain.
    pub new: u64,
    /// Ids of the first ones.
    pub new_ids: Vec<String>,
    /// Plausibility issues.
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
