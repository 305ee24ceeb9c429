//! The runtime of a command.

use super::descriptors;
use crate::output::Failure;

pub(crate) fn wait<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    // The runtime would panic without free descriptors.
    descriptors::check()?;
    // One thread: a command waits for one request at a time.
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::fatal)?
        .block_on(command)
}
