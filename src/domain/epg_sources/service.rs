//! The sources at work: when each is due, what is asked of it, and what became of it.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::create::Make;
use super::model::{EpgSource, GuideOptions, LastImport, Settings};
use super::tables::{EpgSourceState, EpgSourceStates};
use crate::domain::catalog::{Catalog, CatalogError};
use crate::domain::schedule::import::decompress::unpack;
use crate::domain::schedule::import::parsed_guide::{ChannelMap, ParsedGuide};
use crate::domain::schedule::import::xmltv::XmltvOptions;
use crate::domain::schedule::import::{GuideError, GuideEvents};
use crate::domain::schedule::source_spans::ImportPriority;
use crate::domain::schedule::{ImportOptions, ImportReport, Outcome, Schedule, ScheduleError};
use crate::ports::Entropy;
use crate::ports::fetch::{Fetch, FetchError, Fetched, Validators};
use crate::store::{Durability, MemoryTable, Store, StoreError};
use crate::types::UnixSeconds;
use crate::types::time::DAY;

/// After how many seconds a source that failed is tried again; doubled with each failure, up to the
/// source's own interval.
const RETRY: i64 = 60;
/// How long an operator waits for the source that is being fetched.
const TURN: Duration = Duration::from_secs(30);
/// The longest reason that is kept, in bytes.
const ERROR_MAX: usize = 500;

/// Opens a guide of any form.
pub type GuideDecoder =
    for<'a> fn(Box<dyn Read + 'a>, XmltvOptions) -> Result<Box<dyn GuideEvents + 'a>, GuideError>;

/// Why a source could not be fetched, or its guide not be brought in.
#[derive(Debug, thiserror::Error)]
pub enum EpgSourceError {
    /// No source has that name.
    #[error("no such source")]
    NotFound,
    /// Another one is being fetched.
    #[error("another guide is being fetched")]
    Busy,
    /// It says that nothing is new to who knows nothing.
    #[error("the source has nothing to give")]
    Nothing,
    /// It could not be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// Its guide cannot be used, or the store failed.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Livestreams could not be made of its channels.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl From<StoreError> for EpgSourceError {
    fn from(error: StoreError) -> Self {
        Self::Schedule(error.into())
    }
}

/// What an operator asks of a source.
#[derive(Debug, Clone, Copy, Default)]
pub struct Refresh {
    /// Only report.
    pub dry_run: bool,
    /// Take the guide even where the brake holds it.
    pub accept: bool,
    /// Make livestreams of channels that the catalogue does not know.
    pub create_livestreams: bool,
}

/// A source and what is known of it.
#[derive(Debug, Clone)]
pub struct EpgSourceView {
    /// As it is configured.
    pub feed: EpgSource,
    /// What became of it.
    pub state: EpgSourceState,
}

/// The sources of guides.
#[derive(Clone)]
pub struct EpgSources(Arc<Inner>);

struct Inner {
    store: Store,
    schedule: Arc<Schedule>,
    catalog: Catalog,
    settings: Settings,
    fetch: Box<dyn Fetch>,
    entropy: Arc<dyn Entropy>,
    open: GuideDecoder,
    states: Arc<MemoryTable<EpgSourceStates>>,
    /// Held by who fetches: one draft at a time is in memory.
    turn: Mutex<()>,
}

/// A guide that was read and brought in, or nothing new.
type Brought = Option<(ImportReport, Validators)>;

impl EpgSources {
    /// The sources of a service.
    ///
    /// # Errors
    /// That the store failed.
    pub fn open(
        store: Store,
        (schedule, catalog): (Arc<Schedule>, Catalog),
        settings: Settings,
        fetch: Box<dyn Fetch>,
        entropy: Arc<dyn Entropy>,
        open: GuideDecoder,
    ) -> Result<Self, StoreError> {
        let states = Arc::new(MemoryTable::default());
        store.attach::<EpgSourceStates>(Arc::clone(&states) as _)?;
        Ok(Self(Arc::new(Inner {
            store,
            schedule,
            catalog,
            settings,
            fetch,
            entropy,
            open,
            states,
            turn: Mutex::new(()),
        })))
    }

    /// Every source, in the order of the configuration.
    #[must_use]
    pub fn list(&self) -> Vec<EpgSourceView> {
        let feeds = self.0.settings.feeds.iter();
        feeds.map(|feed| self.view(feed)).collect()
    }

    /// One source.
    ///
    /// # Errors
    /// [`EpgSourceError::NotFound`].
    pub fn show(&self, name: &str) -> Result<EpgSourceView, EpgSourceError> {
        Ok(self.view(self.feed(name).ok_or(EpgSourceError::NotFound)?))
    }

    fn view(&self, feed: &EpgSource) -> EpgSourceView {
        EpgSourceView {
            feed: feed.clone(),
            state: self.state(feed),
        }
    }

    fn state(&self, feed: &EpgSource) -> EpgSourceState {
        let known = self.0.states.get(&feed.name);
        known.map_or_else(EpgSourceState::default, |state| {
            EpgSourceState::clone(&state)
        })
    }

