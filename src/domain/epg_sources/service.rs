//! Runs the EPG sources: schedule of fetches, conditional requests, imports, and the state of each source.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::create::CatalogLivestreams;
use super::error::EpgSourceError;
use super::model::{EpgSettings, EpgSource, GuideOptions, LastImport};
use super::tables::{EpgSourceState, EpgSourceStates};
use crate::catalog::Catalog;
use crate::schedule::import::decompress::unpack;
use crate::schedule::import::encoding::to_utf8;
use crate::schedule::import::parsed_guide::{Mapping, ParsedGuide};
use crate::schedule::import::repairs::Repair;
use crate::schedule::import::xmltv::XmltvOptions;
use crate::schedule::import::{GuideError, GuideEvents};
use crate::schedule::source_spans::ImportPriority;
use crate::schedule::{ImportOptions, ImportOutcome, ImportReport, Schedule, ScheduleError};
use playgate_ports::fetch::{Fetch, Fetched};
use playgate_ports::{Entropy, Validators};
use playgate_store::{Durability, MemoryTable, Store, StoreError};
use playgate_types::UnixSeconds;
use playgate_types::time::DAY;

/// Seconds before the first retry; doubled with each failure, up to the interval of the source.
const FIRST_RETRY_SECONDS: i64 = 60;
/// How long an operator's request waits for a running import.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes.
const ERROR_MAX: usize = 500;

pub(crate) type GuideDecoder =
    for<'a> fn(Box<dyn Read + 'a>, XmltvOptions) -> Result<Box<dyn GuideEvents + 'a>, GuideError>;

/// The guide of the demo, in the JSON form of imports.
pub struct DemoGuide {
    /// When the demo started and imported its first guide.
    pub first_import: UnixSeconds,
    /// Generates a guide for the days before and after a time.
    pub generate: Box<dyn Fn(UnixSeconds) -> String + Send + Sync>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Refresh {
    pub dry_run: bool,
    pub accept: bool,
    pub create_livestreams: bool,
}

#[derive(Debug, Clone)]
pub struct EpgSourceView {
    pub source: EpgSource,
    pub state: EpgSourceState,
}

#[derive(Clone)]
pub struct EpgSources(pub(super) Arc<SourceState>);

pub(super) struct SourceState {
    store: Store,
    schedule: Arc<Schedule>,
    catalog: Catalog,
    pub(super) settings: EpgSettings,
    pub(super) fetch: Box<dyn Fetch>,
    entropy: Arc<dyn Entropy>,
    open: GuideDecoder,
    states: Arc<MemoryTable<EpgSourceStates>>,
    /// Locked during an import: at most one parsed guide is in memory.
    pub(super) running: Mutex<()>,
    /// Names of the sources that are being fetched.
    pub(super) in_flight: Mutex<HashSet<String>>,
    /// Notified when one of them is imported or has failed.
    pub(super) landed: Condvar,
}

/// `None` if the guide has not changed.
pub(super) type ImportResult = Option<(ImportReport, Validators)>;

impl EpgSources {
    pub fn open(
        store: Store,
        (schedule, catalog): (Arc<Schedule>, Catalog),
        settings: EpgSettings,
        fetch: Box<dyn Fetch>,
        entropy: Arc<dyn Entropy>,
        open: GuideDecoder,
    ) -> Result<Self, StoreError> {
        let states = Arc::new(MemoryTable::default());
        store.attach::<EpgSourceStates>(Arc::clone(&states) as _)?;
        Ok(Self(Arc::new(SourceState {
            store,
            schedule,
            catalog,
            settings,
            fetch,
            entropy,
            open,
            states,
            running: Mutex::new(()),
            in_flight: Mutex::default(),
            landed: Condvar::new(),
        })))
    }

    pub fn list(&self) -> Vec<EpgSourceView> {
        let sources = self.0.settings.sources.iter();
        sources.map(|source| self.view(source)).collect()
    }

    pub fn show(&self, name: &str) -> Result<EpgSourceView, EpgSourceError> {
        Ok(self.view(self.source(name).ok_or(EpgSourceError::NotFound)?))
    }

    fn view(&self, source: &EpgSource) -> EpgSourceView {
        EpgSourceView {
            source: source.clone(),
            state: self.state(source),
        }
    }

    pub(super) fn state(&self, source: &EpgSource) -> EpgSourceState {
        let known = self.0.states.get(&source.name);
        known.map_or_else(EpgSourceState::default, |state| {
            EpgSourceState::clone(&state)
        })
    }

    fn source(&self, name: &str) -> Option<&EpgSource> {
        self.0
            .settings
            .sources
            .iter()
            .find(|source| source.name == name)
    }

