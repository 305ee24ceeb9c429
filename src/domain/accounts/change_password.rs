//! A new password, by who knows the present one.

use std::net::IpAddr;

use super::tables::{Credentials, UserRecord};
use super::throttle::{Kind, Subject};
use super::{
    Accounts, AccountsError, HashMemory, HashPool, Inner, Login, login_sessions, password_reset,
    throttle, user_record,
};
use crate::domain::mail;
use crate::store::Txn;
use crate::types::{Password, UnixSeconds, UserId};

impl Accounts {
    /// Changes the password of the user who asks. Ends the user's other login sessions,
    /// voids reset tokens and mails a notice, all in one commit.
    ///
    /// # Errors
    /// [`AccountsError::PasswordWrong`], [`AccountsError::TooManyAttempts`], what is wrong with the
    /// new password.
    pub async fn change_password(
        &self,
        who: Login,
        current: &Password,
        new: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let user = self.user(&who.user).ok_or(AccountsError::UserNotFound)?;
        self.check_password(new, user.partner, &user.email, user.name.as_ref())?;
        let new = new.clone();
        let hash = move |this: &Self, memory: &mut HashMemory| this.hash(new.reveal(), memory);
        let confirming = self.confirm(&who.user, current, from, now, pool, hash);
        let (confirmed, password) = confirming.await?;
        let proof = confirmed.proof();
        let changed = self.change(move |inner, txn| {
            let present = proof.redeem(inner, txn, &who.user, now)?;
            txn.put::<Credentials>(&who.user, &present.with_password(password, now))?;
            login_sessions::end_all(txn, &who.user, Some(who.login))?;
            password_reset::void(txn, &who.user)?;
            let user = user_record(txn, &who.user)?;
            inner.tell_of_password(txn, who.user, user, now)
        });
        changed.await
    }
}

impl Inner {
    /// Queues the mail that tells of a new password.
    ///
    /// Decision: three an hour, as of other mails. Whoever signs up with another's address knows the
    /// password and could fill that mailbox, and our queue, by changing it again and again; and the
    /// owner of an account that was taken over has been told by then.
    pub(super) fn tell_of_password(
        &self,
        txn: &mut Txn<'_>,
        id: UserId,
        user: UserRecord,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let subject = Subject::account(Kind::NoticeMail, &user.partner, &user.email);
        if throttle::admit(txn, &self.settings.limits, subject, now)? {
            let draft = mail::Draft {
                kind: mail::Kind::PasswordChanged,
                to: user.email,
                user: Some(id),
                locale: user.locale,
                secret: String::new(),
                good_for: 0,
            };
            self.mail.enqueue(txn, draft, now)?;
        }
        Ok(())
    }
}
