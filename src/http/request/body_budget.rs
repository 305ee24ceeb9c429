//! A budget of request bodies in memory, over the whole server.
//!
//! A client may send all but the last byte of a body and wait. Each of its bodies then takes a megabyte for minutes, so the
//! bytes of all bodies together are bounded, and so is what one user, network and partner has of them. A body counts from
//! its first chunk until its handler drops it. A body that arrives at once costs two atomic additions; shares are counted
//! once a body has to be waited for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_config::limits::BODY_SMALL;
use playgate_observe::Registry;
use playgate_observe::metrics::Counter;
use playgate_process::worker_pool::fair_queue::ClientNetwork;
use playgate_types::{PartnerId, UserId};

/// Whose shares a body counts towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodySender {
    user: Option<UserId>,
    network: Option<ClientNetwork>,
    partner: Option<PartnerId>,
}

impl BodySender {
    /// Operators are few and trusted: their bodies are counted and never refused.
    pub(crate) const OPERATOR: Self = Self {
        user: None,
        network: None,
        partner: None,
    };

    pub(crate) fn client(user: Option<UserId>, partner: Option<PartnerId>, peer: IpAddr) -> Self {
        Self {
            user,
            network: Some(ClientNetwork::from_address(peer)),
            partner,
        }
    }

