//! Types of users, logins and settings.

use serde::{Deserialize, Serialize};

use super::hashing::{Cost, ForeignHash};
use super::throttle::AttemptLimits;
use crate::domain::mail;
use crate::types::time::DAY;
use crate::types::{
    BirthDate, Country, Email, Locale, LoginId, PartnerId, Password, PersonName, Token,
    UnixSeconds, UserId,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentalControl {
    pub enabled: bool,
    /// The lowest age rating that needs the PIN.
    pub limit: u8,
}

pub const PARENTAL_LIMIT_MAX: u8 = 99;

/// No `Debug`: it is personal data.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub partner: PartnerId,
    /// Unique within the partner.
    pub email: Email,
    pub name: Option<PersonName>,
    pub country: Option<Country>,
    pub locale: Option<Locale>,
    pub birth_date: Option<BirthDate>,
    pub created: UnixSeconds,
    pub tags: Vec<String>,
    pub parental: ParentalControl,
    pub has_pin: bool,
    pub disabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    pub user: UserId,
    pub login: LoginId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginInfo {
    pub id: LoginId,
    pub created: UnixSeconds,
    pub expires: UnixSeconds,
}

/// The token is returned only here.
pub struct NewLogin {
    pub token: Token,
    pub login: LoginId,
    pub user: User,
}

pub struct NewUser {
    pub email: Email,
    pub name: Option<PersonName>,
    pub country: Option<Country>,
    pub locale: Option<Locale>,
    pub birth_date: Option<BirthDate>,
}

/// The password of a user whom an operator adds.
pub enum FirstPassword {
    /// The user sets one with a reset.
    None,
    Plain(Password),
    Hashed(ForeignHash),
}

/// Members that are `None` keep their value.
#[derive(Clone, Default)]
pub struct UserChange {
    /// An empty name removes it.
    pub name: Option<PersonName>,
    pub locale: Option<Locale>,
    /// This and the next two are protected by the PIN.
    pub birth_date: Option<BirthDate>,
    pub parental_enabled: Option<bool>,
    pub parental_limit: Option<u8>,
}

#[derive(Clone, Default)]
pub struct OperatorChange {
    pub own: UserChange,
    pub country: Option<Country>,
    pub tags: Option<Vec<String>>,
    pub disabled: Option<bool>,
}

/// Mails come without their text: a person who holds the viewer's device must not find a PIN or a reset link here.
pub struct AccountExport {
    pub user: User,
    pub logins: Vec<LoginInfo>,
    pub password_set: UnixSeconds,
    pub mails: Vec<mail::Summary>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub logins: usize,
    pub resets: usize,
    pub throttles: usize,
}

impl Swept {
    #[must_use]
    pub const fn total(&self) -> usize {
        self.logins + self.resets + self.throttles
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSettings {
    /// In seconds.
    pub token_life: i64,
    /// In seconds.
    pub reset_life: i64,
    pub password_min: usize,
    /// Words that are not accepted as passwords, in addition to data of the user: names of the service, its owner and
    /// its town.
    pub password_words: Vec<String>,
    pub cost: Cost,
    /// The age limit of new users. Their parental control is disabled: enabling it mails the PIN that it needs.
    pub parental_limit: u8,
    /// Maximum of login sessions per user; a further login ends the oldest. It must be high enough for clients that log
    /// in at each start.
    pub logins_per_user: usize,
    pub limits: AttemptLimits,
}

impl Default for AccountSettings {
    fn default() -> Self {
        Self {
            token_life: 30 * DAY,
            reset_life: 30 * 60,
            password_min: 8,
            password_words: Vec::new(),
            cost: Cost::default(),
            parental_limit: 18,
            logins_per_user: 100,
            limits: AttemptLimits::default(),
        }
    }
}