    fn feed(&self, name: &str) -> Option<&EpgSource> {
        self.0.settings.feeds.iter().find(|feed| feed.name == name)
    }

    /// Reads a guide as its source wants it understood. A name that no source has is a plain label.
    ///
    /// # Errors
    /// As the guide.
    pub fn read(&self, source: &str, guide: impl Read) -> Result<ParsedGuide, GuideError> {
        let unknown = GuideOptions::default();
        let reading = self.feed(source).map_or(&unknown, |feed| &feed.reading);
        let options = reading.options(&self.0.settings.ratings);
        let mut guide = (self.0.open)(unpack(guide)?, options)?;
        let map: &ChannelMap = &reading.channels;
        ParsedGuide::read_rated(&mut *guide, map, reading.rating())
    }

    /// How an import of a source is to be done. What a person brings without naming a source, or
    /// under a plain label, stands below none.
    #[must_use]
    pub fn options(&self, source: &str, how: Refresh, now: UnixSeconds) -> ImportOptions {
        let feeds = &self.0.settings.feeds;
        let priority = self.feed(source).map_or(u32::MAX, |feed| feed.priority);
        let above = feeds.iter().filter(|feed| feed.priority > priority);
        ImportOptions {
            standing: ImportPriority {
                source: source.to_owned(),
                above: above.map(|feed| feed.name.clone()).collect(),
            },
            dry_run: how.dry_run,
            accept: how.accept,
            now,
            retention_days: self.0.settings.retention_days,
        }
    }

    /// Fetches what is due, one source after the other, the highest priority first; says how many
    /// guides were brought in. What fails is noted and tried again later.
    ///
    /// # Errors
    /// That the store failed.
    pub fn run_due(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        let mut due: Vec<&EpgSource> = self.0.settings.feeds.iter().collect();
        due.retain(|feed| {
            let state = self.state(feed);
            // Where the clock was set back a source is not left alone until it has caught up.
            state.due <= now || state.attempted.is_some_and(|at| at > now)
        });
        due.sort_by_key(|feed| std::cmp::Reverse(feed.priority));
        let mut brought = 0;
        for feed in due {
            let _turn = self.0.turn.lock();
            let before = self.state(feed);
            let known = Some(&before).filter(|state| state.fingerprint == self.fingerprint(feed));
            let known = known.map_or_else(Validators::default, |state| Validators {
                etag: state.etag.clone(),
                modified: state.modified.clone(),
            });
            let result = self.bring(feed, &known, Refresh::default(), now);
            brought += usize::from(matches!(result, Ok(Some(_))));
            self.record_failure(feed, before, &result, now)?;
        }
        Ok(brought)
    }

    /// Fetches a source now, whatever is known of its guide.
    ///
    /// # Errors
    /// [`EpgSourceError`]; it is noted as that of a timer is.
    pub fn refresh(
        &self,
        name: &str,
        how: Refresh,
        now: UnixSeconds,
    ) -> Result<ImportReport, EpgSourceError> {
        let feed = self.feed(name).ok_or(EpgSourceError::NotFound)?;
        let _turn = self.0.turn.try_lock_for(TURN).ok_or(EpgSourceError::Busy)?;
        let result = self.bring(feed, &Validators::default(), how, now);
        if !how.dry_run {
            self.record_failure(feed, self.state(feed), &result, now)?;
        }
        match result? {
            Some((report, _)) => Ok(report),
            None => Err(EpgSourceError::Nothing),
        }
    }

    fn bring(
        &self,
        feed: &EpgSource,
        known: &Validators,
        how: Refresh,
        now: UnixSeconds,
    ) -> Result<Brought, EpgSourceError> {
        let (validators, body) = match self.0.fetch.fetch(&feed.place, known)? {
            Fetched::Unchanged => return Ok(None),
            Fetched::Guide { validators, body } => (validators, body),
        };
        let draft = self.read(&feed.name, body).map_err(ScheduleError::Guide)?;
        let options = self.options(&feed.name, how, now);
        let create = how.create_livestreams || feed.create_livestreams;
        let report = self.import(draft, &options, create)?;
        Ok(Some((report, validators)))
    }

    /// Brings a guide into the schedule, with livestreams made of unknown channels if that is asked
    /// for.
    ///
    /// # Errors
    /// That the store failed or livestreams could not be made.
    pub fn import(
        &self,
        draft: ParsedGuide,
        options: &ImportOptions,
        create_livestreams: bool,
    ) -> Result<ImportReport, EpgSourceError> {
        if create_livestreams {
            let make = Make {
                catalog: &self.0.catalog,
                schedule: &self.0.schedule,
            };
            return self.0.schedule.import_making(draft, options, &make);
        }
        Ok(self.0.schedule.import(draft, options)?)
    }

