//! Errors of the catalogue.

use super::import::Problem;
use crate::store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The file has these mistakes, sorted by line. Nothing was imported.
    #[error("the catalogue file has {} mistakes", .0.len())]
    Invalid(Vec<Problem>),
    /// The catalogue would exceed a limit.
    #[error("the catalogue would have {rows} {what}; the limit is {most}")]
    TooMany {
        what: &'static str,
        rows: usize,
        most: usize,
    },
    /// The import looks implausible and waits for confirmation. Nothing was imported.
    #[error("the import looks implausible")]
    Held(super::Imported),
    #[error("no such version of the catalogue is kept")]
    NoVersion,
    #[error("the version of the catalogue cannot be read")]
    VersionDamaged,
    #[error("there is no such livestream")]
    NoLivestream,
    #[error("there is no rule of this number")]
    NoRule,
    #[error(transparent)]
    Store(#[from] StoreError),
}
