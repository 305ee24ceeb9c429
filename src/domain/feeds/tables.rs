//! What is kept of a source over a restart.

use serde::{Deserialize, Serialize};

use super::model::LastImport;
use crate::store::{Record, Schema, Table};
use crate::types::UnixSeconds;

/// What is known of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedState {
    /// What the validators hold for: the settings of the source and the livestreams there were. With
    /// others the same guide means another thing, and is fetched again.
    pub fingerprint: u64,
    /// The `ETag` of the guide that is served.
    pub etag: Option<String>,
    /// Its `Last-Modified`.
    pub modified: Option<String>,
    /// When it was last tried.
    pub attempted: Option<UnixSeconds>,
    /// When its guide was last taken, or known already.
    pub succeeded: Option<UnixSeconds>,
    /// When it is tried next.
    pub due: UnixSeconds,
    /// Failures since it last succeeded.
    pub failures: u32,
    /// Why it failed last.
    pub error: Option<String>,
    /// What its last guide was.
    pub last: Option<LastImport>,
}

impl Record for FeedState {}

/// The states by the names of sources.
pub struct FeedStates;

impl Table for FeedStates {
    const NAME: &'static str = "feeds";
    type Key = String;
    type Record = FeedState;
}

/// Adds this module's table.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema.with::<FeedStates>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::feeds::Standstill;

    /// The bytes on disk: what changes them needs a new version of the record.
    #[test]
    fn the_record_is_golden() {
        let state = FeedState {
            fingerprint: 1,
            etag: Some("e".to_owned()),
            modified: None,
            attempted: Some(UnixSeconds(1)),
            succeeded: None,
            due: UnixSeconds(2),
            failures: 3,
            error: Some("x".to_owned()),
            last: Some(LastImport {
                at: UnixSeconds(4),
                standstill: Standstill::Held,
                channels: 5,
                programmes: 6,
                added: 7,
                changed: 8,
                removed: 9,
                unchanged: 10,
                skipped: 11,
                unmapped: 1,
                unmapped_ids: vec!["u".to_owned()],
                doubts: vec!["d".to_owned()],
            }),
        };
        let bytes = bincode::serde::encode_to_vec(&state, bincode::config::standard()).unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes),
            "01 010165 00 0102 00 04 03 010178 01 08 01 05060708090a0b01 010175 010164"
                .replace(' ', "")
        );
    }
}
