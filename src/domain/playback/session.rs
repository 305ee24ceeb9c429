//! Playback sessions in memory. The store persists sessions; liveness (last heartbeat, position, bitrate) is
//! kept in memory only and is checkpointed every few minutes.

use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};

use crate::entitlement::checked_position;
use playgate_types::{AssetId, BroadcastId, LoginId, SessionId, UnixSeconds, UserId};

use super::model::{PlayedAsset, SessionStart, SessionView, StoredSession};
use super::session_rate::{BeatRate, REPORT_RATE, SpentRate};

/// Seconds after its last heartbeat for which a session is alive: three and a half heartbeat intervals.
pub const ALIVE_SECONDS: i64 = 35;
/// Seconds after [`ALIVE_SECONDS`] during which a heartbeat may still revive the session.
pub(crate) const REVIVABLE_SECONDS: i64 = 300;

/// Value of `answer` before the first heartbeat.
const NO_ANSWER: u16 = u16::MAX;
const NO_POSITION: i64 = i64::MIN;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beat {
    /// Unix seconds for live and catch-up, seconds from the start otherwise.
    pub position: i64,
    pub bitrate: u64,
    pub width: u32,
    pub height: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    /// The slot is lost; the next heartbeat gets it back if one is free.
    Idle,
    Over,
}

pub struct Session {
    pub id: SessionId,
    pub user: UserId,
    pub start: SessionStart,
    later: RwLock<LaterEntitlements>,
    /// Unix second of the last heartbeat, or its bitwise complement once a transaction has given the slot
    /// away.
    // Flag and time share one word, so that a heartbeat and a transaction can never both own the slot.
    seen: AtomicI64,
    /// Seconds from the live point at the last heartbeat.
    lag: AtomicI64,
    bitrate: AtomicU64,
    width: AtomicU32,
    height: AtomicU32,
    spent: SpentRate,
    reports: SpentRate,
    checkpointed: AtomicI64,
    /// How the last heartbeat was answered: 0, or the number of a refusal.
    answer: AtomicU16,
    /// The login session that used it last. Not stored: the next heartbeat after a restart names it again.
    login: Mutex<Option<LoginId>>,
}

struct LaterEntitlements {
    program: Option<BroadcastId>,
    unlocks: Vec<AssetId>,
}

impl Session {
    pub(super) fn new(id: SessionId, user: UserId, stored: StoredSession) -> Self {
        Self {
            id,
            user,
            later: RwLock::new(LaterEntitlements {
                program: stored.program,
                unlocks: stored.unlocks,
            }),
            seen: AtomicI64::new(encode_second(stored.seen)),
            lag: AtomicI64::new(NO_POSITION),
            bitrate: AtomicU64::new(0),
            width: AtomicU32::new(0),
            height: AtomicU32::new(0),
            spent: SpentRate::default(),
            reports: SpentRate::default(),
            checkpointed: AtomicI64::new(encode_second(stored.seen)),
            answer: AtomicU16::new(NO_ANSWER),
            login: Mutex::new(None),
            start: stored.start,
        }
    }

    /// A viewer who logs in again goes on with the session, which then ends with the later login.
    pub fn use_by(&self, login: LoginId) {
        *self.login.lock() = Some(login);
    }

    pub(super) fn login(&self) -> Option<LoginId> {
        *self.login.lock()
    }

    /// Records the answer of a heartbeat. Returns whether the previous heartbeat was answered otherwise.
    pub fn answers_otherwise(&self, answer: u16) -> bool {
        // Most heartbeats get the same answer as the one before, and a load is cheaper than an exchange.
        self.answer.load(Ordering::Relaxed) != answer
            && self.answer.swap(answer, Ordering::Relaxed) != answer
    }

    /// Time of the last heartbeat, or of the start if there was none.
    pub fn last_beat(&self) -> UnixSeconds {
        UnixSeconds(decode_second(self.seen.load(Ordering::Acquire)))
    }

    pub fn liveness(&self, now: UnixSeconds) -> Liveness {
        liveness_of(self.seen.load(Ordering::Acquire), now)
    }

    /// Returns false, without an effect, if the session does not hold its slot.
    pub fn record_beat(&self, now: UnixSeconds) -> bool {
        let mut seen = self.seen.load(Ordering::Acquire);
        // A session that has lost its slot may only continue through a transaction that checks the
        // limits.
        while liveness_of(seen, now) == Liveness::Alive {
            match self.seen.compare_exchange_weak(
                seen,
                encode_second(now),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return true,
                Err(changed) => seen = changed,
            }
        }
        false
    }

    /// Only for transactions on the writer thread.
    pub fn holds_slot(&self, now: UnixSeconds) -> bool {
        let mut seen = self.seen.load(Ordering::Acquire);
        loop {
            if liveness_of(seen, now) == Liveness::Alive {
                return true;
            }
            // Marked by an earlier transaction.
            if seen < 0 {
                return false;
            }
            // Marked, so that only another transaction can give the slot back.
            match self
                .seen
                // Fails if a heartbeat arrives at the same time: the loop then sees the session alive again.
                .compare_exchange(seen, !seen, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return false,
                Err(changed) => seen = changed,
            }
        }
    }

