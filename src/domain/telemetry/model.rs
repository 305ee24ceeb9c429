//! What an event is to us: where it came from, what tells it from others, and the text as sent.

use ring::digest;

use crate::types::{PartnerId, UnixSeconds, UserId};

/// Events of one request.
pub const EVENTS_MAX: usize = 500;
/// Bytes of one event.
pub const EVENT_BYTES_MAX: usize = 64 * 1024;

/// Who sent a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// The user.
    pub user: UserId,
    /// The user's partner.
    pub partner: PartnerId,
}

/// An event that has been found well-formed.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// When the player says that it happened, in milliseconds since 1970.
    pub timestamp_millis: i64,
    /// The player's running number.
    pub sequence: i64,
    /// What happened.
    pub action: String,
    /// `context.device_id`.
    pub device: Option<String>,
    /// The event as sent: one JSON object on one line, of at most [`EVENT_BYTES_MAX`] bytes.
    pub json: Vec<u8>,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Events that were new.
    pub accepted: u32,
    /// Events that were known.
    pub duplicates: u32,
}

/// An event as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Who sent it.
    pub sender: Sender,
    /// When it was received.
    pub received: UnixSeconds,
    /// When the player says that it happened, in milliseconds since 1970.
    pub timestamp_millis: i64,
    /// The player's running number.
    pub sequence: i64,
    /// What tells it from others.
    pub(super) fingerprint: Fingerprint,
    /// The event as sent, on one line.
    pub json: Vec<u8>,
}

impl StoredEvent {
    /// By how many seconds the player's clock runs ahead of ours, if events are sent at once; an
    /// event that waited for a connection makes it look behind.
    #[must_use]
    pub fn clock_skew(&self) -> i64 {
        self.timestamp_millis
            .div_euclid(1_000)
            .saturating_sub(self.received.0)
    }
}

/// 64 bits of a hash of what makes two events the same: user, device, running number, time, action.
///
/// Among a hundred million events a new one meets a stranger's fingerprint once in 10^11; and only
/// a user's own events can be made to collide, since the user is part of what is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fingerprint(pub(super) u64);

impl Fingerprint {
    pub(super) fn new(sender: &Sender, event: &NewEvent) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(sender.user.as_bytes());
        context.update(&event.timestamp_millis.to_be_bytes());
        context.update(&event.sequence.to_be_bytes());
        // The length parts device and action; an absent device is not an empty one.
        let device = event.device.as_deref();
        let length = device.map_or(u64::MAX, |device| device.len() as u64);
        context.update(&length.to_be_bytes());
        context.update(device.unwrap_or_default().as_bytes());
        context.update(event.action.as_bytes());
        let hash = context.finish();
        let first = hash.as_ref().first_chunk::<8>().copied();
        Self(u64::from_be_bytes(first.unwrap_or_default()))
    }
}

/// Counts since the start, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events that were kept.
    pub accepted: u64,
    /// Events that were known.
    pub duplicates: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Events that players numbered and that did not arrive: an estimate.
    pub lost: u64,
    /// Fingerprints held in memory.
    pub remembered: u64,
}
