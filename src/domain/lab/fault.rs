//! Faults: which calls they affect, how often, and what happens to those calls.
//!
//! Whether a fault applies depends only on its definition and on the number of matching calls, so that a run with
//! the same seed and the same calls repeats itself.

use std::fmt;
use std::time::{Duration, Instant};

use playgate_types::{SessionId, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(pub u64);

impl FaultId {
    pub fn parse(text: &str) -> Option<Self> {
        text.strip_prefix('f')?.parse().ok().map(Self)
    }
}

impl fmt::Display for FaultId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "f{}", self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutAt {
    /// No byte of the answer is sent.
    Head,
    /// The head and half of the body are sent.
    Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LicenseFault {
    Garbage,
    Empty,
    /// The license has the keys under ids that the stream does not use. Clear Key only: other licenses are
    /// encrypted for the client.
    ForeignKid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlaylistFault {
    /// The address of the playlist has expired.
    Expired,
    /// The address of the playlist leads to no file.
    Missing,
    /// The playlist of a livestream never changes after the preflight.
    Stale,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultAction {
    Refuse(&'static str),
    Delay {
        base: Duration,
        jitter: Duration,
    },
    /// A bare status, as from a proxy in front of the service.
    Status {
        status: u16,
        retry_after: Option<u32>,
    },
    Cut(CutAt),
    License(LicenseFault),
    Playlist(PlaylistFault),
}

impl fmt::Display for FaultAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(code) => write!(f, "refuse={code}"),
            Self::Delay { .. } => f.write_str("delay"),
            Self::Status { status, .. } => write!(f, "status={status}"),
            Self::Cut(CutAt::Head) => f.write_str("cut=head"),
            Self::Cut(CutAt::Body) => f.write_str("cut=body"),
            Self::License(LicenseFault::Garbage) => f.write_str("license=garbage"),
            Self::License(LicenseFault::Empty) => f.write_str("license=empty"),
            Self::License(LicenseFault::ForeignKid) => f.write_str("license=foreignKid"),
            Self::Playlist(PlaylistFault::Expired) => f.write_str("playlist=expired"),
            Self::Playlist(PlaylistFault::Missing) => f.write_str("playlist=missing"),
            Self::Playlist(PlaylistFault::Stale) => f.write_str("playlist=stale"),
        }
    }
}

/// Conditions of a fault on a call; absent ones hold for every call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultMatch {
    pub user: Option<UserId>,
    pub asset: Option<String>,
    pub device: Option<String>,
    pub session: Option<SessionId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewFault {
    /// The name of a route or of a group of routes, as the lab gave it.
    pub route: String,
    /// The labels of the routes.
    pub labels: Vec<&'static str>,
    pub matching: FaultMatch,
    /// Number of matching calls that are served normally before the fault begins.
    pub after: u64,
    /// How often the fault is applied; `None` for no limit.
    pub times: Option<u64>,
    /// Share of the matching calls that are affected, above 0 and at most 1.
    pub probability: f64,
    pub seed: u64,
    pub action: FaultAction,
    /// How long the fault exists.
    pub lifetime: Option<Duration>,
}

/// The facts of a request that faults match.
#[derive(Clone, Debug)]
pub struct FaultableCall<'a> {
    pub label: &'static str,
    pub user: Option<UserId>,
    pub asset: Option<&'a str>,
    pub device: Option<&'a str>,
    pub session: Option<SessionId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedFault {
    pub id: FaultId,
    pub action: FaultAction,
    pub delay: Duration,
    /// Seed of the content that the fault generates.
    pub random: u64,
}

impl AppliedFault {
    /// Seconds that a bare status asks the client to wait.
    pub const fn retry_after(&self) -> Option<u32> {
        match self.action {
            FaultAction::Status { retry_after, .. } => retry_after,
            _ => None,
        }
    }
}

impl fmt::Display for AppliedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.action)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct FaultView {
    pub id: FaultId,
    pub fault: NewFault,
    pub calls: u64,
    pub applied: u64,
    pub expires_in: Option<Duration>,
}

pub(super) struct ActiveFault {
    id: FaultId,
    fault: NewFault,
    calls: u64,
    applied: u64,
    until: Option<Instant>,
}

impl ActiveFault {
    pub(super) fn new(id: FaultId, fault: NewFault, now: Instant) -> Self {
        Self {
            id,
            until: fault
                .lifetime
                // Monotonic time: the lab can move the wall clock, which must not end a fault.
                .and_then(|lifetime| now.checked_add(lifetime)),
            fault,
            calls: 0,
            applied: 0,
        }
    }

    pub(super) const fn id(&self) -> FaultId {
        self.id
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    pub(super) fn view(&self, now: Instant) -> FaultView {
        FaultView {
            id: self.id,
            fault: self.fault.clone(),
            calls: self.calls,
            applied: self.applied,
            expires_in: self.until.map(|until| until.saturating_duration_since(now)),
        }
    }

    pub(super) fn matches(&self, call: &FaultableCall<'_>, now: Instant) -> bool {
        let FaultMatch {
            user,
            asset,
            device,
            session,
        } = &self.fault.matching;
        self.fault.labels.contains(&call.label)
            && user.is_none_or(|user| call.user == Some(user))
            && asset
                .as_deref()
                .is_none_or(|asset| call.asset == Some(asset))
            && device
                .as_deref()
                .is_none_or(|device| call.device == Some(device))
            && session.is_none_or(|session| call.session == Some(session))
            && !self.is_over(now)
    }

    /// Counts a matching call. Applies the fault to it if it is due and no older fault was applied.
    pub(super) fn count_call(&mut self, free: bool) -> Option<AppliedFault> {
        let call = self.calls;
        self.calls += 1;
        let due =
            call >= self.fault.after && self.fault.times.is_none_or(|times| self.applied < times);
        // Drawn by seed and number of the call: a repeated run meets the same faults, whatever other calls come in
        // between.
        let mut draws = Draws::new(self.fault.seed, call);
        // Counted above even if another fault was applied: `after` means calls of the client.
        if !due || !free || draws.share() >= self.fault.probability {
            return None;
        }
        self.applied += 1;
        let delay = match &self.fault.action {
            FaultAction::Delay { base, jitter } => *base + jitter.mul_f64(draws.share()),
            FaultAction::Refuse(_)
            | FaultAction::Status { .. }
            | FaultAction::Cut(_)
            | FaultAction::License(_)
            | FaultAction::Playlist(_) => Duration::ZERO,
        };
        Some(AppliedFault {
            id: self.id,
            action: self.fault.action.clone(),
            delay,
            random: draws.next(),
        })
    }
}

/// Numbers that depend only on seed and call (SplitMix64).
struct Draws(u64);

impl Draws {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    fn new(seed: u64, call: u64) -> Self {
        let mut draws = Self(seed);
        // The seed is mixed before the number of the call is added: neighbouring seeds must not give shifted runs.
        let start = draws.next();
        Self(start.wrapping_add(call.wrapping_mul(Self::STEP)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number from 0 up to, but excluding, 1.
    fn share(&mut self) -> f64 {
        // 32 bits convert without loss.
        let bits = u32::try_from(self.next() >> 32).unwrap_or(u32::MAX);
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}
