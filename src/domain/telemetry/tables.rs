//! The index of the segments: in which hours a user sent events, whose events are to go, and how far
//! each hour has been forwarded.

use serde::{Deserialize, Serialize};

use crate::store::{Entries, Index, Record, Schema, Table, TreeName};
use crate::types::{UnixSeconds, UserId};

/// Adds this module's tables.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<UserHours>()
        .with::<Erasures>()
        .with::<Forwarded>()
        .with::<DayUsage>()
}

/// That a user has events in the segment of an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UserHourRecord {}

impl Record for UserHourRecord {}

/// By the hour since 1970, so that retention finds whole hours, and the user.
pub(super) struct UserHours;

impl Table for UserHours {
    const NAME: TreeName = "telemetry_hours";
    type Key = (i64, UserId);
    type Record = UserHourRecord;
    const INDEXES: &'static [TreeName] = &[HoursByUser::NAME];

    fn index(key: &Self::Key, record: &UserHourRecord, entries: &mut Entries) {
        let UserHourRecord {} = record;
        let (hour, user) = key;
        entries.add::<HoursByUser>(&(*user, *hour), key);
    }
}

/// Finds the hours of a user.
pub(super) struct HoursByUser;

impl Index for HoursByUser {
    const NAME: TreeName = "telemetry_hours.by_user";
    type Table = UserHours;
    type Key = (UserId, i64);
}

/// That a user's events are to be erased. The record outlives a kill between the removal of an
/// account and that of its events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ErasureRecord {
    pub(super) since: UnixSeconds,
}

impl Record for ErasureRecord {}

/// Erasures that are to be done, by user.
pub(super) struct Erasures;

impl Table for Erasures {
    const NAME: TreeName = "telemetry_erasures";
    type Key = UserId;
    type Record = ErasureRecord;
}

/// How far the events of an hour have been forwarded, in bytes of its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ForwardedRecord {
    /// The sink has what lies before.
    pub(super) sent: u64,
    /// Where the batch ends that was offered last, so that it is offered again as it was.
    pub(super) offered: u64,
}

impl Record for ForwardedRecord {}

/// How far events have been forwarded, by the hour since 1970.
pub(super) struct Forwarded;

impl Table for Forwarded {
    const NAME: TreeName = "telemetry_forwarded";
    type Key = i64;
    type Record = ForwardedRecord;
}

/// How many bytes of events were kept of somebody in a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UsageRecord {
    pub(super) bytes: u64,
}

impl Record for UsageRecord {}

/// The UTC day since 1970, whether it is a user (0) or a partner (1), and the id.
pub(super) type UsageRow = (i64, u8, [u8; 16]);

/// What counts against the budgets of a day.
pub(super) struct DayUsage;

impl Table for DayUsage {
    const NAME: TreeName = "telemetry_usage";
    type Key = UsageRow;
    type Record = UsageRecord;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Key as _, read_record};

    #[test]
    fn keys_and_records_are_golden() {
        let user = UserId::from_bytes([7; 16]);
        let key = (500_000_i64, user).to_bytes();
        let hex = data_encoding::HEXLOWER.encode(&key);
        assert_eq!(hex, format!("800000000007a120{}", "07".repeat(16)));
        assert_eq!(read_record(&[]), Some(UserHourRecord {}));
        // 1,800,000,000 as a zigzag varint of 64 bits.
        let since = UnixSeconds(1_800_000_000);
        let golden = [0xfc, 0x00, 0xa4, 0x93, 0xd6];
        assert_eq!(read_record(&golden), Some(ErasureRecord { since }));
        let row: UsageRow = (20_000, 1, [7; 16]);
        let hex = data_encoding::HEXLOWER.encode(&row.to_bytes());
        assert_eq!(hex, format!("8000000000004e2001{}", "07".repeat(16)));
        assert_eq!(read_record(&[9]), Some(UsageRecord { bytes: 9 }));
        let forwarded = ForwardedRecord {
            sent: 7,
            offered: 300,
        };
        assert_eq!(read_record(&[7, 0xfb, 0x2c, 0x01]), Some(forwarded));
    }
}
