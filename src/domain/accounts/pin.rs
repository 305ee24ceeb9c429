//! PINs: checked, set, changed, mailed.

use std::net::IpAddr;

use super::hashing;
use super::tables::{CredentialRecord, Credentials, Throttles, UserRecord, Users};
use super::throttle::{Kind, Subject};
use super::{
    Accounts, AccountsError, Confirmed, HashMemory, Inner, PinError, User, credentials, throttle,
    user_record,
};
use crate::domain::mail;
use crate::store::{Durability, Txn};
use crate::types::{Password, Pin, UnixSeconds, UserId};

/// A PIN of ours that is on its way to its user.
pub(super) struct FreshPin {
    pin: Pin,
    hash: String,
}

/// A PIN that was right a moment ago, by the hash that it was right for.
pub(super) struct PinConfirmed(String);

impl PinConfirmed {
    /// Whether it is still the PIN.
    pub(super) fn holds(&self, credentials: &CredentialRecord) -> bool {
        credentials.pin.as_ref() == Some(&self.0)
    }
}

impl Accounts {
    /// Checks a PIN; blocking. A wrong one is counted durably, and five of them lock PIN entry.
    ///
    /// # Errors
    /// [`PinError::NotSet`], [`PinError::Wrong`], [`PinError::Locked`].
    pub fn check_pin(
        &self,
        user: &UserId,
        pin: &Pin,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<(), PinError> {
        self.confirm_pin(user, pin, now, memory).map(|_| ())
    }

    pub(super) fn confirm_pin(
        &self,
        user: &UserId,
        pin: &Pin,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<PinConfirmed, PinError> {
        let stored = self
            .0
            .store
            .read(|txn| txn.get::<Credentials>(user))?
            .and_then(|credentials| credentials.pin)
            .ok_or(PinError::NotSet)?;
        let subject = Subject::user(Kind::Pin, user);
        let reservation = self.reserve(Durability::Durable, vec![subject], now)?;
        let cost = self.0.settings.cost;
        if !hashing::verify(pin.reveal(), &stored, cost, memory)?.matches {
            let rule = &self.0.settings.limits.pin;
            let counter = self.0.throttles.get(&subject.key());
            let attempts_left = counter.map_or(rule.limit, |counter| counter.left(rule));
            return Err(PinError::Wrong { attempts_left });
        }
        let this = self.clone();
        self.0
            .store
            .write(Durability::Logged, move |txn| {
                throttle::refund(txn, &this.0.settings.limits, &reservation, now)
            })
            .wait()?;
        Ok(PinConfirmed(stored))
    }

    /// Sets a PIN: the first one by the password, a later one by the present PIN; blocking.
    ///
    /// # Errors
    /// [`AccountsError::PasswordRequired`], [`PinError::Required`], or what was wrong with either.
    pub fn set_pin(
        &self,
        user: &UserId,
        proof: (Option<&Pin>, Option<&Password>),
        new: &Pin,
        from: IpAddr,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<(), AccountsError> {
        let known = self.user(user).ok_or(AccountsError::UserNotFound)?;
        let user = *user;
        if known.has_pin {
            let present = proof.0.ok_or(PinError::Required)?;
            let confirmed = self.confirm_pin(&user, present, now, memory)?;
            let hash = self.hash(new.reveal(), memory)?;
            return self.change(move |_, txn| {
                if !confirmed.holds(&credentials(txn, &user)?) {
                    return Err(PinError::Required.into());
                }
                put_pin(txn, &user, user_record(txn, &user)?, hash)
            });
        }
        let password = proof.1.ok_or(AccountsError::PasswordRequired)?;
        let confirmed: Confirmed = self.confirm(&user, password, from, now, memory)?;
        let hash = self.hash(new.reveal(), memory)?;
        self.change(move |inner, txn| {
            let credentials = confirmed.redeem(inner, txn, &user, now)?;
            // Set meanwhile by somebody else: the password alone does not change a PIN.
            if credentials.pin.is_some() {
                return Err(PinError::Required.into());
            }
            put_pin(txn, &user, user_record(txn, &user)?, hash)
        })
    }

    /// Makes a new PIN and mails it; blocking. A lock on PIN entry stays: whoever holds the
    /// viewer's device must not get more guesses by asking for mail.
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`], [`AccountsError::UserNotFound`].
    pub fn reset_pin(
        &self,
        user: &UserId,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<(), AccountsError> {
        let known = self.user(user).ok_or(AccountsError::UserNotFound)?;
        self.reserve_pin_mail(&known, now)?;
        self.renew_pin(user, now, memory)
    }

    /// Counts a PIN that a user has mailed. It counts for the address, not for the user: an account
    /// that is erased and made again brings no further mails.
    pub(super) fn reserve_pin_mail(
        &self,
        user: &User,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let subject = Subject::account(Kind::PinMail, &user.partner, &user.email);
        self.reserve(Durability::Logged, vec![subject], now)?;
        Ok(())
    }

    /// Makes a new PIN and mails it, for an operator without a limit; blocking.
    ///
    /// # Errors
    /// [`AccountsError::UserNotFound`].
    pub fn renew_pin(
        &self,
        user: &UserId,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<(), AccountsError> {
        let fresh = self.fresh_pin(memory)?;
        let user = *user;
        self.change(move |inner, txn| {
            let record = user_record(txn, &user)?;
            inner.mail_pin(txn, &user, record, fresh, now)
        })
    }

    /// Sets a PIN for an operator and lifts a lock on PIN entry; blocking.
    ///
    /// # Errors
    /// [`AccountsError::UserNotFound`].
    pub fn override_pin(
        &self,
        user: &UserId,
        new: &Pin,
        memory: &mut HashMemory,
    ) -> Result<(), AccountsError> {
        let hash = self.hash(new.reveal(), memory)?;
        let user = *user;
        self.change(move |_, txn| {
            put_pin(txn, &user, user_record(txn, &user)?, hash)?;
            Ok(txn.delete::<Throttles>(&Subject::user(Kind::Pin, &user).key())?)
        })
    }

    pub(super) fn fresh_pin(&self, memory: &mut HashMemory) -> Result<FreshPin, AccountsError> {
        let random = u64::from_be_bytes(self.0.entropy.array());
        let digits = format!("{:04}", random % 10_000);
        let pin = Pin::parse(&digits).map_err(|why| AccountsError::FieldMalformed {
            field: "pinCode",
            why,
        })?;
        let hash = self.hash(pin.reveal(), memory)?;
        Ok(FreshPin { pin, hash })
    }
}

impl Inner {
    /// Sets a PIN of ours and queues the mail that brings it.
    pub(super) fn mail_pin(
        &self,
        txn: &mut Txn<'_>,
        id: &UserId,
        user: UserRecord,
        fresh: FreshPin,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let draft = mail::Draft {
            kind: mail::Kind::Pin,
            to: user.email.clone(),
            user: Some(*id),
            locale: user.locale.clone(),
            secret: fresh.pin.reveal().to_owned(),
            good_for: 0,
        };
        put_pin(txn, id, user, fresh.hash)?;
        self.mail.enqueue(txn, draft, now)?;
        Ok(())
    }
}

/// Stores the hash, and that there is one. `user` is the record as it is to be. A mail that is still
/// on its way would bring a PIN that is none any more.
fn put_pin(
    txn: &mut Txn<'_>,
    id: &UserId,
    user: UserRecord,
    hash: String,
) -> Result<(), AccountsError> {
    mail::withdraw(txn, id, mail::Kind::Pin)?;
    let credentials = credentials(txn, id)?;
    let pin = Some(hash);
    txn.put::<Credentials>(id, &CredentialRecord { pin, ..credentials })?;
    let has_pin = true;
    Ok(txn.put::<Users>(id, &UserRecord { has_pin, ..user })?)
}
