//! The plausibility check of catalogue files: an import that would take much away waits for a
//! person's word. A file that was cut off, or that holds one region's channels, is well-formed.

use std::collections::BTreeMap;

use super::model::Offer;
use super::snapshot::Contents;
use crate::types::OfferId;

/// Why an import is held until it is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogIssue {
    /// Over 30 % of a kind would go.
    #[error("it removes {removed} of {present} {kind}")]
    Removes {
        /// Of what.
        kind: &'static str,
        /// How many go.
        removed: usize,
        /// How many there are.
        present: usize,
    },
    /// An offer that users hold would go.
    #[error("it removes offer `{offer}`, which {users} users hold")]
    Held {
        /// The offer.
        offer: OfferId,
        /// How many users hold it.
        users: usize,
    },
}

/// What speaks against putting `new` in the place of `old`. `holders` counts the users who hold an
/// offer.
pub(super) fn doubts(
    old: &Contents,
    new: &Contents,
    holders: &dyn Fn(&Offer) -> usize,
) -> Vec<CatalogIssue> {
    let kinds = [
        ("livestreams", removed(&old.livestreams, &new.livestreams)),
        ("assets", removed(&old.assets, &new.assets)),
        ("offers", removed(&old.offers, &new.offers)),
    ];
    let removes = kinds.into_iter().filter_map(|(kind, (removed, present))| {
        (removed * 10 > present * 3).then_some(CatalogIssue::Removes {
            kind,
            removed,
            present,
        })
    });
    let gone = old
        .offers
        .iter()
        .filter(|(id, _)| !new.offers.contains_key(*id));
    let held = gone.filter_map(|(id, offer)| {
        let users = holders(offer);
        (users > 0).then(|| CatalogIssue::Held {
            offer: id.clone(),
            users,
        })
    });
    removes.chain(held).collect()
}

/// How many rows go, of how many.
fn removed<K: Ord, V>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> (usize, usize) {
    let gone = old.keys().filter(|id| !new.contains_key(id)).count();
    (gone, old.len())
}
