//! Store table with the state of each EPG source.

use serde::{Deserialize, Serialize};

use super::model::LastImport;
use playgate_store::{Record, Schema, Table};
use playgate_types::UnixSeconds;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpgSourceState {
    /// Hash of the settings that an import depends on. If it differs, the validators are ignored: the same guide may
    /// give another schedule.
    pub fingerprint: u64,
    /// Validator of the guide that is served.
    pub etag: Option<String>,
    pub modified: Option<String>,
    pub attempted: Option<UnixSeconds>,
    pub succeeded: Option<UnixSeconds>,
    pub due: UnixSeconds,
    pub failures: u32,
    pub error: Option<String>,
    pub last: Option<LastImport>,
}

impl Record for EpgSourceState {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        (version == 1).then(|| v1::read(bytes)).flatten()
    }
}

/// Version 1, which lacks the new channels of a guide.
mod v1 {
    use serde::Deserialize;

    use crate::epg_sources::{HoldReason, LastImport};
    use playgate_types::UnixSeconds;

    #[derive(Deserialize)]
    struct FeedState {
        fingerprint: u64,
        etag: Option<String>,
        modified: Option<String>,
        attempted: Option<UnixSeconds>,
        succeeded: Option<UnixSeconds>,
        due: UnixSeconds,
        failures: u32,
        error: Option<String>,
        last: Option<Last>,
    }

    #[derive(Deserialize)]
    struct Last {
        at: UnixSeconds,
        standstill: HoldReason,
        channels: u64,
        programmes: u64,
        added: u64,
        changed: u64,
        removed: u64,
        unchanged: u64,
        skipped: u64,
        unmapped: u64,
        unmapped_ids: Vec<String>,
        doubts: Vec<String>,
    }

    pub(super) fn read(bytes: &[u8]) -> Option<super::EpgSourceState> {
        let read = bincode::serde::decode_from_slice(bytes, bincode::config::standard());
        let (old, _): (FeedState, _) = read.ok()?;
        Some(super::EpgSourceState {
            fingerprint: old.fingerprint,
            etag: old.etag,
            modified: old.modified,
            attempted: old.attempted,
            succeeded: old.succeeded,
            due: old.due,
            failures: old.failures,
            error: old.error,
            last: old.last.map(|last| LastImport {
                at: last.at,
                standstill: last.standstill,
                channels: last.channels,
                programmes: last.programmes,
                added: last.added,
                changed: last.changed,
                removed: last.removed,
                unchanged: last.unchanged,
                skipped: last.skipped,
                unmapped: last.unmapped,
                unmapped_ids: last.unmapped_ids,
                new: 0,
                new_ids: Vec::new(),
                issues: last.doubts,
            }),
        })
    }
}

pub(super) struct EpgSourceStates;

impl Table for EpgSourceStates {
    const NAME: &'static str = "feeds";
    type Key = String;
    type Record = EpgSourceState;
}

pub fn schema(schema: Schema) -> Schema {
    schema.with::<EpgSourceStates>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epg_sources::HoldReason;

    fn state() -> EpgSourceState {
        EpgSourceState {
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
                standstill: HoldReason::Held,
                channels: 5,
                programmes: 6,
                added: 7,
                changed: 8,
                removed: 9,
                unchanged: 10,
                skipped: 11,
                unmapped: 1,
                unmapped_ids: vec!["u".to_owned()],
                new: 2,
                new_ids: vec!["n".to_owned()],
                issues: vec!["d".to_owned()],
            }),
        }
    }

    /// Guards the format on disk: a change needs a new version of the record.
    #[test]
    fn record_bytes_are_stable() {
        let bytes = bincode::serde::encode_to_vec(state(), bincode::config::standard()).unwrap();
        assert_eq!(
            data_encoding::HEXLOWER.encode(&bytes),
            "01 010165 00 0102 00 04 03 010178 01 08 01 05060708090a0b01 010175 02 01016e 010164"
                .replace(' ', "")
        );
    }

    #[test]
    fn records_of_the_first_version_are_read() {
        let bytes = "01 010165 00 0102 00 04 03 010178 01 08 01 05060708090a0b01 010175 010164";
        let bytes = bytes.replace(' ', "");
        let bytes = data_encoding::HEXLOWER.decode(bytes.as_bytes()).unwrap();
        let mut expected = state();
        if let Some(last) = &mut expected.last {
            (last.new, last.new_ids) = (0, Vec::new());
        }
        assert_eq!(EpgSourceState::upgrade(1, &bytes), Some(expected));
        assert_eq!(EpgSourceState::upgrade(2, &bytes), None);
    }
}
