//! Opens an engine without commits that are lost, after an operator has accepted the loss.

use std::sync::Arc;

use crate::engine::Engine as _;
use crate::error::StoreError;
use crate::recovery::engine_checks::check_begun;
use crate::recovery::evidence::{RecoverySource, WAL_ONLY, describe, read_to_end};
use crate::recovery::task::{Loss, Opened, Recovery};
use crate::snapshot::durable_state::{DurableState, apply_to, replay};
use crate::snapshot::format::Snapshot;
use crate::wal::{StoredEnd, Survey};

impl Recovery<'_> {
    /// Opens with the latest reachable state: engine or snapshot, plus the WAL up to its first gap. The WAL is moved
    /// aside; the caller begins a new one.
    pub(crate) fn open_without_lost_commits(
        &self,
        sources: RecoverySource,
    ) -> Result<(RecoverySource, Opened, Loss), StoreError> {
        let engine = match self.open_sled() {
            Ok(engine) => {
                let applied = engine.applied()?;
                let lineage = &self.identity.lineage;
                let last = sources.survey.reaches(applied.number);
                let is_of_this_store = lineage.holds_engine(applied)
                    && check_begun(lineage, &engine, last, None).is_ok();
                let applied = applied.number;
                is_of_this_store.then(|| (sources.survey.reaches(applied), applied, engine))
            }
            Err(StoreError::Engine(_)) => None,
            Err(error) => return Err(error),
        };
        let snapshots = sources.snapshots.iter().chain(&sources.backups);
        // The best snapshot is the one that the undamaged part of the WAL extends furthest.
        let best = snapshots
            .filter(|(head, _)| sources.fits(head, &self.identity.lineage))
            .map(|(head, path)| (sources.survey.reaches(head.number), path))
            .filter(|(_, path)| read_to_end(path, self.schema).is_ok())
            .max_by_key(|(reaches, _)| *reaches);
        let segments = &sources.survey.segments;
        let opened = match (engine, best) {
            (Some((number, applied, engine)), best)
                // An engine that reaches at least as far is preferred, since it needs no rebuild.
                if best.is_none_or(|(reaches, _)| reaches <= number) =>
            {
                let last = self.identity.lineage.commit(number);
                replay(segments, applied, last, self.schema, &mut apply_to(&engine))?;
                engine.sync()?;
                Opened {
                    engine: Arc::new(engine),
                    number,
                }
            }
            (_, best) => {
                let number = best.map_or_else(|| sources.survey.reaches(0), |(reaches, _)| reaches);
                let snapshot = best
                    .map(|(_, path)| Snapshot::open(path, self.schema))
                    .transpose()?;
                let from = match (&snapshot, best) {
                    (Some(snapshot), Some((_, path))) => describe(snapshot.head(), path),
                    _ => WAL_ONLY.to_owned(),
                };
                self.report_rebuild(from, number);
                let engine = self.rebuild(DurableState {
                    snapshot,
                    segments: segments.clone(),
                    schema: self.schema,
                    last: self.identity.lineage.commit(number),
                })?;
                Opened {
                    engine: Arc::new(engine),
                    number,
                }
            }
        };
        let known = sources.promised.max(sources.last());
        let loss = Loss {
            kept: opened.number,
            last: (known > opened.number).then_some(known),
        };
        tracing::error!(
            kept = loss.kept,
            lost = loss.count(),
            "an operator accepted the loss of commits; the store continues without them in a new timeline"
        );
        // The commits after the gap are useless, and their numbers will be used again.
        if self.layout.log().exists() {
            let kept = self.layout.move_aside(&self.layout.log(), "log")?;
            tracing::warn!(kept = %kept.display(), "moved the WAL aside");
        }
        let sources = RecoverySource {
            survey: Survey::default(),
            end: StoredEnd::Missing,
            ..sources
        };
        Ok((sources, opened, loss))
    }
}
