//! Settings of an EPG source, and the summary of its last import.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::accounts::PARENTAL_LIMIT_MAX;
use crate::catalog::Unrated;
use crate::schedule::import::parsed_guide::ChannelMap;
use crate::schedule::import::xmltv::XmltvOptions;
use crate::schedule::ratings::Ratings;
use crate::schedule::{ImportOutcome, ImportReport};
use playgate_ports::FetchOptions;
use playgate_types::{UnixSeconds, Zone};

const NAMED_MAX: usize = 20;

#[derive(Debug, Clone)]
pub struct EpgSource {
    pub name: String,
    pub location: String,
    /// Seconds.
    pub interval: i64,
    /// If two sources cover the same livestream, the higher priority wins.
    pub priority: u32,
    pub options: GuideOptions,
    /// Whether to create livestreams for channels that the catalogue does not have.
    pub create_livestreams: bool,
    pub request: FetchOptions,
}

#[derive(Debug, Clone, Default)]
pub struct GuideOptions {
    pub zone: Zone,
    /// Treat all times as local in `zone`, whatever their offset. Some guides mark local times as UTC.
    pub ignore_offsets: bool,
    pub languages: Vec<String>,
    pub channels: ChannelMap,
    pub unrated: Option<Unrated>,
    /// Seconds that all times are moved.
    pub shift: i64,
    /// The system of ratings that name none.
    pub rating_system: Option<String>,
}

impl GuideOptions {
    pub fn rating(&self) -> Option<u8> {
        self.unrated.map(|unrated| match unrated {
            // The highest limit that a user can have: every user with parental control on is asked for the PIN,
            // whatever the livestream or the configuration say about unrated programs.
            Unrated::Pin => PARENTAL_LIMIT_MAX,
            Unrated::Allow => 0,
            Unrated::Age(age) => age,
        })
    }

    pub fn options(&self, ratings: &Arc<Ratings>) -> XmltvOptions {
        XmltvOptions {
            zone: self.zone,
            ignore_offsets: self.ignore_offsets,
            languages: self.languages.clone(),
            ratings: Arc::clone(ratings),
            rating_system: self.rating_system.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct EpgSettings {
    pub sources: Vec<EpgSource>,
    pub ratings: Arc<Ratings>,
    /// Days.
    pub retention_days: u32,
    /// Directory of guides while they arrive.
    pub spool: PathBuf,
}

/// Why the last guide of a source is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HoldReason {
    None,
    /// The guide looks implausible and waits for approval.
    Held,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastImport {
    pub at: UnixSeconds,
    pub standstill: HoldReason,
    pub channels: u64,
    pub programmes: u64,
    pub added: u64,
    pub changed: u64,
    pub removed: u64,
    pub unchanged: u64,
    pub skipped: u64,
    pub unmapped: u64,
    pub unmapped_ids: Vec<String>,
    /// Compared with the source's last accepted guide.
    pub new: u64,
    pub new_ids: Vec<String>,
    pub issues: Vec<String>,
}

impl LastImport {
    pub(super) fn from_report(report: &ImportReport, at: UnixSeconds) -> Self {
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        // A guide can have thousands of unmapped channels, and the record must stay small.
        let unmapped = report.unmapped.iter().take(NAMED_MAX);
        let new = report.newly_seen.iter().take(NAMED_MAX);
        Self {
            at,
            standstill: match report.outcome {
                ImportOutcome::Held => HoldReason::Held,
                ImportOutcome::Applied | ImportOutcome::DryRun => HoldReason::None,
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
            issues: report.issues.iter().map(ToString::to_string).collect(),
        }
    }
}
