//! Change of the e-mail address, by the user with the password or by an operator.

use std::net::IpAddr;

use super::attempt_limits::{AttemptKind, AttemptSubject};
use super::tables::{UserRecord, Users, UsersByEmail};
use super::{
    Accounts, AccountsError, HashPool, Inner, known_clients, password_reset, throttle, user_record,
};
use crate::mail;
use playgate_store::{Commit, Txn};
use playgate_types::{Email, Password, UnixSeconds, UserId};

impl Accounts {
    pub async fn change_email(
        &self,
        user: &UserId,
        new: Email,
        password: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let confirming = self.confirm(user, password, from, now, pool, |_, _| Ok(()));
        let (confirmed, ()) = confirming.await?;
        let id = *user;
        let change =
            move |inner: &Inner, txn: &mut Txn<'_>, _| inner.move_address(txn, id, new, now);
        confirmed.change(self, id, now, change).await
    }

    pub fn change_email_by_operator(
        &self,
        user: &UserId,
        new: Email,
        now: UnixSeconds,
    ) -> Commit<(), AccountsError> {
        let id = *user;
        self.change(move |inner, txn| inner.move_address(txn, id, new, now))
    }
}

impl Inner {
    /// Gives the account another address, ends pending resets, and mails a notice to both addresses.
    fn move_address(
        &self,
        txn: &mut Txn<'_>,
        id: UserId,
        new: Email,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let user = user_record(txn, &id)?;
        if user.email == new {
            return Ok(());
        }
        let address = (user.partner, new.clone());
        if txn.find::<UsersByEmail>(&address)?.is_some() {
            return Err(AccountsError::EmailInUse);
        }
        self.addresses.add(&address);
        // A link in the old mailbox must not open the account any more.
        password_reset::void(txn, &id)?;
        let moved = UserRecord {
            email: new,
            ..user.clone()
        };
        txn.put::<Users>(&id, &moved)?;
        known_clients::move_account(txn, &moved.partner, &user.email, &moved.email)?;
        for told in [user, moved] {
            self.queue_address_notice(txn, id, told, now)?;
        }
        Ok(())
    }

    fn queue_address_notice(
        &self,
        txn: &mut Txn<'_>,
        id: UserId,
        told: UserRecord,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let subject = AttemptSubject::account(AttemptKind::NoticeMail, &told.partner, &told.email);
        // Without a limit, a user could flood the mailbox of another person.
        if throttle::admit(txn, &self.settings.limits, subject, now)? {
            let draft = mail::MailDraft {
                kind: mail::MailKind::EmailChanged,
                to: told.email,
                user: Some(id),
                locale: told.locale,
                secret: String::new(),
                good_for: 0,
            };
            self.mail.enqueue(txn, draft, now)?;
        }
        Ok(())
    }
}
