//! How long a busy machine delays work that waits for a processor and for the disk. The server is delayed as much, and
//! what a power cut may cost grows by it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(50);

/// A thread that sleeps and syncs a small file in turn.
pub struct DelayProbe {
    stop: Sender<()>,
    thread: JoinHandle<Duration>,
}

impl DelayProbe {
    /// Begins to measure, in a directory on the disk of the server.
    pub fn start(directory: &Path) -> Self {
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let file = options.open(directory.join("delay-probe")).unwrap();
        let (stop, stopped) = channel();
        let thread = thread::spawn(move || {
            let mut longest = Duration::ZERO;
            loop {
                let began = Instant::now();
                if stopped.recv_timeout(SLEEP) != Err(RecvTimeoutError::Timeout) {
                    return longest;
                }
                // Overwrites in place. When a file grows, its sync commits the journal of the file system, which could
                // make unsynced files of the server durable.
                file.write_all_at(b"probe", 0).unwrap();
                file.sync_data().unwrap();
                longest = longest.max(began.elapsed().saturating_sub(SLEEP));
            }
        });
        Self { stop, thread }
    }

    /// Closes the file, without which the disk could not be unmounted. Returns the longest delay beyond the sleep.
    pub fn end(self) -> Duration {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}
