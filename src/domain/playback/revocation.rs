//! Ends everything that a user may play, in the transaction that takes the account away.

use super::model::{EndReason, EndedSession};
use super::stream_limits;
use super::tables::{Devices, EndedSessions, Entitlements, Sessions};
use playgate_store::{PrefixOf, StoreError, Table, Txn};
use playgate_types::{UnixSeconds, UserId};

/// Owner of the ended sessions of erased accounts. Nothing leads from them to the user.
const ERASED: UserId = UserId::from_bytes([0; 16]);

/// Part of the transaction that erases the account.
pub fn erase(txn: &mut Txn<'_>, user: &UserId, now: UnixSeconds) -> Result<(), StoreError> {
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
