//! The ladder at open: from what the disk holds to an engine that has everything that was promised.
//!
//! 1. sled is opened under supervision, and compared with what it must add up to.
//! 2. Its own leftovers, over which it stumbles, are moved aside.
//! 3. The log brings it forward.
//! 4. sled is made anew from base, or a backup, and log.
//! 5. On a disk that cannot be written, memory stands in for it.
//!
//! What none of these can mend is told with its place: nothing is skipped in silence.

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::StoreError;
use super::core::OnFailure;
use super::engine::{Engine, Guarded, MemoryEngine, SledEngine, leftovers};
use super::log::{FileLog, Survey};
use super::place::{EngineDir, Place};
use super::snapshot::{Snapshot, SnapshotHead};
use super::table::Schema;
use super::truth::{Truth, replay};

/// How long opening sled may go on without reading another record, beside the time for its file.
const PATIENCE: Duration = Duration::from_secs(15);
/// What sled reads of its file at the very least.
const BYTES_PER_SECOND: u64 = 10 * 1024 * 1024;

/// What an open came to.
pub(super) struct Recovered {
    pub(super) engine: Arc<dyn Engine>,
    /// The log to go on with; none where the disk cannot be written.
    pub(super) log: Option<FileLog>,
    /// The number of the last commit.
    pub(super) number: u64,
    pub(super) base: Option<SnapshotHead>,
    /// Whether base and log do not make up the whole any more, so that a new base is needed.
    pub(super) broken_chain: bool,
}

/// What an open is given.
pub(super) struct Recovery<'a> {
    pub(super) place: &'a Place,
    pub(super) schema: &'a Schema,
    /// Told what the engine does that it must not.
    pub(super) on_failure: OnFailure,
    /// Whose snapshots count.
    pub(super) instance: [u8; 16],
    /// Where backups lie, for a base that is gone.
    pub(super) backups: Option<&'a Path>,
    /// Gives up what is kept back for a full disk; says whether there was anything.
    pub(super) make_room: &'a dyn Fn() -> bool,
}

/// What is on the disk beside sled.
struct Ground {
    survey: Survey,
    /// What lies in the base directory, the newest first.
    bases: Vec<(SnapshotHead, PathBuf)>,
    /// Backups of this store: what they have and the log does not continue is of another time.
    backups: Vec<(SnapshotHead, PathBuf)>,
}

impl Ground {
    /// The number that the last commit had, as far as base and log know.
    fn last(&self) -> u64 {
        let base = self.bases.first().map_or(0, |(head, _)| head.number);
        base.max(self.survey.next.saturating_sub(1))
    }

    /// Whether the log has everything that was committed after a number.
    fn continues(&self, number: u64) -> bool {
        let last = self.last();
        number >= last
            || (self.survey.next == last + 1 && self.survey.is_whole(number + 1, last + 1))
    }
}

