//! Users: sign-up, login, passwords, PINs, their records and login sessions (interface, parts 4.2,
//! 4.3 and 5).
//!
//! Verbs that hash take a [`HashPool`] and wait for commits without blocking. What hot requests ask is
//! answered from memory. What users may watch is not for this module.

mod addresses;
mod admin;
mod attempt;
mod attempt_counter;
mod change_password;
mod decoy_hash;
mod erasure;
mod error;
mod expiry;
mod hashing;
mod login;
mod login_sessions;
mod model;
mod password_policy;
mod password_reset;
mod pin;
mod profile;
mod sign_up;
mod tables;
#[cfg(test)]
mod tests;
mod throttle;

use std::net::IpAddr;
use std::sync::Arc;

pub use addresses::AddressesKnown;
pub use attempt::{HashPool, PoolError};
pub use attempt_counter::Rule;
pub use error::{AccountsError, PinError};
pub use hashing::{Cost, ForeignHash, HashCounts, HashMemory};
pub use model::{
    Export, FirstPassword, Login, LoginInfo, NewLogin, NewUser, OperatorChange, PARENTAL_LIMIT_MAX,
    ParentalControl, Settings, Swept, User, UserChange,
};
pub use sign_up::{IdRange, NewAccount, Prepared, Unhashed};
pub use throttle::Limits;

use crate::domain::clock_guard::ExpiryClock;
use crate::domain::mail::Mail;
use crate::domain::partners::Partners;
use crate::ports::Entropy;
use crate::store::{
    Commit, Durability, MemoryTable, Schema, Store, StoreError, Txn, WritePriority,
};
use crate::types::{Email, PartnerId, Password, PersonName, UserId};
use crate::types::{LimitReached, Malformed, UnixSeconds};
use addresses::KnownAddresses;
use attempt::{Attempt, Undecided};
use decoy_hash::DecoyHashes;
use tables::{CredentialRecord, Credentials, Logins, Throttles, UserRecord, UserTable, Users};
use tables::{ResetTokens, UsersByEmail};
use throttle::{Kind, Reservation, Subject};

/// Adds this module's tables.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<Users>()
        .with::<Credentials>()
        .with::<Logins>()
        .with::<ResetTokens>()
        .with::<Throttles>()
}

