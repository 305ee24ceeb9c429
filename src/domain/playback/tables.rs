//! The tables of playback.

use crate::store::{PrefixOf, Record, Schema, StoreError, Table, TreeName, Txn};
use crate::types::{DeviceId, SessionId, TokenHash, UnixSeconds, UserId};

use super::model::{EndReason, Ended, Entitlement, Registered, StoredSession};
use super::stream_limits;

/// The entitlements of each user, by the hash of their token. The user comes first, here and in the
/// tables below, so that all of one user's is found with one scan.
pub struct Entitlements;

impl Record for Entitlement {}

impl Table for Entitlements {
    const NAME: TreeName = "entitlements";
    type Key = (UserId, TokenHash);
    type Record = Entitlement;
}

/// The devices of each user.
pub struct Devices;

impl Record for Registered {}

impl Table for Devices {
    const NAME: TreeName = "devices";
    type Key = (UserId, DeviceId);
    type Record = Registered;
}

/// The sessions of each user that have not ended: those that count against the limits.
pub struct Sessions;

impl Record for StoredSession {}

impl Table for Sessions {
    const NAME: TreeName = "sessions";
    type Key = (UserId, SessionId);
    type Record = StoredSession;
}

/// Sessions that ended lately.
///
/// The name sorts before `sessions`: the changes of a commit reach memory in the order of the
/// names, so a session that ends is known as ended before it is gone from the others, and no beat
/// between the two is told that it never existed.
pub struct EndedSessions;

impl Record for Ended {}

impl Table for EndedSessions {
    const NAME: TreeName = "ended_sessions";
    type Key = (UserId, SessionId);
    type Record = Ended;
}

/// Adds the tables of playback.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<Entitlements>()
        .with::<Devices>()
        .with::<Sessions>()
        .with::<EndedSessions>()
}

/// Who ended sessions of erased accounts are kept for: the ids of the sessions alone, for an hour, so
/// that what still names one learns why it is gone. Nothing leads from them to the user.
const ERASED: UserId = UserId::from_bytes([0; 16]);

/// Erases all that is kept of a user, in the plan that erases the account.
///
/// # Errors
/// That the store failed.
pub fn erase(txn: &mut Txn<'_>, user: &UserId, now: UnixSeconds) -> Result<(), StoreError> {
    erase_from::<Entitlements>(txn, user)?;
    erase_from::<Devices>(txn, user)?;
    erase_from::<EndedSessions>(txn, user)?;
    let ended = Ended {
        reason: EndReason::Erased,
        at: now,
    };
    for (key, _) in txn.scan::<Sessions>(user, usize::MAX)? {
        txn.delete::<Sessions>(&key)?;
        txn.put::<EndedSessions>(&(ERASED, key.1), &ended)?;
    }
    Ok(())
}

/// Ends what a user plays and voids the entitlements, in a plan that takes the account out of the
/// hands of whoever was logged in.
///
/// # Errors
/// That the store failed.
pub fn revoke(txn: &mut Txn<'_>, user: &UserId, now: UnixSeconds) -> Result<(), StoreError> {
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
