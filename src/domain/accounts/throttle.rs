//! Rate limits on guessing, counted in the store.
//!
//! An attempt is counted as a failure before any work, on the writer thread, and refunded after success. So
//! concurrent guesses cannot exceed the limit, and a restart forgets none. Unknown accounts are counted like
//! existing ones.

use super::attempt_counter::{AttemptCounter, CountedAttempt};
use super::attempt_limits::{AttemptLimits, AttemptSubject};
use super::tables::Throttles;
use playgate_store::{StoreError, Txn};
use playgate_types::{LimitReached, UnixSeconds};

#[derive(Debug)]
pub(super) enum Refused {
    TooMany(LimitReached),
    Store(StoreError),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[derive(Debug)]
pub(super) struct Reservation(Vec<(AttemptSubject, CountedAttempt)>);

/// Counts an attempt for each of the subjects, or for none of them. The share of an address follows it in `subjects`.
pub(super) fn reserve(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    subjects: &[AttemptSubject],
    now: UnixSeconds,
) -> Result<Reservation, Refused> {
    let mut marks: Vec<(AttemptSubject, CountedAttempt)> = Vec::with_capacity(subjects.len());
    let mut refused: Option<LimitReached> = None;
    for subject in subjects {
        let mut counter = txn.get::<Throttles>(&subject.key())?.unwrap_or_default();
        if subject.kind().is_share() {
            // It follows the count of its address: the same attempt has the same time in both.
            if let Some((_, mark)) = marks.last() {
                counter.add(limits.rule(subject.kind()), *mark, now);
                txn.put::<Throttles>(&subject.key(), &counter)?;
                marks.push((*subject, *mark));
            }
            continue;
        }
        match counter.reserve(limits.rule(subject.kind()), now) {
            Ok(mark) => {
                // If the batch fails, nothing is written.
                txn.put::<Throttles>(&subject.key(), &counter)?;
                marks.push((*subject, mark));
            }
            // The longest wait is reported, since the others end before it.
            Err(seconds) if refused.is_none_or(|other| other.retry_after < seconds) => {
                refused = Some(limits.reached(subject.kind(), seconds));
            }
            Err(_) => {}
        }
    }
    match refused {
        Some(limit) => Err(Refused::TooMany(limit)),
        None => Ok(Reservation(marks)),
    }
}

pub(super) fn at_limit(
    txn: &Txn<'_>,
    limits: &AttemptLimits,
    subjects: &[AttemptSubject],
    now: UnixSeconds,
) -> Result<Vec<AttemptSubject>, StoreError> {
    let mut at_limit = Vec::new();
    for subject in subjects {
        let counter = txn.get::<Throttles>(&subject.key())?.unwrap_or_default();
        if counter
            .refusal_at(limits.rule(subject.kind()), now)
            .is_some()
        {
            at_limit.push(*subject);
        }
    }
    Ok(at_limit)
}

/// Counts an action that is dropped silently at its limit, and returns whether it may proceed.
pub(super) fn admit(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    subject: AttemptSubject,
    now: UnixSeconds,
) -> Result<bool, StoreError> {
    match reserve(txn, limits, &[subject], now) {
        Ok(_) => Ok(true),
        Err(Refused::TooMany(_)) => Ok(false),
        Err(Refused::Store(error)) => Err(error),
    }
}

/// Takes an attempt back that was not evaluated, or that was right.
pub(super) fn refund(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    reservation: &Reservation,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    take_back(txn, limits, reservation, now, AttemptCounter::take)
}

/// Takes back a right attempt, and for the address also the wrong ones before it at the same account: a viewer who mistyped and
/// then knew the password does not count against others behind the address. The count of the account keeps them.
pub(super) fn settle(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    reservation: &Reservation,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    take_back(txn, limits, reservation, now, AttemptCounter::take_all)
}

fn take_back(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    reservation: &Reservation,
    now: UnixSeconds,
    take: fn(&mut AttemptCounter, CountedAttempt) -> Vec<CountedAttempt>,
) -> Result<(), StoreError> {
    let share = reservation.0.iter().find(|(of, _)| of.kind().is_share());
    for (subject, mark) in reservation.0.iter().filter(|(of, _)| !of.kind().is_share()) {
        let single_mark = vec![*mark];
        let marks = match share.filter(|_| subject.kind().share().is_some()) {
            // Only what is left of the share: each attempt is taken back once, or those of other accounts would be.
            Some((share, _)) => change(txn, limits, *share, now, |counter| take(counter, *mark))?,
            None => single_mark,
        };
        change(txn, limits, *subject, now, |counter| {
            for mark in marks {
                counter.refund(limits.rule(subject.kind()), mark, now);
            }
        })?;
    }
    Ok(())
}

/// Changes a counter, if a reset has not deleted it meanwhile.
fn change<T: Default>(
    txn: &mut Txn<'_>,
    limits: &AttemptLimits,
    subject: AttemptSubject,
    now: UnixSeconds,
    change: impl FnOnce(&mut AttemptCounter) -> T,
) -> Result<T, StoreError> {
    let Some(mut counter) = txn.get::<Throttles>(&subject.key())? else {
        return Ok(T::default());
    };
    let result = change(&mut counter);
    // Idle counters are deleted, so that successful logins leave no record.
    if counter.is_idle(limits.rule(subject.kind()), now) {
        txn.delete::<Throttles>(&subject.key())?;
    } else {
        txn.put::<Throttles>(&subject.key(), &counter)?;
    }
    Ok(result)
}
