//! A TCP proxy on loopback that can become silent or slow, as a network between two machines can.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{park_timeout, spawn};
use std::time::Duration;

use crate::support::external_tools::free_port;

const SILENT: u64 = u64::MAX;
const POLL: Duration = Duration::from_millis(20);

pub struct TcpProxy {
    pub address: SocketAddr,
    /// Delay of each part in milliseconds.
    delay: Arc<AtomicU64>,
    refuses: Arc<AtomicBool>,
}

impl TcpProxy {
    pub fn start(target: SocketAddr) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listener = TcpListener::bind(address).unwrap();
        let (delay, refuses) = (Arc::default(), Arc::default());
        let proxy = Self {
            address,
            delay: Arc::clone(&delay),
            refuses: Arc::clone(&refuses),
        };
        spawn(move || {
            for near in listener.incoming() {
                let Ok(near) = near else { return };
                if refuses.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(target) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (delay, refuses) = (Arc::clone(&delay), Arc::clone(&refuses));
                    spawn(move || pass(from, to, &delay, &refuses));
                }
            }
        });
        proxy
    }

    /// Forwards everything, and what was held back before.
    pub fn pass(&self) {
        self.refuses.store(false, Ordering::SeqCst);
        self.delay.store(0, Ordering::SeqCst);
    }

    /// Accepts connections and forwards nothing: both ends see an open connection.
    pub fn be_silent(&self) {
        self.delay.store(SILENT, Ordering::SeqCst);
    }

    pub fn be_slow(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).unwrap();
        self.delay.store(millis, Ordering::SeqCst);
    }

    /// Closes all connections, open ones and new ones.
    pub fn refuse(&self) {
        self.refuses.store(true, Ordering::SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, delay: &AtomicU64, refuses: &AtomicBool) {
    from.set_nodelay(true).unwrap();
    from.set_read_timeout(Some(POLL)).unwrap();
    let mut part = vec![0; 64 * 1024];
    while !refuses.load(Ordering::SeqCst) {
        let read = match from.read(&mut part) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => break,
        };
        loop {
            match delay.load(Ordering::SeqCst) {
                SILENT if refuses.load(Ordering::SeqCst) => break,
                SILENT => park_timeout(POLL),
                millis => {
                    park_timeout(Duration::from_millis(millis));
                    break;
                }
            }
        }
        if to.write_all(&part[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
