//! Keeps a member of a fleet from sending outdated answers.
//!
//! Answers are made from memory. In a fleet another member may have become the owner and made changes, which this one
//! learns late. A single node has no such check.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::freshness::Freshness;
use crate::response::reply::Answer;
use crate::routing::route::{self, Endpoint};
use crate::state::HttpState;

/// How long an answer waits for the knowledge that no other member is the owner. A change waits as long.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// A poll is enough: only the few requests of these seconds wait, and the threads of the fleet need not track them.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// Index and row of a route, if one was found.
type FoundRoute = Option<(usize, &'static route::Route)>;

impl HttpState {
    /// Whether an answer may be sent immediately.
    pub(crate) fn is_surely_fresh(&self, route: FoundRoute, answer: &Answer) -> bool {
        match self.freshness_check.get() {
            Some(check) => !rests_on_state(route, answer) || check() == Freshness::Last,
            None => true,
        }
    }

    /// Returns the answer once it is known to be from the newest state, and otherwise a 503.
    pub(crate) async fn wait_until_fresh(&self, route: FoundRoute, answer: Answer) -> Answer {
        let Some(check) = self.freshness_check.get() else {
            return answer;
        };
        if !rests_on_state(route, &answer) {
            return answer;
        }
        let until = Instant::now() + WAIT_MAX;
        loop {
            match check() {
                Freshness::Last => return answer,
                Freshness::Unknown if Instant::now() < until => sleep(POLL_EVERY).await,
                Freshness::Unknown | Freshness::Lost => break,
            }
        }
        // A committed change may get this answer, too, as it may if etcd does not answer. This is rare, and the caller
        // repeats the change.
        Err(ApiError::new(
            ErrorCode::StoreUnavailable,
            "the service cannot reach its fleet at present; try again shortly",
        ))
    }
}

/// Whether a newer state could have led to another answer.
fn rests_on_state(route: FoundRoute, answer: &Answer) -> bool {
    match (answer, route) {
        (Ok(_), Some((_, route))) => {
            !route.skips_freshness_check && !matches!(route.endpoint, Endpoint::Open(_))
        }
        (Ok(_), None) => false,
        (Err(error), _) => matches!(
            error.code().status().as_u16(),
            401 | 403 | 404 | 409 | 410 | 412
        ),
    }
}
