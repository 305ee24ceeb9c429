//! Attempts that guess a secret: counted before any work, hashed in the hashing pool, decided by a commit.
//!
//! No pool thread waits for a commit: with syncs of 100 ms the pool would be idle and its queue full. An
//! undecided attempt may still turn out right. While there are any, a subject at its limit waits instead of
//! being rejected. So any number of concurrent correct passwords succeed, and wrong ones never exceed the
//! limit.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use oneshot::{AsyncReceiver, Sender};
use parking_lot::Mutex;

use super::attempt_limits::{AttemptSubject, ThrottleKey};
use super::throttle::{self, Refused, Reservation};
use super::{Accounts, HashMemory};
use playgate_store::{Commit, Durability, StoreError, Txn, WritePriority};
use playgate_types::UnixSeconds;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("the hashing pool is full")]
    Full,
    #[error("a job of the hashing pool panicked")]
    Lost,
}

/// A bounded pool of blocking threads that hash passwords and PINs.
pub trait HashPool: Sync {
    fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> impl Future<Output = Result<T, PoolError>> + Send;
}

#[derive(Default)]
pub(super) struct Undecided(Mutex<HashMap<ThrottleKey, Pending>>);

#[derive(Default)]
struct Pending {
    attempts: usize,
    /// Dropping a sender wakes its waiter.
    waiting: Vec<Sender<()>>,
}

impl Undecided {
    pub(super) fn has(&self, subject: &AttemptSubject) -> bool {
        self.0.lock().contains_key(&subject.key())
    }

    fn hold(self: &Arc<Self>, subjects: &[AttemptSubject]) -> Hold {
        let keys: Vec<_> = subjects.iter().map(AttemptSubject::key).collect();
        // One lock for all keys: the attempt becomes undecided for all its subjects at once.
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

    /// Returns `None` if no attempt of the subject is undecided.
    fn wait_for(&self, subject: &AttemptSubject) -> Option<AsyncReceiver<()>> {
        let mut all = self.0.lock();
        let pending = all.get_mut(&subject.key())?;
        // Registered under the lock, so that a decision in between is not missed.
        let (sender, receiver) = oneshot::async_channel();
        pending.waiting.push(sender);
        Some(receiver)
    }
}

/// Counts as one undecided attempt of each subject while it is alive.
struct Hold {
    undecided: Arc<Undecided>,
    keys: Vec<ThrottleKey>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        // Waiters are woken after the lock is released, since they try again at once.
        let mut waiters = Vec::new();
        let mut all = self.undecided.0.lock();
        for key in &self.keys {
            let Some(pending) = all.get_mut(key) else {
                continue;
            };
            pending.attempts = pending.attempts.saturating_sub(1);
            waiters.append(&mut pending.waiting);
            if pending.attempts == 0 {
                all.remove(key);
            }
        }
        drop(all);
    }
}

/// A counted attempt. Dropping it before its job has started refunds it: the pool was full, or the client disconnected.
pub(super) struct Attempt {
    accounts: Accounts,
    reservation: Arc<Reservation>,
    tried: Arc<AtomicBool>,
    now: UnixSeconds,
    _hold: Hold,
}

impl Attempt {
    pub(super) fn reservation(&self) -> Arc<Reservation> {
        Arc::clone(&self.reservation)
    }

    /// Runs the job in the pool. The attempt counts as soon as the job starts.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        pool: &impl HashPool,
        job: impl FnOnce(&Accounts, &mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let (accounts, tried) = (self.accounts.clone(), Arc::clone(&self.tried));
        let job = move |memory: &mut HashMemory| {
            // From here on the guess may have been evaluated, so a dropped attempt stays counted.
            tried.store(true, Relaxed);
            job(&accounts, memory)
        };
        pool.run(job).await
    }

    /// Takes the attempt back in a batch of its own.
    pub(super) fn refund(&self) -> Commit<(), StoreError> {
        let (accounts, reservation, now) = (self.accounts.clone(), self.reservation(), self.now);
        let batch = move |txn: &mut Txn<'_>| {
            throttle::refund(txn, &accounts.0.settings.limits, &reservation, now)
        };
        // Not durable: a refund that a power cut loses costs one attempt. With the priority of the count: otherwise
        // right guesses would lock the user while the disk is low.
        self.accounts
            .0
            .store
            .write_for(WritePriority::Login, Durability::Logged, batch)
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.tried.load(Relaxed) {
            return;
        }
        // Fire and forget: if the refund fails, the attempt stays counted.
        drop(self.refund());
    }
}

enum DeniedAttempt {
    Refused(Refused),
    Wait(AsyncReceiver<()>),
}

impl From<StoreError> for DeniedAttempt {
    fn from(error: StoreError) -> Self {
        Self::Refused(Refused::Store(error))
    }
}

impl Accounts {
    pub(super) async fn attempt(
        &self,
        class: Durability,
        subjects: Vec<AttemptSubject>,
        now: UnixSeconds,
    ) -> Result<Attempt, Refused> {
        loop {
            // Each decision wakes the waiters, which try again; the deadline of a request ends its rounds.
            let (this, subjects) = (self.clone(), subjects.clone());
            // Login priority: guesses must be counted as long as logins are possible.
            let counted = self
                .0
                .store
                .write_for(WritePriority::Login, class, move |txn| {
                    let limits = &this.0.settings.limits;
                    let undecided = &this.0.undecided;
                    match throttle::reserve(txn, limits, &subjects, now) {
                        // Held inside the transaction: the next one must see the attempt as undecided.
                        Ok(reservation) => Ok((reservation, undecided.hold(&subjects))),
                        Err(Refused::Store(error)) => Err(error.into()),
                        Err(Refused::TooMany(limit)) => {
                            let full = throttle::at_limit(txn, limits, &subjects, now)?;
                            // A subject at its limit without undecided attempts stays at its limit, so waiting
                            // for others is pointless.
                            let stays_at_limit = full.iter().any(|subject| !undecided.has(subject));
                            let decided = full.first().filter(|_| !stays_at_limit);
                            Err(decided
                                .and_then(|subject| undecided.wait_for(subject))
                                .map_or(
                                    DeniedAttempt::Refused(Refused::TooMany(limit)),
                                    DeniedAttempt::Wait,
                                ))
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
                Err(DeniedAttempt::Refused(refused)) => return Err(refused),
                Err(DeniedAttempt::Wait(decided)) => {
                    // The sender is dropped without a message.
                    let _ = decided.await;
                }
            }
        }
    }
}
