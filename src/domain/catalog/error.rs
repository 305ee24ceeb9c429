//! Why the catalogue was not changed.

use super::import::Problem;
use crate::store::StoreError;

/// Why the catalogue was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// The file has mistakes: all of them, in the order of their lines. Nothing was imported.
    #[error("the catalogue file has {} mistakes", .0.len())]
    Invalid(Vec<Problem>),
    /// There would be more in the catalogue than it holds.
    #[error("the catalogue would have {rows} {what}, and it holds {most}")]
    TooMany {
        /// What there would be too much of.
        what: &'static str,
        /// How many there would be.
        rows: usize,
        /// How many there may be.
        most: usize,
    },
    /// It looks implausible, and waits for a person to accept it. Nothing was imported.
    #[error("the import looks implausible")]
    Held(super::Imported),
    /// No such version of the catalogue is kept.
    #[error("no such version of the catalogue is kept")]
    NoVersion,
    /// A version of the catalogue cannot be read.
    #[error("the version of the catalogue cannot be read")]
    VersionDamaged,
    /// There is no such livestream.
    #[error("there is no such livestream")]
    NoLivestream,
    /// There is no rule of this number.
    #[error("there is no rule of this number")]
    NoRule,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
