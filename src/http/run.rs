//! Work of the domain that blocks, in the lane where it may.

use super::context::Context;
use super::error::ApiError;
use super::fair_queue::{Network, Turn};
use super::lanes::Lane;
use crate::app::App;
use crate::domain::accounts::{Accounts, AccountsError, HashMemory, PinError};
use crate::types::PartnerId;

/// Runs a verb of accounts that hashes, for a partner's client if it is one.
///
/// # Errors
/// `OVERLOADED` at once if the lane is full; what the verb refuses.
pub async fn hashing<T: Send + 'static>(
    app: &App,
    cx: &Context,
    partner: Option<PartnerId>,
    verb: impl FnOnce(&Accounts, &mut HashMemory) -> Result<T, AccountsError> + Send + 'static,
) -> Result<T, ApiError> {
    let accounts = app.accounts.clone();
    let answer = app.hashing.run_for(turn(app, cx, partner), move |memory| {
        verb(&accounts, memory)
    })?;
    let result = answer.await?;
    if result.as_ref().is_err_and(is_wrong_guess) {
        record_failure(app, cx);
    }
    Ok(result?)
}

/// The turn of a client in the pool that hashes.
pub fn turn(app: &App, cx: &Context, partner: Option<PartnerId>) -> Turn {
    let network = Network::of(cx.peer);
    Turn {
        partner,
        network: Some(network),
        suspect: app.front.failures.is_suspect(network, cx.now),
    }
}

/// Notes a wrong guess: the network's next ones wait behind those of others.
pub fn record_failure(app: &App, cx: &Context) {
    app.front.failures.record(Network::of(cx.peer), cx.now);
}

/// Whether somebody has guessed wrongly.
fn is_wrong_guess(error: &AccountsError) -> bool {
    matches!(
        error,
        AccountsError::InvalidCredentials
            | AccountsError::PasswordWrong
            | AccountsError::Pin(PinError::Wrong { .. })
            | AccountsError::ResetTokenInvalid
    )
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
