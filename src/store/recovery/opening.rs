//! Recovery at start-up: turns the files on disk into an engine that has every promised commit.
//!
//! 1. Open sled on a supervised thread and compare it with its checksums.
//! 2. If sled fails on its own leftover files, move them aside and retry.
//! 3. Replay the WAL into it.
//! 4. Otherwise rebuild sled from the snapshot (or a backup) and the WAL.
//! 5. If the disk is not writable, use an engine in memory and stay read-only.
//!
//! Damage that no step repairs is an error that names the place. No commit is ever skipped
//! silently.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::{Engine, MemoryEngine};
use crate::error::StoreError;
use crate::layout::Identity;
use crate::recovery::deferred::{DeferredEngine, FoundEngine, Preparation};
use crate::recovery::engine_checks::{check_begun, check_history};
use crate::recovery::evidence::{RecoverySource, WAL_ONLY, describe};
use crate::recovery::supervision::max_wait_for_engine;
use crate::recovery::task::{Loss, Opened, Recovered, Recovery};
use crate::snapshot::durable_reader::DurableReader;
use crate::snapshot::durable_state::{apply_to, replay};
use crate::snapshot::format::Snapshot;
use crate::wal::{FileLog, Resume, Survey};
use playgate_process::data_file::at;

impl Recovery<'_> {
    pub(crate) fn run(mut self) -> Result<Recovered, StoreError> {
        let sources = self.sources()?;
        let opened = match self.held.take() {
            Some(held) => Ok(held),
            None => self.sled(&sources),
        };
        let sled = match opened {
            // Opening needs some space, for which the ballast file is reserved.
            Err(StoreError::Full) if (self.make_room)() => self.sled(&sources),
            other => other,
        };
        match sled {
            Ok(opened) => {
                let begin = sources.snapshots.first().map_or(0, |(head, _)| head.number);
                // In both cases some commits exist only in the engine until a new snapshot is written.
                let broken =
                    opened.number > sources.in_snapshot_and_wal() || !sources.continues(begin);
                self.open_wal(sources, opened, broken, None)
            }
            Err(StoreError::Full) if sources.last() > 0 => {
                // Serving from memory must not hide a loss.
                self.check(&sources, sources.last())?;
                if self.needs_wal {
                    return Err(StoreError::Full);
                }
                let state = self.durable_state(&sources, "the disk is full or read-only")?;
                let memory = MemoryEngine::default();
                state.load(&mut apply_to(&memory))?;
                tracing::warn!("the disk is full or read-only: serving from memory, read-only");
                Ok(Recovered {
                    engine: Arc::new(memory),
                    log: None,
                    number: sources.last(),
                    snapshot: sources.snapshots.into_iter().next().map(|(head, _)| head),
                    broken_chain: false,
                    identity: self.identity,
                    loss: None,
                })
            }
            // Only an operator sets `accept_loss`.
            Err(StoreError::Lost(_)) if self.accept_loss => {
                let (sources, opened, loss) = self.open_without_lost_commits(sources)?;
                self.open_wal(sources, opened, true, Some(loss))
            }
            Err(error) => Err(error),
        }
    }

    fn open_wal(
        self,
        sources: RecoverySource,
        opened: Opened,
        broken_chain: bool,
        loss: Option<Loss>,
    ) -> Result<Recovered, StoreError> {
        let Opened { engine, number } = opened;
        let mut identity = self.identity.clone();
        let forked = self.fork || loss.is_some() || self.is_rolled_back(&sources, number);
        // A new timeline keeps new commits apart from abandoned ones with the same numbers.
        if forked || identity.lineage.is_unknown() {
            identity.lineage.fork(self.seed, number);
        }
        let resumed = self.resume(&sources, &mut identity, number);
        let snapshot = sources.snapshots.into_iter().next().map(|(head, _)| head);
        let (log, broken_chain) = match resumed {
            Ok(log) => (Some(log), broken_chain),
            // Reads continue without a WAL.
            Err(StoreError::Full) if !self.needs_wal => (None, false),
            Err(error) => return Err(error),
        };
        Ok(Recovered {
            engine,
            log,
            number,
            snapshot,
            broken_chain,
            identity,
            loss,
        })
    }

    fn resume(
        &self,
        sources: &RecoverySource,
        identity: &mut Identity,
        number: u64,
    ) -> Result<FileLog, StoreError> {
        self.layout.check_same_store(&self.identity)?;
        // The new timeline must be on disk before the first commit in it.
        if *identity != self.identity {
            self.layout.write_identity(identity)?;
        }
        let log = FileLog::resume(Resume {
            directory: &self.layout.log(),
            end: &self.layout.log_end(),
            survey: &sources.survey,
            number,
            history: sources.history(number, identity.lineage.current),
            sync: self.layout.sync,
        })?;
        // From now on a missing log is damage and not a first start.
        if !identity.begun {
            identity.begun = true;
            self.layout.check_same_store(&self.identity)?;
            self.layout.write_identity(identity)?;
        }
        Ok(log)
    }

    /// Returns an engine with every promised commit, after a replay or a rebuild.
    fn sled(&self, sources: &RecoverySource) -> Result<Opened, StoreError> {
        // If snapshot and WAL lack a promised commit, only the engine can have it.
        if sources.promised <= sources.in_snapshot_and_wal() {
            // Checked before anything is changed on disk.
            self.check(sources, sources.last())?;
            if let Some(engine) = self.deferred(sources)? {
                return Ok(Opened {
                    engine: Arc::new(engine),
                    number: sources.last(),
                });
            }
        }
        let opened = self.open_sled().and_then(|engine| {
            let applied = engine.applied()?;
            check_history(&self.identity.lineage, applied)?;
            let directory = self.layout.engines()?.0;
            let last = sources.last();
            check_begun(&self.identity.lineage, &engine, last, directory.as_ref())?;
            Ok((engine, applied.number))
        });
        let why = match opened {
            Ok((engine, applied)) => {
                // The engine may lack commits that only the WAL has, but there must be no gap between them.
                if sources.continues(applied) {
                    let number = sources.last().max(applied);
                    self.check(sources, number)?;
                    replay(
                        &sources.survey.segments,
                        applied,
                        self.identity.lineage.commit(number),
                        self.schema,
                        &mut apply_to(&engine),
                    )?;
                    return Ok(Opened {
                        engine: Arc::new(engine),
                        number,
                    });
                }
                gap_after(&sources.survey, applied)
            }
            Err(StoreError::Engine(why)) => why,
            Err(error) => return Err(error),
        };
        self.check(sources, sources.last())?;
        tracing::error!(
            why,
            "the engine cannot be used; rebuilding it from snapshot and WAL"
        );
        let engine = self.rebuild(self.durable_state(sources, &why)?)?;
        Ok(Opened {
            engine: Arc::new(engine),
            number: sources.last(),
        })
    }

    /// Returns `None` if snapshot and WAL are incomplete, so that the engine has to be ready first.
    fn deferred(&self, sources: &RecoverySource) -> Result<Option<DeferredEngine>, StoreError> {
        let (current, others) = self.layout.engines()?;
        let number = sources.last();
        let snapshot = sources.snapshots.first();
        let begin = snapshot.map_or(0, |(head, _)| head.number);
        // A stand-in on an incomplete WAL would give wrong answers.
        if number == 0 || begin > number || !sources.continues(begin) {
            return Ok(None);
        }
        for other in others {
            // The creation of this engine was interrupted, or another engine has replaced it.
            fs::remove_dir_all(&other.path).map_err(at("remove", &other.path))?;
        }
        let opening = current
            .as_ref()
            .map(|current| self.open_unverified(current));
        let path = snapshot.map(|(_, path)| path.as_path());
        let segments = &sources.survey.segments;
        // This runs while sled opens, which takes at least as long.
        let stand_in = DurableReader::open(path, segments, number, self.schema);
        let max_wait = max_wait_for_engine(self.max_wait, current.as_ref());
        let found = match (opening, current) {
            (Some(opening), Some(current)) => {
                match opening?.wait(&current, &AtomicBool::new(false)) {
                    Ok(engine) => {
                        // The preparation checks the timeline, and rebuilds an engine of another one.
                        let applied = engine.applied()?.number;
                        // The engine has commits that the WAL lacks. The caller handles that case.
                        if applied > number || !sources.continues(applied) {
                            return Ok(None);
                        }
                        let lineage = &self.identity.lineage;
                        match check_begun(lineage, &engine, number, Some(&current)) {
                            Ok(()) => FoundEngine::Unverified(Box::new(engine), current),
                            Err(StoreError::Engine(why)) => FoundEngine::Unusable(why),
                            Err(error) => return Err(error),
                        }
                    }
                    Err(StoreError::Engine(why)) => FoundEngine::Unusable(why),
                    // The caller handles the full disk.
                    Err(StoreError::Full) => return Ok(None),
                    Err(error) => return Err(error),
                }
            }
            _ => FoundEngine::Unusable("there is no complete engine directory".to_owned()),
        };
        let Ok(stand_in) = stand_in else {
            return Ok(None);
        };
        let preparation = Preparation {
            layout: self.layout.clone(),
            schema: self.schema.clone(),
            on_failure: Arc::clone(&self.on_failure),
            snapshot: path
                .map(|path| Snapshot::open(path, self.schema))
                .transpose()?,
            segments: segments.clone(),
            number,
            oldest: sources.oldest(begin),
            lineage: self.identity.lineage.clone(),
            from: snapshot.map_or_else(|| WAL_ONLY.to_owned(), |(head, path)| describe(head, path)),
            rebuilt_from: Arc::clone(&self.rebuilt_from),
        };
        let on_failure = Arc::clone(&preparation.on_failure);
        let make = move |abandoned: &_| preparation.run(found, abandoned);
        DeferredEngine::start(make, on_failure, stand_in, max_wait).map(Some)
    }
}

fn gap_after(survey: &Survey, applied: u64) -> String {
    match survey.gaps.iter().find(|gap| gap.to > applied) {
        Some(gap) => format!(
            "ends at commit {applied}, and the WAL misses commits {} to {} ({})",
            gap.from,
            gap.to - 1,
            gap.path.display()
        ),
        None => {
            let begin = survey.segments.first().map_or(0, |segment| segment.first);
            format!("ends at commit {applied}, and the WAL begins at {begin}")
        }
    }
}
