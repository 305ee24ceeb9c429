//! A new password, by who knows the present one.

use std::net::IpAddr;

use super::tables::Credentials;
use super::{Accounts, AccountsError, HashMemory, Login, logins, reset, user_record};
use crate::domain::mail::{Draft, Kind};
use crate::types::{Password, UnixSeconds};

impl Accounts {
    /// Changes the password of the user who asks; blocking. Ends the user's other login sessions,
    /// voids reset tokens and mails a notice, all in one commit.
    ///
    /// # Errors
    /// [`AccountsError::PasswordWrong`], [`AccountsError::TooManyAttempts`], what is wrong with the
    /// new password.
    pub fn change_password(
        &self,
        who: Login,
        current: &Password,
        new: &Password,
        from: IpAddr,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<(), AccountsError> {
        let user = self.user(&who.user).ok_or(AccountsError::UserNotFound)?;
        self.check_password(new, user.partner, &user.email, user.name.as_ref())?;
        let confirmed = self.confirm(&who.user, current, from, now, memory)?;
        let password = self.hash(new.reveal(), memory)?;
        self.change(move |inner, txn| {
            let present = confirmed.redeem(inner, txn, &who.user, now)?;
            txn.put::<Credentials>(&who.user, &present.with_password(password, now))?;
            logins::end_all(txn, &who.user, Some(who.login))?;
            reset::void(txn, &who.user)?;
            let user = user_record(txn, &who.user)?;
            inner.mail.enqueue(txn, notice(who.user, user), now)?;
            Ok(())
        })
    }
}

/// The mail that tells of a new password.
pub(super) fn notice(id: crate::types::UserId, user: super::UserRecord) -> Draft {
    Draft {
        kind: Kind::PasswordChanged,
        to: user.email,
        user: Some(id),
        locale: user.locale,
        secret: String::new(),
        good_for: 0,
    }
}
