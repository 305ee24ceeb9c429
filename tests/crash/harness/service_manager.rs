//! Replaces systemd: receives the notifications of a server and measures the gaps between those that feed the watchdog.

use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::appliance::Launch;

/// `WatchdogSec` of the packaged unit.
pub const WATCHDOG: Duration = Duration::from_secs(15);

pub struct ServiceManager {
    folder: TempDir,
    done: Arc<AtomicBool>,
    listening: Option<JoinHandle<(u32, Duration)>>,
}

impl ServiceManager {
    pub fn listen() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let listening = thread::spawn(move || {
            let (mut fed, mut gap) = (0, Duration::ZERO);
            let mut last: Option<Instant> = None;
            let mut bytes = [0; 4_096];
            while !ended.load(Ordering::Relaxed) {
                let length = socket.recv(&mut bytes).unwrap_or(0);
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                if text.contains("WATCHDOG=1") {
                    fed += 1;
                    last = Some(Instant::now());
                }
                // Includes the gap that has not ended yet.
                gap = gap.max(last.map_or(Duration::ZERO, |last| last.elapsed()));
            }
            (fed, gap)
        });
        Self {
            folder,
            done,
            listening: Some(listening),
        }
    }

    pub fn launch(&self, launch: Launch, limit: Duration) -> Launch {
        let socket = self.folder.path().join("notify");
        launch
            .with("NOTIFY_SOCKET", socket.to_str().unwrap())
            .with("WATCHDOG_USEC", &limit.as_micros().to_string())
    }

    /// Returns the number of watchdog notifications and the longest gap.
    pub fn end(mut self) -> (u32, Duration) {
        self.done.store(true, Ordering::Relaxed);
        self.listening.take().unwrap().join().unwrap()
    }
}
