//! Entitlements in memory, by token hash and by user. Fed by commits of the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use dashmap::DashMap;

use crate::store::{Changed, CommitListener};
use crate::types::{TokenHash, UnixSeconds, UserId};

use super::model::Entitlement;
use super::tables;

/// Per user; beyond it the oldest is dropped, which bounds memory. A viewer who changes the channel
/// every minute reaches it in half a day.
pub(crate) const TOKENS_MAX: usize = 512;

pub(crate) struct HeldEntitlement {
    pub user: UserId,
    pub entitlement: Entitlement,
}

#[derive(Default)]
pub(crate) struct TokenMap {
    pub(super) by_hash: DashMap<TokenHash, Arc<HeldEntitlement>>,
    /// Ordered by issue time: a user at the limit drops the oldest with each new one, which must not
    /// require a scan.
    by_user: DashMap<UserId, BTreeSet<(UnixSeconds, TokenHash)>>,
}

impl TokenMap {
    #[must_use]
    pub(crate) fn get(&self, hash: &TokenHash) -> Option<Arc<HeldEntitlement>> {
        self.by_hash.get(hash).map(|held| Arc::clone(&held))
    }

    #[must_use]
    pub(crate) fn tokens_of_user(&self, user: &UserId) -> Vec<TokenHash> {
        self.oldest(user, usize::MAX)
    }

    fn oldest(&self, user: &UserId, count: usize) -> Vec<TokenHash> {
        let tokens = self.by_user.get(user);
        let tokens = tokens.iter().flat_map(|tokens| tokens.iter());
        tokens.take(count).map(|(_, hash)| *hash).collect()
    }

    /// To be dropped before the user may get another.
    #[must_use]
    pub(crate) fn tokens_over_limit(&self, user: &UserId) -> Vec<TokenHash> {
        let count = self.by_user.get(user).map_or(0, |tokens| tokens.len());
        self.oldest(user, (count + 1).saturating_sub(TOKENS_MAX))
    }

    /// `at` is in token time.
    #[must_use]
    pub(crate) fn expired(&self, at: UnixSeconds) -> Vec<(UserId, TokenHash)> {
        self.by_hash
            .iter()
            .filter(|held| !held.entitlement.holds(at))
            .map(|held| (held.user, *held.key()))
            .collect()
    }
}

impl CommitListener<tables::Entitlements> for TokenMap {
    fn apply(&self, changes: Vec<Changed<tables::Entitlements>>) {
        for Changed { key, record } in changes {
            let (user, hash) = key;
            match record {
                Some(entitlement) => {
                    let issued = entitlement.issued;
                    let held = Arc::new(HeldEntitlement { user, entitlement });
                    // The issue time never changes.
                    if self.by_hash.insert(hash, held).is_none() {
                        self.by_user.entry(user).or_default().insert((issued, hash));
                    }
                }
                None => {
                    let Some((_, held)) = self.by_hash.remove(&hash) else {
                        continue;
                    };
                    if let Some(mut tokens) = self.by_user.get_mut(&user) {
                        tokens.remove(&(held.entitlement.issued, hash));
                    }
                    self.by_user.remove_if(&user, |_, left| left.is_empty());
                }
            }
        }
    }
}
