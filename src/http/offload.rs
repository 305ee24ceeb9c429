//! Work of the domain that blocks, in the lane where it may.

use super::context::Context;
use super::error::ApiError;
use super::fair_queue::{Network, Turn};
use super::worker_pool::{JobError, WorkerPool};
use crate::app::App;
use crate::domain::accounts::{AccountsError, HashMemory, HashPool, PinError, PoolError};
use crate::types::{PartnerId, UnixSeconds};

/// The pool that hashes, with the turn of a client in it.
pub struct Offload<'a> {
    app: &'a App,
    turn: Turn,
    now: UnixSeconds,
}

/// The pool as a client has it, of a partner if it is one.
pub fn pool<'a>(app: &'a App, cx: &Context, partner: Option<PartnerId>) -> Offload<'a> {
    let turn = Turn {
        suspect: app
            .front
            .failures
            .is_suspect(Network::from_address(cx.peer), cx.now),
        ..Turn::for_client(partner, cx.peer)
    };
    let now = cx.now;
    Offload { app, turn, now }
}

impl HashPool for Offload<'_> {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let queued = self.app.hashing.run_for(self.turn, job);
        match queued.map_err(|_full| PoolError::Full)?.await {
            Ok(done) => Ok(done),
            Err(JobError::Shed) => Err(PoolError::Full),
            Err(JobError::Failed) => Err(PoolError::Lost),
        }
    }
}

impl Offload<'_> {
    /// Waits for a verb of accounts that hashes. A wrong guess has the next ones of the client's
    /// network wait behind those of others.
    ///
    /// # Errors
    /// `OVERLOADED` at once if the pool is full; what the verb refuses.
    pub async fn guess<T, E: GuessError>(
        &self,
        verb: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ApiError>
    where
        ApiError: From<E>,
    {
        let result = verb.await;
        if result.as_ref().is_err_and(E::is_wrong_guess)
            && let Some(network) = self.turn.network
        {
            self.app.front.failures.record(network, self.now);
        }
        Ok(result?)
    }
}

/// An error that may be somebody's wrong guess.
pub trait GuessError {
    /// Whether it is.
    fn is_wrong_guess(&self) -> bool;
}

impl GuessError for AccountsError {
    fn is_wrong_guess(&self) -> bool {
        let pin = matches!(self, Self::Pin(error) if error.is_wrong_guess());
        pin || matches!(
            self,
            Self::InvalidCredentials | Self::PasswordWrong | Self::ResetTokenInvalid
        )
    }
}

impl GuessError for PinError {
    fn is_wrong_guess(&self) -> bool {
        matches!(self, Self::Wrong { .. })
    }
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
    lane: &WorkerPool<()>,
    verb: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    Ok(lane.run(move |()| verb())?.await??)
}
