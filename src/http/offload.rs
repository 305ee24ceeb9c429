//! Runs blocking domain calls in the worker pool of their kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::errors::api_error::ApiError;
use crate::request::context::Context;
use playgate_domain::accounts::{AccountsError, HashMemory, HashPool, PinError, PoolError};
use playgate_process::worker_pool::fair_queue::ClientNetwork;
use playgate_process::worker_pool::pool::PoolFull;
use playgate_process::worker_pool::recent_failures::RecentFailures;
use playgate_process::{JobError, Turn, WorkerPool};
use playgate_services::Services;
use playgate_types::{PartnerId, UnixSeconds};

pub struct Offload<'a> {
    hashing: &'a WorkerPool<HashMemory>,
    recent_failures: &'a RecentFailures,
    turn: Turn,
    now: UnixSeconds,
    /// Whether a hash of this request has begun.
    has_begun: Arc<AtomicBool>,
}

pub fn pool<'a>(services: &'a Services, cx: &Context, partner: Option<PartnerId>) -> Offload<'a> {
    // A network with recent failures waits behind the others, so that guessing does not delay honest logins.
    let turn = Turn {
        standing: services
            .recent_failures
            .standing(ClientNetwork::from_address(cx.peer), cx.now),
        ..Turn::for_client(partner, cx.peer)
    };
    Offload {
        hashing: &services.hashing,
        recent_failures: &services.recent_failures,
        turn,
        now: cx.now,
        has_begun: Arc::default(),
    }
}

impl HashPool for Offload<'_> {
    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut HashMemory) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let has_begun = Arc::clone(&self.has_begun);
        let job = move |memory: &mut HashMemory| {
            has_begun.store(true, Ordering::Relaxed);
            job(memory)
        };
        let done = match self.hashing.run_for(self.turn, job) {
            Ok(queued) => queued.await,
            Err(PoolFull) => Err(JobError::Shed),
        };
        done.map_err(|error| match error {
            JobError::Shed => {
                // A refused flood returns immediately. Its next jobs wait behind those of networks without failures.
                if let Some(network) = self.turn.network {
                    self.recent_failures.record_refusal(network, self.now);
                }
                PoolError::Full
            }
            JobError::Failed => PoolError::Lost,
        })
    }
}

impl Offload<'_> {
    /// Waits for an account operation that hashes, and records a wrong guess. An operation that is dropped after its
    /// hash began counts as one: a client that resets each login early must not stay without failures.
    ///
    /// # Errors
    /// `OVERLOADED` immediately if the pool is full; otherwise the error of the operation.
    pub async fn guess<T, E: GuessError>(
        &self,
        operation: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ApiError>
    where
        ApiError: From<E>,
    {
        let mut guard = GuessGuard {
            offload: self,
            is_wrong: None,
        };
        let result = operation.await;
        guard.is_wrong = Some(result.as_ref().is_err_and(E::is_wrong_guess));
        drop(guard);
        Ok(result?)
    }
}

struct GuessGuard<'a> {
    offload: &'a Offload<'a>,
    /// `None` until the operation has a result.
    is_wrong: Option<bool>,
}

impl Drop for GuessGuard<'_> {
    fn drop(&mut self) {
        let offload = self.offload;
        let dropped_late = || offload.has_begun.load(Ordering::Relaxed);
        if self.is_wrong.unwrap_or_else(dropped_late)
            && let Some(network) = offload.turn.network
        {
            // The next jobs of the client's network wait behind those of others.
            offload.recent_failures.record_guess(network, offload.now);
        }
    }
}

