//! Entitlements in memory.

use std::sync::Arc;

use dashmap::DashMap;

use crate::store::{Changed, Mirror};
use crate::types::{TokenHash, UserId};

use super::model::Entitlement;
use super::tables;

/// Entitlements that one user may hold. A viewer who changes the channel every minute for half a
/// day reaches it; beyond it the oldest goes, so that memory has a bound.
pub const TOKENS_MAX: usize = 512;

/// All entitlements, by token and by user.
#[derive(Default)]
pub struct TokenMap {
    by_hash: DashMap<TokenHash, Arc<Entitlement>>,
    by_user: DashMap<UserId, Vec<TokenHash>>,
}

impl TokenMap {
    /// The entitlement behind a token.
    #[must_use]
    pub fn get(&self, hash: &TokenHash) -> Option<Arc<Entitlement>> {
        self.by_hash.get(hash).map(|found| Arc::clone(&found))
    }

    /// The tokens of a user.
    #[must_use]
    pub fn of_user(&self, user: &UserId) -> Vec<TokenHash> {
        self.by_user
            .get(user)
            .map(|tokens| tokens.clone())
            .unwrap_or_default()
    }

    /// The tokens that have to go before the user may have another.
    #[must_use]
    pub fn surplus(&self, user: &UserId) -> Vec<TokenHash> {
        let count = self.by_user.get(user).map_or(0, |tokens| tokens.len());
        if count < TOKENS_MAX {
            return Vec::new();
        }
        let mut tokens = self.of_user(user);
        tokens.sort_by_cached_key(|hash| self.get(hash).map(|entitlement| entitlement.issued));
        tokens.truncate(count + 1 - TOKENS_MAX);
        tokens
    }

    /// Calls `each` with every entitlement, in no order.
    pub fn for_each(&self, mut each: impl FnMut(&TokenHash, &Entitlement)) {
        for pair in &self.by_hash {
            each(pair.key(), pair.value());
        }
    }

    /// The number of entitlements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }
}

impl Mirror<tables::Entitlements> for TokenMap {
    fn apply(&self, changes: Vec<Changed<tables::Entitlements>>) {
        for Changed { key, record } in changes {
            match record {
                Some(entitlement) => {
                    let user = entitlement.user;
                    if self.by_hash.insert(key, Arc::new(entitlement)).is_none() {
                        self.by_user.entry(user).or_default().push(key);
                    }
                }
                None => {
                    let Some((_, entitlement)) = self.by_hash.remove(&key) else {
                        continue;
                    };
                    if let Some(mut tokens) = self.by_user.get_mut(&entitlement.user) {
                        tokens.retain(|token| *token != key);
                    }
                    self.by_user
                        .remove_if(&entitlement.user, |_, left| left.is_empty());
                }
            }
        }
    }
}
