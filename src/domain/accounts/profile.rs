//! Changes by users to their own record.

use std::sync::Arc;

use super::tables::{UserRecord, Users};
use super::{
    Accounts, AccountsError, HashPool, PARENTAL_LIMIT_MAX, ParentalControl, PinError, User,
    UserChange, check_birth_date, credentials, user_record,
};
use playgate_types::{Malformed, Pin, UnixSeconds, UserId};

type Guarded = (Option<playgate_types::BirthDate>, ParentalControl);

impl UserChange {
    fn guarded(&self, (birth_date, parental): Guarded) -> Guarded {
        let parental = ParentalControl {
            enabled: self.parental_enabled.unwrap_or(parental.enabled),
            limit: self.parental_limit.unwrap_or(parental.limit),
        };
        // Absent members take the present values, so that a client that sends an unchanged record needs no PIN.
        (self.birth_date.or(birth_date), parental)
    }

    pub(super) fn apply(self, record: UserRecord) -> UserRecord {
        let (birth_date, parental) = self.guarded((record.birth_date, record.parental));
        UserRecord {
            name: self
                .name
                .or(record.name)
                .filter(|name| !name.as_str().is_empty()),
            locale: self.locale.or(record.locale),
            birth_date,
            parental,
            ..record
        }
    }

    pub(super) fn check(&self, now: UnixSeconds) -> Result<(), AccountsError> {
        check_birth_date(self.birth_date.as_ref(), now)?;
        if self
            .parental_limit
            .is_some_and(|limit| limit > PARENTAL_LIMIT_MAX)
        {
            return Err(AccountsError::FieldMalformed {
                field: "parentalControl.limit",
                why: Malformed("must be an age from 0 to 99"),
            });
        }
        Ok(())
    }
}

impl Accounts {
    /// Merges the change into the user's record. Enabling parental control without a PIN creates one
    /// and mails it.
    pub async fn change_user(
        &self,
        id: &UserId,
        change: UserChange,
        pin: Option<&Pin>,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<Arc<User>, AccountsError> {
        change.check(now)?;
        let known = self.user(id).ok_or(AccountsError::UserNotFound)?;
        let present = (known.birth_date, known.parental);
        let after = change.guarded(present);
        // Changing the date of birth or parental control needs the PIN if one is set; an unneeded PIN is
        // neither checked nor counted.
        let confirmed = if known.has_pin && after != present {
            let pin = pin.ok_or(PinError::Required)?;
            Some(self.confirm_pin(id, pin, now, pool, |_, _| Ok(())).await?.0)
        } else {
            None
        };
        let generated = if after.1.enabled && !known.has_pin {
            let attempt = self.reserve_pin_mail(&known, now).await?;
            Some(attempt.work(pool, Self::generate_pin).await??)
        } else {
            None
        };
        let id = *id;
        let changed = self.change(move |inner, txn| {
            let record = user_record(txn, &id)?;
            let present = (record.birth_date, record.parental);
            let proven = || -> Result<bool, AccountsError> {
                let credentials = credentials(txn, &id)?;
                Ok(confirmed.is_some_and(|confirmed| confirmed.holds(&credentials)))
            };
            // The record may have changed during the hashing; check the current one.
            if record.has_pin && change.guarded(present) != present && !proven()? {
                return Err(PinError::Required.into());
            }
            let record = change.apply(record);
            if record.parental.enabled && !record.has_pin {
                // Parental control was enabled concurrently, so no PIN was prepared: the client must retry.
                let generated = generated.ok_or(PinError::Required)?;
                inner.mail_pin(txn, &id, record.clone(), generated, now)?;
            } else {
                txn.put::<Users>(&id, &record)?;
            }
            Ok(())
        });
        changed.await?;
        // Memory is updated before a commit is answered.
        self.user(&id).ok_or(AccountsError::UserNotFound)
    }
}
