//! Errors of EPG sources.

use crate::catalog::CatalogError;
use crate::schedule::ScheduleError;
use playgate_ports::FetchError;
use playgate_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum EpgSourceError {
    #[error("no EPG source has this name")]
    NotFound,
    #[error("another EPG source is being fetched; try again later")]
    Busy,
    /// The server answered "not modified" to an unconditional request.
    #[error("the server answered 304 (not modified) to a request without conditions")]
    NotModified,
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

impl From<StoreError> for EpgSourceError {
    fn from(error: StoreError) -> Self {
        Self::Schedule(error.into())
    }
}