    fn holders(self) -> impl Iterator<Item = BodyHolder> {
        let holders = [
            self.user.map(BodyHolder::User),
            self.network.map(BodyHolder::Network),
            self.partner.map(BodyHolder::Partner),
        ];
        holders.into_iter().flatten()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum BodyHolder {
    User(UserId),
    Network(ClientNetwork),
    Partner(PartnerId),
}

impl BodyHolder {
    /// A user sends one batch after the other, and may have several devices. A network may be that of a mobile provider,
    /// and most installations have one large partner.
    const fn share(self, total: u64) -> u64 {
        match self {
            Self::User(_) => total / 16,
            Self::Network(_) => total / 4,
            Self::Partner(_) => total / 4 * 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OverBudget {
    Total,
    Share(BodyHolder),
}

struct RefusedBodies {
    total: Arc<Counter>,
    user: Arc<Counter>,
    network: Arc<Counter>,
    partner: Arc<Counter>,
}

impl RefusedBodies {
    fn new(registry: &Registry) -> Self {
        let of = |share| {
            registry.counter(
                "playgate_http_bodies_refused_total",
                "Request bodies refused because of `limits.body_bytes`, by the share that was used up.",
                &[("share", share)],
            )
        };
        Self {
            total: of("total"),
            user: of("user"),
            network: of("network"),
            partner: of("partner"),
        }
    }
}

pub struct BodyBudget {
    total: u64,
    held: Arc<AtomicU64>,
    /// Bytes of bodies that have to be waited for.
    shares: Mutex<HashMap<BodyHolder, u64>>,
    refused: RefusedBodies,
}

impl BodyBudget {
    pub fn new(total: u64, registry: &Registry) -> Arc<Self> {
        let held = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&held);
        registry.gauge_of(
            "playgate_http_body_bytes",
            "Bytes of request bodies in memory.",
            &[],
            move || i64::try_from(counted.load(Relaxed)).unwrap_or(i64::MAX),
        );
        Arc::new(Self {
            total,
            held,
            shares: Mutex::default(),
            refused: RefusedBodies::new(registry),
        })
    }

    /// Begins to count a body.
    pub(crate) fn charge(self: &Arc<Self>, sender: BodySender) -> BodyCharge {
        BodyCharge {
            budget: Arc::clone(self),
            sender,
            bytes: 0,
            in_shares: 0,
        }
    }

    fn refusal(&self, over: OverBudget) -> ApiError {
        let (counter, code, message) = match over {
            OverBudget::Share(BodyHolder::User(_)) => (
                &self.refused.user,
                ErrorCode::RateLimited,
                "too many request bodies of this user arrive at the same time; send one after the other",
            ),
            OverBudget::Share(BodyHolder::Network(_)) => (
                &self.refused.network,
                ErrorCode::Overloaded,
                "too many request bodies of this network arrive at the same time; try again shortly",
            ),
            OverBudget::Share(BodyHolder::Partner(_)) => (
                &self.refused.partner,
                ErrorCode::Overloaded,
                "too many request bodies of this partner arrive at the same time; try again shortly",
            ),
            OverBudget::Total => (
                &self.refused.total,
                ErrorCode::Overloaded,
                "too many request bodies arrive at the same time; try again shortly",
            ),
        };
        counter.one();
        ApiError::new(code, message)
    }
}

/// The bytes of one body. Dropping it ends their count.
pub(crate) struct BodyCharge {
    budget: Arc<BodyBudget>,
    sender: BodySender,
    bytes: u64,
    /// Those of `bytes` that the shares contain.
    in_shares: u64,
}

impl BodyCharge {
    /// Counts `bytes` in all. Nothing has changed after an error.
    ///
    /// # Errors
    /// `OVERLOADED` above the budget.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.try_resize(bytes as u64)
            .map_err(|over| self.budget.refusal(over))
    }

    /// Counts the body towards the shares of its sender, because the rest of it has to be waited for.
    ///
    /// # Errors
    /// `RATE_LIMITED` above the share of the user, `OVERLOADED` above that of the network or partner.
    pub(crate) fn wait(&mut self) -> Result<(), ApiError> {
        self.count_in_shares(self.bytes)
            .map_err(|over| self.budget.refusal(over))
    }

    /// Counts further bytes that the server has made itself, such as those of the unpacked body.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        self.budget.held.fetch_add(bytes as u64, Relaxed);
    }

    /// The bytes of the body, counted until they are dropped.
    pub(crate) fn attach(self, bytes: Bytes) -> Bytes {
        match bytes.is_empty() {
            true => bytes,
            false => Bytes::from_owner(CountedBytes {
                bytes,
                _charge: self,
            }),
        }
    }

    fn try_resize(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(self.bytes);
        let held = self.budget.held.fetch_add(more, Relaxed) + more;
        let is_waited_for = self.in_shares > 0;
        let admitted = match is_admitted(self.sender, bytes, held, self.budget.total) {
            true if is_waited_for => self.count_in_shares(bytes),
            true => Ok(()),
            false => Err(OverBudget::Total),
        };
        if admitted.is_err() {
            self.budget.held.fetch_sub(more, Relaxed);
            return admitted;
        }
        self.bytes += more;
        Ok(())
    }

    fn count_in_shares(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let more = bytes.saturating_sub(self.in_shares);
        let mut shares = self.budget.shares.lock();
        let over = self.sender.holders().find(|holder| {
            let held = shares.get(holder).copied().unwrap_or(0);
            held + more > holder.share(self.budget.total)
        });
        if let Some(holder) = over {
            return Err(OverBudget::Share(holder));
        }
        for holder in self.sender.holders() {
            *shares.entry(holder).or_default() += more;
        }
        self.in_shares += more;
        Ok(())
    }
}

/// An eighth of the budget is left to small bodies, so that logins pass while batches of telemetry are refused.
fn is_admitted(sender: BodySender, bytes: u64, held: u64, total: u64) -> bool {
    let limit = match bytes <= BODY_SMALL as u64 {
        true => total,
        false => total - total / 8,
    };
    held <= limit || sender == BodySender::OPERATOR
}

impl Drop for BodyCharge {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Relaxed);
        if self.in_shares == 0 {
            return;
        }
        let mut shares = self.budget.shares.lock();
        for holder in self.sender.holders() {
            if let Entry::Occupied(mut share) = shares.entry(holder) {
                *share.get_mut() -= self.in_shares;
                // Holders come and go: the map has only those that hold something.
                if *share.get() == 0 {
                    share.remove();
                }
            }
        }
    }
}

