//! PINs: check, set, change, mail.

use std::net::IpAddr;

use super::attempt_limits::{AttemptKind, AttemptSubject};
use super::tables::{CredentialRecord, CredentialTable, Throttles, UserRecord, Users};
use super::{
    Accounts, AccountsError, Attempt, HashMemory, HashPool, Inner, PinError, User, credentials,
    hashing, user_record,
};
use crate::mail;
use playgate_store::{Commit, Durability, Txn};
use playgate_types::{Password, Pin, UnixSeconds, UserId};

pub(super) struct GeneratedPin {
    pin: Pin,
    hash: String,
}

/// Holds the hash that the PIN matched.
pub(super) struct PinConfirmed(String);

impl PinConfirmed {
    /// Returns whether the PIN is unchanged since it was confirmed.
    pub(super) fn holds(&self, credentials: &CredentialRecord) -> bool {
        credentials.pin.as_ref() == Some(&self.0)
    }
}

impl Accounts {
    /// Checks a PIN. A wrong one is counted durably, and too many lock PIN entry.
    pub async fn check_pin(
        &self,
        user: &UserId,
        pin: &Pin,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), PinError> {
        let confirmed = self.confirm_pin(user, pin, now, pool, |_, _| Ok(()));
        confirmed.await.map(drop)
    }