    /// A name that no source has is a plain label with default options.
    pub fn read(&self, source: &str, guide: impl Read) -> Result<ParsedGuide, GuideError> {
        let unknown = GuideOptions::default();
        let reading = self
            .source(source)
            .map_or(&unknown, |source| &source.options);
        let options = reading.options(&self.0.settings.ratings);
        let text = to_utf8(unpack(guide)?)?;
        let bad = text.bad_characters();
        let mut guide = (self.0.open)(Box::new(text), options)?;
        let mapping = Mapping {
            channels: &reading.channels,
            shift: reading.shift,
            unrated: reading.rating(),
        };
        let mut parsed = ParsedGuide::read_mapped(&mut *guide, mapping)?;
        parsed.repairs.count_of(Repair::BadCharacter, bad.count());
        parsed.repairs.count_of(Repair::Encoding, bad.foreign());
        Ok(parsed)
    }

    /// An import without a source, or with a plain label, has no source above it.
    pub fn options(&self, source: &str, how: Refresh, now: UnixSeconds) -> ImportOptions {
        let sources = &self.0.settings.sources;
        // The highest priority: an operator who uploads a guide by hand wants it served.
        let priority = self
            .source(source)
            .map_or(u32::MAX, |source| source.priority);
        let above = sources.iter().filter(|source| source.priority > priority);
        ImportOptions {
            priority: ImportPriority {
                source: source.to_owned(),
                above: above.map(|source| source.name.clone()).collect(),
            },
            dry_run: how.dry_run,
            accept: how.accept,
            now,
            retention_days: self.0.settings.retention_days,
        }
    }

    /// Fetches and imports a guide now. The request is unconditional, so the guide is read in full.
    pub fn refresh(
        &self,
        name: &str,
        how: Refresh,
        now: UnixSeconds,
    ) -> Result<ImportReport, EpgSourceError> {
        let source = self.source(name).ok_or(EpgSourceError::NotFound)?;
        let fetched = self.fetch(source, &Validators::default());
        let _running = self
            .0
            .running
            // An import may take a while, but the request of the operator has a deadline.
            .try_lock_for(LOCK_TIMEOUT)
            .ok_or(EpgSourceError::Busy)?;
        let result = fetched.and_then(|fetched| self.import_fetched(source, fetched, how, now));
        // A dry run changes nothing, so the next timed fetch must still import the guide.
        if !how.dry_run {
            self.record_result(source, self.state(source), &result, now)?;
        }
        match result? {
            Some((report, _)) => Ok(report),
            None => Err(EpgSourceError::NotModified),
        }
    }

    pub(super) fn import_fetched(
        &self,
        source: &EpgSource,
        fetched: Fetched,
        how: Refresh,
        now: UnixSeconds,
    ) -> Result<ImportResult, EpgSourceError> {
        let Fetched::Guide { validators, body } = fetched else {
            return Ok(None);
        };
        let draft = self
            .read(&source.name, body)
            .map_err(ScheduleError::Guide)?;
        let options = self.options(&source.name, how, now);
        // An operator can ask for it once, the configuration for every fetch.
        let create = how.create_livestreams || source.create_livestreams;
        let report = self.import(draft, &options, create)?;
        Ok(Some((report, validators)))
    }

    /// First creates livestreams for unknown channels, if requested.
    pub fn import(
        &self,
        draft: ParsedGuide,
        options: &ImportOptions,
        create_livestreams: bool,
    ) -> Result<ImportReport, EpgSourceError> {
        if create_livestreams {
            let make = CatalogLivestreams {
                catalog: &self.0.catalog,
                schedule: &self.0.schedule,
            };
            return self.0.schedule.import_making(draft, options, &make);
        }
        Ok(self.0.schedule.import(draft, options)?)
    }

    /// Records a guide that an operator uploaded as the last one of a source. A plain label is not
    /// recorded.
    pub fn record(
        &self,
        source: &str,
        report: &ImportReport,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let Some(source) = self
            .source(source)
            .filter(|_| report.outcome != ImportOutcome::DryRun)
        else {
            return Ok(());
        };
        let mut state = self.state(source);
        // Without validators the next timed fetch is unconditional: the uploaded guide is not the server's.
        state.etag = None;
        state.modified = None;
        state.last = Some(LastImport::from_report(report, now));
        if report.outcome == ImportOutcome::Applied {
            state.succeeded = Some(now);
            state.failures = 0;
            state.error = None;
        }
        self.store_state(source, state)
    }

    fn store_state(&self, source: &EpgSource, state: EpgSourceState) -> Result<(), StoreError> {
        let name = source.name.clone();
        self.0
            .store
            // Losing this at a power cut costs one repeated fetch.
            .write(Durability::Logged, move |txn| {
                txn.put::<EpgSourceStates>(&name, &state)
            })
            .wait()
    }

