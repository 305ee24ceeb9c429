//! The state of EPG sources, for operators.

use std::collections::BTreeMap;

use serde::Serialize;

use playgate_domain::epg_sources::{EpgSourceView, HoldReason, LastImport};
use playgate_domain::schedule::import::parsed_guide::ChannelTarget;
use playgate_ports::http_client::without_query;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WireSource {
    name: String,
    url: String,
    interval: i64,
    priority: u32,
    zone: &'static str,
    ignore_offsets: bool,
    languages: Vec<String>,
    mapped: usize,
    channels: BTreeMap<String, WireTarget>,
    state: &'static str,
    last_attempt: Option<i64>,
    last_success: Option<i64>,
    next: Option<i64>,
    failures: u32,
    error: Option<String>,
    last_import: Option<WireLastImport>,
}

/// A livestream id; a list of them or a table with a shift if the configuration has one.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WireTarget {
    One(String),
    Several(Vec<String>),
    Shifted {
        livestreams: Vec<String>,
        shift: i64,
    },
}

impl From<ChannelTarget> for WireTarget {
    fn from(ChannelTarget { livestreams, shift }: ChannelTarget) -> Self {
        match <[String; 1]>::try_from(livestreams) {
            Ok([one]) if shift == 0 => Self::One(one),
            Ok(one) => Self::Shifted {
                livestreams: one.into(),
                shift,
            },
            Err(several) if shift == 0 => Self::Several(several),
            Err(livestreams) => Self::Shifted { livestreams, shift },
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireLastImport {
    at: i64,
    channels: u64,
    programmes: u64,
    added: u64,
    changed: u64,
    removed: u64,
    unchanged: u64,
    skipped: u64,
    unmapped: u64,
    unmapped_ids: Vec<String>,
    new_channels: u64,
    new_channel_ids: Vec<String>,
    doubts: Vec<String>,
}

impl From<EpgSourceView> for WireSource {
    fn from(EpgSourceView { source, state }: EpgSourceView) -> Self {
        let held = |last: &LastImport| last.standstill == HoldReason::Held;
        Self {
            name: source.name,
            // The query may contain the customer's key at the publisher.
            url: without_query(&source.location),
            interval: source.interval,
            priority: source.priority,
            zone: source.options.zone.name(),
            ignore_offsets: source.options.ignore_offsets,
            languages: source.options.languages,
            mapped: source.options.channels.len(),
            channels: (source.options.channels.into_iter())
                .map(|(id, target)| (id, target.into()))
                .collect(),
            state: if state.failures > 0 {
                "failing"
            } else if state.last.as_ref().is_some_and(held) {
                "held"
            } else if state.succeeded.is_some() {
                "ok"
            } else {
                "new"
            },
            last_attempt: state.attempted.map(|at| at.0),
            last_success: state.succeeded.map(|at| at.0),
            next: state.attempted.map(|_| state.due.0),
            failures: state.failures,
            error: state.error,
            last_import: state.last.map(WireLastImport::from),
        }
    }
}

impl From<LastImport> for WireLastImport {
    fn from(last: LastImport) -> Self {
        Self {
            at: last.at.0,
            channels: last.channels,
            programmes: last.programmes,
            added: last.added,
            changed: last.changed,
            removed: last.removed,
            unchanged: last.unchanged,
            skipped: last.skipped,
            unmapped: last.unmapped,
            unmapped_ids: last.unmapped_ids,
            new_channels: last.new,
            new_channel_ids: last.new_ids,
            doubts: last.issues,
        }
    }
}
