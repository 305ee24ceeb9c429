//! How many streams a user may have at once.
//!
//! A stream is a device, so that a crashed player never locks its viewer out. The count is made by
//! plans on the writer thread, one after the other, and by
//! [`holds_slot`](super::session::Session::holds_slot): parallel starts cannot both take the last slot.

use crate::store::{StoreError, Txn};
use crate::types::{AssetId, DeviceId, SessionId, UnixSeconds, UserId};

use super::error::{BlockingSession, PlaybackError};
use super::model::{EndReason, Ended, Playing, StoredSession};
use super::session::SessionMap;
use super::tables;

/// What to do when all slots are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// Refuse the new stream.
    #[default]
    Deny,
    /// End the oldest one.
    Displace,
}

/// Sessions of one user that are looked at. Only a user without device limit gets near it: each
/// device has one session, and an idle one is swept after minutes.
const SCAN: usize = 1_024;

/// A stream that wants a slot.
pub(super) struct StreamRequest<'a> {
    pub(super) device: &'a DeviceId,
    pub(super) place: &'a str,
    /// Streams in all.
    pub(super) total: u32,
    /// Streams at the same place.
    pub(super) here: u32,
}

/// Where a stream counts: a channel is one place, whether it was asked for by its own id or by that
/// of the running broadcast.
pub(super) fn place<'a>(playing: &'a Playing, asset: &'a AssetId) -> &'a str {
    match playing {
        Playing::Live { livestream, .. } => livestream.as_str(),
        Playing::Catchup { .. } | Playing::Vod => asset.as_str(),
    }
}

/// The sessions of a user, those of this plan's group included.
pub(super) fn sessions_of(
    txn: &Txn<'_>,
    user: UserId,
) -> Result<Vec<(SessionId, StoredSession)>, StoreError> {
    let found = txn.scan::<tables::Sessions>(&user, SCAN)?;
    Ok(found.into_iter().map(|((_, id), s)| (id, s)).collect())
}

/// The sessions that have to end for the wanted stream to have a slot: none, or under
/// [`WhenFull::Displace`] the oldest. Sessions on the wanted device do not count.
pub(super) fn select_evictions(
    sessions: &[(SessionId, StoredSession)],
    memory: &SessionMap,
    wanted: &StreamRequest<'_>,
    when_full: WhenFull,
    at: UnixSeconds,
) -> Result<Vec<SessionId>, PlaybackError> {
    let mut others: Vec<&(SessionId, StoredSession)> = sessions
        .iter()
        .filter(|(_, stored)| stored.device.id != *wanted.device)
        // One that is not in memory was made by a plan of the same group, just now.
        .filter(|(id, _)| memory.get(id).is_none_or(|session| session.holds_slot(at)))
        .collect();
    others.sort_by_key(|(id, stored)| (stored.since, *id));
    let mut ends = Vec::new();
    loop {
        let here = |(_, stored): &&(SessionId, StoredSession)| {
            place(&stored.playing, &stored.asset) == wanted.place
        };
        let full_here = count(others.iter().copied().filter(here)) >= wanted.here;
        if !full_here && count(others.iter().copied()) < wanted.total {
            return Ok(ends);
        }
        let in_the_way = |other: &&(SessionId, StoredSession)| !full_here || here(other);
        let oldest = others.iter().position(in_the_way);
        match (when_full, oldest) {
            (WhenFull::Displace, Some(oldest)) => ends.push(others.remove(oldest).0),
            (WhenFull::Deny, _) | (WhenFull::Displace, None) => {
                let sessions = others.into_iter().filter(in_the_way);
                return Err(PlaybackError::StreamLimitReached(
                    sessions
                        .map(|(id, stored)| described(*id, stored))
                        .collect(),
                ));
            }
        }
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

fn described(session: SessionId, stored: &StoredSession) -> BlockingSession {
    BlockingSession {
        session,
        asset: stored.asset.clone(),
        device: stored.device.clone(),
        since: stored.since,
    }
}

/// Ends all sessions of a user in a plan.
pub(super) fn end_all(
    txn: &mut Txn<'_>,
    user: UserId,
    reason: EndReason,
    at: UnixSeconds,
) -> Result<(), StoreError> {
    for ((_, id), _) in txn.scan::<tables::Sessions>(&user, usize::MAX)? {
        end(txn, user, id, reason, at)?;
    }
    Ok(())
}

/// Ends a session in a plan.
pub(super) fn end(
    txn: &mut Txn<'_>,
    user: UserId,
    session: SessionId,
    reason: EndReason,
    at: UnixSeconds,
) -> Result<(), StoreError> {
    txn.delete::<tables::Sessions>(&(user, session))?;
    txn.put::<tables::EndedSessions>(&(user, session), &Ended { reason, at })
}
