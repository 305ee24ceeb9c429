//! Enforces the number of concurrent streams of a user.
//!
//! One device is one stream, so that a crashed player never locks its viewer out. Streams are counted in
//! transactions on the writer thread with [`holds_slot`](super::session::Session::holds_slot): parallel
//! starts cannot both take the last slot.

use playgate_store::{StoreError, Txn};
use playgate_types::{AssetId, DeviceId, SessionId, UnixSeconds, UserId};

use super::error::{BlockingSession, PlaybackError};
use super::model::{EndReason, EndedSession, PlayedAsset, StoredSession};
use super::session_map::SessionMap;
use super::tables;

/// What happens to a new stream when the user's streams are all in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// The new stream is rejected.
    #[default]
    Deny,
    /// The oldest stream ends.
    Displace,
}

pub(super) struct StreamRequest<'a> {
    pub(super) device: &'a DeviceId,
    pub(super) place: &'a str,
    pub(super) total: u32,
    pub(super) here: u32,
}

pub(super) fn place<'a>(playing: &'a PlayedAsset, asset: &'a AssetId) -> &'a str {
    match playing {
        // A channel counts as one place, whether it was requested by its id or by that of the running
        // broadcast.
        PlayedAsset::Live { livestream, .. } => livestream.as_str(),
        PlayedAsset::Catchup(_) | PlayedAsset::Vod => asset.as_str(),
    }
}

/// Includes the changes of earlier transactions of the group. Read from memory, since a scan of the engine costs more than
/// everything else that a start reads.
pub(super) fn sessions_of(
    txn: &Txn<'_>,
    memory: &SessionMap,
    user: UserId,
) -> Result<Vec<(SessionId, StoredSession)>, StoreError> {
    let running = memory.sessions_of_user(&user);
    let mut sessions: Vec<_> = running
        .iter()
        .map(|session| (session.id, session.stored()))
        .collect();
    for ((_, id), change) in txn.pending_records::<tables::Sessions>(&user)? {
        sessions.retain(|(other, _)| *other != id);
        sessions.extend(change.map(|stored| (id, stored)));
    }
    Ok(sessions)
}

/// The sessions that must end so that the request gets a slot: none, or under
/// [`WhenFull::Displace`] the oldest.
pub(super) fn select_evictions(
    sessions: &[(SessionId, StoredSession)],
    memory: &SessionMap,
    wanted: &StreamRequest<'_>,
    when_full: WhenFull,
    at: UnixSeconds,
) -> Result<Vec<SessionId>, PlaybackError> {
    let mut others: Vec<&(SessionId, StoredSession)> = sessions
        .iter()
        // Sessions on the requesting device do not count: they are replaced.
        .filter(|(_, stored)| stored.start.device.id != *wanted.device)
        // A session that is not in memory was created by a transaction of the same group just now.
        .filter(|(id, _)| memory.get(id).is_none_or(|session| session.holds_slot(at)))
        .collect();
    // The id breaks ties, so that the choice does not depend on the order of a map.
    others.sort_by_key(|(id, stored)| (stored.start.since, *id));
    let mut ends = Vec::new();
    loop {
        // The loop ends one session at a time, since one may free both limits.
        let here = |(_, stored): &&(SessionId, StoredSession)| {
            place(&stored.start.playing, &stored.start.asset) == wanted.place
        };
        let full_here = count(others.iter().copied().filter(here)) >= wanted.here;
        if !full_here && count(others.iter().copied()) < wanted.total {
            return Ok(ends);
        }
        // If the per-asset limit is reached, only a stream of the same place makes room.
        let in_the_way = |other: &&(SessionId, StoredSession)| !full_here || here(other);
        let oldest = others.iter().position(in_the_way);
        match (when_full, oldest) {
            (WhenFull::Displace, Some(oldest)) => ends.push(others.remove(oldest).0),
            (WhenFull::Deny, _) | (WhenFull::Displace, None) => {
                let sessions = others.into_iter().filter(in_the_way);
                return Err(PlaybackError::StreamLimitReached(
                    sessions
                        .map(|(id, stored)| blocking_session(*id, stored))
                        .collect(),
                ));
            }
        }
    }
}

fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}

fn blocking_session(session: SessionId, stored: &StoredSession) -> BlockingSession {
    BlockingSession {
        session,
        asset: stored.start.asset.clone(),
        device: stored.start.device.clone(),
        since: stored.start.since,
    }
}

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

pub(super) fn end(
    txn: &mut Txn<'_>,
    user: UserId,
    session: SessionId,
    reason: EndReason,
    at: UnixSeconds,
) -> Result<(), StoreError> {
    txn.delete::<tables::Sessions>(&(user, session))?;
    // The reason is kept for an hour, so that the player learns why its session ended.
    txn.put::<tables::EndedSessions>(&(user, session), &EndedSession { reason, at })
}
