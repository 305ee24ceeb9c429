//! Telemetry events: sender, identity for deduplication, and the JSON text as sent.

use std::borrow::Cow;

use ring::digest;

use super::player_event::PlayerEvent;
use playgate_types::{PartnerId, UnixSeconds, UserId};

pub const EVENTS_MAX: usize = 500;
pub const EVENT_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub user: UserId,
    pub partner: PartnerId,
}

/// Borrows from the upload where possible.
#[derive(Clone, Debug)]
pub struct NewEvent<'a> {
    pub timestamp_millis: i64,
    pub sequence: i64,
    pub action: Cow<'a, str>,
    pub device: Option<Cow<'a, str>>,
    /// The event as sent: one JSON object on one line, of at most [`EVENT_BYTES_MAX`] bytes.
    pub json: Cow<'a, [u8]>,
    /// The playback facts of the event, if it counts for the figures.
    pub player: Option<Box<PlayerEvent>>,
    /// Number of implausible durations, bitrates and ids, which the figures ignore.
    pub ignored_values: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    pub accepted: u32,
    pub duplicates: u32,
}

/// `T` holds the JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent<T = Vec<u8>> {
    pub sender: Sender,
    pub received: UnixSeconds,
    pub timestamp_millis: i64,
    pub sequence: i64,
    pub(super) fingerprint: Fingerprint,
    pub json: T,
}

impl StoredEvent {
    /// Seconds by which the player's clock is ahead of the server's, if the event was sent immediately. An event that
    /// waited for a connection looks as if the clock were behind.
    pub fn clock_skew(&self) -> i64 {
        self.timestamp_millis
            .div_euclid(1_000)
            .saturating_sub(self.received.0)
    }
}

/// 64-bit hash of the fields that identify an event: user, device, sequence number, time, action.
///
/// With 10^8 events in the window, a new event collides with probability below 10^-11. The user is part of the
/// hash, so a user can only make their own events collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fingerprint(pub(super) u64);

impl Fingerprint {
    pub(super) fn new(sender: &Sender, event: &NewEvent<'_>) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(sender.user.as_bytes());
        context.update(&event.timestamp_millis.to_be_bytes());
        context.update(&event.sequence.to_be_bytes());
        // The length prefix separates device from action and an absent device from an empty one.
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryCounts {
    pub accepted: u64,
    pub duplicates: u64,
    /// Events that were rejected one by one, and CMCD reports that could not be parsed.
    pub rejected: u64,
    pub ignored_values: u64,
    pub bytes: u64,
    /// Estimated number of events that players numbered but that never arrived.
    pub lost: u64,
    pub remembered: u64,
}