    /// Only for transactions on the writer thread, and at start-up.
    pub fn revive(&self, now: UnixSeconds) {
        self.seen.store(encode_second(now), Ordering::Release);
    }

    /// Only another call of [`revive`](Self::revive) gives the slot back.
    pub fn lose_slot(&self) {
        let give_away = |seen: i64| (seen >= 0).then_some(!seen);
        // Fails if the slot is lost already.
        let _ = self
            .seen
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, give_away);
    }

    pub fn record(&self, beat: &Beat, now: UnixSeconds) {
        let lag = beat.position.saturating_sub(now.0);
        // The lag and not the position is stored: it stays correct while the player plays on.
        self.lag.store(lag.max(NO_POSITION + 1), Ordering::Relaxed);
        self.bitrate.store(beat.bitrate, Ordering::Relaxed);
        self.width.store(beat.width, Ordering::Relaxed);
        self.height.store(beat.height, Ordering::Relaxed);
    }

    /// Moves the assumed position, for a player that got its entitlement at another offset.
    pub fn shift(&self, offset: i32) {
        self.lag.store(i64::from(offset), Ordering::Relaxed);
    }

    /// Extrapolated from the last heartbeat. Before the first one a livestream is at the offset of its
    /// entitlement.
    pub fn position(&self, now: UnixSeconds) -> Option<UnixSeconds> {
        match (self.lag.load(Ordering::Relaxed), &self.start.playing) {
            (NO_POSITION, PlayedAsset::Live { offset, .. }) => Some(now + i64::from(*offset)),
            (NO_POSITION, _) => None,
            (lag, _) => Some(now + lag),
        }
    }

    /// Seconds from the live point. `None` if no position is known, or if it is further back than any time-shift.
    pub fn offset(&self, now: UnixSeconds) -> Option<i32> {
        let at = self.position(now)?;
        (checked_position(at, now) == at).then_some(())?;
        i32::try_from(at.since(now)).ok()
    }

    /// Returns false if no heartbeat is left in the rate limit.
    pub fn admit(&self, rate: BeatRate, now: UnixSeconds) -> bool {
        self.spent.admit(rate, now)
    }

    /// Returns false if the player reports too often.
    pub fn admits_report(&self, now: UnixSeconds) -> bool {
        self.reports.admit(REPORT_RATE, now)
    }

    pub fn unlocked(&self, what: &str) -> bool {
        let later = self.later.read();
        later.unlocks.iter().any(|unlock| unlock.as_str() == what)
    }

    /// `None` unless the heartbeat is at least `every` seconds newer than the stored one.
    pub(super) fn due(&self, every: i64) -> Option<UnixSeconds> {
        let seen = self.last_beat();
        let stored = UnixSeconds(self.checkpointed.load(Ordering::Relaxed));
        (seen.since(stored) >= every).then_some(seen)
    }

    pub(super) fn update_from(&self, stored: StoredSession) {
        let seen = encode_second(stored.seen);
        let before = self.checkpointed.swap(seen, Ordering::Relaxed);
        // At start-up the record of the engine comes before a later one of the log. In a running service the last heartbeat
        // is newer than its record.
        let _ = self
            .seen
            .compare_exchange(before, seen, Ordering::AcqRel, Ordering::Acquire);
        *self.later.write() = LaterEntitlements {
            program: stored.program,
            unlocks: stored.unlocks,
        };
    }

    /// The session as the store has it, with the time of its last heartbeat.
    pub(super) fn stored(&self) -> StoredSession {
        let later = self.later.read();
        StoredSession {
            start: self.start.clone(),
            program: later.program.clone(),
            unlocks: later.unlocks.clone(),
            seen: self.last_beat(),
        }
    }

    pub fn view(&self) -> SessionView {
        SessionView {
            id: self.id,
            user: self.user,
            partner: self.start.partner,
            asset: self.start.asset.clone(),
            program: self.later.read().program.clone(),
            device: self.start.device.clone(),
            drm: self.start.drm,
            protocol: self.start.protocol,
            since: self.start.since,
            seen: self.last_beat(),
            bitrate: self.bitrate.load(Ordering::Relaxed),
            resolution: (
                self.width.load(Ordering::Relaxed),
                self.height.load(Ordering::Relaxed),
            ),
        }
    }
}

/// Clamped to 0, because a complement must be negative.
fn encode_second(at: UnixSeconds) -> i64 {
    at.0.max(0)
}

const fn decode_second(word: i64) -> i64 {
    if word < 0 { !word } else { word }
}

fn liveness_of(word: i64, now: UnixSeconds) -> Liveness {
    let age = encode_second(now) - decode_second(word);
    if age >= ALIVE_SECONDS + REVIVABLE_SECONDS {
        Liveness::Over
    } else if word < 0 || age.abs() >= ALIVE_SECONDS {
        // The heartbeat is in the future because the clock was set back. The next heartbeat corrects it.
        Liveness::Idle
    } else {
        Liveness::Alive
    }
}
