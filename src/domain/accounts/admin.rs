//! What operators do with users.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::pin::GeneratedPin;
use super::tables::{UserRecord, Users};
use super::{Accounts, AccountsError, HashPool, OperatorChange, User, password_reset, user_record};
use crate::store::Commit;
use crate::types::text::check_visible;
use crate::types::{Malformed, PartnerId, Token, TokenKind, UnixSeconds, UserId};

/// How many tags a user may have.
const TAGS_MAX: usize = 32;
/// The longest tag, in characters.
const TAG_LENGTH_MAX: usize = 64;

impl Accounts {
    /// Up to `limit` users of one partner or of all, by id, those after `after`; from memory.
    #[must_use]
    pub fn list(
        &self,
        partner: Option<PartnerId>,
        after: Option<UserId>,
        limit: usize,
    ) -> Vec<Arc<User>> {
        // The page that is found so far. A user is decoded only where it would come onto it.
        let mut page = BTreeMap::new();
        self.0.users.for_each(|id, user| {
            let follows = after.is_none_or(|after| *id > after);
            let is_full = page.len() >= limit;
            let fits = !is_full || page.last_key_value().is_some_and(|(last, _)| id < last);
            if !(follows && fits) {
                return;
            }
            let found = user().filter(|user| partner.is_none_or(|p| user.partner == p));
            if let Some(user) = found {
                page.insert(*id, Arc::new(user));
                if page.len() > limit {
                    page.pop_last();
                }
            }
        });
        page.into_values().collect()
    }

    /// How many users each partner has, from memory; it reads all of them.
    #[must_use]
    pub fn counts(&self) -> HashMap<PartnerId, usize> {
        let mut counts = HashMap::new();
        self.0.users.for_each(|_, user| {
            if let Some(user) = user() {
                *counts.entry(user.partner).or_default() += 1;
            }
        });
        counts
    }

    /// Changes a user's record, also what users may not change themselves. Parental control that is
    /// switched on without a PIN makes one and mails it. A shut account's logins and reset tokens end with it.
    ///
    /// # Errors
    /// [`AccountsError::UserNotFound`], [`AccountsError::FieldMalformed`].
    pub async fn change_by_operator(
        &self,
        id: &UserId,
        change: OperatorChange,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<Arc<User>, AccountsError> {
        change.own.check(now)?;
        let tags = change.tags.map(checked_tags).transpose()?;
        let known = self.user(id).ok_or(AccountsError::UserNotFound)?;
        let on = change.own.parental_enabled == Some(true);
        let fresh: Option<GeneratedPin> = if on && !known.has_pin {
            let this = self.clone();
            Some(pool.run(move |memory| this.generate_pin(memory)).await??)
        } else {
            None
        };
        let id = *id;
        let changed = self.change(move |inner, txn| {
            let record = change.own.apply(user_record(txn, &id)?);
            let record = UserRecord {
                country: change.country.or(record.country),
                tags: tags.unwrap_or(record.tags),
                disabled: change.disabled.unwrap_or(record.disabled),
                ..record
            };
            if record.disabled {
                inner.revoke(txn, &id, now)?;
                password_reset::void(txn, &id)?;
            }
            match fresh {
                Some(fresh) if !record.has_pin => inner.mail_pin(txn, &id, record, fresh, now),
                _ => Ok(txn.put::<Users>(&id, &record)?),
            }
        });
        changed.await?;
        self.user(&id).ok_or(AccountsError::UserNotFound)
    }

    /// Mails a user a reset token, as if they had asked for it. The limit on such mails is for
    /// strangers and does not hold here.
    ///
    /// # Errors
    /// [`AccountsError::UserNotFound`]; [`AccountsError::FieldMalformed`] for one who is shut out.
    pub fn send_reset_by_operator(
        &self,
        id: &UserId,
        now: UnixSeconds,
    ) -> Commit<(), AccountsError> {
        let token = Token::new(TokenKind::Reset, self.0.entropy.array());
        let id = *id;
        self.change(move |inner, txn| {
            if user_record(txn, &id)?.disabled {
                return Err(AccountsError::FieldMalformed {
                    field: "user",
                    why: Malformed("is disabled, and no password lets them in"),
                });
            }
            inner.put_reset(txn, id, &token, None, now)
        })
    }
}

/// Tags, sorted, without repeats.
fn checked_tags(mut tags: Vec<String>) -> Result<Vec<String>, AccountsError> {
    tags.sort_unstable();
    tags.dedup();
    let sound = |tag: &String| {
        let length = tag.chars().count();
        (1..=TAG_LENGTH_MAX).contains(&length) && check_visible(tag).is_ok()
    };
    if tags.len() > TAGS_MAX || !tags.iter().all(sound) {
        return Err(AccountsError::FieldMalformed {
            field: "tags",
            why: Malformed("has at most 32 tags of 1 to 64 characters, all of them visible"),
        });
    }
    Ok(tags)
}