    /// After a correct PIN, `then` runs in the same pool job.
    pub(super) async fn confirm_pin<T: Send + 'static>(
        &self,
        user: &UserId,
        pin: &Pin,
        now: UnixSeconds,
        pool: &impl HashPool,
        then: impl FnOnce(&Self, &mut HashMemory) -> Result<T, PinError> + Send + 'static,
    ) -> Result<(PinConfirmed, T), PinError> {
        // Without a PIN there is nothing to guess, so nothing is counted.
        if !self.user(user).is_some_and(|user| user.has_pin) {
            return Err(PinError::NotSet);
        }
        let subject = AttemptSubject::user(AttemptKind::Pin, user);
        // Durable: a power cut must not give guesses back.
        let attempt = self
            .attempt(Durability::Durable, vec![subject], now)
            .await?;
        let (user, pin) = (*user, pin.clone());
        let work = move |this: &Self, memory: &mut HashMemory| {
            let credentials = this.0.store.read(|txn| txn.get::<CredentialTable>(&user))?;
            let stored = credentials.and_then(|credentials| credentials.pin);
            let stored = stored.ok_or(PinError::NotSet)?;
            let cost = this.0.settings.cost;
            if !hashing::verify(pin.reveal(), &stored, cost, memory)?.matches {
                let rule = &this.0.settings.limits.pin;
                // This attempt is counted already, so the number is what is left after it.
                let counter = this.0.throttles.get(&subject.key());
                let attempts_left = counter.map_or(rule.limit, |counter| counter.left(rule));
                return Err(PinError::Wrong { attempts_left });
            }
            Ok((PinConfirmed(stored), then(this, memory)?))
        };
        let confirmed = attempt.work(pool, work).await??;
        attempt.refund().await?;
        Ok(confirmed)
    }

    /// Sets a PIN. `proof` is the current PIN and the password: the first PIN needs the password, later ones the PIN.
    pub async fn set_pin(
        &self,
        user: &UserId,
        proof: (Option<&Pin>, Option<&Password>),
        new: &Pin,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let known = self.user(user).ok_or(AccountsError::UserNotFound)?;
        let (user, new) = (*user, new.clone());
        if known.has_pin {
            let present = proof.0.ok_or(PinError::Required)?;
            let hash = move |this: &Self, memory: &mut HashMemory| this.pin_hash(&new, memory);
            let confirming = self.confirm_pin(&user, present, now, pool, hash);
            let (confirmed, hash) = confirming.await?;
            let changed = self.change(move |_, txn| {
                // The PIN may have been changed while the hash was computed.
                if !confirmed.holds(&credentials(txn, &user)?) {
                    return Err(PinError::Required.into());
                }
                put_pin(txn, &user, user_record(txn, &user)?, hash)
            });
            return changed.await;
        }
        let password = proof.1.ok_or(AccountsError::PasswordRequired)?;
        let hash = move |this: &Self, memory: &mut HashMemory| this.hash(new.reveal(), memory);
        let confirming = self.confirm(&user, password, from, now, pool, hash);
        let (confirmed, hash) = confirming.await?;
        let set = move |_: &Inner, txn: &mut Txn<'_>, credentials: CredentialRecord| {
            // A concurrent request set a PIN: the password is not enough to change it.
            if credentials.pin.is_some() {
                return Err(PinError::Required.into());
            }
            put_pin(txn, &user, user_record(txn, &user)?, hash)
        };
        confirmed.change(self, user, now, set).await
    }

    fn pin_hash(&self, pin: &Pin, memory: &mut HashMemory) -> Result<String, PinError> {
        let (cost, entropy) = (self.0.settings.cost, self.0.entropy.as_ref());
        Ok(hashing::hash(pin.reveal(), cost, entropy, memory)?)
    }

    pub async fn reset_pin(
        &self,
        user: &UserId,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let known = self.user(user).ok_or(AccountsError::UserNotFound)?;
        let attempt = self.reserve_pin_mail(&known, now).await?;
        // Not refunded after a success: the limit counts mails.
        let generated = attempt.work(pool, Self::generate_pin).await??;
        // A lock on PIN entry remains: a person holding the viewer's device must not get more guesses by
        // requesting mails.
        self.insert_generated_pin(*user, generated, now).await
    }

    pub(super) async fn reserve_pin_mail(
        &self,
        user: &User,
        now: UnixSeconds,
    ) -> Result<Attempt, AccountsError> {
        // Counted for the address, not the user id, so that erasing and recreating the account does not
        // reset the limit.
        let subject = AttemptSubject::account(AttemptKind::PinMail, &user.partner, &user.email);
        Ok(self.attempt(Durability::Logged, vec![subject], now).await?)
    }

    /// Mails a new PIN at an operator's request, without a rate limit.
    pub async fn renew_pin(
        &self,
        user: &UserId,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let this = self.clone();
        let generated = pool.run(move |memory| this.generate_pin(memory)).await??;
        self.insert_generated_pin(*user, generated, now).await
    }

    fn insert_generated_pin(
        &self,
        user: UserId,
        generated: GeneratedPin,
        now: UnixSeconds,
    ) -> Commit<(), AccountsError> {
        self.change(move |inner, txn| {
            let record = user_record(txn, &user)?;
            inner.mail_pin(txn, &user, record, generated, now)
        })
    }

    pub async fn override_pin(
        &self,
        user: &UserId,
        new: &Pin,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let (this, user, new) = (self.clone(), *user, new.clone());
        let hash = pool
            .run(move |memory| this.hash(new.reveal(), memory))
            .await??;
        let changed = self.change(move |_, txn| {
            put_pin(txn, &user, user_record(txn, &user)?, hash)?;
            // Lifts a lock on PIN entry as well.
            Ok(txn.delete::<Throttles>(&AttemptSubject::user(AttemptKind::Pin, &user).key())?)
        });
        changed.await
    }

    pub(super) fn generate_pin(
        &self,
        memory: &mut HashMemory,
    ) -> Result<GeneratedPin, AccountsError> {
        let random = u64::from_be_bytes(self.0.entropy.array());
        // The modulo bias of 2^64 over 10,000 is negligible.
        let digits = format!("{:04}", random % 10_000);
        let pin = Pin::parse(&digits).map_err(|why| AccountsError::FieldMalformed {
            field: "pinCode",
            why,
        })?;
        // Hashed like a chosen PIN; only the mail holds the digits, sealed.
        let hash = self.hash(pin.reveal(), memory)?;
        Ok(GeneratedPin { pin, hash })
    }
}

impl Inner {
    pub(super) fn mail_pin(
        &self,
        txn: &mut Txn<'_>,
        id: &UserId,
        user: UserRecord,
        generated: GeneratedPin,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let draft = mail::MailDraft {
            kind: mail::MailKind::Pin,
            to: user.email.clone(),
            user: Some(*id),
            locale: user.locale.clone(),
            secret: generated.pin.reveal().to_owned(),
            // PINs do not expire.
            good_for: 0,
        };
        put_pin(txn, id, user, generated.hash)?;
        self.mail.enqueue(txn, draft, now)?;
        Ok(())
    }
}

fn put_pin(
    txn: &mut Txn<'_>,
    id: &UserId,
    user: UserRecord,
    hash: String,
) -> Result<(), AccountsError> {
    // A queued mail with an older PIN would mislead the user.
    mail::withdraw(txn, id, mail::MailKind::Pin)?;
    let credentials = credentials(txn, id)?;
    let pin = Some(hash);
    txn.put::<CredentialTable>(id, &CredentialRecord { pin, ..credentials })?;
    let has_pin = true;
    Ok(txn.put::<Users>(id, &UserRecord { has_pin, ..user })?)
}
