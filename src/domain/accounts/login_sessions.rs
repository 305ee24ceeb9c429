//! Login sessions: each belongs to one User Authorization Token.

use super::tables::{LoginRecord, Logins, LoginsByUser};
use super::{Accounts, AccountsError, Inner, Login, LoginInfo, LoginOrigin, User};
use playgate_store::{Commit, Durability, StoreError, Txn, WritePriority};
use playgate_types::time::{DAY, HOUR};
use playgate_types::{LoginId, PartnerId, TokenHash, UnixSeconds, UserId};

/// Tokens created further in the future are rejected: a clock that ran ahead made them, and they would live too
/// long.
const FROM_THE_FUTURE: i64 = DAY;

/// A use is stored when the last one is this old, in seconds: with a write for each request a viewer would cost as much as a
/// login every few seconds.
const USE_INTERVAL: i64 = HOUR;
const BATCH: usize = 500;

pub(super) fn is_alive(created: UnixSeconds, expires: UnixSeconds, now: UnixSeconds) -> bool {
    created <= now + FROM_THE_FUTURE && now < expires
}

impl Accounts {
    /// Authenticates a user token from memory. Returns `None` if it is unknown, expired, revoked or of another partner.
    pub fn authenticate(
        &self,
        token: &TokenHash,
        partner: PartnerId,
        now: UnixSeconds,
    ) -> Option<Login> {
        let found = self.0.logins.get(token)?;
        // Token time, so that a clock that goes back does not revive an expired token.
        let at = self.0.expiry.at(now);
        // A token is not valid with the access token of another partner.
        // A use that is not stored yet moves the idle limit too.
        let alive = is_alive(found.created, found.ends(), at)
            || is_alive(found.created, found.expires, at)
                && self
                    .0
                    .used_logins
                    .lock()
                    .get(token)
                    .is_some_and(|used| at < *used + self.0.settings.token_idle);
        let good = found.partner == partner && alive;
        if good && at.since(found.used) >= USE_INTERVAL {
            // Stored by a job: an answer from memory must not wait for a commit.
            self.0.used_logins.lock().insert(*token, at);
        }
        good.then_some(Login {
            user: found.user,
            login: found.login,
        })
    }

    /// Stores the uses of logins since the last call, which moves their idle limits. Returns their number. Blocking.
    pub fn store_uses(&self) -> Result<usize, StoreError> {
        let used: Vec<_> = self.0.used_logins.lock().drain().collect();
        for batch in used.chunks(BATCH) {
            let (batch, idle) = (batch.to_vec(), self.0.settings.token_idle);
            let store = move |txn: &mut Txn<'_>| -> Result<(), StoreError> {
                for (token, at) in batch {
                    // The login may have ended since.
                    let Some(login) = txn.get::<Logins>(&token)? else {
                        continue;
                    };
                    let (used, idle_until) = (login.used.max(at), login.idle_until.max(at + idle));
                    let login = LoginRecord {
                        used,
                        idle_until,
                        ..login
                    };
                    txn.put::<Logins>(&token, &login)?;
                }
                Ok(())
            };
            // Not durable: a power cut loses an hour of use at most.
            self.0.store.write(Durability::Logged, store).wait()?;
        }
        Ok(used.len())
    }

    /// Returns one login session. Reads from disk.
    pub fn login(
        &self,
        user: &UserId,
        login: LoginId,
        now: UnixSeconds,
    ) -> Result<LoginInfo, AccountsError> {
        let logins = self.logins(user, now)?;
        logins
            .into_iter()
            .find(|found| found.id == login)
            .ok_or(AccountsError::LoginNotFound)
    }

    /// Lists the login sessions of a user, oldest first. Reads from disk.
    pub fn logins(&self, user: &UserId, now: UnixSeconds) -> Result<Vec<LoginInfo>, StoreError> {
        let expiry = &self.0.expiry;
        let at = expiry.at(now);
        self.0.store.read(|txn| {
            let mut logins = logins_of_user(txn, user)?;
            // Expired logins stay in the store until the next sweep.
            logins.retain(|(_, login)| is_alive(login.created, login.ends(), at));
            let pending = self.0.used_logins.lock();
            Ok(logins
                .into_iter()
                .map(|(token, login)| {
                    let used = pending.get(&token).copied().unwrap_or(login.used);
                    LoginInfo {
                        id: login.login,
                        created: expiry.token_to_wall(login.created, now),
                        expires: expiry.token_to_wall(login.ends(), now),
                        used: expiry.token_to_wall(used, now),
                        program: login.program,
                        device: login.device,
                    }
                })
                .collect())
        })
    }

    /// The token is rejected from the next request on.
    pub fn end_login(&self, user: UserId, login: LoginId) -> Commit<(), AccountsError> {
        self.change_for(WritePriority::Login, move |_, txn| {
            // Only among the logins of this user: an id of another user's login is not found.
            let (token, _) = logins_of_user(txn, &user)?
                .into_iter()
                .find(|(_, found)| found.login == login)
                .ok_or(AccountsError::LoginNotFound)?;
            Ok(txn.delete::<Logins>(&token)?)
        })
    }

    pub fn end_logins(&self, user: UserId) -> Commit<usize, AccountsError> {
        self.change_for(WritePriority::Login, move |_, txn| {
            super::user_record(txn, &user)?;
            Ok(end_all(txn, &user, None)?)
        })
    }
}

