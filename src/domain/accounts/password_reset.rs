//! A new password, by who reads the mail (interface, part 4.3).

use std::net::IpAddr;

use super::login_sessions::is_alive;
use super::tables::{Credentials, ResetRecord, ResetTokens, ResetsByUser, Throttles, UsersByEmail};
use super::throttle::{Kind, Subject};
use super::{
    Accounts, AccountsError, HashMemory, HashPool, Inner, credentials, throttle, user_record,
};
use crate::domain::mail;
use crate::store::{Commit, Durability, StoreError, Txn};
use crate::types::{
    Email, Locale, PartnerId, Password, Token, TokenHash, TokenKind, UnixSeconds, UserId,
};

impl Accounts {
    /// Mails a reset token if the user exists. Whether one does shows neither in the
    /// result nor in what is counted; how long the answer takes is for the caller to even out.
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`] for the network address alone: too many mails for an
    /// account are silently not sent.
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
        self.change(move |inner, txn| {
            let limits = &inner.settings.limits;
            let address = Subject::address(Kind::ResetMailAddress, from);
            throttle::reserve(txn, limits, &[address], now)?;
            let account = Subject::account(Kind::ResetMailAccount, &partner, &email);
            if !throttle::admit(txn, limits, account, now)? {
                return Ok(());
            }
            match txn.find::<UsersByEmail>(&(partner, email))? {
                Some(user) => inner.put_reset(txn, user, &token, locale, now),
                None => Ok(()),
            }
        })
    }

    /// Whether a reset token, of whichever partner, can still be used; blocking.
    ///
    /// # Errors
    /// [`AccountsError::ResetTokenInvalid`].
    pub fn check_redeem_rate(
        &self,
        token: &TokenHash,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let at = self.0.expiry.at(now);
        let redeemable = |txn: &Txn<'_>| redeemable(txn, token, None, at).map(drop);
        self.0.store.read(redeemable)
    }

    /// Sets a new password by a reset token, once. `partner` is who asks; on our own page
    /// nobody does, and the token alone says whose password it is. In one commit the token goes, all
    /// login and playback sessions end, and a notice is queued. The account's limit on wrong passwords is
    /// lifted: a stranger who has run into it must not keep the owner out.
    ///
    /// # Errors
    /// [`AccountsError::ResetTokenInvalid`] for an unknown, used, expired or another partner's
    /// token alike; what is wrong with the password, which leaves the token as it is;
    /// [`AccountsError::TooManyAttempts`].
    pub async fn complete_reset(
        &self,
        partner: Option<PartnerId>,
        token: TokenHash,
        new: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<(), AccountsError> {
        let subject = Subject::address(Kind::ResetAddress, from);
        let attempt = self.attempt(Durability::Logged, vec![subject], now).await?;
        let (of_token, new) = (token, new.clone());
        let work = move |this: &Self, memory: &mut HashMemory| {
            let at = this.0.expiry.at(now);
            let user = this
                .0
                .store
                .read(|txn| redeemable(txn, &of_token, partner, at))?;
            let known = this.user(&user).ok_or(AccountsError::ResetTokenInvalid)?;
            this.check_password(&new, known.partner, &known.email, known.name.as_ref())?;
            this.hash(new.reveal(), memory)
        };
        let password = attempt.work(pool, work).await??;
        let changed = self.change(move |inner, txn| {
            // Of many at once, the first plan takes the token away.
            let user = redeemable(txn, &token, partner, inner.expiry.at(now))?;
            void(txn, &user)?;
            let credentials = credentials(txn, &user)?.with_password(password, now);
            txn.put::<Credentials>(&user, &credentials)?;
            inner.revoke(txn, &user, now)?;
            let known = user_record(txn, &user)?;
            let account = Subject::account(Kind::LoginAccount, &known.partner, &known.email);
            txn.delete::<Throttles>(&account.key())?;
            inner.tell_of_password(txn, user, known, now)
        });
        changed.await
    }
}

impl Inner {
    /// Stores a token in the place of older ones, and queues the mail that brings it.
    pub(super) fn put_reset(
        &self,
        txn: &mut Txn<'_>,
        id: UserId,
        token: &Token,
        locale: Option<Locale>,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let user = user_record(txn, &id)?;
        // A shut account is not opened by a new password either.
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
        let draft = mail::Draft {
            kind: mail::Kind::Reset,
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

/// Whose password the token may set; `at` is in token time.
fn redeemable(
    txn: &Txn<'_>,
    token: &TokenHash,
    partner: Option<PartnerId>,
    at: UnixSeconds,
) -> Result<UserId, AccountsError> {
    txn.get::<ResetTokens>(token)?
        .filter(|reset| partner.is_none_or(|partner| partner == reset.partner))
        .filter(|reset| is_alive(reset.created, reset.expires, at))
        .map(|reset| reset.user)
        .ok_or(AccountsError::ResetTokenInvalid)
}

/// Voids the reset tokens of a user, and stops the mails that would bring them.
pub(super) fn void(txn: &mut Txn<'_>, user: &UserId) -> Result<(), StoreError> {
    for (_, token) in txn.scan_index::<ResetsByUser>(user, usize::MAX)? {
        txn.delete::<ResetTokens>(&token)?;
    }
    mail::withdraw(txn, user, mail::Kind::Reset)
}
