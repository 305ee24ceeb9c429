//! Attempts to guess: counted before any work is done for them, worked on in the pool that hashes,
//! and decided by a commit. Nobody waits for a commit on a thread of the pool: where a sync takes
//! 100 ms, such waits would leave it idle and its queue full.
//!
//! An attempt that is counted and not decided yet may still turn out right. As long as there are such
//! attempts, a subject that has reached its limit is not refused but waits for them: any number of
//! right passwords at one time get in, and of wrong ones exactly as many are tried as may be.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use oneshot::{AsyncReceiver, Sender};
use parking_lot::Mutex;

use super::throttle::{self, Refused, Reservation, Subject, ThrottleKey};
use super::{Accounts, HashMemory};
use crate::store::{Durability, StoreError, WritePriority};
use crate::types::UnixSeconds;

/// Why the pool did not do a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// It takes no more work at present.
    #[error("the pool that hashes has no room")]
    Full,
    /// The job panicked.
    #[error("the work of the pool that hashes was lost")]
    Lost,
}

/// Where passwords and PINs are hashed: a bounded pool of threads that may block.
pub trait HashPool: Sync {
    /// Runs a job on a thread of the pool.
    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, PoolError>> + Send;
}

/// The subjects with undecided attempts.
#[derive(Default)]
pub(super) struct Undecided(Mutex<HashMap<ThrottleKey, OfSubject>>);

#[derive(Default)]
struct OfSubject {
    attempts: usize,
    /// They wake when they are dropped.
    waiting: Vec<Sender<()>>,
}

impl Undecided {
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.0.lock().contains_key(&subject.key())
    }

    fn hold(self: &Arc<Self>, subjects: &[Subject]) -> Hold {
        let keys: Vec<_> = subjects.iter().map(Subject::key).collect();
        let mut all = self.0.lock();
        for key in &keys {
            all.entry(*key).or_default().attempts += 1;
        }
        drop(all);
        Hold {
            undecided: Arc::clone(self),
            keys,
        }
    }

    /// Wakes when an attempt of a subject is decided; nothing if there is none.
    fn wait_for(&self, subject: &Subject) -> Option<AsyncReceiver<()>> {
        let mut all = self.0.lock();
        let of = all.get_mut(&subject.key())?;
        let (sender, receiver) = oneshot::async_channel();
        of.waiting.push(sender);
        Some(receiver)
    }
}

/// Subjects have one more undecided attempt as long as this lives.
struct Hold {
    undecided: Arc<Undecided>,
    keys: Vec<ThrottleKey>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut woken = Vec::new();
        let mut all = self.undecided.0.lock();
        for key in &self.keys {
            let Some(of) = all.get_mut(key) else {
                continue;
            };
            of.attempts = of.attempts.saturating_sub(1);
            woken.append(&mut of.waiting);
            if of.attempts == 0 {
                all.remove(key);
            }
        }
        drop(all);
    }
}

/// An attempt that is counted. It is given back when it is dropped before anything was tried: the pool
/// had no room, or the client has gone.
pub(super) struct Attempt {
    accounts: Accounts,
    reservation: Arc<Reservation>,
    tried: Arc<AtomicBool>,
    now: UnixSeconds,
    _hold: Hold,
}

impl Attempt {
    /// What a plan gives back of an attempt that was right.
    pub(super) fn reservation(&self) -> Arc<Reservation> {
        Arc::clone(&self.reservation)
    }

    /// Does the work of the attempt. From its begin on the attempt counts.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        pool: &impl HashPool,
        job: impl FnOnce(&Accounts, &mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (accounts, tried) = (self.accounts.clone(), Arc::clone(&self.tried));
        let job = move |memory: &mut HashMemory| {
            tried.store(true, Relaxed);
            job(&accounts, memory)
        };
        pool.run(job).await
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.tried.load(Relaxed) {
            return;
        }
        let (accounts, reservation, now) = (self.accounts.clone(), self.reservation(), self.now);
        let inner = &self.accounts.0;
        let refund = inner
            .store
            .write_for(WritePriority::Login, Durability::Logged, move |txn| {
                throttle::refund(txn, &accounts.0.settings.limits, &reservation, now)
            });
        // Nobody waits for it. If it fails, the attempt counts.
        drop(refund);
    }
}

/// Why an attempt was not counted.
enum Denied {
    Refused(Refused),
    /// Others are undecided.
    Wait(AsyncReceiver<()>),
}

impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        Self::Refused(Refused::Store(error))
    }
}

impl Accounts {
    /// Counts an attempt for each subject, before any work is done for it.
    pub(super) async fn attempt(
        &self,
        class: Durability,
        subjects: Vec<Subject>,
        now: UnixSeconds,
    ) -> Result<Attempt, Refused> {
        loop {
            let (this, subjects) = (self.clone(), subjects.clone());
            // Who guesses is counted as long as anybody can log in.
            let counted = self
                .0
                .store
                .write_for(WritePriority::Login, class, move |txn| {
                    let limits = &this.0.settings.limits;
                    let undecided = &this.0.undecided;
                    match throttle::reserve(txn, limits, &subjects, now) {
                        Ok(reservation) => Ok((reservation, undecided.hold(&subjects))),
                        Err(Refused::Store(error)) => Err(error.into()),
                        Err(Refused::TooMany(limit)) => {
                            let full = throttle::refusing(txn, limits, &subjects, now)?;
                            // A subject without undecided attempts stays at its limit, whatever becomes
                            // of those of the others.
                            let stays = full.iter().any(|subject| !undecided.has(subject));
                            let decided = full.first().filter(|_| !stays);
                            Err(decided
                                .and_then(|subject| undecided.wait_for(subject))
                                .map_or(Denied::Refused(Refused::TooMany(limit)), Denied::Wait))
                        }
                    }
                });
            match counted.await {
                Ok((reservation, hold)) => {
                    return Ok(Attempt {
                        accounts: self.clone(),
                        reservation: Arc::new(reservation),
                        tried: Arc::default(),
                        now,
                        _hold: hold,
                    });
                }
                Err(Denied::Refused(refused)) => return Err(refused),
                Err(Denied::Wait(decided)) => {
                    // It ends without a word.
                    let _ = decided.await;
                }
            }
        }
    }
}