impl Inner {
    /// Stores a login session, makes its client known, and ends the least recently used ones over the limit, which it returns.
    /// `at` is token time.
    pub(super) fn begin(
        &self,
        txn: &mut Txn<'_>,
        (token, login): (TokenHash, LoginId),
        user: &User,
        origin: LoginOrigin,
        at: UnixSeconds,
    ) -> Result<Vec<LoginId>, StoreError> {
        let LoginOrigin { from, client } = origin;
        let account = (&user.partner, &user.email);
        self.remember_client(txn, account, from, client.device.as_deref())?;
        let mut displaced = Vec::new();
        let settings = &self.settings;
        let present = txn.scan_index::<LoginsByUser>(&user.id, usize::MAX)?;
        // At least one, so that this login always has room.
        let surplus = (present.len() + 1).saturating_sub(settings.logins_per_user.max(1));
        if surplus > 0 {
            let mut logins = logins_of_user(txn, &user.id)?;
            let pending = self.used_logins.lock();
            logins.sort_by_key(|(token, login)| {
                let used = pending.get(token).copied().unwrap_or(login.used);
                (used, login.created)
            });
            drop(pending);
            for (token, login) in logins.iter().take(surplus) {
                txn.delete::<Logins>(token)?;
                displaced.push(login.login);
            }
        }
        let record = LoginRecord {
            login,
            user: user.id,
            partner: user.partner,
            created: at,
            expires: at + settings.token_life,
            idle_until: at + settings.token_idle,
            used: at,
            program: client.program,
            device: client.device,
        };
        txn.put::<Logins>(&token, &record)?;
        Ok(displaced)
    }

    /// Ends all logins of a user and, through the revokers, the activity in other modules.
    pub(super) fn revoke(
        &self,
        txn: &mut Txn<'_>,
        user: &UserId,
        now: UnixSeconds,
    ) -> Result<(), StoreError> {
        end_all(txn, user, None)?;
        for revoker in &self.revokers {
            revoker(txn, user, now)?;
        }
        Ok(())
    }
}

pub(super) fn end_all(
    txn: &mut Txn<'_>,
    user: &UserId,
    except: Option<LoginId>,
) -> Result<usize, StoreError> {
    let mut ended = 0;
    for (token, login) in logins_of_user(txn, user)? {
        if Some(login.login) != except {
            txn.delete::<Logins>(&token)?;
            ended += 1;
        }
    }
    Ok(ended)
}

pub(super) fn logins_of_user(
    txn: &Txn<'_>,
    user: &UserId,
) -> Result<Vec<(TokenHash, LoginRecord)>, StoreError> {
    let tokens = txn.scan_index::<LoginsByUser>(user, usize::MAX)?;
    let mut logins = Vec::with_capacity(tokens.len());
    for (_, token) in tokens {
        // Outside of a write batch the login may have ended since the index was read.
        logins.extend(txn.get::<Logins>(&token)?.map(|login| (token, login)));
    }
    Ok(logins)
}
