//! Store tables of telemetry: the index of the segments, pending erasures, forwarding cursors and budget usage.

use serde::{Deserialize, Serialize};

use playgate_store::{Entries, Index, Record, Schema, Table, TreeName};
use playgate_types::{UnixSeconds, UserId};

pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<UserHours>()
        .with::<Erasures>()
        .with::<Forwarded>()
        .with::<DayUsage>()
}

/// A user has events in the segment of an hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UserHourRecord {}

impl Record for UserHourRecord {}

/// Index by hour since the Unix epoch, then user: retention removes whole hours.
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

pub(super) struct HoursByUser;

impl Index for HoursByUser {
    const NAME: TreeName = "telemetry_hours.by_user";
    type Table = UserHours;
    type Key = (UserId, i64);
}

/// A pending erasure of a user's events. It survives a crash between the removal of the account and the erasure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ErasureRecord {
    pub(super) since: UnixSeconds,
}

impl Record for ErasureRecord {}

pub(super) struct Erasures;

impl Table for Erasures {
    const NAME: TreeName = "telemetry_erasures";
    type Key = UserId;
    type Record = ErasureRecord;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ForwardedRecord {
    /// The sink has accepted everything before this offset.
    pub(super) sent: u64,
    /// End of the batch that was offered last, so that a retry sends the same batch.
    pub(super) offered: u64,
}

impl Record for ForwardedRecord {}

/// The forwarding cursors of versions before they were kept in a file.
pub(super) struct Forwarded;

impl Table for Forwarded {
    const NAME: TreeName = "telemetry_forwarded";
    type Key = i64;
    type Record = ForwardedRecord;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UsageRecord {
    pub(super) bytes: u64,
}

impl Record for UsageRecord {}

/// The UTC day since the Unix epoch, the kind of owner (0: user, 1: partner), and its id.
pub(super) type UsageRow = (i64, u8, [u8; 16]);

pub(super) struct DayUsage;

impl Table for DayUsage {
    const NAME: TreeName = "telemetry_usage";
    type Key = UsageRow;
    type Record = UsageRecord;
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_store::{Key as _, read_record};

    #[test]
    fn key_and_record_bytes_are_stable() {
        let user = UserId::from_bytes([7; 16]);
        let key = (500_000_i64, user).to_bytes();
        let hex = data_encoding::HEXLOWER.encode(&key);
        assert_eq!(hex, format!("800000000007a120{}", "07".repeat(16)));
        assert_eq!(read_record(&[]), Some(UserHourRecord {}));
        // 1,800,000,000 as a 64-bit zigzag varint.
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
