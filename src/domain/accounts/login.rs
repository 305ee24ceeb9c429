//! Login.

use std::net::IpAddr;

use super::attempt_limits::AttemptSubject;
use super::hashing::{self, PasswordVerdict};
use super::tables::{CredentialRecord, CredentialTable, Users, UsersByEmail};
use super::{
    Accounts, AccountsError, HashMemory, HashPool, LoginClient, LoginOrigin, NewLogin, credentials,
    throttle,
};
use crate::decision::DecisionTrace;
use playgate_store::{Durability, StoreError, WritePriority};
use playgate_types::{Email, LoginId, PartnerId, Password, Token, TokenKind, UnixSeconds, UserId};

pub struct LoginAttempt {
    pub email: Email,
    pub password: Password,
    pub from: IpAddr,
    pub client: LoginClient,
    pub trace: DecisionTrace,
}

impl LoginAttempt {
    pub(super) fn guesses(&self, accounts: &Accounts, partner: PartnerId) -> Vec<AttemptSubject> {
        let device = self.client.device.as_deref();
        accounts.guesses(partner, &self.email, self.from, device)
    }
}

struct FoundUser {
    id: UserId,
    disabled: bool,
    generation: u32,
}

impl Accounts {
    pub async fn log_in(
        &self,
        partner: PartnerId,
        given: LoginAttempt,
        now: UnixSeconds,
        pool: &impl HashPool,
    ) -> Result<NewLogin, AccountsError> {
        // An unknown user, a disabled account and a wrong password take the same time, count alike and give
        // the same error, so that an attacker cannot discover accounts.
        let subjects = given.guesses(self, partner);
        let attempt = self.attempt(Durability::Logged, subjects, now).await?;
        let (client, from) = (given.client.clone(), given.from);
        let check =
            move |this: &Self, memory: &mut HashMemory| this.check_login(partner, &given, memory);
        let (found, rehashed) = attempt.work(pool, check).await??;
        let reservation = attempt.reservation();
        let token = Token::new(TokenKind::User, self.0.entropy.array());
        let hash = token.hash();
        let login = LoginId::from_bytes(self.0.entropy.array());
        let user = self.change_for(WritePriority::Login, move |inner, txn| {
            let id = found.id;
            // Read again: the check ran outside of the transaction.
            let present = credentials(txn, &id).map_err(hide_removed_user)?;
            let record = txn
                .get::<Users>(&id)?
                .ok_or(AccountsError::InvalidCredentials)?;
            // The password was changed or the account disabled during the hashing.
            if present.generation != found.generation || record.disabled {
                return Err(AccountsError::InvalidCredentials);
            }
            // The attempt was counted as a failure before the check.
            throttle::settle(txn, &inner.settings.limits, &reservation, now)?;
            // Only a login has the plain password, so an imported hash or one of an older cost is replaced here.
            if let Some(password) = rehashed {
                txn.put::<CredentialTable>(
                    &id,
                    &CredentialRecord {
                        password,
                        ..present
                    },
                )?;
            }
            let user = record.into_user(id);
            let at = inner.expiry.at(now);
            let origin = LoginOrigin { from, client };
            let displaced = inner.begin(txn, (hash, login), &user, origin, at)?;
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

    /// Checks the password. Also returns a new hash if the stored one is outdated.
    fn check_login(
        &self,
        partner: PartnerId,
        given: &LoginAttempt,
        memory: &mut HashMemory,
    ) -> Result<(FoundUser, Option<String>), AccountsError> {
        let (found, stored) = self.look_up(partner, &given.email)?;
        let cost = self.0.settings.cost;
        let PasswordVerdict { matches, outdated } =
            hashing::verify_password(&given.password, &stored, cost, memory)?;
        // Traced here, because the account may be disabled or get another password before the answer. The reasons differ
        // by nanoseconds of tracing, which the milliseconds of hashing hide.
        trace_check(&given.trace, found.as_ref(), matches);
        // A disabled account is rejected only after the hash, so that it takes the same time.
        let Some(found) = found.filter(|found| matches && !found.disabled) else {
            return Err(AccountsError::InvalidCredentials);
        };
        let rehashed = outdated
            .then(|| self.hash(given.password.reveal(), memory))
            .transpose()?;
        Ok((found, rehashed))
    }

    /// Returns the user and the hash to check, which is the decoy's if no user has the address.
    fn look_up(
        &self,
        partner: PartnerId,
        email: &Email,
    ) -> Result<(Option<FoundUser>, String), StoreError> {
        self.0.store.read(|txn| {
            // Read for every address, so that reads take the same time.
            let decoy = self.decoy(txn, partner, email)?;
            let Some(id) = txn.find::<UsersByEmail>(&(partner, email.clone()))? else {
                return Ok((None, decoy));
            };
            let (record, credentials) = (txn.get::<Users>(&id)?, txn.get::<CredentialTable>(&id)?);
            Ok(match record.zip(credentials) {
                // The user was removed between the two reads.
                None => (None, decoy),
                Some((record, credentials)) => {
                    let found = FoundUser {
                        id,
                        disabled: record.disabled,
                        generation: credentials.generation,
                    };
                    (Some(found), credentials.password)
                }
            })
        })
    }
}

/// Records for operators why a login failed; the client gets the same error for each reason.
fn trace_check(trace: &DecisionTrace, found: Option<&FoundUser>, matches: bool) {
    let Some(found) = found else {
        return trace.step(
            "account",
            false,
            || "no user of the partner has the address",
        );
    };
    trace.user(found.id);
    if found.disabled {
        return trace.step("account", false, || "the account is disabled");
    }
    trace.step("account", true, || "the account is enabled");
    if !matches {
        trace.step("password", false, || "the password is wrong");
    }
}

fn hide_removed_user(error: AccountsError) -> AccountsError {
    match error {
        // The user was removed during the login.
        AccountsError::UserNotFound => AccountsError::InvalidCredentials,
        other => other,
    }
}