/// What another module does about a user, within a plan of this one: erasing or ending what it holds.
pub type Eraser = fn(&mut Txn<'_>, &UserId, UnixSeconds) -> Result<(), StoreError>;

/// What accounts stand beside.
pub struct Dependencies {
    /// The queue of mails.
    pub mail: Mail,
    /// Whose users they are: a partner's name is no password.
    pub partners: Partners,
    /// Those of the other modules that hold something of a user.
    pub erasers: Vec<Eraser>,
    /// What ends that a user is doing in other modules, when a new password or an operator takes the
    /// account out of the hands of whoever was logged in.
    pub revokers: Vec<Eraser>,
    /// A secret of the appliance that no restart changes: it chooses stand-ins.
    pub key: [u8; 32],
    /// Judges the expiry of logins and reset tokens.
    pub expiry: Arc<ExpiryClock>,
}

/// The users of all partners.
#[derive(Clone)]
pub struct Accounts(Arc<Inner>);

struct Inner {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: Settings,
    mail: Mail,
    partners: Partners,
    erasers: Vec<Eraser>,
    expiry: Arc<ExpiryClock>,
    revokers: Vec<Eraser>,
    stand_ins: DecoyHashes,
    users: Arc<UserTable>,
    logins: Arc<MemoryTable<Logins>>,
    throttles: Arc<MemoryTable<Throttles>>,
    undecided: Arc<Undecided>,
    addresses: KnownAddresses,
}

impl Accounts {
    /// The users of a store.
    ///
    /// # Errors
    /// That the store failed.
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        settings: Settings,
        beside: Dependencies,
    ) -> Result<Self, StoreError> {
        let Dependencies {
            mail,
            partners,
            erasers,
            revokers,
            key,
            expiry,
        } = beside;
        let users = Arc::new(tables::user_table());
        let logins = Arc::new(MemoryTable::default());
        let throttles = Arc::new(MemoryTable::default());
        store.attach_packed(Arc::clone(&users))?;
        store.attach::<Logins>(Arc::clone(&logins) as _)?;
        store.attach::<Throttles>(Arc::clone(&throttles) as _)?;
        Ok(Self(Arc::new(Inner {
            store,
            entropy,
            settings,
            mail,
            partners,
            erasers,
            expiry,
            revokers,
            stand_ins: DecoyHashes::new(&key),
            users,
            logins,
            throttles,
            undecided: Arc::default(),
            addresses: KnownAddresses::default(),
        })))
    }

    /// A user, from memory.
    #[must_use]
    pub fn user(&self, id: &UserId) -> Option<Arc<User>> {
        self.0.users.get(id)
    }

    /// The number of users, from memory.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.users.len()
    }

    /// The user of an address; a cold read.
    ///
    /// # Errors
    /// That the store failed.
    pub fn find(&self, partner: PartnerId, email: &Email) -> Result<Option<UserId>, StoreError> {
        let key = (partner, email.clone());
        self.0.store.read(|txn| txn.find::<UsersByEmail>(&key))
    }

    /// Whether a login may be tried, from memory: a flood is turned away before it waits for a
    /// lane. The count itself is [`Accounts::log_in`]'s.
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`].
    pub fn may_log_in(
        &self,
        partner: PartnerId,
        email: &Email,
        from: IpAddr,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        self.may(&guesses(partner, email, from), now)
    }

    /// Whether the network address may try a login at all, whoever it names; as
    /// [`Accounts::may_log_in`].
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`].
    pub fn may_log_in_from(&self, from: IpAddr, now: UnixSeconds) -> Result<(), AccountsError> {
        self.may(&[Subject::address(Kind::LoginAddress, from)], now)
    }

    /// Whether the network address may ask for a reset mail; as [`Accounts::may_log_in`].
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`].
    pub fn may_ask_for_reset(&self, from: IpAddr, now: UnixSeconds) -> Result<(), AccountsError> {
        self.may(&[Subject::address(Kind::ResetMailAddress, from)], now)
    }

    /// Whether a sign-up may be tried; as [`Accounts::may_log_in`].
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`].
    pub fn may_sign_up(&self, from: IpAddr, now: UnixSeconds) -> Result<(), AccountsError> {
        self.may(&[Subject::address(Kind::SignUpAddress, from)], now)
    }

    /// Whether a reset may be completed; as [`Accounts::may_log_in`].
    ///
    /// # Errors
    /// [`AccountsError::TooManyAttempts`].
    pub fn check_reset_rate(&self, from: IpAddr, now: UnixSeconds) -> Result<(), AccountsError> {
        self.may(&[Subject::address(Kind::ResetAddress, from)], now)
    }

    /// Whether a PIN may be entered; as [`Accounts::may_log_in`].
    ///
    /// # Errors
    /// [`PinError::Locked`].
    pub fn may_enter_pin(&self, user: &UserId, now: UnixSeconds) -> Result<(), PinError> {
        match self.refuses(&Subject::user(Kind::Pin, user), now) {
            Some(limit) => Err(PinError::Locked(limit)),
            None => Ok(()),
        }
    }

    fn may(&self, subjects: &[Subject], now: UnixSeconds) -> Result<(), AccountsError> {
        let refusals = subjects.iter().filter_map(|s| self.refuses(s, now));
        match refusals.max_by_key(|limit| limit.retry_after) {
            Some(limit) => Err(AccountsError::TooManyAttempts(limit)),
            None => Ok(()),
        }
    }

    fn refuses(&self, subject: &Subject, now: UnixSeconds) -> Option<LimitReached> {
        let limits = &self.0.settings.limits;
        let counter = self.0.throttles.get(&subject.key())?;
        let retry_after = counter.refuses(limits.rule(subject.kind()), now)?;
        // Some of those that were counted may turn out right.
        if self.0.undecided.has(subject) {
            return None;
        }
        Some(limits.reached(subject.kind(), retry_after))
    }

    /// Runs a plan that is durable before it is answered.
    fn change<T: Send + 'static>(
        &self,
        plan: impl FnOnce(&Inner, &mut Txn<'_>) -> Result<T, AccountsError> + Send + 'static,
    ) -> Commit<T, AccountsError> {
        self.change_for(WritePriority::Change, plan)
    }

    /// As [`Accounts::change`], for something that has its own place when space runs out.
    fn change_for<T: Send + 'static>(
        &self,
        need: WritePriority,
        plan: impl FnOnce(&Inner, &mut Txn<'_>) -> Result<T, AccountsError> + Send + 'static,
    ) -> Commit<T, AccountsError> {
        let this = self.clone();
        self.0
            .store
            .write_for(need, Durability::Durable, move |txn| plan(&this.0, txn))
    }

    /// Checks a new password of a user of the partner.
    fn check_password(
        &self,
        new: &Password,
        partner: PartnerId,
        email: &Email,
        name: Option<&PersonName>,
    ) -> Result<(), AccountsError> {
        let partner = self.0.partners.name(&partner);
        let settings = &self.0.settings;
        let mut known = password_policy::Known::default();
        known.add(email.as_str());
        known.add(name.map_or("", PersonName::as_str));
        known.add(partner.as_deref().unwrap_or_default());
        for word in &settings.password_words {
            known.add(word);
        }
        password_policy::check(new, settings.password_min, &known)
    }

    /// Hashes a secret at today's cost.
    fn hash(&self, secret: &str, memory: &mut HashMemory) -> Result<String, AccountsError> {
        Ok(hashing::hash(
            secret,
            self.0.settings.cost,
            self.0.entropy.as_ref(),
            memory,
        )?)
    }

    /// The present password of a user who is logged in, asked for again. A wrong one counts like a
    /// wrong login: this must be no way around that limit. After a right one `then` goes on in the
    /// pool. The caller gives the attempt back.
    async fn confirm<T: Send + 'static>(
        &self,
        user: &UserId,
        password: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
        then: impl FnOnce(&Self, &mut HashMemory) -> Result<T, AccountsError> + Send + 'static,
    ) -> Result<(Confirmed, T), AccountsError> {
        let known = self.user(user).ok_or(AccountsError::UserNotFound)?;
        let subjects = guesses(known.partner, &known.email, from);
        let attempt = self
            .attempt(Durability::Logged, subjects.into(), now)
            .await?;
        let (user, password) = (*user, password.clone());
        let work = move |this: &Self, memory: &mut HashMemory| {
            let credentials = this.0.store.read(|txn| credentials(txn, &user))?;
            let cost = this.0.settings.cost;
            let verdict = hashing::verify(password.reveal(), &credentials.password, cost, memory)?;
            if !verdict.matches {
                return Err(AccountsError::PasswordWrong);
            }
            Ok((credentials.generation, then(this, memory)?))
        };
        let (generation, made) = attempt.work(pool, work).await??;
        let confirmed = Confirmed {
            attempt,
            generation,
        };
        Ok((confirmed, made))
    }
}

