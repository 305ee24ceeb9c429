//! Decoy hashes: an unknown address is checked against the stored hash of another user.
//!
//! Imported hashes and hashes of an older cost take a different time than new ones, so one fixed dummy would
//! reveal unknown addresses by timing. Instead, each unknown address is always checked against the same
//! existing user of the partner and then rejected. Response times then say no more about an unknown address
//! than about a real user. To equalize them completely, every login would have to be as slow as the slowest
//! hash.

use ring::hmac;

use super::tables::CredentialTable;
use super::{Accounts, hashing};
use playgate_store::{StoreError, Txn};
use playgate_types::{Email, PartnerId, UserId};

/// Number of users that are searched for one of the same partner.
const USERS_SEARCHED: usize = 32;

/// Keyed, so that an attacker can neither predict nor become the decoy of an address.
pub(super) struct DecoyHashes(hmac::Key);

impl DecoyHashes {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Returns the user id at which the search starts.
    fn position(&self, partner: &PartnerId, email: &Email) -> UserId {
        let mut context = hmac::Context::with_key(&self.0);
        // The id of the partner has a fixed length, so no two pairs give the same input.
        context.update(partner.as_bytes());
        context.update(email.as_str().as_bytes());
        let mut id = [0; 16];
        // The first 16 bytes of the HMAC.
        for (to, from) in id.iter_mut().zip(context.sign().as_ref()) {
            *to = *from;
        }
        UserId::from_bytes(id)
    }
}

impl Accounts {
    /// Returns the hash of the decoy of an address, or a dummy hash at the current cost if no user is found.
    pub(super) fn decoy(
        &self,
        txn: &Txn<'_>,
        partner: PartnerId,
        email: &Email,
    ) -> Result<String, StoreError> {
        let position = self.0.decoys.position(&partner, email);
        let mut near = txn.scan_from::<CredentialTable>(Some(&position), USERS_SEARCHED)?;
        if near.len() < USERS_SEARCHED {
            // Wrap around at the end of the ids.
            near.extend(txn.scan_from::<CredentialTable>(None, USERS_SEARCHED)?);
        }
        // Only users of the same partner: partners may have imported different hash functions.
        let of_partner = |id: &UserId| self.user(id).is_some_and(|user| user.partner == partner);
        let mut hashes = near
            .into_iter()
            .filter(|(id, _)| of_partner(id))
            // Damaged records are `None` and are skipped.
            .filter_map(|(_, credentials)| Some(credentials?.password));
        let decoy = hashes.next();
        Ok(decoy.unwrap_or_else(|| hashing::dummy(self.0.settings.cost)))
    }
}