impl Recovery<'_> {
    /// Climbs the ladder.
    pub(super) fn run(self) -> Result<Recovered, StoreError> {
        let ground = self.ground()?;
        let sled = match self.sled(&ground) {
            Err(StoreError::Full) if (self.make_room)() => self.sled(&ground),
            other => other,
        };
        let (engine, number): (Arc<dyn Engine>, u64) = match sled {
            Ok(found) => found,
            Err(StoreError::Full) if ground.last() > 0 => {
                let memory = self.memory(&ground)?;
                tracing::warn!("the disk is full or read-only: served from memory, without writes");
                return Ok(Recovered {
                    engine: memory,
                    log: None,
                    number: ground.last(),
                    base: ground.bases.into_iter().next().map(|(head, _)| head),
                    broken_chain: false,
                });
            }
            Err(error) => return Err(error),
        };
        let base = ground.bases.first().map(|(head, _)| head.clone());
        let begin = base.as_ref().map_or(0, |base| base.number);
        let broken_chain = number > ground.last() || !ground.continues(begin);
        match FileLog::resume(
            &self.place.log(),
            ground.survey,
            number + 1,
            self.place.sync,
        ) {
            Ok(log) => Ok(Recovered {
                engine,
                log: Some(log),
                number,
                base,
                broken_chain,
            }),
            Err(StoreError::Full) => Ok(Recovered {
                engine,
                log: None,
                number,
                base,
                broken_chain: false,
            }),
            Err(error) => Err(error),
        }
    }

    fn ground(&self) -> Result<Ground, StoreError> {
        let log = self.place.log();
        let survey = if log.exists() {
            Survey::of(&log)?
        } else {
            Survey::default()
        };
        let own = |directory: &Path| {
            let mut found = snapshots(directory, self.schema);
            found.retain(|(head, _)| head.instance == self.instance);
            found
        };
        Ok(Ground {
            survey,
            bases: own(&self.place.base()),
            backups: self.backups.map(own).unwrap_or_default(),
        })
    }

    /// sled with everything that was promised, brought forward or made anew.
    fn sled(&self, ground: &Ground) -> Result<(Arc<dyn Engine>, u64), StoreError> {
        let why = match self.open_sled() {
            Ok(engine) => {
                let applied = engine.applied()?;
                if ground.continues(applied) {
                    let last = ground.last().max(applied);
                    replay(&ground.survey.segments, applied, last, self.schema, &engine)?;
                    return Ok((Arc::new(engine), last));
                }
                let gap = ground.survey.gaps.iter().find(|gap| gap.to > applied);
                let begin = ground
                    .survey
                    .segments
                    .first()
                    .map_or(0, |segment| segment.first);
                match gap {
                    Some(gap) => format!(
                        "ends at commit {applied}, and the log misses commits {} to {} ({})",
                        gap.from,
                        gap.to - 1,
                        gap.path.display()
                    ),
                    None => format!("ends at commit {applied}, and the log begins at {begin}"),
                }
            }
            Err(StoreError::Engine(why)) => why,
            Err(error) => return Err(error),
        };
        tracing::error!(
            why,
            "the engine cannot be used; it is made anew from base and log"
        );
        let engine = self.rebuild(ground, &why)?;
        Ok((Arc::new(engine), ground.last()))
    }

    fn open_sled(&self) -> Result<Guarded<SledEngine>, StoreError> {
        let (current, others) = self.place.engines()?;
        for other in others {
            // One that was not made to its end, or that another has replaced.
            fs::remove_dir_all(other.path)?;
        }
        let Some(current) = current else {
            let first = self.place.next_engine()?;
            let engine = SledEngine::open(&first.path, self.schema, self.place.sync)?;
            first.mark_whole(self.place.sync)?;
            return Ok(self.guarded(engine, &first));
        };
        if let Some(why) = current.suspicion() {
            return Err(StoreError::Engine(why));
        }
        let opened = match self.supervised(&current) {
            Err(StoreError::Engine(why)) => {
                let left = leftovers(&current.path)?;
                if left.is_empty() {
                    return Err(StoreError::Engine(why));
                }
                for path in left {
                    let moved = self.place.move_aside(&path, "snap")?;
                    tracing::warn!(why, kept = %moved.display(), "a file of the engine is moved aside");
                }
                self.supervised(&current)
            }
            other => other,
        };
        opened.map(|engine| self.guarded(engine, &current))
    }

    fn guarded(&self, engine: SledEngine, directory: &EngineDir) -> Guarded<SledEngine> {
        guarded(engine, directory, &self.on_failure)
    }

    /// Opens sled and reads all of it, on a thread that may panic or never come back.
    fn supervised(&self, current: &EngineDir) -> Result<SledEngine, StoreError> {
        let directory = current.path.clone();
        let size = fs::metadata(directory.join("db")).map_or(0, |file| file.len());
        let patience = PATIENCE + Duration::from_secs(size / BYTES_PER_SECOND);
        let steps = Arc::new(AtomicU64::new(0));
        let (schema, sync, counted) = (self.schema.clone(), self.place.sync, Arc::clone(&steps));
        let (sender, receiver) = sync_channel(1);
        std::thread::Builder::new()
            .name("store-open".to_owned())
            .spawn(move || {
                let opened = catch_unwind(AssertUnwindSafe(|| {
                    let engine = SledEngine::open(&directory, &schema, sync)?;
                    engine.prove(&counted)?;
                    Ok(engine)
                }))
                .unwrap_or_else(|_| Err(StoreError::Engine("panicked when opened".to_owned())));
                let _ = sender.send(opened);
            })?;
        let mut seen = (Instant::now(), 0);
        loop {
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(opened) => return opened,
                Err(RecvTimeoutError::Disconnected) => return Err(StoreError::Closed),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = steps.load(Ordering::Relaxed);
            if now != seen.1 {
                seen = (Instant::now(), now);
            } else if seen.0.elapsed() > patience {
                // The thread cannot be ended, and holds the file: the process has to begin again.
                current.suspect_because("a read did not return")?;
                return Err(StoreError::Hung);
            }
        }
    }

    /// Makes sled anew, beside what is there; which is moved aside once the new one is whole.
    fn rebuild(&self, ground: &Ground, why: &str) -> Result<Guarded<SledEngine>, StoreError> {
        let truth = self.truth(ground, why)?;
        let next = self.place.next_engine()?;
        let engine = make_engine(&next, self.place, truth)?;
        for old in self.place.engines()?.1 {
            let moved = self.place.move_aside(&old.path, "sled")?;
            tracing::warn!(kept = %moved.display(), "the damaged engine is moved aside");
        }
        tracing::info!(number = ground.last(), "the engine is made anew");
        Ok(self.guarded(engine, &next))
    }

    fn memory(&self, ground: &Ground) -> Result<Arc<dyn Engine>, StoreError> {
        let memory = MemoryEngine::default();
        let truth = self.truth(ground, "the disk is full or read-only")?;
        truth.load(&memory)?;
        Ok(Arc::new(memory))
    }

    /// The newest snapshot that can be read to its end and that the log continues, and the log.
    fn truth<'a>(&'a self, ground: &'a Ground, why: &str) -> Result<Truth<'a>, StoreError> {
        let truth = |base| Truth {
            base,
            segments: ground.survey.segments.clone(),
            schema: self.schema,
            number: ground.last(),
        };
        let mut problems = vec![why.to_owned()];
        for (head, path) in ground.bases.iter().chain(&ground.backups) {
            if head.number > ground.last() || !ground.continues(head.number) {
                problems.push(format!("the log does not continue {}", path.display()));
                continue;
            }
            let proven = Snapshot::open(path, self.schema)
                .and_then(|mut snapshot| snapshot.try_for_each(|pair| pair.map(drop)));
            match proven {
                Ok(()) => return Snapshot::open(path, self.schema).map(Some).map(truth),
                Err(error) => problems.push(error.to_string()),
            }
        }
        let begin = ground
            .survey
            .segments
            .first()
            .map_or(1, |segment| segment.first);
        if begin == 1 && ground.continues(0) {
            return Ok(truth(None));
        }
        problems.push(format!("the log alone begins at commit {begin}"));
        problems.extend(ground.survey.gaps.iter().map(|gap| {
            format!(
                "{} misses commits {} to {}",
                gap.path.display(),
                gap.from,
                gap.to - 1
            )
        }));
        Err(StoreError::Lost(problems.join("; ")))
    }
}

