//! The priority of threads whose work may wait while requests need the processor.

use rustix::process::setpriority_process;
use rustix::thread::gettid;

/// While all cores are busy, a thread of this niceness gets a tenth of the time of another one, and a request does not
/// wait for the end of its time slice: 16 ms for a hash.
const NICE: i32 = 10;

/// Lowers the priority of the current thread.
pub fn lower() {
    // A sandbox may forbid the call. Requests are then slower while such work is done.
    if let Err(error) = setpriority_process(Some(gettid()), NICE) {
        let thread = std::thread::current();
        tracing::debug!(%error, thread = thread.name(), "cannot lower the priority of this thread");
    }
}
