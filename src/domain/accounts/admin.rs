//! Operator actions on users.

use std::collections::HashMap;
use std::sync::Arc;

use super::pin::GeneratedPin;
use super::tables::{UserRecord, Users};
use super::{Accounts, AccountsError, HashPool, OperatorChange, User, password_reset, user_record};
use playgate_store::Commit;
use playgate_types::text::check_visible;
use playgate_types::{Malformed, PartnerId, Token, TokenKind, UnixSeconds, UserId};

const TAGS_MAX: usize = 32;
/// In characters.
const TAG_LENGTH_MAX: usize = 64;

impl Accounts {
    /// Counts the users of each partner. Scans all users in memory.
    pub fn counts(&self) -> HashMap<PartnerId, usize> {
        let mut counts = HashMap::new();
        self.0.users.for_each(|_, user| {
            if let Some(user) = user() {
                *counts.entry(user.partner).or_default() += 1;
            }
        });
        counts
    }

    /// Changes a user, including fields that users cannot change. Enabling parental control without a PIN creates one
    /// and mails it. Disabling the account ends its logins and reset tokens.
    pub async fn change_by_operator(
        &self,
        id: &UserId,
        change: OperatorChange,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<Arc<User>, AccountsError> {
        change.user_change.check(now)?;
        let tags = change.tags.map(validate_tags).transpose()?;
        let known = self.user(id).ok_or(AccountsError::UserNotFound)?;
        let on = change.user_change.parental_enabled == Some(true);
        // Generated before the write batch: hashing takes milliseconds, and the writer must not wait.
        let generated: Option<GeneratedPin> = if on && !known.has_pin {
            let this = self.clone();
            Some(pool.run(move |memory| this.generate_pin(memory)).await??)
        } else {
            None
        };
        let id = *id;
        let changed = self.change(move |inner, txn| {
            let record = change.user_change.apply(user_record(txn, &id)?);
            let record = UserRecord {
                country: change.country.or(record.country),
                tags: tags.unwrap_or(record.tags),
                disabled: change.disabled.unwrap_or(record.disabled),
                ..record
            };
            // In the same commit, so that a disabled account has no login.
            if record.disabled {
                inner.revoke(txn, &id, now)?;
                password_reset::void(txn, &id)?;
            }
            match generated {
                // A concurrent request may have set a PIN; it stays.
                Some(generated) if !record.has_pin => {
                    inner.mail_pin(txn, &id, record, generated, now)
                }
                _ => Ok(txn.put::<Users>(&id, &record)?),
            }
        });
        changed.await?;
        self.user(&id).ok_or(AccountsError::UserNotFound)
    }

    /// The rate limit for reset mails does not apply to operators.
    pub fn send_reset_by_operator(
        &self,
        id: &UserId,
        now: UnixSeconds,
    ) -> Commit<(), AccountsError> {
        let token = Token::new(TokenKind::Reset, self.0.entropy.array());
        let id = *id;
        self.change(move |inner, txn| {
            // A new password would not enable the account, so the mail would mislead.
            if user_record(txn, &id)?.disabled {
                return Err(AccountsError::FieldMalformed {
                    field: "user",
                    why: Malformed("is disabled; enable the account first"),
                });
            }
            inner.put_reset(txn, id, &token, None, now)
        })
    }
}

pub(super) fn validate_tags(mut tags: Vec<String>) -> Result<Vec<String>, AccountsError> {
    tags.sort_unstable();
    tags.dedup();
    let is_valid = |tag: &String| {
        let length = tag.chars().count();
        (1..=TAG_LENGTH_MAX).contains(&length) && check_visible(tag).is_ok()
    };
    if tags.len() > TAGS_MAX || !tags.iter().all(is_valid) {
        return Err(AccountsError::FieldMalformed {
            field: "tags",
            why: Malformed("must be at most 32 tags of 1 to 64 visible characters"),
        });
    }
    Ok(tags)
}
