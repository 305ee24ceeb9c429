//! Export and erasure of user data.

use std::net::IpAddr;

use super::attempt_limits::{AttemptKind, AttemptSubject};
use super::login_sessions::end_all;
use super::tables::{CredentialTable, Throttles, Users, UsersByEmail};
use super::{
    AccountExport, Accounts, AccountsError, HashPool, Inner, known_clients, password_reset,
    user_record,
};
use crate::batches::in_batches;
use crate::mail;
use crate::partners::{self, PartnerStatus};
use playgate_store::{Commit, StoreError, Txn};
use playgate_types::{Email, PartnerId, Password, UnixSeconds, UserId};

const BATCH: usize = 50;

impl Accounts {
    /// Returns all account data of a user. Reads from disk.
    pub fn export(&self, id: &UserId, now: UnixSeconds) -> Result<AccountExport, AccountsError> {
        let (record, credentials) = self.0.store.read(|txn| {
            let credentials = super::credentials(txn, id)?;
            Ok::<_, AccountsError>((user_record(txn, id)?, credentials))
        })?;
        let mails = self.0.mail.mails_of_user(id)?;
        Ok(AccountExport {
            user: record.into_user(*id),
            logins: self.logins(id, now)?,
            password_set: credentials.password_set,
            // Without the texts, which may hold a PIN or a reset link.
            mails: mails.into_iter().map(|letter| letter.summary).collect(),
        })
    }

    /// Erases a user who confirms it by password. One commit erases the data in all modules.
    pub async fn erase(
        &self,
        user: &UserId,
        password: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let confirming = self.confirm(user, password, from, now, pool, |_, _| Ok(()));
        let (confirmed, ()) = confirming.await?;
        let user = *user;
        let erase = move |inner: &Inner, txn: &mut Txn<'_>, _| inner.erase(txn, &user, now);
        confirmed.change(self, user, now, erase).await
    }

    pub fn remove(&self, user: &UserId, now: UnixSeconds) -> Commit<(), AccountsError> {
        let user = *user;
        self.change(move |inner, txn| inner.erase(txn, &user, now))
    }

    /// Removes a partner with all its users. Blocking. If the store fails, erased users stay erased;
    /// the removal can be repeated.
    pub fn remove_partner(&self, id: PartnerId, now: UnixSeconds) -> Result<(), AccountsError> {
        // Disabled first, so that no user can sign up.
        self.0.partners.set_disabled(id, true).wait()?;
        loop {
            self.remove_all(id, now, |_, _| Ok(()))?;
            let removed = self.change(move |_, txn| {
                // Operators may still have added users, so the batch that removes the partner checks again.
                if !txn.scan_index::<UsersByEmail>(&id, 1)?.is_empty() {
                    return Ok(false);
                }
                partners::remove(txn, &id)?;
                Ok(true)
            });
            let removed = removed.wait()?;
            if removed {
                return Ok(());
            }
        }
    }

    /// Erases the users of removed partners, which earlier versions could leave behind; returns their number.
    pub fn remove_orphans(&self, now: UnixSeconds) -> Result<usize, AccountsError> {
        let mut orphans = Vec::new();
        self.0.users.for_each(|id, user| {
            if let Some(user) = user()
                && self.0.partners.name(&user.partner).is_none()
            {
                orphans.push((*id, user.partner));
            }
        });
        let mut removed = 0;
        // In batches, so that other commits do not wait for all of them.
        for batch in orphans.chunks(BATCH) {
            let batch = batch.to_vec();
            let erased = self.change(move |inner, txn| {
                let mut removed = 0;
                for (user, partner) in &batch {
                    // The orphans were found in memory, so each is checked again here.
                    let gone = partners::status(txn, partner)? == PartnerStatus::Unknown;
                    if gone && super::exists(txn, user)? {
                        inner.erase(txn, user, now)?;
                        removed += 1;
                    }
                }
                Ok::<usize, AccountsError>(removed)
            });
            removed += erased.wait()?;
        }
        Ok(removed)
    }

    /// Removes all users of a lab partner with their counters of attempts and mails; returns their number. Blocking.
    pub fn reset_partner(
        &self,
        partner: PartnerId,
        now: UnixSeconds,
    ) -> Result<usize, AccountsError> {
        self.remove_all(partner, now, move |txn, email| {
            // An erasure keeps the counters of mails. A lab must start without them.
            for kind in [
                AttemptKind::ResetMailAccount,
                AttemptKind::PinMail,
                AttemptKind::NoticeMail,
            ] {
                let subject = AttemptSubject::account(kind, &partner, email);
                txn.delete::<Throttles>(&subject.key())?;
            }
            Ok(())
        })
    }

    fn remove_all(
        &self,
        partner: PartnerId,
        now: UnixSeconds,
        after_each: impl Fn(&mut Txn<'_>, &Email) -> Result<(), StoreError> + Copy + Send + 'static,
    ) -> Result<usize, AccountsError> {
        in_batches(BATCH, || {
            let batch = self.change(move |inner, txn| {
                let users = txn.scan_index::<UsersByEmail>(&partner, BATCH)?;
                for ((_, email), user) in &users {
                    inner.erase(txn, user, now)?;
                    after_each(txn, email)?;
                }
                Ok(users.len())
            });
            batch.wait()
        })
    }
}

impl Inner {
    fn erase(&self, txn: &mut Txn<'_>, id: &UserId, now: UnixSeconds) -> Result<(), AccountsError> {
        let user = user_record(txn, id)?;
        end_all(txn, id, None)?;
        password_reset::void(txn, id)?;
        mail::erase_user(txn, id)?;
        // Other modules erase in the same write batch, so that no data is left behind.
        for eraser in &self.erasers {
            eraser(txn, id, now)?;
        }
        // The mail counters of the address are kept (hashed) until their hour ends. Otherwise an attacker could
        // bypass the mail limit of another person's address: sign up, send mails, erase, repeat.
        // A new account at this address must not inherit wrong guesses or known clients.
        known_clients::forget_account(txn, &user.partner, &user.email)?;
        txn.delete::<Throttles>(&AttemptSubject::user(AttemptKind::Pin, id).key())?;
        txn.delete::<CredentialTable>(id)?;
        txn.delete::<Users>(id)
            .map_err(|error: StoreError| error.into())
    }
}
