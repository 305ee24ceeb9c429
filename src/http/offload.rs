//! Runs blocking domain calls in the worker pool of their kind.

use crate::domain::accounts::{AccountsError, HashMemory, HashPool, PinError, PoolError};
use crate::http::errors::api_error::ApiError;
use crate::http::request::context::Context;
use crate::services::Services;
use crate::types::{PartnerId, UnixSeconds};
use crate::worker_pool::fair_queue::{ClientNetwork, Turn};
use crate::worker_pool::pool::{JobError, PoolFull, WorkerPool};

pub(crate) struct Offload<'a> {
    services: &'a Services,
    turn: Turn,
    now: UnixSeconds,
}

pub(crate) fn pool<'a>(
    services: &'a Services,
    cx: &Context,
    partner: Option<PartnerId>,
) -> Offload<'a> {
    // A network with recent failures waits behind the others, so that guessing does not delay honest logins.
    let turn = Turn {
        standing: services
            .recent_failures
            .standing(ClientNetwork::from_address(cx.peer), cx.now),
        ..Turn::for_client(partner, cx.peer)
    };
    let now = cx.now;
    Offload {
        services,
        turn,
        now,
    }
}

impl HashPool for Offload<'_> {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let done = match self.services.hashing.run_for(self.turn, job) {
            Ok(queued) => queued.await,
            Err(PoolFull) => Err(JobError::Shed),
        };
        done.map_err(|error| match error {
            JobError::Shed => {
                // A refused flood returns immediately. Its next jobs wait behind those of networks without failures.
                if let Some(network) = self.turn.network {
                    self.services
                        .recent_failures
                        .record_refusal(network, self.now);
                }
                PoolError::Full
            }
            JobError::Failed => PoolError::Lost,
        })
    }
}

impl Offload<'_> {
    /// Waits for an account operation that hashes, and records a wrong guess.
    ///
    /// # Errors
    /// `OVERLOADED` immediately if the pool is full; otherwise the error of the operation.
    pub(crate) async fn guess<T, E: GuessError>(
        &self,
        operation: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ApiError>
    where
        ApiError: From<E>,
    {
        let result = operation.await;
        if result.as_ref().is_err_and(E::is_wrong_guess)
            && let Some(network) = self.turn.network
        {
            // The next jobs of the client's network wait behind those of others.
            self.services
                .recent_failures
                .record_guess(network, self.now);
        }
        Ok(result?)
    }
}

pub(crate) trait GuessError {
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

/// Runs an operation that reads from disk or waits for a commit.
///
/// # Errors
/// `OVERLOADED` immediately if the pool is full; otherwise the error of the operation.
pub(crate) async fn cold<T, E>(
    services: &Services,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    within(&services.cold, operation).await
}

/// Runs a long operation, such as an import, in its own pool.
///
/// # Errors
/// Those of [`cold`].
pub(crate) async fn bulk<T, E>(
    services: &Services,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    within(&services.bulk, operation).await
}

async fn within<T, E>(
    pool: &WorkerPool<()>,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    Ok(pool.run(move |()| operation())?.await??)
}
