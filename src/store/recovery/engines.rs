//! Opens the engine of a store under supervision, and builds a new one from snapshot and WAL.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::{Engine as _, SledEngine, WatchedEngine};
use crate::error::StoreError;
use crate::failure::OnFailure;
use crate::history::CommitId;
use crate::layout::{EngineDir, StoreLayout};
use crate::recovery::engine_checks::retry_without_leftovers;
use crate::recovery::supervision::{Supervised, verify_supervised};
use crate::recovery::task::Recovery;
use crate::snapshot::durable_state::DurableState;
use playgate_process::data_file::at;

impl Recovery<'_> {
    pub(crate) fn open_sled(&self) -> Result<WatchedEngine<SledEngine>, StoreError> {
        let (current, others) = self.layout.engines()?;
        for other in others {
            // The creation of this engine was interrupted, or another engine has replaced it.
            fs::remove_dir_all(&other.path).map_err(at("remove", &other.path))?;
        }
        let Some(current) = current else {
            let first = self.layout.next_engine()?;
            let engine = SledEngine::open(&first.path, self.schema, self.layout.sync)?;
            // A first start: an empty engine is complete.
            first.mark_whole(self.layout.sync)?;
            return Ok(self.watched(engine, &first));
        };
        // An earlier process saw it panic or hang, so it is not opened again.
        if let Some(why) = current.suspect_reason() {
            return Err(StoreError::Engine(why));
        }
        let opened = retry_without_leftovers(self.layout, &current, || self.supervised(&current));
        opened.map(|engine| self.watched(engine, &current))
    }

    fn watched(&self, engine: SledEngine, directory: &EngineDir) -> WatchedEngine<SledEngine> {
        watched(engine, directory, &self.on_failure)
    }

    fn supervised(&self, current: &EngineDir) -> Result<SledEngine, StoreError> {
        let (directory, schema, sync) =
            (current.path.clone(), self.schema.clone(), self.layout.sync);
        let open = move || SledEngine::open(&directory, &schema, sync);
        verify_supervised(current, &Arc::default(), open)
    }

    pub(super) fn open_unverified(
        &self,
        current: &EngineDir,
    ) -> Result<Supervised<SledEngine>, StoreError> {
        let (directory, schema, layout) =
            (current.clone(), self.schema.clone(), self.layout.clone());
        // sled may panic or hang on damaged files.
        Supervised::start(current, move |_| {
            if let Some(why) = directory.suspect_reason() {
                return Err(StoreError::Engine(why));
            }
            let open = || {
                catch_unwind(AssertUnwindSafe(|| {
                    SledEngine::open(&directory.path, &schema, layout.sync)
                }))
                .unwrap_or_else(|_| Err(StoreError::Engine("panicked when opened".to_owned())))
            };
            retry_without_leftovers(&layout, &directory, open)
        })
    }

    pub(crate) fn rebuild(
        &self,
        state: DurableState<'_>,
    ) -> Result<WatchedEngine<SledEngine>, StoreError> {
        let number = state.last.number;
        let next = self.layout.next_engine()?;
        let engine = make_engine(&next, self.layout, state, &AtomicBool::new(false))?;
        // The old engine is moved aside only once the new one is complete.
        for old in self.layout.engines()?.1 {
            let moved = self.layout.move_aside(&old.path, "sled")?;
            tracing::warn!(kept = %moved.display(), "moved the damaged engine aside");
        }
        tracing::info!(number, "rebuilt the engine");
        Ok(self.watched(engine, &next))
    }
}

/// Supervises an engine. A fault is reported and recorded for the next start.
pub(crate) fn watched(
    engine: SledEngine,
    directory: &EngineDir,
    on_failure: &OnFailure,
) -> WatchedEngine<SledEngine> {
    let (directory, on_failure) = (directory.clone(), Arc::clone(on_failure));
    let fault = Arc::new(move |what: &str| {
        tracing::error!(what, "the engine has failed; the next start rebuilds it");
        // The process may be killed at any moment now, so the mark comes before the report.
        if let Err(error) = directory.mark_suspect(what) {
            tracing::error!(%error, "failed to write the mark that the engine must be rebuilt");
        }
        on_failure(&StoreError::Failed(what.to_owned()));
    });
    WatchedEngine::new(engine, fault)
}

pub(crate) fn make_engine(
    directory: &EngineDir,
    layout: &StoreLayout,
    state: DurableState<'_>,
    abandoned: &AtomicBool,
) -> Result<SledEngine, StoreError> {
    // sled panics on a disk that fails.
    let made = catch_unwind(AssertUnwindSafe(|| {
        let engine = SledEngine::open(&directory.path, state.schema, layout.sync)?;
        let mut reached = CommitId::default();
        let filled = state
            .load(&mut |commit, batch| {
                reached = commit;
                batch.try_for_each_part(abandoned, |part| engine.load_part(part))
            })
            .and_then(|()| engine.finish_load(reached))
            // The mark is written last: a directory without it is never opened.
            .and_then(|()| engine.sync())
            .and_then(|()| directory.mark_whole(layout.sync));
        match filled {
            Ok(()) => Ok(engine),
            Err(error @ (StoreError::Full | StoreError::Closed)) => Err(error),
            Err(error) => {
                // sled panics when it is closed on a failing disk. The process ends anyway.
                std::mem::forget(engine);
                Err(error)
            }
        }
    }))
    .unwrap_or_else(|_| Err(StoreError::Engine("panicked while it was built".to_owned())));
    if made.is_err() {
        // An incomplete engine is useless, and its space may be what is missing.
        let _ = fs::remove_dir_all(&directory.path);
    }
    made
}