    pub(super) fn record_result(
        &self,
        source: &EpgSource,
        mut state: EpgSourceState,
        result: &Result<ImportResult, EpgSourceError>,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        state.attempted = Some(now);
        let wait = match result {
            Ok(imported) => {
                let held = |(report, _): &(ImportReport, _)| report.outcome == ImportOutcome::Held;
                // A held guide has not been taken: its source succeeded when its last one was.
                if !imported.as_ref().is_some_and(held) {
                    state.succeeded = Some(now);
                }
                if let Some((report, validators)) = imported {
                    // A held guide must be fetched again, until it is accepted or replaced: do not store its
                    // validators.
                    let served = report.outcome == ImportOutcome::Applied;
                    let validators = Some(validators).filter(|_| served);
                    state.etag = validators.and_then(|v| v.etag.clone());
                    state.modified = validators.and_then(|v| v.modified.clone());
                    state.fingerprint = self.fingerprint(source);
                    state.last = Some(LastImport::from_report(report, now));
                    self.log_import(source, report);
                }
                state.failures = 0;
                state.error = None;
                source.interval
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let why = error.to_string();
                // The message may quote the guide, so its length is limited.
                let end = why.floor_char_boundary(ERROR_MAX);
                tracing::warn!(source = source.name, failures = state.failures, %error,
                    "failed to import from an EPG source; will retry");
                state.error = why.get(..end).map(str::to_owned);
                retry(source, state.failures, error)
            }
        };
        state.due = now + wait + self.jitter(wait);
        self.store_state(source, state)
    }

    fn log_import(&self, source: &EpgSource, report: &ImportReport) {
        let issues: Vec<String> = report.issues.iter().map(ToString::to_string).collect();
        if report.outcome == ImportOutcome::Held {
            tracing::warn!(
                source = source.name,
                issues = issues.join("; "),
                "EPG import held: the guide looks implausible; review it, then run `playgate epg refresh --accept`"
            );
            return;
        }
        tracing::info!(
            source = source.name,
            programmes = report.programmes,
            added = report.difference.added,
            changed = report.difference.changed,
            removed = report.difference.removed,
            skipped = report.skipped.total(),
            unmapped = report.unmapped.len(),
            new = report.newly_seen.len(),
            "imported a guide"
        );
    }

    fn jitter(&self, wait: i64) -> i64 {
        let random = u32::from_be_bytes(self.0.entropy.array());
        // Up to a tenth, so that servers started together do not fetch together.
        (wait / 10).saturating_mul(i64::from(random)) >> u32::BITS
    }

    pub(super) fn fingerprint(&self, source: &EpgSource) -> u64 {
        // Everything that can change the result of importing the same guide. Destructured, so that a new
        // option is a compile error.
        let mut hasher = DefaultHasher::new();
        let GuideOptions {
            zone,
            ignore_offsets,
            languages,
            channels,
            unrated,
            shift,
            rating_system,
        } = &source.options;
        source.location.hash(&mut hasher);
        (zone.name(), ignore_offsets, languages).hash(&mut hasher);
        // Hash nothing if unset, so that hashes from older versions stay valid.
        if let Some(unrated) = unrated {
            unrated.to_string().hash(&mut hasher);
        }
        if *shift != 0 {
            ("shift", shift).hash(&mut hasher);
        }
        if let Some(system) = rating_system {
            ("rating_system", system).hash(&mut hasher);
        }
        if source.create_livestreams {
            "create".hash(&mut hasher);
        }
        let mut channels: Vec<_> = channels.iter().collect();
        channels.len().hash(&mut hasher);
        // A hash map has no stable order.
        channels.sort_unstable();
        for (id, target) in channels {
            // As before there were lists and shifts, so that a new version does not read every guide again.
            match &target.livestreams[..] {
                [one] if target.shift == 0 => (id, one).hash(&mut hasher),
                _ => (id, target).hash(&mut hasher),
            }
        }
        self.0.settings.ratings.version().hash(&mut hasher);
        let options = self.options(&source.name, Refresh::default(), UnixSeconds(0));
        options.priority.above.hash(&mut hasher);
        let snapshot = self.0.schedule.snapshot();
        // A livestream that was added may have broadcasts in a guide that has not changed.
        let mut livestreams: Vec<&str> = snapshot.livestreams().collect();
        livestreams.sort_unstable();
        livestreams.hash(&mut hasher);
        hasher.finish()
    }
}

fn retry(source: &EpgSource, failures: u32, error: &EpgSourceError) -> i64 {
    // The shift is bounded against overflow.
    let doubled = FIRST_RETRY_SECONDS << failures.saturating_sub(1).min(20);
    let wait = doubled.min(source.interval.max(FIRST_RETRY_SECONDS));
    let asked = match error {
        EpgSourceError::Fetch(error) => error.retry_after(),
        _ => None,
    };
    let asked = asked.and_then(|seconds| i64::try_from(seconds).ok());
    // A server may ask for more, but not for more than a day.
    wait.max(asked.unwrap_or(0).min(DAY))
}
