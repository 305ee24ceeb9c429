//! The states that a fact may have after a fault, given the responses and their times.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// What a power cut may cost of what is answered before it is synced (README, "What a reply
/// promises"): half a second, and the time that the sync itself may take on a busy machine.
const LOGGED_LOSS: Duration = Duration::from_millis(500 + 250);

/// What a blow may have cost.
#[derive(Clone, Copy, Debug)]
pub struct AllowedLoss {
    /// Of what was logged, everything that was answered up to then is there.
    logged: Option<Instant>,
}

impl AllowedLoss {
    /// Nothing at all.
    pub const WHOLE: Self = Self { logged: None };

    /// After the power was cut at this instant.
    pub fn of_cut(at: Instant) -> Self {
        Self {
            logged: at.checked_sub(LOGGED_LOSS),
        }
    }

    /// Whether what was logged and answered then must be there.
    pub fn keeps(&self, answered: Instant) -> bool {
        self.logged.is_none_or(|until| answered <= until)
    }
}

/// How soon an answer is a promise.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Durable,
    Logged,
}

/// The states of a thing that were answered since it was last looked at, and those that were asked
/// for without an answer.
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

    /// A change is asked for.
    pub fn ask(&mut self, state: T) {
        self.asked.push(state);
    }

    /// The change was answered: done.
    pub fn done(&mut self) {
        if let Some(state) = self.asked.pop() {
            self.answered.push((Instant::now(), state));
        }
        self.asked.clear();
    }

    /// The change was answered: refused.
    pub fn refused(&mut self) {
        self.asked.pop();
    }

    /// Whether a change was asked for that may have been made, and may not.
    pub fn is_open(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Every state that it may have, the newest first.
    pub fn possible(&self, survival: &AllowedLoss) -> Vec<T> {
        let kept = |at: &Instant| self.class == Class::Durable || survival.keeps(*at);
        let oldest = self.answered.iter().rposition(|(at, _)| kept(at));
        let answered = &self.answered[oldest.unwrap_or(0)..];
        let answered = answered.iter().map(|(_, state)| state);
        let asked = self.asked.iter().rev();
        asked.chain(answered.rev()).cloned().collect()
    }

    /// It is seen to have this state, which holds from now on.
    pub fn seen(&mut self, state: T) {
        // What was seen after a cut was read from the disk.
        let at = self.answered[0].0;
        self.answered = vec![(at, state)];
        self.asked.clear();
    }

    /// Judges the state that it is seen to have; the sentence if it may not have it.
    pub fn judge(&mut self, what: &str, state: T, survival: &AllowedLoss) -> Result<(), String> {
        let possible = self.possible(survival);
        let fits = possible.contains(&state);
        let answer = format!("lost: {what} is {state:?}, and may be {possible:?}");
        self.seen(state);
        if fits { Ok(()) } else { Err(answer) }
    }
}
