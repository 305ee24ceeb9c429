//! Password reset by mail.

use std::net::IpAddr;

use super::login_sessions::is_alive;
use super::tables::{
    CredentialTable, ResetRecord, ResetTokens, ResetsByUser, Throttles, UsersByEmail,
};
use super::throttle::{AttemptKind, AttemptSubject};
use super::{
    Accounts, AccountsError, HashMemory, HashPool, Inner, credentials, throttle, user_record,
};
use crate::domain::mail;
use crate::store::{Commit, Durability, StoreError, Txn};
use crate::types::{
    Email, Locale, PartnerId, Password, Token, TokenHash, TokenKind, UnixSeconds, UserId,
};

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
            throttle::reserve(txn, limits, &[address], now)?;
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

    /// Checks a reset token of any partner. Blocking.
    pub fn check_reset_token(
        &self,
        token: &TokenHash,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let at = self.0.expiry.at(now);
        let redeemable = |txn: &Txn<'_>| redeemable(txn, token, None, at).map(drop);
        self.0.store.read(redeemable)
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
        let attempt = self.attempt(Durability::Logged, vec![subject], now).await?;
        let (of_token, new) = (token, new.clone());
        let work = move |this: &Self, memory: &mut HashMemory| {
            let at = this.0.expiry.at(now);
            // Before the hash: a request with an invalid token must not cost one.
            let user = this
                .0
                .store
                .read(|txn| redeemable(txn, &of_token, partner, at))?;
            let known = this.user(&user).ok_or(AccountsError::ResetTokenInvalid)?;
            // Before the token is used up: a password that the policy rejects leaves it usable.
            this.check_password(&new, known.partner, &known.email, known.name.as_ref())?;
            this.hash(new.reveal(), memory)
        };
        let password = attempt.work(pool, work).await??;
        // One commit removes the token, ends all login and playback sessions, and queues a notice.
        let changed = self.change(move |inner, txn| {
            // Of concurrent requests only the first batch finds the token.
            let user = redeemable(txn, &token, partner, inner.expiry.at(now))?;
            void(txn, &user)?;
            // A new generation, which voids logins that have checked the old password.
            let credentials = credentials(txn, &user)?.with_password(password, now);
            txn.put::<CredentialTable>(&user, &credentials)?;
            // A person who knew the old password is logged out everywhere.
            inner.revoke(txn, &user, now)?;
            let known = user_record(txn, &user)?;
            let account =
                AttemptSubject::account(AttemptKind::LoginAccount, &known.partner, &known.email);
            // Lift the login lock: a stranger may have caused it.
            txn.delete::<Throttles>(&account.key())?;
            inner.queue_password_notice(txn, user, known, now)
        });
        changed.await
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

/// `at` is token time.
fn redeemable(
    txn: &Txn<'_>,
    token: &TokenHash,
    partner: Option<PartnerId>,
    at: UnixSeconds,
) -> Result<UserId, AccountsError> {
    txn.get::<ResetTokens>(token)?
        // The reset page has no partner token; a request of the API must come from the partner of the token.
        .filter(|reset| partner.is_none_or(|partner| partner == reset.partner))
        .filter(|reset| is_alive(reset.created, reset.expires, at))
        .map(|reset| reset.user)
        .ok_or(AccountsError::ResetTokenInvalid)
}

/// Deletes the reset tokens of a user and withdraws their mails.
pub(super) fn void(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (_, token) in txn.scan_index::<ResetsByUser>(user, usize::MAX)? {
        txn.delete::<ResetTokens>(&token)?;
    }
    mail::withdraw(txn, user, mail::MailKind::Reset)
}
