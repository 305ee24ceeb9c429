//! Protects what depends on the time against a clock that jumps.
//!
//! Two rules follow from one judgement of the clock:
//!
//! - Expiry is judged by [`ExpiryClock`], which never goes back, and which a jump does not move
//!   until the jump is believed.
//! - Tasks that delete by the time ask [`ClockGuard::check`], and wait while the clock is in doubt.
//!
//! A jump is a difference of more than an hour between the wall clock and the uptime of the machine.
//! It is believed once the clock has agreed with itself for ten minutes, or an operator accepts it.
//! A start compares the clock with the mark that the last run left in the store.
//! `docs/decisions/time-never-goes-back.md` has the reasons.

mod belief;
mod expiry;
mod tables;

use std::sync::Arc;

use parking_lot::Mutex;

pub use belief::Doubt;
pub use expiry::ExpiryClock;
pub use tables::{TABLE, schema};

use crate::ports::Clock;
use crate::store::{Durability, Store, StoreError, WritePriority};
use crate::types::UnixSeconds;
use belief::{Belief, Change, JUMP, MARK_EVERY, Reading};
use tables::{MARK, Marks};

/// Judges the clock, keeps the high-water mark, and moves the clock that expiry is judged by.
pub struct ClockGuard {
    clock: Arc<dyn Clock>,
    /// The run of the machine: uptimes compare within one alone.
    boot: Option<String>,
    store: Store,
    expiry: Arc<ExpiryClock>,
    state: Mutex<State>,
}

struct State {
    belief: Belief,
    /// The expiry time that the store has; `None` before the first mark of a store.
    marked: Option<i64>,
    /// Whether the last write of the mark failed, so that a full disk is reported once.
    failed: bool,
}

impl ClockGuard {
    /// Judges the clock against the mark in the store.
    ///
    /// # Errors
    /// That the store failed.
    pub fn open(
        store: Store,
        clock: Arc<dyn Clock>,
        boot: Option<String>,
    ) -> Result<Self, StoreError> {
        let mark = store.read(|txn| txn.get::<Marks>(&MARK))?;
        let reading = Reading::read(&*clock);
        let belief = Belief::begin(mark.as_ref(), boot.as_deref(), reading);
        if let Some(doubt) = belief.doubt() {
            tracing::warn!("{doubt}");
        }
        let reach = reading.uptime.map_or(i64::MAX, |_| JUMP / 1_000);
        let expiry = Arc::new(ExpiryClock::new(belief.token(), reach));
        let state = State {
            belief,
            marked: mark.map(|mark| mark.token),
            failed: false,
        };
        Ok(Self {
            clock,
            boot,
            store,
            expiry,
            state: Mutex::new(state),
        })
    }

    /// The clock that expiry is judged by.
    #[must_use]
    pub fn expiry(&self) -> Arc<ExpiryClock> {
        Arc::clone(&self.expiry)
    }

    /// The time as the service sees it, believed or not.
    #[must_use]
    pub fn now(&self) -> UnixSeconds {
        self.clock.now()
    }

    /// Reads and judges the clock; may block for a commit.
    ///
    /// # Errors
    /// The [`Doubt`], while the time must not be the reason to delete anything.
    pub fn check(&self) -> Result<UnixSeconds, Doubt> {
        let mut state = self.state.lock();
        let reading = Reading::read(&*self.clock);
        match state.belief.observe(reading) {
            Some(Change::Doubted(doubt)) => tracing::warn!("{doubt}"),
            Some(Change::Agreed) => {
                tracing::info!("the clock has agreed with itself for ten minutes; deletions go on");
            }
            None => {}
        }
        self.publish(&mut state, Durability::Logged);
        match state.belief.doubt() {
            Some(doubt) => Err(doubt),
            None => Ok(reading.seconds()),
        }
    }

    /// Believes the clock as it runs now, on an operator's word; blocks for a commit.
    pub fn accept(&self) {
        let mut state = self.state.lock();
        state.belief.accept(Reading::read(&*self.clock));
        self.publish(&mut state, Durability::Durable);
        tracing::info!("an operator accepted the clock; deletions go on");
    }

    /// Why the clock is not believed, as of the last look.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        self.state.lock().belief.doubt()
    }

    /// Moves the expiry clock. The store gets the mark first: after a kill and a clock that went
    /// back, what had expired before must not be good again. Less than [`MARK_EVERY`] is not
    /// written; a start adds that much where it cannot know better.
    fn publish(&self, state: &mut State, class: Durability) {
        let token = state.belief.token();
        let due = state
            .marked
            .is_none_or(|marked| token.saturating_sub(marked) >= MARK_EVERY);
        if due || matches!(class, Durability::Durable) {
            let mark = state.belief.mark(self.boot.as_deref());
            let plan = move |txn: &mut crate::store::Txn<'_>| -> Result<(), StoreError> {
                txn.put::<Marks>(&MARK, &mark)
            };
            match self
                .store
                .write_for(WritePriority::Login, class, plan)
                .wait()
            {
                Ok(()) => {
                    state.marked = Some(token);
                    state.failed = false;
                }
                Err(error) => {
                    if !std::mem::replace(&mut state.failed, true) {
                        tracing::warn!(%error, "failed to record the highest time seen; trying again");
                    }
                }
            }
        }
        self.expiry.raise(token);
    }
}

#[cfg(test)]
mod tests;
