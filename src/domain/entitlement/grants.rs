//! Offers given to users and taken away again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::error::GrantError;
use super::model::{Grant, Revocation};
use super::tables::{self, GrantMirror};
use crate::domain::accounts::UserExists;
use crate::domain::catalog::Catalog;
use crate::store::{Commit, Durability, Store, StoreError, Txn};
use crate::types::time::DAY;
use crate::types::{OfferId, OperatorId, UnixSeconds, UserId};

/// How many grants a user has, history included; the oldest that are over make room.
pub const GRANTS_MAX: usize = 200;

/// The offers of users. A handle.
#[derive(Clone)]
pub struct Grants {
    store: Store,
    catalog: Catalog,
    exists: UserExists,
    mirror: Arc<GrantMirror>,
}

impl Grants {
    /// Reads the grants into memory. `exists` knows the users of the same store.
    ///
    /// # Errors
    /// That the store failed.
    pub fn open(store: Store, catalog: Catalog, exists: UserExists) -> Result<Self, StoreError> {
        let mirror = Arc::new(GrantMirror::default());
        store.attach::<tables::Grants>(Arc::clone(&mirror) as _)?;
        Ok(Self {
            store,
            catalog,
            exists,
            mirror,
        })
    }

    /// All that a user has or had, in the order in which it was given.
    #[must_use]
    pub fn for_user(&self, user: &UserId) -> Vec<Arc<Grant>> {
        self.mirror.of(user)
    }

    /// How many users hold each offer at `now`. It walks over all users: for imports, not for requests
    /// of viewers.
    #[must_use]
    pub fn holders(&self, now: UnixSeconds) -> HashMap<OfferId, usize> {
        let mut holders = HashMap::new();
        self.mirror.for_each(|grants| {
            let active = grants.values().filter(|grant| grant.is_active(now));
            let offers: BTreeSet<&OfferId> = active.map(|grant| &grant.offer).collect();
            for offer in offers {
                *holders.entry(offer.clone()).or_default() += 1;
            }
        });
        holders
    }

    /// Gives an offer to a user: until `expiry`, else for the offer's duration, else until revoked.
    /// Durable.
    ///
    /// Decision: giving what the user has renews it, counted from now, and never shortens it unless
    /// `expiry` says so; there is no second grant beside it. An operator's gift is no sale, so the
    /// sale window does not bind it.
    ///
    /// # Errors
    /// [`GrantError::OfferNotFound`], [`GrantError::ExpiryPast`], [`GrantError::TooMany`],
    /// [`GrantError::UserNotFound`].
    pub fn grant(
        &self,
        user: UserId,
        offer: OfferId,
        expiry: Option<UnixSeconds>,
        by: Option<OperatorId>,
        now: UnixSeconds,
    ) -> Commit<Grant, GrantError> {
        let known = self.catalog.snapshot().offer(&offer).cloned();
        let exists = self.exists;
        self.store.write(Durability::Durable, move |txn| {
            if !exists(txn, &user)? {
                return Err(GrantError::UserNotFound);
            }
            let known = known.ok_or(GrantError::OfferNotFound)?;
            if expiry.is_some_and(|expiry| expiry <= now) {
                return Err(GrantError::ExpiryPast);
            }
            let duration = known.duration_days.map(|days| i64::from(days) * DAY);
            let end = expiry.or(duration.map(|seconds| now + seconds));
            let grants = txn.scan::<tables::Grants>(&user, usize::MAX)?;
            let mut active = grants.iter().filter(|(_, grant)| grant.is_active(now));
            if let Some((key, old)) = active.find(|(_, grant)| grant.offer == offer) {
                let renewed = match (expiry, old.expiry) {
                    (Some(_), _) => end,
                    // What lasts until it is revoked cannot last longer.
                    (None, None) => None,
                    (None, Some(old)) => end.map(|end| end.max(old)),
                };
                let grant = Grant {
                    expiry: renewed,
                    ..old.clone()
                };
                txn.put::<tables::Grants>(key, &grant)?;
                return Ok(grant);
            }
            let number = make_room(txn, &grants, now)?;
            let grant = Grant {
                offer,
                purchased_at: now,
                expiry: end,
                granted_by: by,
                revoked: None,
            };
            txn.put::<tables::Grants>(&(user, number), &grant)?;
            Ok(grant)
        })
    }

    /// Takes an offer away from a user. Durable.
    ///
    /// # Errors
    /// [`GrantError::NotGranted`].
    pub fn revoke(
        &self,
        user: UserId,
        offer: OfferId,
        by: Option<OperatorId>,
        now: UnixSeconds,
    ) -> Commit<(), GrantError> {
        self.store.write(Durability::Durable, move |txn| {
            let mut found = false;
            for (key, mut grant) in txn.scan::<tables::Grants>(&user, usize::MAX)? {
                if grant.offer == offer && grant.is_active(now) {
                    grant.revoked = Some(Revocation { at: now, by });
                    txn.put::<tables::Grants>(&key, &grant)?;
                    found = true;
                }
            }
            found.then_some(()).ok_or(GrantError::NotGranted)
        })
    }
}

/// The number of the next grant. Where the bound is reached the oldest that is over goes.
fn make_room(
    txn: &mut Txn<'_>,
    grants: &[((UserId, u32), Grant)],
    now: UnixSeconds,
) -> Result<u32, GrantError> {
    if grants.len() >= GRANTS_MAX {
        let over = grants.iter().find(|(_, grant)| !grant.is_active(now));
        let (key, _) = over.ok_or(GrantError::TooMany)?;
        txn.delete::<tables::Grants>(key)?;
    }
    let last = grants.last().map(|((_, number), _)| *number);
    Ok(last.map_or(0, |last| last.saturating_add(1)))
}

/// Erases what is held of a user, in the commit that erases the account.
///
/// # Errors
/// That the store failed.
pub fn erase_user(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (key, _) in txn.scan::<tables::Grants>(user, usize::MAX)? {
        txn.delete::<tables::Grants>(&key)?;
    }
    Ok(())
}
