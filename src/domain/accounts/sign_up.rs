//! New users (interface, part 4.2).

use std::net::IpAddr;

use super::logins::begin;
use super::tables::{CredentialRecord, Credentials, UserRecord, Users, UsersByEmail};
use super::throttle::{Kind, Subject};
use super::{
    Accounts, AccountsError, HashMemory, NewUser, Opened, ParentalControl, User, check_birth_date,
    policy,
};
use crate::store::{Durability, Txn};
use crate::types::{PartnerId, Token, TokenKind, UnixSeconds, UserId};

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
        from: IpAddr,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<Opened, AccountsError> {
        self.check_new(&new, now)?;
        let subject = Subject::address(Kind::SignUpAddress, from);
        self.reserve(Durability::Logged, vec![subject], now)?;
        // Before the hash is paid for; the plan has the last word.
        if self.find(partner, &new.email)?.is_some() {
            return Err(AccountsError::EmailInUse);
        }
        let draft = self.draft(partner, new, now, memory)?;
        let token = Token::new(TokenKind::User, self.0.entropy.array());
        let hash = token.hash();
        let login = crate::types::LoginId::from_bytes(self.0.entropy.array());
        let user = self.change(move |inner, txn| {
            let user = draft.put(txn)?;
            begin(txn, &inner.settings, hash, login, &user, now)?;
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
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<User, AccountsError> {
        self.check_new(&new, now)?;
        let draft = self.draft(partner, new, now, memory)?;
        self.change(move |_, txn| draft.put(txn))
    }

    fn check_new(&self, new: &NewUser, now: UnixSeconds) -> Result<(), AccountsError> {
        check_birth_date(new.birth_date.as_ref(), now)?;
        policy::check(
            &new.password,
            self.0.settings.password_min,
            &new.email,
            new.name.as_ref(),
        )
    }

    fn draft(
        &self,
        partner: PartnerId,
        new: NewUser,
        now: UnixSeconds,
        memory: &mut HashMemory,
    ) -> Result<Draft, AccountsError> {
        let credentials = CredentialRecord {
            password: self.hash(new.password.reveal(), memory)?,
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
        Ok(Draft {
            id: UserId::from_bytes(self.0.entropy.array()),
            record,
            credentials,
        })
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
