//! Errors of the catalogue.

use crate::decode::Mistake;
use crate::store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Sorted by line. Nothing was imported.
    #[error("the catalogue file has {} mistakes", .0.len())]
    Invalid(Vec<Mistake>),
    #[error("the catalogue would have {rows} {what}; the limit is {most}")]
    TooMany {
        what: &'static str,
        rows: usize,
        most: usize,
    },
    /// The import waits for confirmation. Nothing was imported.
    #[error("the import looks implausible")]
    Held(super::CatalogImported),
    #[error("no stored version of the catalogue has this number")]
    NoVersion,
    #[error("the stored version of the catalogue is damaged")]
    VersionDamaged,
    #[error("no livestream has this id")]
    NoLivestream,
    #[error("no rule has this number")]
    NoRule,
    #[error(transparent)]
    Store(#[from] StoreError),
}
