//! The situations of backups. They are told to operators, who need to know which disk and which file.

use crate::domain::backups::BackupError;
use crate::http::error::{ApiError, ErrorCode};

impl From<BackupError> for ApiError {
    fn from(error: BackupError) -> Self {
        use BackupError as E;
        let code = match error {
            E::NotFound => ErrorCode::BackupNotFound,
            E::NoDirectory(_) | E::Directory { .. } => ErrorCode::BackupFailed,
            E::Damaged { .. } | E::Newer { .. } => ErrorCode::BackupUnusable,
            E::Foreign => ErrorCode::BackupForeign,
            E::Store(error) => return error.into(),
        };
        Self::new(code, error.to_string()).with_cause(error)
    }
}
