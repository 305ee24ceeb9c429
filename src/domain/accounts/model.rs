//! Types of users, logins and settings.

use serde::{Deserialize, Serialize};

use super::hashing::{Cost, ForeignHash};
use super::throttle::Limits;
use crate::domain::mail;
use crate::types::time::DAY;
use crate::types::{
    BirthDate, Country, Email, Locale, LoginId, PartnerId, Password, PersonName, Token,
    UnixSeconds, UserId,
};

/// Parental control: programs above the age limit need the PIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentalControl {
    pub enabled: bool,
    /// The lowest age rating that needs the PIN.
    pub limit: u8,
}

pub const PARENTAL_LIMIT_MAX: u8 = 99;

/// A user of a partner. No `Debug`: it is personal data.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub partner: PartnerId,
    /// Unique within the partner.
    pub email: Email,
    pub name: Option<PersonName>,
    /// Set at sign-up or by an operator.
    pub country: Option<Country>,
    /// Language of messages.
    pub locale: Option<Locale>,
    pub birth_date: Option<BirthDate>,
    pub created: UnixSeconds,
    /// Labels set by operators.
    pub tags: Vec<String>,
    pub parental: ParentalControl,
    pub has_pin: bool,
    /// Whether an operator has disabled the account.
    pub disabled: bool,
}

/// The user and session of a User Authorization Token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: UserId,
    pub login: LoginId,
}

/// A login session as shown to users and operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginInfo {
    pub id: LoginId,
    pub created: UnixSeconds,
    pub expires: UnixSeconds,
}

/// A new login session. The token is returned only here.
pub struct NewLogin {
    /// The User Authorization Token.
    pub token: Token,
    pub login: LoginId,
    pub user: User,
}

/// The data of a sign-up.
pub struct NewUser {
    pub email: Email,
    pub name: Option<PersonName>,
    pub country: Option<Country>,
    /// Language of messages.
    pub locale: Option<Locale>,
    pub birth_date: Option<BirthDate>,
}

/// The initial password of a user added by an operator.
pub enum FirstPassword {
    /// None: the user sets one with a reset.
    None,
    Plain(Password),
    /// A hash of another service.
    Hashed(ForeignHash),
}

/// Changes by the user; `None` keeps the value.
#[derive(Clone, Default)]
pub struct UserChange {
    /// An empty name removes it.
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    /// Protected by the PIN.
    pub birth_date: Option<BirthDate>,
    /// Protected by the PIN.
    pub parental_enabled: Option<bool>,
    /// Protected by the PIN.
    pub parental_limit: Option<u8>,
}

/// Changes by an operator; `None` keeps the value.
#[derive(Clone, Default)]
pub struct OperatorChange {
    /// Fields that the user may change, too; no PIN needed here.
    pub own: UserChange,
    pub country: Option<Country>,
    /// Replaces all tags.
    pub tags: Option<Vec<String>>,
    /// Whether the account is disabled, which ends its logins.
    pub disabled: Option<bool>,
}

/// The data of a user in this module and the mail queue. Mails come without their text: a person holding the
/// viewer's device must not find a PIN or reset link here.
pub struct Export {
    pub user: User,
    /// Login sessions, oldest first.
    pub logins: Vec<LoginInfo>,
    /// Time of the last password change.
    pub password_set: UnixSeconds,
    /// Mails, newest first.
    pub mails: Vec<mail::Summary>,
}

/// Numbers of records removed by a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Expired login sessions.
    pub logins: usize,
    /// Expired reset tokens.
    pub resets: usize,
    /// Idle counters.
    pub throttles: usize,
}

impl Swept {
    #[must_use]
    pub const fn total(&self) -> usize {
        self.logins + self.resets + self.throttles
    }
}

/// Section `accounts` of the configuration, and the rate limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Validity of a User Authorization Token in seconds.
    pub token_life: i64,
    /// Validity of a reset token in seconds.
    pub reset_life: i64,
    /// Minimum length of a password in characters.
    pub password_min: usize,
    /// Words not accepted as passwords, in addition to data of the user: names of the service, its owner, its
    /// town.
    pub password_words: Vec<String>,
    /// Cost of a hash.
    pub cost: Cost,
    /// Age limit of new users. Parental control itself starts disabled: enabling it mails the PIN that it
    /// needs.
    pub parental_limit: u8,
    /// Maximum login sessions per user; a further login ends the oldest. High enough for a client that logs in
    /// at each start.
    pub logins_per_user: usize,
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
