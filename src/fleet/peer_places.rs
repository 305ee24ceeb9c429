//! Places for connections to the listener of peers that have not proved yet to be those of members.
//!
//! Any host that reaches the listener could use up the descriptors of the process. Each address has few places, and an
//! address of a registered member has other places than strangers, so that strangers never delay a member.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

const STRANGERS_MAX: u32 = 256;
const STRANGERS_OF_ADDRESS_MAX: u32 = 16;
/// A member opens a connection for each client that it forwards. Each has a place until its handshake is complete.
const MEMBERS_MAX: u32 = 2_048;
/// Far more than the members of any fleet.
const KNOWN_MAX: usize = 256;
/// The part of an IPv6 address that a provider gives to one customer.
const IPV6_NETWORK: u128 = !(u64::MAX as u128);

#[derive(Default)]
pub(super) struct Places(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    /// Addresses of the records of members, and those from which members have proved themselves.
    registered: HashSet<IpAddr>,
    seen: HashSet<IpAddr>,
    by_members: u32,
    by_strangers: u32,
    by_address: HashMap<IpAddr, u32>,
}

/// Counts a connection until it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    /// Absent for an address of a member.
    stranger: Option<IpAddr>,
}

impl Places {
    /// Returns `None` if the address, or all strangers together, have too many connections.
    pub(super) fn acquire(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let from = from.to_canonical();
        let mut taken = self.0.lock();
        let stranger = if taken.registered.contains(&from) || taken.seen.contains(&from) {
            if taken.by_members >= MEMBERS_MAX {
                return None;
            }
            taken.by_members += 1;
            None
        } else {
            let network = network(from);
            let count = taken.by_address.get(&network).copied().unwrap_or_default();
            if taken.by_strangers >= STRANGERS_MAX || count >= STRANGERS_OF_ADDRESS_MAX {
                return None;
            }
            taken.by_address.insert(network, count + 1);
            taken.by_strangers += 1;
            Some(network)
        };
        Some(Place {
            places: Arc::clone(self),
            stranger,
        })
    }

    pub(super) fn register(&self, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses = addresses.into_iter().map(|address| address.to_canonical());
        self.0.lock().registered = addresses.take(KNOWN_MAX).collect();
    }

    /// Remembers an address from which a member has proved itself. Behind NAT it differs from that of its record.
    pub(super) fn saw_member(&self, from: IpAddr) {
        let mut taken = self.0.lock();
        if taken.seen.len() < KNOWN_MAX {
            taken.seen.insert(from.to_canonical());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock();
        let Some(network) = self.stranger else {
            taken.by_members = taken.by_members.saturating_sub(1);
            return;
        };
        taken.by_strangers = taken.by_strangers.saturating_sub(1);
        let count = taken.by_address.get(&network).copied().unwrap_or_default();
        match count.saturating_sub(1) {
            // Addresses without connections must not use memory.
            0 => taken.by_address.remove(&network),
            left => taken.by_address.insert(network, left),
        };
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & IPV6_NETWORK).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn fill(places: &Arc<Places>, from: IpAddr) -> Vec<Place> {
        std::iter::from_fn(|| places.acquire(from)).collect()
    }

    #[test]
    fn strangers_take_no_place_of_another_address_or_of_a_member() {
        let places = Arc::new(Places::default());
        places.register([address(250)]);
        let held = fill(&places, address(1));
        assert_eq!(held.len(), 16);
        // All strangers together.
        let more: Vec<_> = (2..100).map(|last| fill(&places, address(last))).collect();
        assert_eq!(held.len() + more.iter().map(Vec::len).sum::<usize>(), 256);
        assert!(places.acquire(address(200)).is_none());
        assert!(places.acquire(address(250)).is_some());
        // A member behind NAT, once it has proved itself.
        places.saw_member(address(200));
        assert!(places.acquire(address(200)).is_some());
        drop((held, more));
        assert_eq!(fill(&places, address(1)).len(), 16);
        assert!(places.0.lock().by_address.is_empty());
    }

    #[test]
    fn the_addresses_of_one_ipv6_network_count_together() {
        let places = Arc::new(Places::default());
        let from = |last: u16| Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, last).into();
        let held: Vec<_> = (0..40)
            .filter_map(|last| places.acquire(from(last)))
            .collect();
        assert_eq!(held.len(), 16);
        let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 8, 0, 0, 0, 1);
        assert!(places.acquire(other.into()).is_some());
    }
}
