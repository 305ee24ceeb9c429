//! The store tables of playback.

use playgate_store::{Record, Schema, Table, TreeName};
use playgate_types::{DeviceId, SessionId, TokenHash, UserId};

use super::model::{EndedSession, Entitlement, Registered, StoredSession};

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

pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<Entitlements>()
        .with::<Devices>()
        .with::<Sessions>()
        .with::<EndedSessions>()
}
