//! Errors of the catalogue.

use playgate_decode::Mistake;
use playgate_store::StoreError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Sorted by line. Nothing was imported.
    #[error("nothing was imported; mistakes in the catalogue file: {}", .0.len())]
    Invalid(Vec<Mistake>),
    #[error(
        "nothing was imported: the catalogue would have {rows} {what}, and the limit is {most}"
    )]
    TooMany {
        what: &'static str,
        rows: usize,
        most: usize,
    },
    /// The import waits for confirmation. Nothing was imported.
    #[error("the change looks implausible and is held until it is accepted")]
    Held(super::CatalogImported),
    #[error("this version of the catalogue is not kept")]
    NoVersion,
    #[error("the version of the catalogue cannot be unpacked: its text is damaged")]
    VersionDamaged,
    #[error("no livestream has this id")]
    NoLivestream,
    #[error("no rule has this number")]
    NoRule,
    #[error(transparent)]
    Store(#[from] StoreError),
}
