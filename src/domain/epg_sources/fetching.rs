//! Fetches the sources that are due, several at a time, and lets them import one after the other.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::error::EpgSourceError;
use super::model::EpgSource;
use super::service::{EpgSources, Refresh};
use crate::schedule::ScheduleError;
use crate::schedule::import::GuideError;
use playgate_ports::fetch::Fetched;
use playgate_ports::{FetchError, Validators};
use playgate_store::StoreError;
use playgate_types::UnixSeconds;

/// Sources that are fetched at the same time, so that slow ones do not hold up the others.
const FETCHES_MAX: usize = 8;
/// How long a run waits for the fetches that it begins, to report what they imported. Slower ones go on without it.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 120 } else { 2 });
/// How long a guide waits for those of higher priority that are still on their way.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 100 } else { 5 });
impl EpgSources {
    /// Fetches the sources that are due, in order of priority. Returns how many guides were imported.
    pub fn run_due(&self, now: UnixSeconds) -> Result<usize, StoreError> {
        let mut due: Vec<&EpgSource> = self.0.settings.sources.iter().collect();
        due.retain(|source| {
            let state = self.state(source);
            // A last attempt in the future means that the clock was set back: do not wait until it has caught up.
            state.due <= now || state.attempted.is_some_and(|at| at > now)
        });
        // The best source first, so that lower ones see what it covers.
        due.sort_by_key(|source| std::cmp::Reverse(source.priority));
        let (finished, results) = mpsc::channel();
        let mut running = 0_usize;
        for source in due {
            let Some(in_flight) = self.begin_fetch(&source.name) else {
                continue;
            };
            let (sources, source, finished) = (self.clone(), source.clone(), finished.clone());
            // Detached: a server that sends a byte a second must not delay the guides of the others, nor this job.
            let fetch = thread::Builder::new().name("epg-fetch".to_owned());
            let spawned = fetch.spawn(move || {
                let result = sources.fetch_timed(&source, now);
                drop(in_flight);
                // Nobody listens any more if the fetch was slow.
                let _ = finished.send(result);
            });
            match spawned {
                Ok(_) => running += 1,
                // The source stays due.
                Err(error) => {
                    tracing::warn!(%error, "failed to start a thread for an EPG source; will retry")
                }
            }
        }
        drop(finished);
        let until = Instant::now() + PATIENCE;
        let mut imported = 0;
        for _ in 0..running {
            let left = until.saturating_duration_since(Instant::now());
            match results.recv_timeout(left) {
                Ok(result) => imported += usize::from(result?),
                Err(_) => break,
            }
        }
        Ok(imported)
    }

    /// `None` if the source is being fetched, or enough others are.
    fn begin_fetch(&self, name: &str) -> Option<InFlight> {
        let mut in_flight = self.0.in_flight.lock();
        let may = in_flight.len() < FETCHES_MAX && in_flight.insert(name.to_owned());
        may.then(|| InFlight {
            sources: self.clone(),
            name: name.to_owned(),
        })
    }

    /// Lets sources of higher priority import first, unless they are slow: lower ones then see what they cover.
    fn await_better(&self, source: &EpgSource) {
        let sources = &self.0.settings.sources;
        let better: Vec<&str> = (sources.iter().filter(|one| one.priority > source.priority))
            .map(|one| one.name.as_str())
            .collect();
        let until = Instant::now() + GRACE;
        let mut in_flight = self.0.in_flight.lock();
        while better.iter().any(|name| in_flight.contains(*name)) {
            if self.0.landed.wait_until(&mut in_flight, until).timed_out() {
                break;
            }
        }
    }

    /// Returns whether a guide was imported.
    fn fetch_timed(&self, source: &EpgSource, now: UnixSeconds) -> Result<bool, StoreError> {
        let before = self.state(source);
        // After a change of the settings the same guide may give another schedule, so it must be fetched in full.
        let known = Some(&before).filter(|state| state.fingerprint == self.fingerprint(source));
        let known = known.map_or_else(Validators::default, |state| Validators {
            etag: state.etag.clone(),
            modified: state.modified.clone(),
        });
        let fetched = self.fetch(source, &known);
        self.await_better(source);
        // Locked for each source and not for the run, so that an operator's request gets its turn in between.
        let _running = self.0.running.lock();
        let result = fetched
            .and_then(|fetched| self.import_fetched(source, fetched, Refresh::default(), now));
        // Failures are recorded and retried. They must not stop the other sources.
        self.record_result(source, before, &result, now)?;
        Ok(matches!(result, Ok(Some(_))))
    }

    /// Fetches a guide as a whole, so that its import does not wait for the network.
    pub(super) fn fetch(
        &self,
        source: &EpgSource,
        known: &Validators,
    ) -> Result<Fetched, EpgSourceError> {
        let fetched = (self.0.fetch).fetch(&source.location, &source.request, known)?;
        Ok(match fetched {
            Fetched::Guide { validators, body } if !source.location.starts_with('/') => {
                Fetched::Guide {
                    validators,
                    body: spooled(body, &self.0.settings.spool)?,
                }
            }
            here => here,
        })
    }
}

/// Copies a guide to a file without a name, which is gone with its reader.
fn spooled(
    mut body: Box<dyn Read + Send>,
    directory: &Path,
) -> Result<Box<dyn Read + Send>, EpgSourceError> {
    let number = SPOOL_NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!(".guide-{}-{number}", std::process::id()));
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    let mut file = opened.map_err(FetchError::File)?;
    fs::remove_file(&path).map_err(FetchError::File)?;
    // A failure of the network is one of the guide, as when it is read directly.
    let copied = io::copy(&mut body, &mut file);
    copied.map_err(|error| ScheduleError::Guide(GuideError::Unreadable(error.to_string())))?;
    file.seek(SeekFrom::Start(0)).map_err(FetchError::File)?;
    Ok(Box::new(file))
}

static SPOOL_NUMBER: AtomicU64 = AtomicU64::new(0);

/// A source that is being fetched.
struct InFlight {
    sources: EpgSources,
    name: String,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.sources.0.in_flight.lock().remove(&self.name);
        self.sources.0.landed.notify_all();
    }
}
