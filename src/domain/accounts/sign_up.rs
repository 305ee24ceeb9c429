//! New users (interface, part 4.2).

use std::net::IpAddr;

use super::login_sessions::begin;
use super::tables::{CredentialRecord, Credentials, UserRecord, Users, UsersByEmail};
use super::throttle::{Kind, Subject};
use super::{
    Accounts, AccountsError, FirstPassword, HashMemory, HashPool, Inner, NewLogin, NewUser,
    ParentalControl, User, check_birth_date, hashing,
};
use crate::domain::partners::{self, PartnerStatus};
use crate::store::{Commit, Durability, Txn};
use crate::types::{Email, LoginId, PartnerId, Password, Token, TokenKind, UnixSeconds, UserId};

impl Accounts {
    /// Makes a user and logs them in. An attempt counts for its network address whether
    /// it succeeds or not: a refusal tells that an address has an account.
    ///
    /// # Errors
    /// [`AccountsError::EmailInUse`], which never changes the user who has the address;
    /// [`AccountsError::TooManyAttempts`]; what is wrong with the password or a field.
    pub async fn sign_up(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: &Password,
        from: IpAddr,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<NewLogin, AccountsError> {
        self.check_new(partner, &new, password, now)?;
        let subject = Subject::address(Kind::SignUpAddress, from);
        let attempt = self.attempt(Durability::Logged, vec![subject], now).await?;
        let password = password.clone();
        let work = move |this: &Self, memory: &mut HashMemory| {
            // Before the hash is paid for; the plan has the last word.
            if this.find(partner, &new.email)?.is_some() {
                return Err(AccountsError::EmailInUse);
            }
            let hash = this.hash(password.reveal(), memory)?;
            Ok(this.new_account(this.random_id(), partner, new, hash, now))
        };
        let account = attempt.work(pool, work).await??;
        let token = Token::new(TokenKind::User, self.0.entropy.array());
        let token_hash = token.hash();
        let login = LoginId::from_bytes(self.0.entropy.array());
        let user = self.change(move |inner, txn| {
            // Since the token was looked up the partner may have been disabled, as the first step
            // of its removal does.
            if partners::standing(txn, &partner)? != PartnerStatus::Active {
                return Err(AccountsError::PartnerGone);
            }
            let user = account.insert_with_partner(inner, txn)?;
            let at = inner.expiry.at(now);
            begin(txn, &inner.settings, token_hash, login, &user, at)?;
            Ok(user)
        });
        let user = user.await?;
        Ok(NewLogin { token, login, user })
    }

    /// Makes a user for an operator, without a limit and without a login.
    ///
    /// # Errors
    /// As [`Accounts::sign_up`].
    pub async fn add(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: FirstPassword,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<User, AccountsError> {
        let id = self.random_id();
        let account = match self.prepare(id, partner, new, password, now)? {
            Prepared::Ready(account) => account,
            Prepared::Unhashed(unhashed) => {
                let this = self.clone();
                let work = move |memory: &mut HashMemory| this.hash_password(unhashed, memory);
                pool.run(work).await??
            }
        };
        self.change(move |inner, txn| account.insert_with_partner(inner, txn))
            .await
    }

    /// Checks a user whom an operator adds, as far as that costs no hash.
    ///
    /// # Errors
    /// What is wrong with the password or a field.
    pub fn prepare(
        &self,
        id: UserId,
        partner: PartnerId,
        new: NewUser,
        password: FirstPassword,
        now: UnixSeconds,
    ) -> Result<Prepared, AccountsError> {
        let hash = match password {
            FirstPassword::Plain(password) => {
                self.check_new(partner, &new, &password, now)?;
                let account = self.new_account(id, partner, new, String::new(), now);
                return Ok(Prepared::Unhashed(Unhashed { account, password }));
            }
            FirstPassword::Hashed(hash) => hash.into_stored(),
            // What no password matches, so that this account is like any other.
            FirstPassword::None => hashing::dummy(self.0.settings.cost),
        };
        check_birth_date(new.birth_date.as_ref(), now)?;
        Ok(Prepared::Ready(
            self.new_account(id, partner, new, hash, now),
        ))
    }

    /// Hashes the password of a prepared user.
    ///
    /// # Errors
    /// [`AccountsError::HashUnusable`].
    pub fn hash_password(
        &self,
        unhashed: Unhashed,
        memory: &mut HashMemory,
    ) -> Result<NewAccount, AccountsError> {
        let Unhashed {
            mut account,
            password,
        } = unhashed;
        account.credentials.password = self.hash(password.reveal(), memory)?;
        Ok(account)
    }

    /// Stores prepared users in one commit; returns how many of them are new. Those whose addresses
    /// are taken are left out, and whoever has the address stays as they are.
    pub fn add_many(&self, accounts: Vec<NewAccount>) -> Commit<u64, AccountsError> {
        self.change(move |inner, txn| {
            let mut added = 0;
            let mut partner = None;
            for account in accounts {
                // One look for a batch: nothing else is planned in between.
                if partner != Some(account.record.partner) {
                    check_partner(txn, &account.record.partner)?;
                    partner = Some(account.record.partner);
                }
                match account.insert(inner, txn) {
                    Ok(_) => added += 1,
                    Err(AccountsError::EmailInUse) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(added)
        })
    }

    /// Waits until the store has nearly caught up with what was written, so that a bulk import does not
    /// make the commits of others wait; blocking.
    pub fn pace(&self) {
        self.0.store.pace();
    }

    fn check_new(
        &self,
        partner: PartnerId,
        new: &NewUser,
        password: &Password,
        now: UnixSeconds,
    ) -> Result<(), AccountsError> {
        check_birth_date(new.birth_date.as_ref(), now)?;
        self.check_password(password, partner, &new.email, new.name.as_ref())
    }

    fn random_id(&self) -> UserId {
        UserId::from_bytes(self.0.entropy.array())
    }

    /// Chooses where in the order of ids the users of one batch are stored.
    #[must_use]
    pub fn id_range(&self) -> IdRange {
        IdRange(self.0.entropy.array())
    }

    /// A new id within a range.
    #[must_use]
    pub fn id_in(&self, range: &IdRange) -> UserId {
        let mut id: [u8; 16] = self.0.entropy.array();
        for (byte, shared) in id.iter_mut().zip(range.0) {
            *byte = shared;
        }
        UserId::from_bytes(id)
    }

    fn new_account(
        &self,
        id: UserId,
        partner: PartnerId,
        new: NewUser,
        password: String,
        now: UnixSeconds,
    ) -> NewAccount {
        let credentials = CredentialRecord {
            password,
            password_set: now,
            generation: 0,
            pin: None,
        };
        let record = UserRecord {
            partner,
            email: new.email,
            name: new.name.filter(|name| !name.as_str().is_empty()),
            country: new.country,
            locale: new.locale,
            birth_date: new.birth_date,
            created: now,
            tags: Vec::new(),
            parental: ParentalControl {
                enabled: false,
                limit: self.0.settings.parental_limit,
            },
            has_pin: false,
            disabled: false,
        };
        NewAccount {
            id,
            record,
            credentials,
        }
    }
}

/// The leading bytes that the ids of a batch of imported users share.
///
/// A record under an id that is random in all its bytes costs the engine a leaf of its tree that is not
/// in memory, and an import of a million users millions of such reads. The ids of a batch lie side by side
/// instead. They stay 112 random bits apart, and the ranges are random, so that the stand-ins of
/// unknown addresses, which are chosen by place in this order, are still spread over all batches.
pub struct IdRange([u8; 2]);

/// A user who is checked and ready to be stored.
pub struct NewAccount {
    id: UserId,
    record: UserRecord,
    credentials: CredentialRecord,
}

/// A user who is checked and whose password is still to be hashed.
pub struct Unhashed {
    account: NewAccount,
    password: Password,
}

/// A user whom an operator adds, checked.
pub enum Prepared {
    /// Ready to be stored.
    Ready(NewAccount),
    /// The password costs a hash first.
    Unhashed(Unhashed),
}

impl Unhashed {
    /// The partner and the address, by which a user is known.
    #[must_use]
    pub const fn address(&self) -> (PartnerId, &Email) {
        self.account.address()
    }

    /// The user as no password matches them, for a trial that stores nobody.
    #[must_use]
    pub fn without_password(self) -> NewAccount {
        self.account
    }
}

impl NewAccount {
    /// The partner and the address, by which a user is known.
    #[must_use]
    pub const fn address(&self) -> (PartnerId, &Email) {
        (self.record.partner, &self.record.email)
    }

    /// Stores the user if the address is free and the partner is there.
    fn insert_with_partner(self, inner: &Inner, txn: &mut Txn<'_>) -> Result<User, AccountsError> {
        check_partner(txn, &self.record.partner)?;
        self.insert(inner, txn)
    }

    /// Stores the user of a partner who is there, if the address is free. Nothing else gives a user an
    /// address: [`KnownAddresses`](super::addresses::KnownAddresses) relies on that.
    fn insert(self, inner: &Inner, txn: &mut Txn<'_>) -> Result<User, AccountsError> {
        let Self {
            id,
            record,
            credentials,
        } = self;
        let address = (record.partner, record.email.clone());
        if inner.addresses.may_hold(&address) && txn.find::<UsersByEmail>(&address)?.is_some() {
            return Err(AccountsError::EmailInUse);
        }
        inner.addresses.add(&address);
        txn.insert::<Users>(&id, &record)?;
        txn.insert::<Credentials>(&id, &credentials)?;
        Ok(record.into_user(id))
    }
}

/// While a password is hashed its partner may be removed, and nobody would ever erase a user of a
/// partner who is gone.
fn check_partner(txn: &Txn<'_>, partner: &PartnerId) -> Result<(), AccountsError> {
    match partners::standing(txn, partner)? {
        PartnerStatus::Unknown => Err(AccountsError::PartnerNotFound),
        PartnerStatus::Active | PartnerStatus::Disabled => Ok(()),
    }
}
