//! Whose hash an unknown address is tried against.
//!
//! Users who were brought along, and those who have not logged in since the cost was raised, have
//! hashes that take another time than today's. An address without an account is therefore tried
//! against the hash of somebody who has one, always the same one, and turned away whatever comes of
//! it: how long a refusal takes says of an address what it says of any user of the partner.
//!
//! Decision: this is as even as it gets without making every login as slow as the slowest hash. What
//! remains: a stand-in who logs in meanwhile is rehashed, and so is a real user.

use ring::hmac;

use super::tables::Credentials;
use super::{Accounts, hashing};
use crate::store::{StoreError, Txn};
use crate::types::{Email, PartnerId, UserId};

/// How many users are looked at for one of the same partner.
const NEAR: usize = 32;

/// Chooses stand-ins by a keyed hash: nobody can tell beforehand which user it is, or become it.
pub(super) struct DecoyHashes(hmac::Key);

impl DecoyHashes {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Where in the order of users to look for the stand-in of an address.
    fn place(&self, partner: &PartnerId, email: &Email) -> UserId {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(partner.as_bytes());
        context.update(email.as_str().as_bytes());
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(context.sign().as_ref()) {
            *to = *from;
        }
        UserId::from_bytes(id)
    }
}

impl Accounts {
    /// The stored hash of the stand-in of an address, or one of nobody at today's cost.
    pub(super) fn decoy(
        &self,
        txn: &Txn<'_>,
        partner: PartnerId,
        email: &Email,
    ) -> Result<String, StoreError> {
        let place = self.0.stand_ins.place(&partner, email);
        let mut near = txn.scan_from::<Credentials>(Some(&place), NEAR)?;
        if near.len() < NEAR {
            // The order of ids is a ring.
            near.extend(txn.scan_from::<Credentials>(None, NEAR)?);
        }
        let of_partner = |id: &UserId| self.user(id).is_some_and(|user| user.partner == partner);
        let mut hashes = near
            .into_iter()
            .filter(|(id, _)| of_partner(id))
            .filter_map(|(_, credentials)| Some(credentials?.password));
        let stand_in = hashes.next();
        Ok(stand_in.unwrap_or_else(|| hashing::dummy(self.0.settings.cost)))
    }
}
