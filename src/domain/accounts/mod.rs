//! Users: sign-up, login, passwords, PINs, profiles and login sessions.
//!
//! Methods that hash take a [`HashPool`] and await commits. Frequent lookups are answered from memory. What
//! users may watch is decided in `entitlement`.

mod addresses;
mod admin;
mod attempt;
mod attempt_counter;
mod attempt_limits;
mod change_email;
mod change_password;
mod decoy_hash;
mod erasure;
mod error;
mod expiry;
mod hashing;
mod known_clients;
mod login;
mod login_sessions;
mod model;
#[cfg(debug_assertions)]
mod next_format;
mod password_policy;
mod password_reset;
mod pin;
mod profile;
mod search;
mod sign_up;
mod tables;
#[cfg(test)]
mod tests;
mod throttle;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

pub use addresses::AddressWatch;
pub use attempt::{HashPool, PoolError};
pub use attempt_counter::AttemptRule;
pub use attempt_limits::KNOWN_FACTOR;
pub use attempt_limits::{AttemptKind, AttemptLimits};
pub use error::{AccountsError, PinError};
pub use hashing::{Cost, ForeignHash, HashCounts, HashMemory};
pub use login::LoginAttempt;
pub use model::{
    AccountExport, AccountSettings, FirstPassword, ImportedState, Login, LoginClient, LoginInfo,
    LoginOrigin, NewLogin, NewUser, OperatorChange, PARENTAL_LIMIT_MAX, ParentalControl, Swept,
    User, UserChange,
};
pub use search::{UserOrder, UserSearch};
pub use sign_up::{AlsoInsert, NewAccount, PreparedSignUp, Unhashed};

use crate::clock_guard::ExpiryClock;
use crate::mail::Mail;
use crate::partners::Partners;
use addresses::WatchedAddresses;
use attempt::{Attempt, Undecided};
use attempt_limits::AttemptSubject;
use decoy_hash::DecoyHashes;
use known_clients::{KnownClientTable, KnownClients};
use playgate_ports::Entropy;
use playgate_store::{
    Commit, Durability, MemoryTable, PackedTable, Schema, Store, StoreError, Txn, WritePriority,
};
use playgate_types::{
    Email, LimitReached, Malformed, PartnerId, PartnerKind, Password, PersonName, TokenHash,
    UnixSeconds, UserId,
};
use tables::{
    CredentialRecord, CredentialTable, Logins, ResetTokens, Throttles, UserRecord, UserTable,
    Users, UsersByEmail,
};

pub fn schema(schema: Schema) -> Schema {
    let schema = schema
        .with::<Users>()
        .with::<CredentialTable>()
        .with::<Logins>()
        .with::<ResetTokens>()
        .with::<Throttles>()
        .with::<KnownClientTable>();
    #[cfg(debug_assertions)]
    let schema = next_format::schema(schema);
    schema
}

