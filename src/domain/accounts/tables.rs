//! The tables of users, credentials, logins, reset tokens and attempt counters.

use serde::{Deserialize, Serialize};

use super::attempt_counter::AttemptCounter;
use super::attempt_limits::ThrottleKey;
use super::model::{ParentalControl, User};
use playgate_store::{Entries, Index, PackedTable, Record, Table, TreeName, read_record};
use playgate_types::{
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
    /// Whether [`CredentialRecord::pin`] is set. It is kept here because requests check it from memory.
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

pub(super) struct Users;

impl Table for Users {
    const NAME: TreeName = "users";
    type Key = UserId;
    type Record = UserRecord;
    const INDEXES: &'static [TreeName] = &[UsersByEmail::NAME];

    fn index(key: &UserId, record: &UserRecord, entries: &mut Entries) {
        // Destructured, so that a new field cannot be overlooked here.
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

/// Ensures unique addresses within a partner.
pub(super) struct UsersByEmail;

impl Index for UsersByEmail {
    const NAME: TreeName = "users.by_email";
    type Table = Users;
    type Key = (PartnerId, Email);
}

/// The users in memory. Only recently read ones are decoded.
pub(super) type UserTable = PackedTable<Users, User>;

pub(super) fn user_table() -> UserTable {
    PackedTable::new(|id, record: UserRecord| record.into_user(id))
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CredentialRecord {
    pub(super) password: String,
    pub(super) password_set: UnixSeconds,
    /// Incremented by each new password, but not by a rehash.
    pub(super) generation: u32,
    pub(super) pin: Option<String>,
}

impl Record for CredentialRecord {}

impl CredentialRecord {
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
            // Voids logins that have checked the earlier password and are not stored yet.
            generation: generation.wrapping_add(1),
            pin,
        }
    }
}

/// Separate from the users, so that hashes are not kept in memory.
pub(super) struct CredentialTable;

impl Table for CredentialTable {
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
    /// The absolute limit.
    pub(super) expires: UnixSeconds,
    /// Moves with use.
    pub(super) idle_until: UnixSeconds,
    pub(super) used: UnixSeconds,
    /// What the client called itself when it logged in.
    pub(super) program: Option<String>,
    pub(super) device: Option<String>,
}

impl LoginRecord {
    pub(super) fn ends(&self) -> UnixSeconds {
        self.expires.min(self.idle_until)
    }
}

impl Record for LoginRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        let old = read_record::<login_v1::LoginRecord>(bytes).filter(|_| version == 1)?;
        Some(Self {
            login: old.login,
            user: old.user,
            partner: old.partner,
            created: old.created,
            expires: old.expires,
            idle_until: old.expires,
            used: old.created,
            program: None,
            device: None,
        })
    }
}

/// The format of version 1, without the use of a login.
mod login_v1 {
    use super::{Deserialize, LoginId, PartnerId, Serialize, UnixSeconds, UserId};

    #[derive(Serialize, Deserialize)]
    pub(super) struct LoginRecord {
        pub(super) login: LoginId,
        pub(super) user: UserId,
        pub(super) partner: PartnerId,
        pub(super) created: UnixSeconds,
        pub(super) expires: UnixSeconds,
    }
}

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
            expires: _,
            idle_until: _,
            used: _,
            program: _,
            device: _,
        } = record;
        entries.add::<LoginsByUser>(&(*user, *created), key);
        // The time comes first: the sweep deletes expired logins from the first entry on.
        entries.add::<LoginsByExpiry>(&(record.ends(), *user), key);
    }
}

pub(super) struct LoginsByUser;

impl Index for LoginsByUser {
    const NAME: TreeName = "logins.by_user";
    type Table = Logins;
    type Key = (UserId, UnixSeconds);
}

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
    /// Whether a password was set with it. It stays for some minutes then, so that a repeated request gets the same answer.
    pub(super) used: bool,
}

impl Record for ResetRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        let old = read_record::<reset_v1::ResetRecord>(bytes).filter(|_| version == 1)?;
        Some(Self {
            user: old.user,
            partner: old.partner,
            created: old.created,
            expires: old.expires,
            used: false,
        })
    }
}

/// The format of version 1, whose tokens were deleted when they were used.
mod reset_v1 {
    use super::{Deserialize, PartnerId, Serialize, UnixSeconds, UserId};

    #[derive(Serialize, Deserialize)]
    pub(super) struct ResetRecord {
        pub(super) user: UserId,
        pub(super) partner: PartnerId,
        pub(super) created: UnixSeconds,
        pub(super) expires: UnixSeconds,
    }
}

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
            used: _,
        } = record;
        entries.add::<ResetsByUser>(&(*user, *created), key);
        entries.add::<ResetsByExpiry>(&(*expires, *user), key);
    }
}

/// Has at most one entry per user, because a newer token voids the older one.
pub(super) struct ResetsByUser;

impl Index for ResetsByUser {
    const NAME: TreeName = "reset_tokens.by_user";
    type Table = ResetTokens;
    type Key = (UserId, UnixSeconds);
}

pub(super) struct ResetsByExpiry;

impl Index for ResetsByExpiry {
    const NAME: TreeName = "reset_tokens.by_expiry";
    type Table = ResetTokens;
    type Key = (UnixSeconds, UserId);
}

/// Also held in memory, so that a flood is rejected before it costs a hash.
pub(super) struct Throttles;

impl Table for Throttles {
    const NAME: TreeName = "throttles";
    type Key = ThrottleKey;
    type Record = AttemptCounter;
}
