//! Password change by a user who knows the current password.

use std::net::IpAddr;

use super::attempt_limits::{AttemptKind, AttemptSubject};
use super::tables::{CredentialRecord, CredentialTable, UserRecord};
use super::{
    Accounts, AccountsError, HashMemory, HashPool, Inner, Login, login_sessions, password_reset,
    throttle, user_record,
};
use crate::mail;
use playgate_store::Txn;
use playgate_types::{Password, UnixSeconds, UserId};

impl Accounts {
    /// Changes the password. The same commit ends the user's other logins, voids reset tokens and queues a notice.
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
        // The policy first: a new password that is rejected must not cost an attempt.
        self.check_password(new, user.partner, &user.email, user.name.as_ref())?;
        let new = new.clone();
        let hash = move |this: &Self, memory: &mut HashMemory| this.hash(new.reveal(), memory);
        let confirming = self.confirm(&who.user, current, from, now, pool, hash);
        let (confirmed, password) = confirming.await?;
        let change = move |inner: &Inner, txn: &mut Txn<'_>, credentials: CredentialRecord| {
            txn.put::<CredentialTable>(&who.user, &credentials.with_password(password, now))?;
            // The login that makes the change stays.
            login_sessions::end_all(txn, &who.user, Some(who.login))?;
            // A reset link that was mailed before must not undo the change.
            password_reset::void(txn, &who.user)?;
            let user = user_record(txn, &who.user)?;
            inner.queue_password_notice(txn, who.user, user, now)
        };
        confirmed.change(self, who.user, now, change).await
    }
}

impl Inner {
    /// Queues a notice, unless the account has reached its limit of notices.
    pub(super) fn queue_password_notice(
        &self,
        txn: &mut Txn<'_>,
        id: UserId,
        user: UserRecord,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let subject = AttemptSubject::account(AttemptKind::NoticeMail, &user.partner, &user.email);
        // Without a limit, an attacker who signed up with another person's address could flood that mailbox
        // and the queue. The owner of a hijacked account is informed by the first notice.
        if throttle::admit(txn, &self.settings.limits, subject, now)? {
            let draft = mail::MailDraft {
                kind: mail::MailKind::PasswordChanged,
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
