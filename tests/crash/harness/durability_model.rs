//! The states that a fact may have after a fault, given the responses and their times.
//!
//! | class | changes | after a kill | after a power cut, whatever subset of unsynced sectors and names it keeps |
//! | --- | --- | --- | --- |
//! | `Durable` | accounts, operators, tokens, grants, catalogue, guide | each answered one, whole | the same |
//! | `Logged` | entitlements, sessions, telemetry | each answered one, whole | those answered half a second before, and any of the later ones |
//!
//! A change without a response is there whole or not at all; of a telemetry batch without a response any part may be. The engine, the
//! request journal and the quality figures are not in the ledgers.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What a power cut may lose of changes that are answered before they are synced (README, "Durability"): half a second.
/// 100 ms are added because the client records a response some time after the server has sent it.
const LOGGED_LOSS: Duration = Duration::from_millis(500 + 100);

/// Returns the latest response time for which a change must survive a fault, although it is synced after its response.
/// `delay` is what a `DelayProbe` has measured. It counts twice: for the write to the log and for its sync.
pub fn kept_until(fault_at: Instant, delay: Duration) -> Instant {
    fault_at - LOGGED_LOSS - 2 * delay
}

/// What a fault may have lost.
#[derive(Clone, Copy, Debug)]
pub struct AllowedLoss {
    /// Logged changes that were answered up to this instant must exist. `None`: all of them.
    logged: Option<Instant>,
}

impl AllowedLoss {
    pub const NONE: Self = Self { logged: None };

    pub fn of_power_cut(at: Instant, delay: Duration) -> Self {
        Self {
            logged: Some(kept_until(at, delay)),
        }
    }

    /// Returns whether a logged change that was answered at this instant must exist.
    pub fn keeps(&self, answered: Instant) -> bool {
        self.logged.is_none_or(|until| answered <= until)
    }
}

/// Which promise a response makes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Durable,
    Logged,
}

/// The states of one thing: those that responses confirmed since the last check, and those that were requested without
/// a response.
#[derive(Clone)]
pub struct Fact<T> {
    class: Class,
    answered: Vec<(Instant, T)>,
    asked: Vec<T>,
}

impl<T: Clone + Debug + PartialEq> Fact<T> {
    pub fn new(class: Class, state: T) -> Self {
        Self {
            class,
            answered: vec![(Instant::now(), state)],
            asked: Vec::new(),
        }
    }

    pub fn now(&self) -> &T {
        &self.answered.last().unwrap().1
    }

    /// Records the request of a change.
    pub fn ask(&mut self, state: T) {
        self.asked.push(state);
    }

    /// Records that the last requested change was made.
    pub fn done(&mut self) {
        if let Some(state) = self.asked.pop() {
            self.answered.push((Instant::now(), state));
        }
        self.asked.clear();
    }

    /// Records that the last requested change was refused.
    pub fn refused(&mut self) {
        self.asked.pop();
    }

    /// Returns whether a change was requested whose outcome is unknown.
    pub fn is_open(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Returns every state that the thing may have, the newest first.
    pub fn possible(&self, allowed_loss: &AllowedLoss) -> Vec<T> {
        let kept = |at: &Instant| self.class == Class::Durable || allowed_loss.keeps(*at);
        let oldest = self.answered.iter().rposition(|(at, _)| kept(at));
        let answered = &self.answered[oldest.unwrap_or(0)..];
        let answered = answered.iter().map(|(_, state)| state);
        let asked = self.asked.iter().rev();
        asked.chain(answered.rev()).cloned().collect()
    }

    /// Records the state that was observed, which is the only possible one from now on.
    pub fn seen(&mut self, state: T) {
        // The state was read from the disk after the fault, so it is as durable as the oldest one.
        let at = self.answered[0].0;
        self.answered = vec![(at, state)];
        self.asked.clear();
    }

    /// Records the observed state. Fails with a message if it is not a possible one.
    pub fn judge(
        &mut self,
        what: &str,
        state: T,
        allowed_loss: &AllowedLoss,
    ) -> Result<(), String> {
        let possible = self.possible(allowed_loss);
        let fits = possible.contains(&state);
        let answer = format!("lost: {what} is {state:?}, and may be {possible:?}");
        self.seen(state);
        if fits { Ok(()) } else { Err(answer) }
    }
}
