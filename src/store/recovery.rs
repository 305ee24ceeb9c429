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
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use super::StoreError;
use super::core::OnFailure;
use super::deferred::{
    DeferredEngine, Found, Preparation, Stoppable, Supervised, move_leftovers_aside,
};
use super::durable_reader::DurableReader;
use super::engine::{Engine, Guarded, MemoryEngine, SledEngine};
use super::log::{FileLog, Survey};
use super::place::{EngineDir, Place};
use super::snapshot::{Snapshot, SnapshotHead};
use super::table::Schema;
use super::truth::{Truth, replay};

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
    /// How long an open waits for an engine that can be made ready in the background.
    pub(super) patience: Duration,
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
        if let Some(engine) = self.deferred(ground)? {
            return Ok((Arc::new(engine), ground.last()));
        }
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
                move_leftovers_aside(self.place, &current, &why)?;
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
        let (directory, schema, sync) =
            (current.path.clone(), self.schema.clone(), self.place.sync);
        let work = move |steps: &AtomicU64| {
            let engine = SledEngine::open(&directory, &schema, sync)?;
            engine.prove(steps, &AtomicBool::new(false))?;
            Ok(engine)
        };
        Supervised::start(current, work)?.wait(current, &AtomicBool::new(false))
    }

    /// An engine that is served from base and log until it is proven or rebuilt; none if base and log
    /// are not the whole, so that the engine has to be ready first.
    fn deferred(&self, ground: &Ground) -> Result<Option<DeferredEngine>, StoreError> {
        let (current, others) = self.place.engines()?;
        let number = ground.last();
        let base = ground.bases.first();
        let begin = base.map_or(0, |(head, _)| head.number);
        if number == 0 || begin > number || !ground.continues(begin) {
            return Ok(None);
        }
        for other in others {
            // One that was not made to its end, or that another has replaced.
            fs::remove_dir_all(other.path)?;
        }
        let opening = current.as_ref().map(|current| self.open_unproven(current));
        let path = base.map(|(_, path)| path.as_path());
        let segments = &ground.survey.segments;
        // Beside the opening, which takes as long at the least.
        let stand_in = DurableReader::open(path, segments, number, self.schema);
        let found = match (opening, current) {
            (Some(opening), Some(current)) => {
                match opening?.wait(&current, &AtomicBool::new(false)) {
                    Ok(engine) => {
                        let applied = engine.applied()?;
                        // What the engine alone has is for the ladder.
                        if applied > number || !ground.continues(applied) {
                            return Ok(None);
                        }
                        Found::Unproven(engine, current)
                    }
                    Err(StoreError::Engine(why)) => Found::Unusable(why),
                    Err(StoreError::Full) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            _ => Found::Unusable("it is gone".to_owned()),
        };
        let Ok(stand_in) = stand_in else {
            return Ok(None);
        };
        let preparation = Preparation {
            place: self.place.clone(),
            schema: self.schema.clone(),
            on_failure: Arc::clone(&self.on_failure),
            base: path
                .map(|path| Snapshot::open(path, self.schema))
                .transpose()?,
            segments: segments.clone(),
            number,
        };
        DeferredEngine::start(preparation, found, stand_in, self.patience).map(Some)
    }

    /// Opens sled without reading it, on a thread that may panic or never come back.
    fn open_unproven(&self, current: &EngineDir) -> Result<Supervised<SledEngine>, StoreError> {
        let (directory, schema, place) = (current.clone(), self.schema.clone(), self.place.clone());
        Supervised::start(current, move |_| {
            if let Some(why) = directory.suspicion() {
                return Err(StoreError::Engine(why));
            }
            let open = || {
                catch_unwind(AssertUnwindSafe(|| {
                    SledEngine::open(&directory.path, &schema, place.sync)
                }))
                .unwrap_or_else(|_| Err(StoreError::Engine("panicked when opened".to_owned())))
            };
            match open() {
                Err(StoreError::Engine(why)) => {
                    move_leftovers_aside(&place, &directory, &why)?;
                    open()
                }
                other => other,
            }
        })
    }

    /// Makes sled anew, beside what is there; which is moved aside once the new one is whole.
    fn rebuild(&self, ground: &Ground, why: &str) -> Result<Guarded<SledEngine>, StoreError> {
        let truth = self.truth(ground, why)?;
        let next = self.place.next_engine()?;
        let engine = make_engine(&next, self.place, truth, &AtomicBool::new(false))?;
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

/// Makes an engine of everything that base and log hold, unless `abandoned` says that nobody needs it.
pub(super) fn make_engine(
    directory: &EngineDir,
    place: &Place,
    truth: Truth<'_>,
    abandoned: &AtomicBool,
) -> Result<SledEngine, StoreError> {
    // sled panics on a disk that fails.
    let made = catch_unwind(AssertUnwindSafe(|| {
        let engine = SledEngine::open(&directory.path, truth.schema, place.sync)?;
        let filled = truth
            .load(&Stoppable {
                engine: &engine,
                abandoned,
            })
            .and_then(|()| engine.sync())
            .and_then(|()| directory.mark_whole(place.sync));
        match filled {
            Ok(()) => Ok(engine),
            Err(error @ (StoreError::Full | StoreError::Closed)) => Err(error),
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
