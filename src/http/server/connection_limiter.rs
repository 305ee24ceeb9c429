//! Limits the number of open connections, in total and by address.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dashmap::DashMap;

use crate::request::context::counted_as;
use playgate_config::{Config, Network};
use playgate_observe::metrics::Gauge;

/// Sent to a connection over the limit. No request is read.
pub(super) const REFUSAL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n\
    Cache-Control: no-store\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Limits of open connections, in total and by address.
#[derive(Clone)]
pub struct ConnectionLimits {
    pub(crate) total: u32,
    pub(crate) per_address: u32,
    /// All viewers behind a proxy share its address; the limit per address would shut them out together.
    pub(crate) exempt: Vec<Network>,
}

impl From<&Config> for ConnectionLimits {
    fn from(config: &Config) -> Self {
        Self {
            total: config.limits.connections,
            per_address: config.limits.connections_per_address,
            exempt: config.http.trusted_proxies.clone(),
        }
    }
}

pub(super) struct ConnectionLimiter {
    limits: ConnectionLimits,
    gauge: Arc<Gauge>,
    open: AtomicU32,
    by_address: DashMap<IpAddr, u32>,
}

/// Counts a connection until it is dropped.
pub struct ConnectionPermit {
    limiter: Arc<ConnectionLimiter>,
    /// The address that is counted; `None` for trusted proxies, which are exempt from the limit per address.
    counted: Option<IpAddr>,
}

impl ConnectionLimiter {
    pub(super) fn new(limits: ConnectionLimits, gauge: Arc<Gauge>) -> Self {
        Self {
            limits,
            gauge,
            open: AtomicU32::new(0),
            by_address: DashMap::new(),
        }
    }

    /// Counts a connection without an address, such as one of a Unix socket.
    pub(super) fn acquire_total(self: &Arc<Self>) -> Option<ConnectionPermit> {
        // Counted before the comparison and taken back on refusal: with a load and then an add, concurrent accepts
        // could exceed the limit.
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.limits.total {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // From here on the permit exists, and its drop decrements the gauge on every path.
        self.gauge.add(1);
        Some(ConnectionPermit {
            limiter: Arc::clone(self),
            counted: None,
        })
    }

    pub(super) fn acquire(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPermit> {
        let mut permit = self.acquire_total()?;
        let limits = &self.limits;
        if limits.exempt.iter().any(|network| network.contains(peer)) {
            return Some(permit);
        }
        let counted = counted_as(peer);
        {
            let mut number = self.by_address.entry(counted).or_insert(0);
            if *number >= limits.per_address {
                // Dropping `permit` releases the total. It must not touch `by_address`, which is locked here.
                return None;
            }
            *number += 1;
        }
        permit.counted = Some(counted);
        Some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.limiter.open.fetch_sub(1, Ordering::Relaxed);
        self.limiter.gauge.add(-1);
        if let Some(address) = self.counted {
            if let Some(mut number) = self.limiter.by_address.get_mut(&address) {
                *number = number.saturating_sub(1);
            }
            // Addresses without connections must not use memory.
            self.limiter
                .by_address
                .remove_if(&address, |_, number| *number == 0);
        }
    }
}
