//! New users: sign-up, addition by operators, bulk import.

use std::sync::Arc;

use super::admin::validate_tags;
use super::attempt_limits::AttemptKind;
use super::tables::{CredentialRecord, CredentialTable, UserRecord, Users, UsersByEmail};
use super::{
    Accounts, AccountsError, AddressWatch, FirstPassword, HashMemory, HashPool, ImportedState,
    Inner, LoginOrigin, NewLogin, NewUser, ParentalControl, User, check_birth_date, hashing,
};
use crate::partners::{self, PartnerStatus};
use playgate_store::{BulkWrites, Commit, Durability, StoreError, Txn};
use playgate_types::{
    Email, LoginId, Malformed, PartnerId, Password, Token, TokenKind, UnixSeconds, UserId,
};

impl Accounts {
    /// Creates a user and logs them in. An existing user is never changed.
    pub async fn sign_up(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: &Password,
        origin: impl Into<LoginOrigin>,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<NewLogin, AccountsError> {
        let origin = origin.into();
        let from = origin.from;
        self.check_new(partner, &new, password, now)?;
        // Counted even if it fails: the error reveals that an address has an account.
        let subject = self.address_subject(AttemptKind::SignUpAddress, Some(&partner), from);
        let attempt = self
            .attempt(Durability::Logged, subject.into_iter().collect(), now)
            .await?;
        let password = password.clone();
        let work = move |this: &Self, memory: &mut HashMemory| {
            // Check before paying for the hash; the write batch checks again.
            if this.find(partner, &new.email)?.is_some() {
                return Err(AccountsError::EmailInUse);
            }
            let hash = this.hash(password.reveal(), memory)?;
            Ok(this.new_account(partner, new, hash, now))
        };
        let account = attempt.work(pool, work).await??;
        let token = Token::new(TokenKind::User, self.0.entropy.array());
        let token_hash = token.hash();
        let login = LoginId::from_bytes(self.0.entropy.array());
        let user = self.change(move |inner, txn| {
            // The partner may have been disabled since the token was checked, for example by its removal.
            if partners::status(txn, &partner)? != PartnerStatus::Active {
                return Err(AccountsError::PartnerGone);
            }
            let user = account.insert_with_partner(inner, txn)?;
            let at = inner.expiry.at(now);
            let displaced = inner.begin(txn, (token_hash, login), &user, origin, at)?;
            Ok((user, displaced))
        });
        let (user, displaced) = user.await?;
        Ok(NewLogin {
            token,
            login,
            user,
            displaced,
        })
    }

    /// Adds a user for an operator, without a rate limit and without a login.
    pub async fn add(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: FirstPassword,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<User, AccountsError> {
        let prepared = self.prepare(partner, new, password, now)?;
        self.add_prepared(prepared, pool).await
    }

    /// Adds a user that was validated before.
    pub async fn add_prepared(
        &self,
        prepared: PreparedSignUp,
        pool: &impl HashPool,
    ) -> Result<User, AccountsError> {
        let account = match prepared {
            PreparedSignUp::Ready(account) => account,
            PreparedSignUp::Unhashed(unhashed) => {
                let this = self.clone();
                let work = move |memory: &mut HashMemory| this.hash_password(unhashed, memory);
                pool.run(work).await??
            }
        };
        self.change(move |inner, txn| account.insert_with_partner(inner, txn))
            .await
    }

    /// Validates the account, but does not hash its password.
    pub fn prepare(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: FirstPassword,
        now: UnixSeconds,
    ) -> Result<PreparedSignUp, AccountsError> {
        let hash = match password {
            FirstPassword::Plain(password) => {
                self.check_new(partner, &new, &password, now)?;
                let account = self.new_account(partner, new, String::new(), now);
                return Ok(PreparedSignUp::Unhashed(Unhashed { account, password }));
            }
            // The policy is not applied: only the hash is known.
            FirstPassword::Hashed(hash) => hash.into_stored(),
            // No password matches this hash; the user sets one with a reset.
            FirstPassword::None => hashing::dummy(self.0.settings.cost),
        };
        check_birth_date(new.birth_date.as_ref(), now)?;
        Ok(PreparedSignUp::Ready(
            self.new_account(partner, new, hash, now),
        ))
    }

    /// Validates an account that comes with more than the profile.
    pub fn prepare_imported(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: FirstPassword,
        state: ImportedState,
        now: UnixSeconds,
    ) -> Result<PreparedSignUp, AccountsError> {
        if state.created.is_some_and(|created| created > now) {
            return Err(AccountsError::FieldMalformed {
                field: "createdTimestamp",
                why: Malformed("is in the future"),
            });
        }
        let tags = validate_tags(state.tags)?;
        let mut prepared = self.prepare(partner, new, password, now)?;
        let record = match &mut prepared {
            PreparedSignUp::Ready(account) => &mut account.record,
            PreparedSignUp::Unhashed(unhashed) => &mut unhashed.account.record,
        };
        record.created = state.created.unwrap_or(record.created);
        record.tags = tags;
        record.disabled = state.disabled;
        // Without a PIN the programs above the limit stay closed until the user sets one.
        record.parental = ParentalControl {
            enabled: state.parental_enabled.unwrap_or(record.parental.enabled),
            limit: state.parental_limit.unwrap_or(record.parental.limit),
        };
        Ok(prepared)
    }

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

    /// Adds users in one commit and returns the number of new ones. Users with an existing address are skipped and not
    /// changed. `also` runs for each new user, with the position in `accounts`.
    /// Adds the users of an import, which has found each address free while it held `watch`.
    pub fn add_many(
        &self,
        accounts: Vec<NewAccount>,
        also: AlsoInsert,
        watch: Arc<AddressWatch>,
    ) -> Commit<u64, AccountsError> {
        self.change(move |inner, txn| {
            // Until here, even if the import has ended meanwhile.
            let _watch = watch;
            let mut added = 0;
            let mut partner = None;
            for (at, account) in accounts.into_iter().enumerate() {
                // Once per partner suffices: no other write runs during the batch.
                if partner != Some(account.record.partner) {
                    check_partner(txn, &account.record.partner)?;
                    partner = Some(account.record.partner);
                }
                match account.insert_checked(inner, txn) {
                    Ok(user) => {
                        also(txn, &user.id, at)?;
                        added += 1;
                    }
                    // Skipped and not refused, so that an interrupted import can be run again.
                    Err(AccountsError::EmailInUse) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(added)
        })
    }

    /// A bulk import holds the guard while it runs.
    pub fn bulk_writes(&self) -> BulkWrites {
        self.0.store.bulk_writes()
    }

    /// Blocks until the store has nearly caught up, so that a bulk import does not delay other commits.
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

    fn new_account(
        &self,
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
            // An empty name counts as none.
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
            id: UserId::from_bytes(self.0.entropy.array()),
            record,
            credentials,
        }
    }
}

/// What is stored with a new user, in the same commit.
pub type AlsoInsert =
    Box<dyn Fn(&mut Txn<'_>, &UserId, usize) -> Result<(), StoreError> + Send + Sync>;

pub struct NewAccount {
    id: UserId,
    record: UserRecord,
    credentials: CredentialRecord,
}

pub struct Unhashed {
    account: NewAccount,
    password: Password,
}

pub enum PreparedSignUp {
    Ready(NewAccount),
    Unhashed(Unhashed),
}

impl PreparedSignUp {
    pub const fn address(&self) -> (PartnerId, &Email) {
        match self {
            Self::Ready(account) => account.address(),
            Self::Unhashed(unhashed) => unhashed.address(),
        }
    }
}

impl Unhashed {
    pub const fn address(&self) -> (PartnerId, &Email) {
        self.account.address()
    }

    pub fn without_password(self) -> NewAccount {
        self.account
    }
}

impl NewAccount {
    pub const fn address(&self) -> (PartnerId, &Email) {
        (self.record.partner, &self.record.email)
    }

    fn insert_with_partner(self, inner: &Inner, txn: &mut Txn<'_>) -> Result<User, AccountsError> {
        check_partner(txn, &self.record.partner)?;
        self.insert(inner, txn)
    }

    fn insert(self, inner: &Inner, txn: &mut Txn<'_>) -> Result<User, AccountsError> {
        let address = (self.record.partner, self.record.email.clone());
        match txn.find::<UsersByEmail>(&address)? {
            Some(_) => Err(AccountsError::EmailInUse),
            None => self.insert_unused(&address, inner, txn),
        }
    }

    /// Inserts a user whose address was free at some time since a watch began.
    fn insert_checked(self, inner: &Inner, txn: &mut Txn<'_>) -> Result<User, AccountsError> {
        let address = (self.record.partner, self.record.email.clone());
        match inner.addresses.may_be_newly_taken(&address) {
            true => self.insert(inner, txn),
            false => self.insert_unused(&address, inner, txn),
        }
    }

    /// [`WatchedAddresses`](super::addresses::WatchedAddresses) relies on this and the change of an address being the only
    /// places that assign one.
    fn insert_unused(
        self,
        address: &(PartnerId, Email),
        inner: &Inner,
        txn: &mut Txn<'_>,
    ) -> Result<User, AccountsError> {
        let Self {
            id,
            record,
            credentials,
        } = self;
        inner.addresses.add(address);
        // `insert` and not `put`: the id is new, so there is no old record to look up.
        txn.insert::<Users>(&id, &record)?;
        txn.insert::<CredentialTable>(&id, &credentials)?;
        Ok(record.into_user(id))
    }
}

fn check_partner(txn: &Txn<'_>, partner: &PartnerId) -> Result<(), AccountsError> {
    // The partner may be removed during the hashing; nothing would ever erase a user of a removed
    // partner.
    match partners::status(txn, partner)? {
        PartnerStatus::Unknown => Err(AccountsError::PartnerNotFound),
        PartnerStatus::Active | PartnerStatus::Disabled => Ok(()),
    }
}
