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
