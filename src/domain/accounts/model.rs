//! Types of users, logins and settings.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::attempt_limits::AttemptLimits;
use super::hashing::{Cost, ForeignHash};
use crate::mail;
use playgate_types::time::DAY;
use playgate_types::{
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginInfo {
    pub id: LoginId,
    pub created: UnixSeconds,
    /// By the absolute or the idle limit, whichever comes first.
    pub expires: UnixSeconds,
    /// Exact to an hour.
    pub used: UnixSeconds,
    pub program: Option<String>,
    pub device: Option<String>,
}

/// What a client says about itself when it logs in. It is shown to the viewer and operators and proves nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginClient {
    pub program: Option<String>,
    pub device: Option<String>,
}

/// Where a login or a sign-up comes from.
pub struct LoginOrigin {
    pub from: IpAddr,
    pub client: LoginClient,
}

impl From<IpAddr> for LoginOrigin {
    fn from(from: IpAddr) -> Self {
        let client = LoginClient::default();
        Self { from, client }
    }
}

/// The token is returned only here.
pub struct NewLogin {
    pub token: Token,
    pub login: LoginId,
    pub user: User,
    /// The logins that it pushed out.
    pub displaced: Vec<LoginId>,
}

pub struct NewUser {
    pub email: Email,
    pub name: Option<PersonName>,
    pub country: Option<Country>,
    pub locale: Option<Locale>,
    pub birth_date: Option<BirthDate>,
}

/// What another service, or an operator, knows about a new user besides the profile.
#[derive(Clone, Default)]
pub struct ImportedState {
    pub created: Option<UnixSeconds>,
    pub tags: Vec<String>,
    pub parental_enabled: Option<bool>,
    pub parental_limit: Option<u8>,
    pub disabled: bool,
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
    pub user_change: UserChange,
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
    pub const fn total(&self) -> usize {
        self.logins + self.resets + self.throttles
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountSettings {
    /// In seconds.
    pub token_life: i64,
    /// Seconds after the last use.
    pub token_idle: i64,
    /// In seconds.
    pub reset_life: i64,
    pub password_min: usize,
    /// Words that are not accepted as passwords, in addition to data of the user: names of the service, its owner and
    /// its town.
    pub password_words: Vec<String>,
    pub cost: Cost,
    /// The age limit of new users. Their parental control is disabled: enabling it mails the PIN that it needs.
    pub parental_limit: u8,
    /// Maximum of login sessions per user; a further login ends the least recently used. It must be high enough for clients that log
    /// in at each start.
    pub logins_per_user: usize,
    pub limits: AttemptLimits,
    /// Networks without limits per address: the base, IPv4 mapped into IPv6, and the number of bits that count.
    pub exempt_networks: Vec<(u128, u32)>,
}

impl AccountSettings {
    pub(super) fn exempts(&self, address: IpAddr) -> bool {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        self.exempt_networks.iter().any(|(base, length)| {
            // A shift by all bits would overflow: the network is everything.
            let shift = 128_u32.saturating_sub(*length);
            shift == 128 || bits >> shift == base >> shift
        })
    }
}

impl Default for AccountSettings {
    fn default() -> Self {
        Self {
            token_life: 365 * DAY,
            token_idle: 60 * DAY,
            reset_life: 30 * 60,
            password_min: 8,
            password_words: Vec::new(),
            cost: Cost::default(),
            parental_limit: 18,
            logins_per_user: 100,
            limits: AttemptLimits::default(),
            exempt_networks: Vec::new(),
        }
    }
}
