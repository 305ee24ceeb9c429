//! The tables of users, credentials, logins, reset tokens and counters.

use serde::{Deserialize, Serialize};

use super::attempt_counter::Counter;
use super::model::{ParentalControl, User};
use super::throttle::ThrottleKey;
use crate::store::{Entries, Index, PackedTable, Record, Table, TreeName};
use crate::types::{
    BirthDate, Country, Email, Locale, LoginId, PartnerId, PersonName, TokenHash, UnixSeconds,
    UserId,
};

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UserRecord {
    pub(super) partner: PartnerId,
    pub(super) email: Email,
    pub(super) name: Option<PersonName>,
    pub(super) country: Option<Country>,
    pub(super) locale: Option<Locale>,
    pub(super) birth_date: Option<BirthDate>,
    pub(super) created: UnixSeconds,
    pub(super) tags: Vec<String>,
    pub(super) parental: ParentalControl,
    /// Whether [`CredentialRecord::pin`] is set: entitlement asks for it on each request.
    pub(super) has_pin: bool,
    pub(super) disabled: bool,
}

impl Record for UserRecord {}

impl UserRecord {
    pub(super) fn into_user(self, id: UserId) -> User {
        let Self {
            partner,
            email,
            name,
            country,
            locale,
            birth_date,
            created,
            tags,
            parental,
            has_pin,
            disabled,
        } = self;
        User {
            id,
            partner,
            email,
            name,
            country,
            locale,
            birth_date,
            created,
            tags,
            parental,
            has_pin,
            disabled,
        }
    }
}

/// Users by id; mirrored.
pub(super) struct Users;

impl Table for Users {
    const NAME: TreeName = "users";
    type Key = UserId;
    type Record = UserRecord;
    const INDEXES: &'static [TreeName] = &[UsersByEmail::NAME];

    fn index(key: &UserId, record: &UserRecord, entries: &mut Entries) {
        let UserRecord {
            partner,
            email,
            name: _,
            country: _,
            locale: _,
            birth_date: _,
            created: _,
            tags: _,
            parental: _,
            has_pin: _,
            disabled: _,
        } = record;
        entries.add::<UsersByEmail>(&(*partner, email.clone()), key);
    }
}

/// Keeps addresses unique within a partner.
pub(super) struct UsersByEmail;

impl Index for UsersByEmail {
    const NAME: TreeName = "users.by_email";
    type Table = Users;
    type Key = (PartnerId, Email);
}

/// All users in memory: those who are not active only as their encoded records.
pub(super) type UserTable = PackedTable<Users, User>;

/// An empty table of users.
pub(super) fn user_table() -> UserTable {
    PackedTable::new(|id, record: UserRecord| record.into_user(id))
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CredentialRecord {
    pub(super) password: String,
    pub(super) password_set: UnixSeconds,
    /// Counts new passwords, and not new hashes of the same one.
    pub(super) generation: u32,
    pub(super) pin: Option<String>,
}

impl Record for CredentialRecord {}

impl CredentialRecord {
    /// With a new password in the place of the present one.
    pub(super) fn with_password(self, hash: String, now: UnixSeconds) -> Self {
        let Self {
            password: _,
            password_set: _,
            generation,
            pin,
        } = self;
        Self {
            password: hash,
            password_set: now,
            generation: generation.wrapping_add(1),
            pin,
        }
    }
}

/// Hashes of passwords and PINs, apart from the users so that memory does not hold them.
pub(super) struct Credentials;

impl Table for Credentials {
    const NAME: TreeName = "credentials";
    type Key = UserId;
    type Record = CredentialRecord;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LoginRecord {
    pub(super) login: LoginId,
    pub(super) user: UserId,
    pub(super) partner: PartnerId,
    pub(super) created: UnixSeconds,
    pub(super) expires: UnixSeconds,
}

impl Record for LoginRecord {}

/// Login sessions by the hash of their token; mirrored.
pub(super) struct Logins;

impl Table for Logins {
    const NAME: TreeName = "logins";
    type Key = TokenHash;
    type Record = LoginRecord;
    const INDEXES: &'static [TreeName] = &[LoginsByUser::NAME, LoginsByExpiry::NAME];

    fn index(key: &TokenHash, record: &LoginRecord, entries: &mut Entries) {
        let LoginRecord {
            login: _,
            user,
            partner: _,
            created,
            expires,
        } = record;
        entries.add::<LoginsByUser>(&(*user, *created), key);
        entries.add::<LoginsByExpiry>(&(*expires, *user), key);
    }
}

/// The login sessions of a user, oldest first.
pub(super) struct LoginsByUser;

impl Index for LoginsByUser {
    const NAME: TreeName = "logins.by_user";
    type Table = Logins;
    type Key = (UserId, UnixSeconds);
}

/// Login sessions by their end.
pub(super) struct LoginsByExpiry;

impl Index for LoginsByExpiry {
    const NAME: TreeName = "logins.by_expiry";
    type Table = Logins;
    type Key = (UnixSeconds, UserId);
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResetRecord {
    pub(super) user: UserId,
    pub(super) partner: PartnerId,
    pub(super) created: UnixSeconds,
    pub(super) expires: UnixSeconds,
}

impl Record for ResetRecord {}

/// Reset tokens by their hash.
pub(super) struct ResetTokens;

impl Table for ResetTokens {
    const NAME: TreeName = "reset_tokens";
    type Key = TokenHash;
    type Record = ResetRecord;
    const INDEXES: &'static [TreeName] = &[ResetsByUser::NAME, ResetsByExpiry::NAME];

    fn index(key: &TokenHash, record: &ResetRecord, entries: &mut Entries) {
        let ResetRecord {
            user,
            partner: _,
            created,
            expires,
        } = record;
        entries.add::<ResetsByUser>(&(*user, *created), key);
        entries.add::<ResetsByExpiry>(&(*expires, *user), key);
    }
}

/// The reset tokens of a user: at most one, since a newer one voids the older.
pub(super) struct ResetsByUser;

impl Index for ResetsByUser {
    const NAME: TreeName = "reset_tokens.by_user";
    type Table = ResetTokens;
    type Key = (UserId, UnixSeconds);
}

/// Reset tokens by their end.
pub(super) struct ResetsByExpiry;

impl Index for ResetsByExpiry {
    const NAME: TreeName = "reset_tokens.by_expiry";
    type Table = ResetTokens;
    type Key = (UnixSeconds, UserId);
}

/// Counters of attempts; mirrored, so that a flood is turned away before it costs a hash.
pub(super) struct Throttles;

impl Table for Throttles {
    const NAME: TreeName = "throttles";
    type Key = ThrottleKey;
    type Record = Counter;
}
