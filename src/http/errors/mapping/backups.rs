//! Maps errors of backups, which only operators see, to API errors.

use std::borrow::Cow;

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_domain::backups::BackupError;

impl From<BackupError> for ApiError {
    fn from(error: BackupError) -> Self {
        use BackupError as E;
        let (code, message): (_, Cow<'_, str>) = match &error {
            E::NotFound => (ErrorCode::BackupNotFound, "no backup has this name".into()),
            E::NoDirectory(_) => (
                ErrorCode::BackupFailed,
                "the directory that `backup.dir` names is missing: is its disk mounted? Create it once"
                    .into(),
            ),
            E::Directory { full: true, .. } => (
                ErrorCode::BackupFailed,
                "the disk of the directory that `backup.dir` names is full or read-only".into(),
            ),
            E::Directory { .. } => (
                ErrorCode::BackupFailed,
                "the directory that `backup.dir` names cannot be used; the log has the reason"
                    .into(),
            ),
            // Safe to show: `place` is a file within the backup, and `what` is a text of our checks.
            E::Damaged { place, what } => {
                (ErrorCode::BackupUnusable, format!("{place}: {what}").into())
            }
            E::Newer { found, known } => (
                ErrorCode::BackupUnusable,
                format!("the backup has format {found}, and this version reads up to {known}")
                    .into(),
            ),
            E::Foreign => (
                ErrorCode::BackupForeign,
                "the backup comes from another installation".into(),
            ),
            E::Store(error) => return error.clone().into(),
        };
        Self::new(code, message.into_owned()).with_cause(error)
    }
}
