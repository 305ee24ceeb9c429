//! Password reset by mail.

use std::net::IpAddr;

use super::attempt_limits::{AttemptKind, AttemptSubject};
use super::login_sessions::is_alive;
use super::tables::{CredentialTable, ResetRecord, ResetTokens, ResetsByUser, UsersByEmail};
use super::{
    Accounts, AccountsError, HashMemory, HashPool, Inner, credentials, hashing, known_clients,
    throttle, user_record,
};
use crate::mail;
use playgate_store::{Commit, Durability, StoreError, Txn};
use playgate_types::{
    Email, Locale, PartnerId, Password, Token, TokenHash, TokenKind, UnixSeconds, UserId,
};

/// How long, in seconds, a repeated request with a used token and the same password is answered as the first. Forms are sent
/// twice over slow links.
const REPEAT: i64 = 600;

impl Accounts {
    /// Mails a reset token if the user exists. Neither the result nor the counters reveal whether the
    /// user exists; the caller evens out the response time.
    pub fn send_reset(
        &self,
        partner: PartnerId,
        email: &Email,
        locale: Option<Locale>,
        from: IpAddr,
        now: UnixSeconds,
    ) -> Commit<(), AccountsError> {
        let token = Token::new(TokenKind::Reset, self.0.entropy.array());
        let email = email.clone();
        let address = self.address_subject(AttemptKind::ResetMailAddress, Some(&partner), from);
        self.change(move |inner, txn| {
            let limits = &inner.settings.limits;
            throttle::reserve(txn, limits, address.as_slice(), now)?;
            let account = AttemptSubject::account(AttemptKind::ResetMailAccount, &partner, &email);
            // Too many mails to one account are dropped silently, since an error would reveal the account.
            if !throttle::admit(txn, limits, account, now)? {
                return Ok(());
            }
            match txn.find::<UsersByEmail>(&(partner, email))? {
                Some(user) => inner.put_reset(txn, user, &token, locale, now),
                None => Ok(()),
            }
        })
    }

    /// Checks a reset token of any partner, and returns the address of its account. Blocking.
    pub fn check_reset_token(
        &self,
        token: &TokenHash,
        now: UnixSeconds,
    ) -> Result<Email, AccountsError> {
        let at = self.0.expiry.at(now);
        let (user, used) = self.0.store.read(|txn| find(txn, token, None, at))?;
        let user = self.user(&user).filter(|_| !used);
        user.map(|user| user.email.clone())
            .ok_or(AccountsError::ResetTokenInvalid)
    }

    /// `partner` is `None` on the built-in reset page, where the token identifies the user.
    pub async fn complete_reset(
        &self,
        partner: Option<PartnerId>,
        token: TokenHash,
        new: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let subject = self.address_subject(AttemptKind::ResetAddress, partner.as_ref(), from);
        // Not refunded after a success: the limit counts all completions from an address.
        let attempt = self
            .attempt(Durability::Logged, subject.into_iter().collect(), now)
            .await?;
        let (of_token, new, repeated) = (token, new.clone(), new.clone());
        let work = move |this: &Self, memory: &mut HashMemory| {
            let at = this.0.expiry.at(now);
            // Before the hash: a request with an invalid token must not cost one.
            let (user, used) = this.0.store.read(|txn| find(txn, &of_token, partner, at))?;
            if used {
                return this.check_repeated(&user, &new, memory).map(|()| None);
            }
            let known = this.user(&user).ok_or(AccountsError::ResetTokenInvalid)?;
            // Before the token is used up: a password that the policy rejects leaves it usable.
            this.check_password(&new, known.partner, &known.email, known.name.as_ref())?;
            this.hash(new.reveal(), memory).map(Some)
        };
        let Some(password) = attempt.work(pool, work).await?? else {
            return Ok(());
        };
        // One commit removes the token, ends all login and playback sessions, and queues a notice.
        let changed = self.change(move |inner, txn| {
            let at = inner.expiry.at(now);
            // Of concurrent requests only the first batch finds the token unused.
            let (user, used) = find(txn, &token, partner, at)?;
            if used {
                return Ok(Some(user));
            }
            let reset = txn.get::<ResetTokens>(&token)?;
            void(txn, &user)?;
            if let Some(reset) = reset {
                let expires = at + REPEAT;
                let used = true;
                let reset = ResetRecord {
                    expires,
                    used,
                    ..reset
                };
                txn.put::<ResetTokens>(&token, &reset)?;
            }
            // A new generation, which voids logins that have checked the old password.
            let credentials = credentials(txn, &user)?.with_password(password, now);
            txn.put::<CredentialTable>(&user, &credentials)?;
            // A person who knew the old password is logged out everywhere.
            inner.revoke(txn, &user, now)?;
            let known = user_record(txn, &user)?;
            let account = (&known.partner, &known.email);
            // Lift the login locks: a stranger may have caused them. The link has proved the mailbox, so that the stranger's
            // next guesses do not lock this client out.
            known_clients::lift_locks(txn, account.0, account.1)?;
            inner.remember_client(txn, account, from, None)?;
            inner.queue_password_notice(txn, user, known, now)?;
            Ok(None)
        });
        match changed.await? {
            None => Ok(()),
            Some(user) => {
                let check = move |this: &Self, memory: &mut HashMemory| {
                    this.check_repeated(&user, &repeated, memory)
                };
                attempt.work(pool, check).await?
            }
        }
    }

