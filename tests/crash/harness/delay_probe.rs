//! Measures how long threads wait for a processor and for the disk on a busy machine. The server waits about as long, so a
//! power cut may lose the changes of that much more time.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const SLEEP: Duration = Duration::from_millis(50);

/// A thread that repeats a short sleep and a sync of a small file, and measures how late each sync ends.
pub struct DelayProbe {
    stop: Sender<()>,
    thread: JoinHandle<Duration>,
}

impl DelayProbe {
    /// Starts the thread. `directory` must be on the disk of the server.
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
                // The file must not grow: ext4 would then commit its journal at the sync, and other files that the server
                // has not synced could become durable.
                file.write_all_at(b"probe", 0).unwrap();
                file.sync_data().unwrap();
                longest = longest.max(began.elapsed().saturating_sub(SLEEP));
            }
        });
        Self { stop, thread }
    }

    /// Stops the thread, which closes its file: an open file would keep the disk from being unmounted. Returns the longest
    /// delay.
    pub fn stop(self) -> Duration {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}
