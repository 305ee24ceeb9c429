//! New users (interface, part 4.2).

use std::net::IpAddr;

use super::logins::begin;
use super::tables::{CredentialRecord, Credentials, UserRecord, Users, UsersByEmail};
use super::throttle::{Kind, Subject};
use super::{
    Accounts, AccountsError, FirstPassword, HashMemory, NewUser, Opened, ParentalControl, User,
    check_birth_date, hashing,
};
use crate::store::{Durability, Txn};
use crate::types::{LoginId, PartnerId, Password, Token, TokenKind, UnixSeconds, UserId};

impl Accounts {
    /// Makes a user and logs them in; blocking. An attempt counts for its network address whether
    /// it succeeds or not: a refusal tells that an address has an account.
    ///
    /// # Errors
    /// [`AccountsError::EmailInUse`], which never changes the user who has the address;
    /// [`AccountsError::TooManyAttempts`]; what is wrong with the password or a field.
    pub fn sign_up(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: &Password,
        from: IpAddr,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<Opened, AccountsError> {
        self.check_new(partner, &new, password, now)?;
        let subject = Subject::address(Kind::SignUpAddress, from);
        self.reserve(Durability::Logged, vec![subject], now)?;
        // Before the hash is paid for; the plan has the last word.
        if self.find(partner, &new.email)?.is_some() {
            return Err(AccountsError::EmailInUse);
        }
        let hash = self.hash(password.reveal(), memory)?;
        let draft = self.draft(partner, new, hash, now);
        let token = Token::new(TokenKind::User, self.0.entropy.array());
        let token_hash = token.hash();
        let login = LoginId::from_bytes(self.0.entropy.array());
        let user = self.change(move |inner, txn| {
            let user = draft.put(txn)?;
            begin(txn, &inner.settings, token_hash, login, &user, now)?;
            Ok(user)
        })?;
        Ok(Opened { token, login, user })
    }

    /// Makes a user for an operator, without a limit and without a login; blocking.
    ///
    /// # Errors
    /// As [`Accounts::sign_up`].
    pub fn add(
        &self,
        partner: PartnerId,
        new: NewUser,
        password: FirstPassword,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<User, AccountsError> {
        let hash = match password {
            FirstPassword::Plain(password) => {
                self.check_new(partner, &new, &password, now)?;
                self.hash(password.reveal(), memory)?
            }
            FirstPassword::Hashed(hash) => {
                check_birth_date(new.birth_date.as_ref(), now)?;
                hash.into_stored()
            }
            // What no password matches, so that this account is like any other.
            FirstPassword::None => {
                check_birth_date(new.birth_date.as_ref(), now)?;
                hashing::of_nobody(self.0.settings.cost)
            }
        };
        let draft = self.draft(partner, new, hash, now);
        self.change(move |_, txn| draft.put(txn))
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

    fn draft(&self, partner: PartnerId, new: NewUser, password: String, now: UnixSeconds) -> Draft {
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
        Draft {
            id: UserId::from_bytes(self.0.entropy.array()),
            record,
            credentials,
        }
    }
}

/// A user who is about to be stored.
struct Draft {
    id: UserId,
    record: UserRecord,
    credentials: CredentialRecord,
}

impl Draft {
    /// Stores the user if the address is free.
    fn put(self, txn: &mut Txn<'_>) -> Result<User, AccountsError> {
        let Self {
            id,
            record,
            credentials,
        } = self;
        let address = (record.partner, record.email.clone());
        if txn.find::<UsersByEmail>(&address)?.is_some() {
            return Err(AccountsError::EmailInUse);
        }
        txn.put::<Users>(&id, &record)?;
        txn.put::<Credentials>(&id, &credentials)?;
        Ok(record.into_user(id))
    }
}
