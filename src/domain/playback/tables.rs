//! The store tables of playback.

use crate::store::{PrefixOf, Record, Schema, StoreError, Table, TreeName, Txn};
use crate::types::{DeviceId, SessionId, TokenHash, UnixSeconds, UserId};

use super::model::{EndReason, EndedSession, Entitlement, Registered, StoredSession};
use super::stream_limits;

/// In all tables the user comes first in the key, so that one scan finds everything of a user.
pub(crate) struct Entitlements;

impl Record for Entitlement {}

impl Table for Entitlements {
    const NAME: TreeName = "entitlements";
    type Key = (UserId, TokenHash);
    type Record = Entitlement;
}

pub(crate) struct Devices;

impl Record for Registered {}

impl Table for Devices {
    const NAME: TreeName = "devices";
    type Key = (UserId, DeviceId);
    type Record = Registered;
}

/// Sessions that have not ended, which count against the limits.
pub(crate) struct Sessions;

impl Record for StoredSession {}

impl Table for Sessions {
    const NAME: TreeName = "sessions";
    type Key = (UserId, SessionId);
    type Record = StoredSession;
}

/// The name must sort before `sessions`: a commit reaches memory in the order of table names, so a
/// session is known as ended before it leaves the session map, and no heartbeat in between gets
/// `SESSION_NOT_FOUND`.
pub(crate) struct EndedSessions;

impl Record for EndedSession {}

impl Table for EndedSessions {
    const NAME: TreeName = "ended_sessions";
    type Key = (UserId, SessionId);
    type Record = EndedSession;
}

#[must_use]
pub(crate) fn schema(schema: Schema) -> Schema {
    schema
        .with::<Entitlements>()
        .with::<Devices>()
        .with::<Sessions>()
        .with::<EndedSessions>()
}

/// Owner of the ended sessions of erased accounts. Nothing leads from them to the user.
const ERASED: UserId = UserId::from_bytes([0; 16]);

/// Part of the transaction that erases the account.
pub(crate) fn erase(txn: &mut Txn<'_>, user: &UserId, now: UnixSeconds) -> Result<(), StoreError> {
    erase_from::<Entitlements>(txn, user)?;
    erase_from::<Devices>(txn, user)?;
    erase_from::<EndedSessions>(txn, user)?;
    let ended = EndedSession {
        reason: EndReason::Erased,
        at: now,
    };
    for (key, _) in txn.scan::<Sessions>(user, usize::MAX)? {
        txn.delete::<Sessions>(&key)?;
        // Only the session id is kept, for an hour, so that a player learns why its session ended.
        txn.put::<EndedSessions>(&(ERASED, key.1), &ended)?;
    }
    Ok(())
}

/// Part of a transaction that takes the account away from everyone who was logged in.
pub(crate) fn revoke(txn: &mut Txn<'_>, user: &UserId, now: UnixSeconds) -> Result<(), StoreError> {
    erase_from::<Entitlements>(txn, user)?;
    stream_limits::end_all(txn, *user, EndReason::Revoked, now)
}

fn erase_from<T: Table>(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError>
where
    UserId: PrefixOf<T::Key>,
{
    for (key, _) in txn.scan::<T>(user, usize::MAX)? {
        txn.delete::<T>(&key)?;
    }
    Ok(())
}
