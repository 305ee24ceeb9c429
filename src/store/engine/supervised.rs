//! Supervision of an engine: a panic becomes an error, and a call that hangs is detected.
//!
//! sled can panic on damaged files and can loop in a read for ever. Either is reported once as a
//! [`Fault`]; the process must then restart, and the next start rebuilds the engine.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::{Engine, KeyValue, Scan};
use crate::error::StoreError;
use crate::history::CommitId;
use crate::table::TreeName;
use crate::write_batch::BatchPart;

/// Time limit of one engine call. A call takes milliseconds at most, and a disk that stalls for
/// longer is as bad as a failed one.
const STEP_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of supervised calls at a time; more than there are reading threads.
const CALLS_MAX: usize = 64;

type Fault = Arc<dyn Fn(&str) + Send + Sync>;

pub(crate) struct WatchedEngine<E> {
    engine: E,
    watch: Arc<Watch>,
}

struct Watch {
    began: Instant,
    /// The start of each running call, in milliseconds after `began` plus one; 0 for an unused slot.
    running: [AtomicU64; CALLS_MAX],
    reported: AtomicBool,
    fault: Fault,
}

impl<E: Engine> WatchedEngine<E> {
    pub(crate) fn new(engine: E, fault: Fault) -> Self {
        let watch = Arc::new(Watch {
            began: Instant::now(),
            running: [const { AtomicU64::new(0) }; CALLS_MAX],
            reported: AtomicBool::new(false),
            fault,
        });
        let watched = Arc::downgrade(&watch);
        // Without this thread the store still works, so its absence is only logged.
        if let Err(error) = std::thread::Builder::new()
            .name("store-guard".to_owned())
            .spawn(move || check(&watched))
        {
            tracing::error!(%error, "cannot start the supervising thread: a hanging read will not be detected");
        }
        Self { engine, watch }
    }

    fn step<R>(&self, work: impl FnOnce(&E) -> Result<R, StoreError>) -> Result<R, StoreError> {
        self.watch.step(|| work(&self.engine))
    }
}

pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        // `panic!` with arguments carries a `String`, without arguments a `&str`.
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or_default()
}

impl Watch {
    fn step<R>(&self, work: impl FnOnce() -> Result<R, StoreError>) -> Result<R, StoreError> {
        let place = self.enter();
        // A panic inside sled must not end a thread of the store without a report.
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
            let said = panic_message(&*panic);
            Err(StoreError::Engine(format!("panicked: {said}")))
        });
        if let Some(place) = place {
            place.store(0, Ordering::Release);
        }
        if let Err(StoreError::Engine(what)) = &result {
            self.report(what);
        }
        result
    }

    fn enter(&self) -> Option<&AtomicU64> {
        // Zero marks a free slot, so the first millisecond counts as one.
        let now = self.millis().saturating_add(1);
        // If all slots are taken, the call runs unsupervised: supervision must not slow requests down.
        self.running.iter().find(|place| {
            place
                .compare_exchange(0, now, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn report(&self, what: &str) {
        // Reported once: the process restarts, and later faults are consequences.
        if !self.reported.swap(true, Ordering::AcqRel) {
            (self.fault)(what);
        }
    }

    fn hangs(&self) -> bool {
        let limit = u64::try_from(STEP_LIMIT.as_millis()).unwrap_or(u64::MAX);
        let now = self.millis();
        self.running
            .iter()
            .map(|place| place.load(Ordering::Acquire))
            .any(|since| since > 0 && now.saturating_sub(since) > limit)
    }
}

fn check(watched: &Weak<Watch>) {
    while let Some(watch) = watched.upgrade() {
        if watch.hangs() {
            watch.report("a call has not returned");
            return;
        }
        // Released while waiting, so that a closed engine ends this thread.
        drop(watch);
        std::thread::park_timeout(LOOK_EVERY);
    }
}

impl<E: Engine> Engine for WatchedEngine<E> {
    fn get(&self, tree: TreeName, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.step(|engine| engine.get(tree, key))
    }

    fn scan<'a>(&'a self, tree: TreeName, from: &[u8], to: Option<&[u8]>) -> Scan<'a> {
        match self.watch.step(|| Ok(self.engine.scan(tree, from, to))) {
            Ok(scan) => Box::new(Steps {
                scan: Some(scan),
                watch: &self.watch,
            }),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn apply_part(&self, commit: CommitId, part: &BatchPart<'_>) -> Result<(), StoreError> {
        self.step(|engine| engine.apply_part(commit, part))
    }

    fn begun(&self) -> Option<CommitId> {
        self.engine.begun()
    }

    fn applied(&self) -> Result<CommitId, StoreError> {
        self.step(E::applied)
    }

    fn sync(&self) -> Result<(), StoreError> {
        // A sync has no time limit, since its duration depends on the disk.
        catch_unwind(AssertUnwindSafe(|| self.engine.sync())).unwrap_or_else(|_| {
            self.watch.report("a sync panicked");
            Err(StoreError::Engine("a sync panicked".to_owned()))
        })
    }
}

struct Steps<'a> {
    scan: Option<Scan<'a>>,
    watch: &'a Watch,
}

impl Iterator for Steps<'_> {
    type Item = Result<KeyValue, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let scan = self.scan.as_mut()?;
        let pair = self.watch.step(|| scan.next().transpose()).transpose();
        // An iterator that has failed may hang or repeat itself.
        if !matches!(pair, Some(Ok(_))) {
            self.scan = None;
        }
        pair
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::write_batch::WriteBatch;

    struct Breaking;

    impl Engine for Breaking {
        fn get(&self, _: TreeName, _: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            panic!("a damaged page")
        }

        fn scan<'a>(&'a self, _: TreeName, _: &[u8], _: Option<&[u8]>) -> Scan<'a> {
            Box::new((0..3_u8).map(|i| match i {
                0 => Ok((vec![i], vec![])),
                _ => panic!("a damaged page"),
            }))
        }

        fn apply_part(&self, _: CommitId, _: &BatchPart<'_>) -> Result<(), StoreError> {
            Err(StoreError::Full)
        }

        fn applied(&self) -> Result<CommitId, StoreError> {
            Ok(CommitId::default())
        }

        fn sync(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn panics_are_reported_once_and_a_full_disk_is_not_a_panic() {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&reported);
        let fault: Fault = Arc::new(move |what: &str| heard.lock().push(what.to_owned()));
        let watched = WatchedEngine::new(Breaking, fault);
        assert_eq!(
            watched.apply(CommitId::default(), &WriteBatch::default()),
            Err(StoreError::Full)
        );
        assert_eq!(watched.applied(), Ok(CommitId::default()));
        assert!(reported.lock().is_empty());
        assert!(matches!(watched.get("t", b""), Err(StoreError::Engine(_))));
        let pairs: Vec<_> = watched.scan("t", b"", None).collect();
        assert_eq!(pairs.len(), 2);
        assert!(matches!(pairs.last(), Some(Err(StoreError::Engine(_)))));
        assert_eq!(*reported.lock(), ["panicked: a damaged page"]);
    }
}
