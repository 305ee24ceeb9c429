//! Requests about backups.

use super::super::{Input, Payload};
use crate::http::body::BodyStream;
use crate::http::combine::CombineResults;
use crate::http::error::ApiError;

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupRequest {
    /// The name of its file, as the list gives it.
    pub name: String,
}

impl BackupRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            name: input.text("backup")?.into_owned(),
        })
    }
}

/// POST to bring one back that lies in the directory of backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreBackupRequest {
    /// The name of its file, as the list gives it.
    pub name: String,
    /// Whether it may be another machine's.
    pub adopt: bool,
}

impl RestoreBackupRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        let (name, adopt) = (input.text("backup"), input.query.flag("adopt")).combine()?;
        Ok(Self {
            name: name.into_owned(),
            adopt,
        })
    }
}

/// POST to bring one back that is sent.
pub struct RestoreSentBackupRequest {
    /// Whether it may be another machine's.
    pub adopt: bool,
    /// The file as it arrives.
    pub file: BodyStream,
}

impl RestoreSentBackupRequest {
    pub(super) fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            adopt: input.query.flag("adopt")?,
            file: payload.streamed()?,
        })
    }
}