    /// Whether a used token came with the password that was set with it.
    fn check_repeated(
        &self,
        user: &UserId,
        password: &Password,
        memory: &mut HashMemory,
    ) -> Result<(), AccountsError> {
        let present = self.0.store.read(|txn| credentials(txn, user));
        let present = present.map_err(|_| AccountsError::ResetTokenInvalid)?;
        let cost = self.0.settings.cost;
        let verdict = hashing::verify_password(password, &present.password, cost, memory)?;
        verdict
            .matches
            .then_some(())
            .ok_or(AccountsError::ResetTokenInvalid)
    }
}

impl Inner {
    /// Stores a reset token in place of the older ones of its user.
    pub(super) fn put_reset(
        &self,
        txn: &mut Txn<'_>,
        id: UserId,
        token: &Token,
        locale: Option<Locale>,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let user = user_record(txn, &id)?;
        // A new password does not enable a disabled account.
        if user.disabled {
            return Ok(());
        }
        void(txn, &id)?;
        let at = self.expiry.at(now);
        let record = ResetRecord {
            user: id,
            partner: user.partner,
            created: at,
            expires: at + self.settings.reset_life,
            used: false,
        };
        txn.put::<ResetTokens>(&token.hash(), &record)?;
        let draft = mail::MailDraft {
            kind: mail::MailKind::Reset,
            to: user.email,
            user: Some(id),
            locale: locale.or(user.locale),
            secret: token.reveal().to_owned(),
            good_for: self.settings.reset_life,
        };
        self.mail.enqueue(txn, draft, now)?;
        Ok(())
    }
}

/// Returns the user of a valid token, and whether it was used. `at` is token time.
fn find(
    txn: &Txn<'_>,
    token: &TokenHash,
    partner: Option<PartnerId>,
    at: UnixSeconds,
) -> Result<(UserId, bool), AccountsError> {
    txn.get::<ResetTokens>(token)?
        // The reset page has no partner token; a request of the API must come from the partner of the token.
        .filter(|reset| partner.is_none_or(|partner| partner == reset.partner))
        .filter(|reset| is_alive(reset.created, reset.expires, at))
        .map(|reset| (reset.user, reset.used))
        .ok_or(AccountsError::ResetTokenInvalid)
}

/// Deletes the reset tokens of a user and withdraws their mails.
pub(super) fn void(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (_, token) in txn.scan_index::<ResetsByUser>(user, usize::MAX)? {
        txn.delete::<ResetTokens>(&token)?;
    }
    mail::withdraw(txn, user, mail::MailKind::Reset)
}
