//! The high-water mark in the store.

use serde::{Deserialize, Serialize};

use crate::store::{Record, Schema, Table};

/// What was believed at one moment, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    /// Token time.
    pub(super) token: i64,
    /// The wall clock as it was believed, without an operator's moves.
    pub(super) wall: i64,
    /// Since the machine was started.
    pub(super) uptime: i64,
    /// In which run of the machine.
    pub(super) boot: Option<String>,
}

impl Record for Mark {}

/// The key of the only record.
pub(super) const MARK: u8 = 0;

/// The table's name.
pub const TABLE: &str = "clock_mark";

/// One record.
pub(super) struct Marks;

impl Table for Marks {
    const NAME: &'static str = TABLE;
    type Key = u8;
    type Record = Mark;
}

/// Adds this module's table.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema.with::<Marks>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes on disk: what changes them needs a new version of the record.
    #[test]
    fn the_record_is_golden() {
        let mark = Mark {
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