/// What the engine does that it must not is noted where the next start finds it, and told.
pub(super) fn guarded(
    engine: SledEngine,
    directory: &EngineDir,
    on_failure: &OnFailure,
) -> Guarded<SledEngine> {
    let (directory, on_failure) = (directory.clone(), Arc::clone(on_failure));
    let fault = Arc::new(move |what: &str| {
        tracing::error!(what, "the engine has failed; the next start makes it anew");
        if let Err(error) = directory.suspect_because(what) {
            tracing::error!(%error, "that could not be noted");
        }
        on_failure(&StoreError::Failed(what.to_owned()));
    });
    Guarded::new(engine, fault)
}

/// Makes an engine of everything that base and log hold.
pub(super) fn make_engine(
    directory: &EngineDir,
    place: &Place,
    truth: Truth<'_>,
) -> Result<SledEngine, StoreError> {
    // sled panics on a disk that fails.
    let made = catch_unwind(AssertUnwindSafe(|| {
        let engine = SledEngine::open(&directory.path, truth.schema, place.sync)?;
        let filled = truth
            .load(&engine)
            .and_then(|()| engine.sync())
            .and_then(|()| directory.mark_whole(place.sync));
        match filled {
            Ok(()) => Ok(engine),
            Err(StoreError::Full) => Err(StoreError::Full),
            Err(error) => {
                // sled panics when it is closed on a disk that fails; the process ends anyway.
                std::mem::forget(engine);
                Err(error)
            }
        }
    }))
    .unwrap_or_else(|_| Err(StoreError::Engine("panicked when it was made".to_owned())));
    if made.is_err() {
        // A half is of no use, and the space may be what is missing.
        let _ = fs::remove_dir_all(&directory.path);
    }
    made
}

/// The snapshots of a directory whose head can be read, the newest first.
pub(super) fn snapshots(directory: &Path, schema: &Schema) -> Vec<(SnapshotHead, PathBuf)> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::warn!(directory = %directory.display(), %error, "snapshots cannot be listed");
            }
            return Vec::new();
        }
    };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path
            .extension()
            .is_none_or(|extension| extension != "snapshot")
        {
            continue;
        }
        match Snapshot::open(&path, schema) {
            Ok(snapshot) => found.push((snapshot.head().clone(), path)),
            Err(error) => tracing::warn!(%error, "a snapshot cannot be read"),
        }
    }
    found.sort_by_key(|(head, _)| std::cmp::Reverse(head.number));
    found
}
