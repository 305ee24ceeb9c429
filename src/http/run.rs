//! Work of the domain that blocks, in the lane where it may.

use super::error::ApiError;
use super::lanes::{Lane, Owner};
use crate::app::App;
use crate::domain::accounts::{Accounts, AccountsError, HashMemory};

/// Runs a verb of accounts that hashes, for a partner's client if it is one.
///
/// # Errors
/// `OVERLOADED` at once if the lane is full; what the verb refuses.
pub async fn hashing<T: Send + 'static>(
    app: &App,
    owner: Owner,
    verb: impl FnOnce(&Accounts, &mut HashMemory) -> Result<T, AccountsError> + Send + 'static,
) -> Result<T, ApiError> {
    let accounts = app.accounts.clone();
    let answer = app
        .hashing
        .run_for(owner, move |memory| verb(&accounts, memory))?;
    Ok(answer.await??)
}

/// Runs a verb that reads cold or waits for a commit.
///
/// # Errors
/// `OVERLOADED` at once if the lane is full; what the verb refuses.
pub async fn cold<T, E>(
    app: &App,
    verb: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    within(&app.cold, verb).await
}

/// The same in the lane of long work.
///
/// # Errors
/// As [`cold`].
pub async fn bulk<T, E>(
    app: &App,
    verb: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    within(&app.bulk, verb).await
}

async fn within<T, E>(
    lane: &Lane<()>,
    verb: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    Ok(lane.run(move |()| verb())?.await??)
}
