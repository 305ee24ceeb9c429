//! Runs a handler within its deadline. A panic ends only its request.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::response::reply::Answer;
use crate::state::HttpState;

/// Returns the answer of the future, or an error if it panics or is not ready in time.
pub(crate) async fn with_deadline(
    http: &HttpState,
    deadline: Duration,
    future: Pin<Box<dyn Future<Output = Answer> + Send>>,
) -> Answer {
    // At the deadline the future is dropped: a job that waits in a pool is cancelled, and one that runs continues.
    match timeout(deadline, catch_panic(future)).await {
        Ok(Some(answer)) => answer,
        Ok(None) => Err(panicked(http)),
        Err(_) => Err(ApiError::new(
            ErrorCode::DeadlineExceeded,
            "the response was not ready in time; try again shortly",
        )),
    }
}

async fn catch_panic<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> Option<T> {
    poll_fn(|cx| {
        // Each poll is guarded: a panic must not unwind into hyper, which would drop the connection.
        let step = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        step.map_or(Poll::Ready(None), |poll| poll.map(Some))
    })
    .await
}

pub(crate) fn panicked(http: &HttpState) -> ApiError {
    http.metrics.panics.one();
    ApiError::internal("the handler panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panicking_future_yields_none() {
        assert_eq!(catch_panic(Box::pin(async { 1 })).await, Some(1));
        let later = async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        };
        assert_eq!(catch_panic::<()>(Box::pin(later)).await, None);
    }
}
