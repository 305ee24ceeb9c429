//! Errors of the quality figures.

use std::io;
use std::sync::Arc;

#[derive(Clone, Debug, thiserror::Error)]
pub enum QualityError {
    #[error("cannot read or write the quality figures: {0}")]
    Io(Arc<io::Error>),
    #[error("the report has over {0} rows: ask for a shorter span or fewer dimensions")]
    TooManyRows(usize),
}

impl From<io::Error> for QualityError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
