//! The tables of playback.

use crate::store::{Record, Schema, Table, TreeName};
use crate::types::{DeviceId, SessionId, TokenHash, UserId};

use super::model::{Ended, Entitlement, Registered, StoredSession};

/// Entitlements by the hash of their token.
pub struct Entitlements;

impl Record for Entitlement {}

impl Table for Entitlements {
    const NAME: TreeName = "entitlements";
    type Key = TokenHash;
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

/// The sessions of each user that have not ended. The user comes first so that the plan of a
/// preflight finds all that count against the limits with one short scan.
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
    type Key = SessionId;
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