/// Erases or ends the data of a user in another module, within a write batch of this module.
pub type Eraser = fn(&mut Txn<'_>, &UserId, UnixSeconds) -> Result<(), StoreError>;

pub struct Dependencies {
    pub mail: Mail,
    /// The name of a partner is not accepted as a password of its users.
    pub partners: Partners,
    pub erasers: Vec<Eraser>,
    /// Called after a password reset, or when an operator disables the account.
    pub revokers: Vec<Eraser>,
    /// Selects decoy hashes. It must survive restarts, or the decoy of an address would change.
    pub key: [u8; 32],
    pub expiry: Arc<ExpiryClock>,
}

#[derive(Clone)]
pub struct Accounts(Arc<Inner>);

struct Inner {
    store: Store,
    entropy: Arc<dyn Entropy>,
    settings: AccountSettings,
    mail: Mail,
    partners: Partners,
    erasers: Vec<Eraser>,
    expiry: Arc<ExpiryClock>,
    revokers: Vec<Eraser>,
    decoys: DecoyHashes,
    users: Arc<UserTable>,
    logins: Arc<MemoryTable<Logins>>,
    /// When logins were used last, until the next [`Accounts::store_uses`]. At most one entry for a login.
    used_logins: Mutex<HashMap<TokenHash, UnixSeconds>>,
    throttles: Arc<MemoryTable<Throttles>>,
    known_clients: Arc<PackedTable<KnownClientTable, KnownClients>>,
    undecided: Arc<Undecided>,
    addresses: WatchedAddresses,
}

impl Accounts {
    pub fn open(
        store: Store,
        entropy: Arc<dyn Entropy>,
        settings: AccountSettings,
        dependencies: Dependencies,
    ) -> Result<Self, StoreError> {
        let Dependencies {
            mail,
            partners,
            erasers,
            revokers,
            key,
            expiry,
        } = dependencies;
        let users = Arc::new(tables::user_table());
        let logins = Arc::new(MemoryTable::default());
        let throttles = Arc::new(MemoryTable::default());
        // Fills the tables in memory; from then on commits keep them current.
        let known_clients = Arc::new(PackedTable::new(|_, record| record));
        store.attach_packed_table(Arc::clone(&users))?;
        store.attach_packed_table(Arc::clone(&known_clients))?;
        store.attach_memory_table::<Logins>(Arc::clone(&logins))?;
        store.attach_memory_table::<Throttles>(Arc::clone(&throttles))?;
        Ok(Self(Arc::new(Inner {
            store,
            entropy,
            settings,
            mail,
            partners,
            erasers,
            expiry,
            revokers,
            decoys: DecoyHashes::new(&key),
            users,
            logins,
            used_logins: Mutex::default(),
            throttles,
            known_clients,
            undecided: Arc::default(),
            addresses: WatchedAddresses::default(),
        })))
    }

    pub fn user(&self, id: &UserId) -> Option<Arc<User>> {
        self.0.users.get(id)
    }

    /// Like [`exists`], but reads the table in memory. For frequent transactions: a read of the engine waits while it
    /// applies commits.
    pub fn exists_in_memory(&self, txn: &Txn<'_>, user: &UserId) -> bool {
        // The table in memory has all commits before the current group.
        let pending = txn.exists_in_pending::<Users>(user);
        pending.unwrap_or_else(|| self.0.users.contains(user))
    }

    pub fn count(&self) -> usize {
        self.0.users.len()
    }

    /// Looks up a user by address. Reads from disk.
    pub fn find(&self, partner: PartnerId, email: &Email) -> Result<Option<UserId>, StoreError> {
        let key = (partner, email.clone());
        self.0.store.read(|txn| txn.find::<UsersByEmail>(&key))
    }

    /// Checks from memory whether a login may be attempted. [`Accounts::log_in`] does the counting.
    pub fn check_login_rate(
        &self,
        partner: PartnerId,
        given: &LoginAttempt,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        // A flood is rejected before it queues for a worker.
        self.check_limits(&given.guesses(self, partner), now)
    }

    /// Checks from memory the limit of a client address. `partner` is `None` if the request names none.
    pub fn check_address_rate(
        &self,
        kind: AttemptKind,
        partner: Option<&PartnerId>,
        from: IpAddr,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let subject = self.address_subject(kind, partner, from);
        self.check_limits(subject.as_slice(), now)
    }

    pub fn check_pin_lock(&self, user: &UserId, now: UnixSeconds) -> Result<(), PinError> {
        match self.refusal(&AttemptSubject::user(AttemptKind::Pin, user), now) {
            Some(limit) => Err(PinError::Locked(limit)),
            None => Ok(()),
        }
    }

    fn check_limits(
        &self,
        subjects: &[AttemptSubject],
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        let refusals = subjects.iter().filter_map(|s| self.refusal(s, now));
        // The longest wait is reported, since the others end before it.
        match refusals.max_by_key(|limit| limit.retry_after) {
            Some(limit) => Err(AccountsError::TooManyAttempts(limit)),
            None => Ok(()),
        }
    }

    /// Partners share the counter of an address. A lab partner has its own: its clock can be moved, and a shifted time
    /// would expire the attempts of other partners.
    ///
    /// `None` for a network that is exempt: its viewers share an address, and one who mistypes must not lock out the others.
    fn address_subject(
        &self,
        kind: AttemptKind,
        partner: Option<&PartnerId>,
        from: IpAddr,
    ) -> Option<AttemptSubject> {
        if self.0.settings.exempts(from) {
            return None;
        }
        let is_lab = |partner: &&PartnerId| self.0.partners.kind(partner) == Some(PartnerKind::Lab);
        let partner = partner.filter(is_lab);
        Some(AttemptSubject::address(kind, partner, from))
    }

    fn refusal(&self, subject: &AttemptSubject, now: UnixSeconds) -> Option<LimitReached> {
        let limits = &self.0.settings.limits;
        let counter = self.0.throttles.get(&subject.key())?;
        let retry_after = counter.refusal_at(limits.rule(subject.kind()), now)?;
        // Some of the counted attempts may still turn out right.
        if self.0.undecided.has(subject) {
            return None;
        }
        Some(limits.reached(subject.kind(), retry_after))
    }

    /// Runs a write batch that is durable before it is answered.
    fn change<T: Send + 'static>(
        &self,
        batch: impl FnOnce(&Inner, &mut Txn<'_>) -> Result<T, AccountsError> + Send + 'static,
    ) -> Commit<T, AccountsError> {
        self.change_for(WritePriority::Change, batch)
    }

    fn change_for<T: Send + 'static>(
        &self,
        need: WritePriority,
        batch: impl FnOnce(&Inner, &mut Txn<'_>) -> Result<T, AccountsError> + Send + 'static,
    ) -> Commit<T, AccountsError> {
        let this = self.clone();
        self.0
            .store
            .write_for(need, Durability::Durable, move |txn| batch(&this.0, txn))
    }

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
        // The words that an attacker would try first.
        known.add(email.as_str());
        known.add(name.map_or("", PersonName::as_str));
        known.add(partner.as_deref().unwrap_or_default());
        for word in &settings.password_words {
            known.add(word);
        }
        password_policy::check(new, settings.password_min, &known)
    }

    fn hash(&self, secret: &str, memory: &mut HashMemory) -> Result<String, AccountsError> {
        Ok(hashing::hash(
            secret,
            self.0.settings.cost,
            self.0.entropy.as_ref(),
            memory,
        )?)
    }

    /// Confirms the current password of a logged-in user. After a correct one, `then` runs in the same
    /// pool job.
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
        // A wrong password counts like a failed login, so that this does not bypass the login limit.
        let subjects = self.guesses(known.partner, &known.email, from, None);
        let attempt = self.attempt(Durability::Logged, subjects, now).await?;
        let (user, password) = (*user, password.clone());
        let work = move |this: &Self, memory: &mut HashMemory| {
            // Read in the pool, because the read may wait for the disk.
            let credentials = this.0.store.read(|txn| credentials(txn, &user))?;
            let cost = this.0.settings.cost;
            let verdict = hashing::verify_password(&password, &credentials.password, cost, memory)?;
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

/// A password that was right. [`Confirmed::change`] refunds the attempt.
struct Confirmed {
    attempt: Attempt,
    /// The write batch compares it with the current one, so that an old password has no effect after a concurrent
    /// change.
    generation: u32,
}

impl Confirmed {
    /// Runs the write batch that the password allows, and refunds the attempt.
    async fn change<T: Send + 'static>(
        self,
        accounts: &Accounts,
        user: UserId,
        now: UnixSeconds,
        batch: impl FnOnce(&Inner, &mut Txn<'_>, CredentialRecord) -> Result<T, AccountsError>
        + Send
        + 'static,
    ) -> Result<T, AccountsError> {
        let (reservation, generation) = (self.attempt.reservation(), self.generation);
        let changed = accounts.change(move |inner, txn| {
            // An error below discards the refund as well.
            throttle::settle(txn, &inner.settings.limits, &reservation, now)?;
            let credentials = credentials(txn, &user)?;
            // The password was changed after it was confirmed.
            if credentials.generation != generation {
                return Err(AccountsError::PasswordWrong);
            }
            batch(inner, txn, credentials)
        });
        let result = changed.await;
        // The password was right, so an attempt that fails for another reason must not count: while the disk is low,
        // retries would lock the user.
        if result
            .as_ref()
            .is_err_and(|error| *error != AccountsError::PasswordWrong)
        {
            // If this fails, too, the attempt stays counted.
            let _ = self.attempt.refund().await;
        }
        result
    }
}

/// Checked by write batches that store data of a user. The account may have been erased since the token was checked,
/// and nothing would ever erase the new data.
pub fn exists(txn: &Txn<'_>, user: &UserId) -> Result<bool, StoreError> {
    Ok(txn.get::<Users>(user)?.is_some())
}

/// The name of a user for a mail to them.
pub fn name_of(txn: &Txn<'_>, user: &UserId) -> Result<Option<PersonName>, StoreError> {
    Ok(txn.get::<Users>(user)?.and_then(|user| user.name))
}

/// The signature of [`exists`], for modules that must not depend on this one.
pub type UserExists = fn(&Txn<'_>, &UserId) -> Result<bool, StoreError>;

fn user_record(txn: &Txn<'_>, user: &UserId) -> Result<UserRecord, AccountsError> {
    txn.get::<Users>(user)?.ok_or(AccountsError::UserNotFound)
}

fn credentials(txn: &Txn<'_>, user: &UserId) -> Result<CredentialRecord, AccountsError> {
    txn.get::<CredentialTable>(user)?
        .ok_or(AccountsError::UserNotFound)
}

fn check_birth_date(
    date: Option<&playgate_types::BirthDate>,
    now: UnixSeconds,
) -> Result<(), AccountsError> {
    let today = chrono::DateTime::from_timestamp(now.0, 0).map(|at| at.date_naive());
    match (date, today) {
        (Some(date), Some(today)) if date.date() > today => Err(AccountsError::FieldMalformed {
            field: "birthDate",
            why: Malformed("must not lie in the future"),
        }),
        _ => Ok(()),
    }
}