    /// Keeps the guide that an operator has brought as the last one of a source: what the source itself
    /// gives is fetched whole the next time. A plain label keeps nothing.
    ///
    /// # Errors
    /// That the store failed.
    pub fn record(
        &self,
        source: &str,
        report: &ImportReport,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        let Some(feed) = self
            .feed(source)
            .filter(|_| report.outcome != Outcome::DryRun)
        else {
            return Ok(());
        };
        let mut state = self.state(feed);
        state.etag = None;
        state.modified = None;
        state.last = Some(LastImport::from_report(report, now));
        if report.outcome == Outcome::Applied {
            state.succeeded = Some(now);
            state.failures = 0;
            state.error = None;
        }
        self.store_state(feed, state)
    }

    fn store_state(&self, feed: &EpgSource, state: EpgSourceState) -> Result<(), StoreError> {
        let name = feed.name.clone();
        self.0
            .store
            .write(Durability::Logged, move |txn| {
                txn.put::<EpgSourceStates>(&name, &state)
            })
            .wait()
    }

    /// Keeps what became of a source.
    fn record_failure(
        &self,
        feed: &EpgSource,
        mut state: EpgSourceState,
        result: &Result<Brought, EpgSourceError>,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        state.attempted = Some(now);
        let wait = match result {
            Ok(brought) => {
                if let Some((report, validators)) = brought {
                    // A guide that is held comes again until it is accepted, or another one comes.
                    let served = report.outcome == Outcome::Applied;
                    let validators = Some(validators).filter(|_| served);
                    state.etag = validators.and_then(|v| v.etag.clone());
                    state.modified = validators.and_then(|v| v.modified.clone());
                    state.fingerprint = self.fingerprint(feed);
                    state.last = Some(LastImport::from_report(report, now));
                    self.log_import(feed, report);
                }
                state.succeeded = Some(now);
                state.failures = 0;
                state.error = None;
                feed.interval
            }
            Err(error) => {
                state.failures = state.failures.saturating_add(1);
                let why = error.to_string();
                let end = why.floor_char_boundary(ERROR_MAX);
                tracing::warn!(source = feed.name, failures = state.failures, %error,
                    "a guide could not be brought in; it is tried again");
                state.error = why.get(..end).map(str::to_owned);
                retry(feed, state.failures, error)
            }
        };
        state.due = now + wait + self.jitter(wait);
        self.store_state(feed, state)
    }

    fn log_import(&self, feed: &EpgSource, report: &ImportReport) {
        let doubts: Vec<String> = report.doubts.iter().map(ToString::to_string).collect();
        if report.outcome == Outcome::Held {
            tracing::warn!(
                source = feed.name,
                doubts = doubts.join("; "),
                "a guide is held; `playgate epg refresh` with `--accept` takes it"
            );
            return;
        }
        tracing::info!(
            source = feed.name,
            programmes = report.programmes,
            added = report.difference.added,
            changed = report.difference.changed,
            removed = report.difference.removed,
            skipped = report.skipped.total(),
            unmapped = report.unmapped.len(),
            new = report.newly_seen.len(),
            "a guide was brought in"
        );
    }

    /// Up to a tenth: appliances that were started together must not ask together.
    fn jitter(&self, wait: i64) -> i64 {
        let random = u32::from_be_bytes(self.0.entropy.array());
        (wait / 10).saturating_mul(i64::from(random)) >> u32::BITS
    }

    /// Changes with whatever makes the same guide mean another thing.
    fn fingerprint(&self, feed: &EpgSource) -> u64 {
        let mut hasher = DefaultHasher::new();
        let GuideOptions {
            zone,
            ignore_offsets,
            languages,
            channels,
            unrated,
        } = &feed.reading;
        feed.place.hash(&mut hasher);
        (zone.name(), ignore_offsets, languages).hash(&mut hasher);
        // Nothing where it is not set: what versions before hashed stays as it is.
        if let Some(unrated) = unrated {
            unrated.to_string().hash(&mut hasher);
        }
        if feed.create_livestreams {
            "create".hash(&mut hasher);
        }
        let mut channels: Vec<_> = channels.iter().collect();
        channels.sort_unstable();
        channels.hash(&mut hasher);
        self.0.settings.ratings.version().hash(&mut hasher);
        let standing = self.options(&feed.name, Refresh::default(), UnixSeconds(0));
        standing.standing.above.hash(&mut hasher);
        let snapshot = self.0.schedule.snapshot();
        let mut livestreams: Vec<&str> = snapshot.livestreams().collect();
        livestreams.sort_unstable();
        livestreams.hash(&mut hasher);
        hasher.finish()
    }
}

/// How long a source that failed is left alone.
fn retry(feed: &EpgSource, failures: u32, error: &EpgSourceError) -> i64 {
    let doubled = RETRY << failures.saturating_sub(1).min(20);
    let wait = doubled.min(feed.interval.max(RETRY));
    let asked = match error {
        EpgSourceError::Fetch(error) => error.retry_after(),
        _ => None,
    };
    let asked = asked.and_then(|seconds| i64::try_from(seconds).ok());
    wait.max(asked.unwrap_or(0).min(DAY))
}
