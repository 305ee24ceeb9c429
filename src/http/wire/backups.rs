//! Backups, as the administration interface and `--json` tell them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::backups::{Backup, Contents, Keys};
use crate::types::UnixSeconds;

/// A line of the list of backups.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupLine {
    /// The name of its file.
    pub name: String,
    /// Its file.
    pub path: String,
    /// When it was made.
    pub created_at: i64,
    /// How many records it holds, if it says so.
    pub records: Option<u64>,
    /// The size of the file.
    pub bytes: u64,
    /// The commit that it was made after.
    pub number: u64,
    /// Whether this store made it, and may remove it when it is old.
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

/// What a sound backup holds.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContentsBody {
    /// Always true: of one that is not sound there is a problem to tell instead.
    pub sound: bool,
    /// When it was made.
    pub created_at: i64,
    /// The commit that it was made after.
    pub number: u64,
    /// How many records it holds.
    pub records: u64,
    /// The records of each table.
    pub tables: BTreeMap<String, u64>,
    /// The version that made it.
    pub version: Option<String>,
    /// What tells the key that its sealed keys need from others.
    pub content_key: Option<String>,
}

impl From<Contents> for ContentsBody {
    fn from(contents: Contents) -> Self {
        let Contents {
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

impl From<ContentsBody> for Contents {
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

/// What was brought back.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoredBody {
    #[serde(flatten)]
    contents: ContentsBody,
    /// `open`, `sealed` or `unknown`: whether this machine opens the keys in it.
    keys: &'static str,
}

impl RestoredBody {
    /// What was brought back, and whether its keys open.
    #[must_use]
    pub fn new(contents: Contents, keys: Keys) -> Self {
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
