//! Owns the grants: gives offers to users, renews and revokes them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::error::GrantError;
use super::model::{Grant, Revocation};
use super::tables::{self, GrantsInMemory};
use crate::accounts::{AlsoInsert, UserExists};
use crate::catalog::Catalog;
use playgate_store::{Commit, Durability, Store, StoreError, Txn};
use playgate_types::time::DAY;
use playgate_types::{OfferId, OperatorId, UnixSeconds, UserId};

/// Maximum number of grants per user, including history. New grants replace the oldest inactive ones.
pub(crate) const GRANTS_MAX: usize = 200;

#[derive(Clone)]
pub struct Grants {
    store: Store,
    catalog: Catalog,
    exists: UserExists,
    memory: Arc<GrantsInMemory>,
}

impl Grants {
    pub fn open(store: Store, catalog: Catalog, exists: UserExists) -> Result<Self, StoreError> {
        let memory = Arc::new(GrantsInMemory::default());
        store.attach::<tables::GrantTable>(Arc::clone(&memory) as _)?;
        Ok(Self {
            store,
            catalog,
            exists,
            memory,
        })
    }

    /// Returns current and past grants, oldest first.
    pub fn for_user(&self, user: &UserId) -> Vec<Arc<Grant>> {
        self.memory.of(user)
    }

    /// Counts the users who hold each offer. It walks over all users, so viewer requests must not call it.
    pub fn holders(&self, now: UnixSeconds) -> HashMap<OfferId, usize> {
        let mut holders = HashMap::new();
        self.memory.for_each(|grants| {
            let active = grants.values().filter(|grant| grant.is_active(now));
            // A user with several active grants of one offer counts once.
            let offers: BTreeSet<&OfferId> = active.map(|grant| &grant.offer).collect();
            for offer in offers {
                *holders.entry(offer.clone()).or_default() += 1;
            }
        });
        holders
    }

    /// Returns what gives the offers of `offers` to new users, by their position. Offers that the catalogue does not have are
    /// left out.
    pub fn for_new_users(
        &self,
        offers: Vec<Vec<OfferId>>,
        by: Option<OperatorId>,
        now: UnixSeconds,
    ) -> AlsoInsert {
        let catalog = self.catalog.snapshot();
        Box::new(move |txn, user, at| {
            let offers = offers.get(at).into_iter().flatten();
            let known = offers.filter_map(|offer| catalog.offer(offer));
            for (number, known) in (0..).zip(known) {
                let duration = known.duration_days.map(|days| i64::from(days) * DAY);
                let grant = Grant {
                    offer: known.id.clone(),
                    purchased_at: now,
                    expiry: duration.map(|seconds| now + seconds),
                    granted_by: by,
                    revoked: None,
                };
                txn.put::<tables::GrantTable>(&(*user, number), &grant)?;
            }
            Ok(())
        })
    }

    /// Durably grants an offer to a user: until `expiry`, otherwise for the offer's duration, otherwise until revoked.
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
        // The sale window does not apply: an operator's grant is not a sale.
        self.store.write(Durability::Durable, move |txn| {
            // Checked within the transaction: the account may be erased concurrently.
            if !exists(txn, &user)? {
                return Err(GrantError::UserNotFound);
            }
            let known = known.ok_or(GrantError::OfferNotFound)?;
            if expiry.is_some_and(|expiry| expiry <= now) {
                return Err(GrantError::ExpiryPast);
            }
            let duration = known.duration_days.map(|days| i64::from(days) * DAY);
            let end = expiry.or(duration.map(|seconds| now + seconds));
            let grants = txn.scan::<tables::GrantTable>(&user, usize::MAX)?;
            let mut active = grants.iter().filter(|(_, grant)| grant.is_active(now));
            // Granting an active offer again renews that grant from now on; only `expiry` can shorten it.
            if let Some((key, old)) = active.find(|(_, grant)| grant.offer == offer) {
                let renewed = match (expiry, old.expiry) {
                    (Some(_), _) => end,
                    // A grant without an end cannot be extended.
                    (None, None) => None,
                    // A renewal never shortens a grant.
                    (None, Some(old)) => end.map(|end| end.max(old)),
                };
                let grant = Grant {
                    expiry: renewed,
                    ..old.clone()
                };
                txn.put::<tables::GrantTable>(key, &grant)?;
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
            txn.put::<tables::GrantTable>(&(user, number), &grant)?;
            Ok(grant)
        })
    }

    /// Durably revokes the active grants of an offer. [`GrantError::NotGranted`] if there are none.
    pub fn revoke(
        &self,
        user: UserId,
        offer: OfferId,
        by: Option<OperatorId>,
        now: UnixSeconds,
    ) -> Commit<(), GrantError> {
        self.store.write(Durability::Durable, move |txn| {
            let mut found = false;
            // An offer may have more than one active grant.
            for (key, mut grant) in txn.scan::<tables::GrantTable>(&user, usize::MAX)? {
                if grant.offer == offer && grant.is_active(now) {
                    grant.revoked = Some(Revocation { at: now, by });
                    txn.put::<tables::GrantTable>(&key, &grant)?;
                    found = true;
                }
            }
            found.then_some(()).ok_or(GrantError::NotGranted)
        })
    }
}

/// Returns the number of a new grant. At the limit, the oldest inactive grant is deleted.
fn make_room(
    txn: &mut Txn<'_>,
    grants: &[((UserId, u32), Grant)],
    now: UnixSeconds,
) -> Result<u32, GrantError> {
    if grants.len() >= GRANTS_MAX {
        let over = grants.iter().find(|(_, grant)| !grant.is_active(now));
        let (key, _) = over.ok_or(GrantError::TooMany)?;
        txn.delete::<tables::GrantTable>(key)?;
    }
    let last = grants.last().map(|((_, number), _)| *number);
    // Numbers follow the newest grant, so that they stay in the order of granting.
    Ok(last.map_or(0, |last| last.saturating_add(1)))
}

/// Deletes the grants of a user in the transaction that erases the account.
pub fn erase_user(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (key, _) in txn.scan::<tables::GrantTable>(user, usize::MAX)? {
        txn.delete::<tables::GrantTable>(&key)?;
    }
    Ok(())
}
