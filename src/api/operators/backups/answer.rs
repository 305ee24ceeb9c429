//! Backups, in the administration interface and in the command line's `--json` output.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use playgate_domain::backups::{Backup, BackupContents, Keys};
use playgate_types::UnixSeconds;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupLine {
    pub name: String,
    pub path: String,
    pub created_at: i64,
    pub records: Option<u64>,
    pub bytes: u64,
    pub number: u64,
    pub own: bool,
}

impl From<&Backup> for BackupLine {
    fn from(backup: &Backup) -> Self {
        let Backup {
            name,
            path,
            created,
            number,
            records,
            bytes,
            own,
        } = backup;
        Self {
            name: name.clone(),
            path: path.display().to_string(),
            created_at: created.0,
            records: *records,
            bytes: *bytes,
            number: *number,
            own: *own,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentsBody {
    /// Always true: a damaged backup is reported as an error instead.
    pub sound: bool,
    pub created_at: i64,
    pub number: u64,
    pub records: u64,
    pub tables: BTreeMap<String, u64>,
    pub version: Option<String>,
    pub content_key: Option<String>,
}

impl From<BackupContents> for ContentsBody {
    fn from(contents: BackupContents) -> Self {
        let BackupContents {
            created,
            number,
            records,
            tables,
            version,
            key,
        } = contents;
        Self {
            sound: true,
            created_at: created.0,
            number,
            records,
            tables,
            version,
            content_key: key,
        }
    }
}

impl From<ContentsBody> for BackupContents {
    fn from(body: ContentsBody) -> Self {
        Self {
            created: UnixSeconds(body.created_at),
            number: body.number,
            records: body.records,
            tables: body.tables,
            version: body.version,
            key: body.content_key,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoredBody {
    #[serde(flatten)]
    contents: ContentsBody,
    /// `open`, `sealed` or `unknown`: whether this installation can decrypt the content keys.
    keys: &'static str,
}

impl RestoredBody {
    #[must_use]
    pub fn new(contents: BackupContents, keys: Keys) -> Self {
        Self {
            contents: contents.into(),
            keys: match keys {
                Keys::Open => "open",
                Keys::Sealed => "sealed",
                Keys::Unknown => "unknown",
            },
        }
    }
}
