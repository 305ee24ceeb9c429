//! Users, logins and what is asked of them.

use serde::{Deserialize, Serialize};

use super::hashing::{Cost, ForeignHash};
use super::throttle::Limits;
use crate::domain::mail;
use crate::types::time::DAY;
use crate::types::{
    BirthDate, Country, Email, Locale, LoginId, PartnerId, Password, PersonName, Token,
    UnixSeconds, UserId,
};

/// Whether programs above an age ask for the PIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentalControl {
    /// Whether they do.
    pub enabled: bool,
    /// The age from which on.
    pub limit: u8,
}

/// The highest age limit.
pub const PARENTAL_LIMIT_MAX: u8 = 99;

/// A user of a partner. Personal data, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The user's id.
    pub id: UserId,
    /// Whose user.
    pub partner: PartnerId,
    /// The address, unique within the partner.
    pub email: Email,
    /// The name.
    pub name: Option<PersonName>,
    /// The country, set at sign-up or by an operator.
    pub country: Option<Country>,
    /// The language of messages.
    pub locale: Option<Locale>,
    /// The day of birth.
    pub birth_date: Option<BirthDate>,
    /// When the user signed up.
    pub created: UnixSeconds,
    /// Marks that operators set.
    pub tags: Vec<String>,
    /// The parental control.
    pub parental: ParentalControl,
    /// Whether a PIN has been set.
    pub has_pin: bool,
    /// Whether an operator has shut the account.
    pub disabled: bool,
}

/// Who asks, as a User Authorization Token tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: UserId,
    /// The login session that the token lives in.
    pub login: LoginId,
}

/// A login session as its user or an operator sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginInfo {
    /// Its id.
    pub id: LoginId,
    /// When it began.
    pub created: UnixSeconds,
    /// When it ends by itself.
    pub expires: UnixSeconds,
}

/// A login session that has just begun. The token is told this once.
pub struct NewLogin {
    /// The User Authorization Token.
    pub token: Token,
    /// The session's id.
    pub login: LoginId,
    /// Whose it is.
    pub user: User,
}

/// What a sign-up brings.
pub struct NewUser {
    /// The address.
    pub email: Email,
    /// The name.
    pub name: Option<PersonName>,
    /// The country.
    pub country: Option<Country>,
    /// The language of messages.
    pub locale: Option<Locale>,
    /// The day of birth.
    pub birth_date: Option<BirthDate>,
}

/// The password of a user whom an operator adds.
pub enum FirstPassword {
    /// None: the user gets in by a reset.
    None,
    /// The password itself.
    Plain(Password),
    /// What another service stored of it.
    Hashed(ForeignHash),
}

/// What users may change of their own record; what is `None` stays.
#[derive(Clone, Default)]
pub struct UserChange {
    /// The name; an empty one removes it.
    pub name: Option<PersonName>,
    /// The language.
    pub locale: Option<Locale>,
    /// The day of birth; guarded by the PIN.
    pub birth_date: Option<BirthDate>,
    /// Whether parental control is on; guarded by the PIN.
    pub parental_enabled: Option<bool>,
    /// Its age limit; guarded by the PIN.
    pub parental_limit: Option<u8>,
}

/// What operators may change of a user's record; what is `None` stays.
#[derive(Clone, Default)]
pub struct OperatorChange {
    /// What the user may change too, here without the PIN.
    pub own: UserChange,
    /// The country.
    pub country: Option<Country>,
    /// All tags.
    pub tags: Option<Vec<String>>,
    /// Whether the account is shut, which also ends its logins.
    pub disabled: Option<bool>,
}

/// All that this module and the queue of mails hold about a user. Mails come without their words:
/// whoever has the viewer's device must not find a PIN or a reset link here.
pub struct Export {
    /// The record.
    pub user: User,
    /// The login sessions, oldest first.
    pub logins: Vec<LoginInfo>,
    /// When the password was last set.
    pub password_set: UnixSeconds,
    /// The mails, newest first.
    pub mails: Vec<mail::Summary>,
}

/// How many records a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Login sessions that had expired.
    pub logins: usize,
    /// Reset tokens that had expired.
    pub resets: usize,
    /// Counters that counted nothing any more.
    pub throttles: usize,
}

impl Swept {
    /// All of them.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.logins + self.resets + self.throttles
    }
}

/// Section `accounts` of the configuration, and the limits on guessing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Seconds that a User Authorization Token is valid.
    pub token_life: i64,
    /// Seconds that a reset token is valid.
    pub reset_life: i64,
    /// The fewest characters of a password.
    pub password_min: usize,
    /// Words that are no password here, beside those that everybody knows of the user: names of the
    /// service, of its owner, of the town.
    pub password_words: Vec<String>,
    /// What a hash costs.
    pub cost: Cost,
    /// The age limit of new users.
    ///
    /// Decision: parental control of new users is off until they switch it on: the PIN that it
    /// asks for is mailed at that moment.
    pub parental_limit: u8,
    /// Login sessions of one user; the oldest goes when one more begins.
    ///
    /// Decision: a bound on what grows. A client that logs in at each start of its app stays far
    /// below within the life of a token.
    pub logins_per_user: usize,
    /// The limits on guessing.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            token_life: 30 * DAY,
            reset_life: 30 * 60,
            password_min: 8,
            password_words: Vec::new(),
            cost: Cost::default(),
            parental_limit: 18,
            logins_per_user: 100,
            limits: Limits::default(),
        }
    }
}