pub trait GuessError {
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

/// Runs an operation of an operator that reads from disk or waits for a commit.
///
/// # Errors
/// `OVERLOADED` immediately if the pool is full; otherwise the error of the operation.
pub async fn cold<T, E>(
    services: &Services,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    within(&services.cold, Turn::default(), operation).await
}

/// Runs an operation of a client that reads from disk or waits for a commit. Its place in the queue is that of the
/// client, so that one client cannot fill the pool.
///
/// # Errors
/// Those of [`cold`].
pub async fn cold_for<T, E>(
    services: &Services,
    cx: &Context,
    partner: Option<PartnerId>,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    let turn = Turn::for_client(partner, cx.peer);
    within(&services.cold, turn, operation).await
}

/// Runs a long operation, such as an import, in its own pool.
///
/// # Errors
/// Those of [`cold`].
pub async fn bulk<T, E>(
    services: &Services,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    within(&services.bulk, Turn::default(), operation).await
}

async fn within<T, E>(
    pool: &WorkerPool<()>,
    turn: Turn,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, ApiError>
where
    T: Send + 'static,
    E: Send + 'static,
    ApiError: From<E>,
{
    Ok(pool.run_for(turn, move |()| operation())?.await??)
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::pin::Pin;
    use std::sync::mpsc;
    use std::task::{self, Poll, Waker};

    use super::*;
    use playgate_process::worker_pool::fair_queue::LoginStanding;

    const NOW: UnixSeconds = UnixSeconds(1_767_225_600);

    fn turn(network: u8) -> Turn {
        let address = IpAddr::from([192, 0, network, 1]);
        Turn::for_client(Some(PartnerId::from_bytes([1; 16])), address)
    }

    fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        let mut context = task::Context::from_waker(Waker::noop());
        future.as_mut().poll(&mut context)
    }

    #[tokio::test]
    async fn one_client_cannot_fill_the_pool() {
        let pool = WorkerPool::new("test", 1, 16, || ()).unwrap();
        let (release, wait) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        let running = pool.run(move |()| {
            began.send(()).unwrap();
            let _ = wait.recv();
        });
        has_begun.recv().unwrap();
        let job = |network| Box::pin(within(&pool, turn(network), || Ok::<_, ApiError>(())));
        let mut flood: Vec<_> = (0..16).map(|_| job(1)).collect();
        let mut refused = 0;
        for job in &mut flood {
            if let Poll::Ready(result) = poll(job) {
                assert!(result.is_err());
                refused += 1;
            }
        }
        assert_eq!(refused, 12);
        let mut other = job(2);
        assert!(poll(&mut other).is_pending());
        drop(release);
        assert!(other.await.is_ok());
        running.unwrap().await.unwrap();
    }

    #[tokio::test]
    async fn a_guess_dropped_after_its_hash_began_is_recorded() {
        let make = || HashMemory::counted(Arc::default());
        let hashing = WorkerPool::new("test", 1, 16, make).unwrap();
        let recent_failures = RecentFailures::default();
        let offload = |network| Offload {
            hashing: &hashing,
            recent_failures: &recent_failures,
            turn: turn(network),
            now: NOW,
            has_begun: Arc::default(),
        };
        let standing = |network: u8| {
            let network = turn(network).network.unwrap();
            recent_failures.standing(network, NOW)
        };
        let (release, wait) = mpsc::channel::<()>();
        let (began, has_begun) = mpsc::channel();
        let first = offload(1);
        let login = first.run(move |_| {
            began.send(()).unwrap();
            let _ = wait.recv();
        });
        let mut login = Box::pin(first.guess(async {
            let _ = login.await;
            Err::<(), _>(PinError::Wrong { attempts_left: 3 })
        }));
        assert!(poll(&mut login).is_pending());
        has_begun.recv().unwrap();
        // Still in the queue, so it costs nothing.
        let second = offload(2);
        let waiting = second.run(|_| ());
        let mut waiting = Box::pin(second.guess(async {
            let _ = waiting.await;
            Ok::<_, PinError>(())
        }));
        assert!(poll(&mut waiting).is_pending());
        drop((login, waiting, release));
        assert_eq!(standing(1), LoginStanding::Doubtful);
        assert_eq!(standing(2), LoginStanding::Clean);
        let third = offload(3);
        let correct = third.run(|_| ());
        let correct = third.guess(async {
            let _ = correct.await;
            Ok::<_, PinError>(())
        });
        assert!(correct.await.is_ok());
        assert_eq!(standing(3), LoginStanding::Clean);
    }
}