struct CountedBytes {
    bytes: Bytes,
    _charge: BodyCharge,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn budget() -> Arc<BodyBudget> {
        BodyBudget::new(32 * MIB as u64, &Registry::default())
    }

    fn sender(user: u8, network: u8, partner: u8) -> BodySender {
        BodySender::client(
            Some(UserId::from_bytes([user; 16])),
            Some(PartnerId::from_bytes([partner; 16])),
            IpAddr::from([192, 0, network, 1]),
        )
    }

    fn waiting(
        budget: &Arc<BodyBudget>,
        of: BodySender,
        bytes: usize,
    ) -> Result<BodyCharge, ErrorCode> {
        let mut charge = budget.charge(of);
        let counted = charge.resize(bytes).and_then(|()| charge.wait());
        counted.map(|()| charge).map_err(|error| error.code())
    }

    #[test]
    fn a_body_counts_until_its_last_reader_drops_it() {
        let budget = budget();
        let mut charge = waiting(&budget, sender(1, 1, 1), 10).unwrap();
        charge.resize(100).unwrap();
        charge.add(1_000);
        let bytes = charge.attach(Bytes::from(vec![b'x'; 100]));
        let reader = bytes.slice(..1);
        drop(bytes);
        assert_eq!(budget.held.load(Relaxed), 1_100);
        drop(reader);
        assert_eq!(budget.held.load(Relaxed), 0);
        assert!(budget.shares.lock().is_empty());
    }

    #[test]
    fn a_refused_body_leaves_nothing_behind() {
        let budget = budget();
        let mut charge = waiting(&budget, sender(1, 1, 1), MIB).unwrap();
        assert!(charge.resize(3 * MIB).is_err());
        assert_eq!(budget.held.load(Relaxed), MIB as u64);
        charge.resize(2 * MIB).unwrap();
        drop(charge);
        assert!(waiting(&budget, sender(1, 1, 1), 3 * MIB).is_err());
        assert_eq!(budget.held.load(Relaxed), 0);
        assert!(budget.shares.lock().is_empty());
    }

    #[test]
    fn users_networks_and_partners_have_shares() {
        let budget = budget();
        let mut held: Vec<BodyCharge> = Vec::new();
        let mut fill = |user, network, partner| loop {
            match waiting(&budget, sender(user, network, partner), MIB) {
                Ok(charge) => held.push(charge),
                Err(code) => return (held.len(), code),
            }
        };
        assert_eq!(fill(1, 1, 1), (2, ErrorCode::RateLimited));
        for user in 2..4 {
            fill(user, 1, 1);
        }
        assert_eq!(fill(4, 1, 1), (8, ErrorCode::RateLimited));
        assert_eq!(fill(5, 1, 1), (8, ErrorCode::Overloaded));
        // Other networks of the partner.
        for user in 6..20 {
            fill(user, user, 1);
        }
        assert_eq!(fill(20, 20, 1), (24, ErrorCode::Overloaded));
        // Another partner has the rest, except for what is left to small bodies.
        assert_eq!(fill(21, 21, 2), (26, ErrorCode::RateLimited));
        assert_eq!(fill(22, 22, 2), (28, ErrorCode::Overloaded));
        assert_eq!(fill(23, 23, 2), (28, ErrorCode::Overloaded));
        assert!(waiting(&budget, sender(24, 24, 2), BODY_SMALL).is_ok());
        let mut operator = budget.charge(BodySender::OPERATOR);
        assert!(operator.resize(64 * MIB).is_ok());
        assert_eq!(
            waiting(&budget, sender(24, 24, 2), 1).err(),
            Some(ErrorCode::Overloaded)
        );
    }

    #[test]
    fn a_body_that_arrives_at_once_is_in_no_share() {
        let budget = budget();
        let mut charge = budget.charge(sender(1, 1, 1));
        charge.resize(4 * MIB).unwrap();
        assert!(budget.shares.lock().is_empty());
    }
}
