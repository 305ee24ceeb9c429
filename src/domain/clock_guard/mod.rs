//! Protects expiry and deletions by age against clock jumps.
//!
//! - Expiry uses [`ExpiryClock`], which never goes back and ignores a jump until it is trusted.
//! - Tasks that delete by age call [`ClockGuard::check`] and pause while the clock is not trusted.
//!
//! A jump is a difference of more than an hour between wall clock and uptime. It is trusted after ten
//! consistent minutes, or when an operator accepts it. A start compares the clock with the mark in the store.
//! Reasons: `docs/decisions/time-never-goes-back.md`.

mod expiry;
mod tables;
mod trusted_time;

use std::sync::Arc;

use parking_lot::Mutex;

pub use expiry::ExpiryClock;
pub use tables::{TABLE, schema};
pub use trusted_time::ClockJump;

use playgate_ports::Clock;
use playgate_store::{Durability, Store, StoreError, WritePriority};
use playgate_types::UnixSeconds;
use tables::{MARK, Marks};
use trusted_time::{JUMP_MILLIS, MARK_EVERY, Reading, TrustChange, TrustedTime};

/// Records the high-water mark and advances the [`ExpiryClock`].
pub struct ClockGuard {
    clock: Arc<dyn Clock>,
    /// Uptimes are comparable only within one boot.
    boot: Option<String>,
    store: Store,
    expiry: Arc<ExpiryClock>,
    /// Held while the mark is committed.
    state: Mutex<GuardState>,
    /// A copy of the jump in `state`, for readers that must not wait for a commit.
    jump: Mutex<Option<ClockJump>>,
}

struct GuardState {
    trusted_time: TrustedTime,
    marked: Option<i64>,
    failed: bool,
}

impl ClockGuard {
    pub fn open(
        store: Store,
        clock: Arc<dyn Clock>,
        boot: Option<String>,
    ) -> Result<Self, StoreError> {
        let mark = store.read(|txn| txn.get::<Marks>(&MARK))?;
        let reading = Reading::read(&*clock);
        let trusted_time = TrustedTime::begin(mark.as_ref(), boot.as_deref(), reading);
        if let Some(untrusted_jump) = trusted_time.untrusted_jump() {
            tracing::warn!("{untrusted_jump}");
        }
        // A system without an uptime cannot detect jumps, so it trusts every reading.
        let reach = reading.uptime.map_or(i64::MAX, |_| JUMP_MILLIS / 1_000);
        let expiry = Arc::new(ExpiryClock::new(trusted_time.token(), reach));
        let jump = Mutex::new(trusted_time.untrusted_jump());
        let state = GuardState {
            trusted_time,
            marked: mark.map(|mark| mark.token),
            failed: false,
        };
        Ok(Self {
            clock,
            boot,
            store,
            expiry,
            state: Mutex::new(state),
            jump,
        })
    }

    /// Advances the [`ExpiryClock`] of a standby, which records no mark.
    pub fn follow(&self) {
        let mut state = self.state.lock();
        let _ = state.trusted_time.observe(Reading::read(&*self.clock));
        self.expiry.raise(state.trusted_time.token());
    }

    /// Continues from the mark of the previous owner of the fleet.
    pub fn take_over(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let mark = self.store.read(|txn| txn.get::<Marks>(&MARK))?;
        let reading = Reading::read(&*self.clock);
        state.trusted_time = TrustedTime::begin(mark.as_ref(), self.boot.as_deref(), reading);
        state.marked = mark.map(|mark| mark.token);
        let jump = state.trusted_time.untrusted_jump();
        if let Some(untrusted_jump) = jump {
            tracing::warn!("{untrusted_jump}");
        }
        *self.jump.lock() = jump;
        self.expiry.raise(state.trusted_time.token());
        Ok(())
    }

    pub fn expiry(&self) -> Arc<ExpiryClock> {
        Arc::clone(&self.expiry)
    }

    pub fn now(&self) -> UnixSeconds {
        self.clock.now()
    }

    /// Reads the clock. The error means that nothing may be deleted by age. May block for a commit.
    pub fn check(&self) -> Result<UnixSeconds, ClockJump> {
        let mut state = self.state.lock();
        let reading = Reading::read(&*self.clock);
        match state.trusted_time.observe(reading) {
            Some(TrustChange::JumpFound(untrusted_jump)) => tracing::warn!("{untrusted_jump}"),
            Some(TrustChange::Trusted) => {
                tracing::info!("the clock has been consistent for ten minutes; deletions resume");
            }
            None => {}
        }
        let jump = state.trusted_time.untrusted_jump();
        *self.jump.lock() = jump;
        // A failure is logged: the expiry clock advances all the same, so that tokens expire in this process.
        let _ = self.publish(&mut state, Durability::Logged);
        match jump {
            Some(untrusted_jump) => Err(untrusted_jump),
            None => Ok(reading.seconds()),
        }
    }

    /// Trusts the clock at an operator's request. Blocks for a commit.
    ///
    /// # Errors
    /// The clock is trusted, but a restart may find the jump again.
    pub fn accept(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        // A new reading: the operator accepts the clock as it is now.
        state.trusted_time.accept(Reading::read(&*self.clock));
        *self.jump.lock() = None;
        tracing::info!("an operator accepted the clock; deletions resume");
        // Durable: the operator must not have to repeat it after a crash.
        self.publish(&mut state, Durability::Durable)
    }

    pub fn untrusted_jump(&self) -> Option<ClockJump> {
        *self.jump.lock()
    }

    fn publish(&self, state: &mut GuardState, class: Durability) -> Result<(), StoreError> {
        let mut result = Ok(());
        let token = state.trusted_time.token();
        // The store first: expired tokens must stay expired after a kill, even if the clock goes back.
        // Steps below MARK_EVERY are not written; a start that cannot tell the downtime adds that much.
        let due = state
            .marked
            .is_none_or(|marked| token.saturating_sub(marked) >= MARK_EVERY);
        if due || matches!(class, Durability::Durable) {
            let mark = state.trusted_time.mark(self.boot.as_deref());
            let batch = move |txn: &mut playgate_store::Txn<'_>| -> Result<(), StoreError> {
                txn.put::<Marks>(&MARK, &mark)
            };
            result = self
                .store
                // The highest priority: without the mark, a start on a clock set back would revive expired tokens.
                .write_for(WritePriority::Login, class, batch)
                .wait();
            match &result {
                Ok(()) => {
                    state.marked = Some(token);
                    state.failed = false;
                }
                Err(error) => {
                    // Logged once, because the check runs every second.
                    if !std::mem::replace(&mut state.failed, true) {
                        tracing::warn!(%error, "failed to record the highest time seen; will retry");
                    }
                }
            }
        }
        self.expiry.raise(token);
        result
    }
}

#[cfg(test)]
mod tests;