/// A password that was right a moment ago.
struct Confirmed {
    attempt: Attempt,
    /// Which of the user's passwords it was. A plan compares it with the one of its own moment: of a
    /// change that came between, the older password must not profit.
    generation: u32,
}

/// What a plan needs of it.
struct Proof {
    reservation: Arc<Reservation>,
    generation: u32,
}

impl Confirmed {
    fn proof(&self) -> Proof {
        Proof {
            reservation: self.attempt.reservation(),
            generation: self.generation,
        }
    }
}

impl Proof {
    /// Gives the attempt back and returns the credentials, if the password is still the same.
    fn redeem(
        &self,
        inner: &Inner,
        txn: &mut Txn<'_>,
        user: &UserId,
        now: UnixSeconds,
    ) -> Result<CredentialRecord, AccountsError> {
        throttle::refund(txn, &inner.settings.limits, &self.reservation, now)?;
        let credentials = credentials(txn, user)?;
        if credentials.generation == self.generation {
            Ok(credentials)
        } else {
            Err(AccountsError::PasswordWrong)
        }
    }
}

/// What a wrong password counts for.
fn guesses(partner: PartnerId, email: &Email, from: IpAddr) -> [Subject; 2] {
    [
        Subject::account(Kind::LoginAccount, &partner, email),
        Subject::address(Kind::LoginAddress, from),
    ]
}

/// Whether a user exists, within the plan that makes something of theirs: a request whose token was
/// good when it came may end after the account is erased, and what it leaves nobody would erase.
///
/// # Errors
/// That the store failed.
pub fn exists(txn: &Txn<'_>, user: &UserId) -> Result<bool, StoreError> {
    Ok(txn.get::<Users>(user)?.is_some())
}

/// The form of [`exists`], by which modules ask that must not know this one.
pub type UserExists = fn(&Txn<'_>, &UserId) -> Result<bool, StoreError>;

fn user_record(txn: &Txn<'_>, user: &UserId) -> Result<UserRecord, AccountsError> {
    txn.get::<Users>(user)?.ok_or(AccountsError::UserNotFound)
}

fn credentials(txn: &Txn<'_>, user: &UserId) -> Result<CredentialRecord, AccountsError> {
    txn.get::<Credentials>(user)?
        .ok_or(AccountsError::UserNotFound)
}

/// A day of birth lies in the past.
fn check_birth_date(
    date: Option<&crate::types::BirthDate>,
    now: UnixSeconds,
) -> Result<(), AccountsError> {
    let today = chrono::DateTime::from_timestamp(now.0, 0).map(|at| at.date_naive());
    match (date, today) {
        (Some(date), Some(today)) if date.date() > today => Err(AccountsError::FieldMalformed {
            field: "birthDate",
            why: Malformed("must lie in the past"),
        }),
        _ => Ok(()),
    }
}
