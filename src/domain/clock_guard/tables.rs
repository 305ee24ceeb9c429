//! The table with the high-water mark of the clock.

use serde::{Deserialize, Serialize};

use playgate_store::{Record, Schema, Table};

/// All times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HighWaterMark {
    pub(super) token: i64,
    /// The expected wall clock, without the operator's shift.
    pub(super) wall: i64,
    pub(super) uptime: i64,
    pub(super) boot: Option<String>,
}

impl Record for HighWaterMark {}

pub(super) const MARK: u8 = 0;

pub const TABLE: &str = "clock_mark";

pub(super) struct Marks;

impl Table for Marks {
    const NAME: &'static str = TABLE;
    type Key = u8;
    type Record = HighWaterMark;
}

pub fn schema(schema: Schema) -> Schema {
    schema.with::<Marks>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_bytes_are_stable() {
        let mark = HighWaterMark {
            token: 1_767_225_600_000,
            wall: 5,
            uptime: 7,
            boot: Some("b".to_owned()),
        };
        let bytes = bincode::serde::encode_to_vec(mark, bincode::config::standard()).unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes),
            "fd0050b5ed360300000a0e010162"
        );
    }
}
