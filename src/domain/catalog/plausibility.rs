//! Plausibility check of changes: one that removes much, or takes rights from every broadcast, waits for confirmation. A
//! truncated file, one with the channels of a single region, and a rule whose condition was forgotten can be well-formed.

use std::collections::BTreeMap;

use super::model::Offer;
use super::snapshot::CatalogContents;
use playgate_types::OfferId;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogIssue {
    #[error("it removes {removed} of {present} {kind}")]
    Removes {
        kind: &'static str,
        removed: usize,
        present: usize,
    },
    #[error("it removes offer `{offer}`, which {users} users hold")]
    Held { offer: OfferId, users: usize },
    #[error("the rule `{rule}` has no condition and takes rights from every broadcast")]
    TakesFromAll { rule: String },
}

/// `holders` counts the users who hold an offer.
pub(super) fn issues(
    old: &CatalogContents,
    new: &CatalogContents,
    holders: &dyn Fn(&Offer) -> usize,
) -> Vec<CatalogIssue> {
    let kinds = [
        ("livestreams", removed(&old.livestreams, &new.livestreams)),
        ("assets", removed(&old.assets, &new.assets)),
        ("offers", removed(&old.offers, &new.offers)),
    ];
    let removes = kinds.into_iter().filter_map(|(kind, (removed, present))| {
        // Removing up to 30 % is normal maintenance.
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
    removes.chain(held).chain(rules(old, new)).collect()
}

/// Rules that the catalogue did not have and that take rights from every broadcast.
pub(super) fn rules<'a>(
    old: &'a CatalogContents,
    new: &'a CatalogContents,
) -> impl Iterator<Item = CatalogIssue> + 'a {
    let added = new.rules.iter().filter(|rule| !old.rules.contains(rule));
    let blanket = added.filter(|rule| rule.takes_from_all());
    blanket.map(|rule| CatalogIssue::TakesFromAll {
        rule: rule.to_string(),
    })
}

fn removed<K: Ord, V>(old: &BTreeMap<K, V>, new: &BTreeMap<K, V>) -> (usize, usize) {
    let gone = old.keys().filter(|id| !new.contains_key(id)).count();
    (gone, old.len())
}
