//! A TCP proxy on loopback that can become silent or slow, as a network between two machines can.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{park_timeout, spawn};
use std::time::Duration;

use crate::support::external_tools::free_port;

const SILENT: u64 = u64::MAX;
const POLL: Duration = Duration::from_millis(20);

pub struct TcpProxy {
    pub address: SocketAddr,
    fault: Arc<Fault>,
}

#[derive(Default)]
struct Fault {
    /// Delay of each part in milliseconds.
    delay: AtomicU64,
    refuses: AtomicBool,
    /// A connection on which this text comes becomes silent.
    held: Mutex<Option<String>>,
}

impl Fault {
    fn refuses(&self) -> bool {
        self.refuses.load(Ordering::SeqCst)
    }

    fn holds(&self, part: &[u8]) -> bool {
        let held = self.held.lock().unwrap();
        held.as_ref()
            .is_some_and(|text| part.windows(text.len()).any(|one| one == text.as_bytes()))
    }

    /// Waits as long as a part that has come is held back.
    fn wait(&self, part: &[u8]) {
        while !self.refuses() {
            match self.delay.load(Ordering::SeqCst) {
                SILENT => park_timeout(POLL),
                _ if self.holds(part) => park_timeout(POLL),
                millis => return park_timeout(Duration::from_millis(millis)),
            }
        }
    }
}

impl TcpProxy {
    pub fn start(target: SocketAddr) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listener = TcpListener::bind(address).unwrap();
        let fault = Arc::<Fault>::default();
        let proxy = Self {
            address,
            fault: Arc::clone(&fault),
        };
        spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                if fault.refuses() {
                    continue;
                }
                let Ok(far) = TcpStream::connect(target) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let fault = Arc::clone(&fault);
                    spawn(move || pass(from, to, &fault));
                }
            }
        });
        proxy
    }

    /// Forwards everything, and what was held back before.
    pub fn pass(&self) {
        self.fault.refuses.store(false, Ordering::SeqCst);
        self.fault.delay.store(0, Ordering::SeqCst);
        *self.fault.held.lock().unwrap() = None;
    }

    /// Holds back what contains a text, and what comes after it on its connection.
    pub fn hold_back(&self, text: &str) {
        *self.fault.held.lock().unwrap() = Some(text.to_owned());
    }

    /// Accepts connections and forwards nothing: both ends see an open connection.
    pub fn be_silent(&self) {
        self.fault.delay.store(SILENT, Ordering::SeqCst);
    }

    pub fn be_slow(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.fault.delay.store(millis, Ordering::SeqCst);
    }

    /// Closes all connections, open ones and new ones.
    pub fn refuse(&self) {
        self.fault.refuses.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, fault: &Fault) {
    from.set_nodelay(true).unwrap();
    from.set_read_timeout(Some(POLL)).unwrap();
    let mut part = vec![0; 64 * 1024];
    while !fault.refuses() {
        let read = match from.read(&mut part) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        fault.wait(&part[..read]);
        if to.write_all(&part[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
