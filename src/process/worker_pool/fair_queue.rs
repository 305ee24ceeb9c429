//! A bounded fair queue: partners take turns, and within a partner the client networks take turns. Neither a
//! flood from one partner nor one from a few networks can starve the others.
//!
//! Networks with recent login failures wait in further queues, by their [`LoginStanding`]. Each queue gets one turn in
//! four while those before it have work, so a guesser slows down other users of the same network but never
//! locks them out.

use std::collections::VecDeque;
use std::net::IpAddr;

use playgate_types::PartnerId;

/// Turns that networks in a better standing get for each turn of the networks behind them.
const BETTER_TURNS: usize = 3;
/// The jobs of one network may fill at most a quarter of the queue.
const NETWORK_PART: usize = 4;
/// One partner must leave an eighth of the queue to others.
const PARTNER_REST: usize = 8;

/// /24 for IPv4, /48 for IPv6: about what a provider assigns to one customer, or what one attacker
/// controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientNetwork(u64);

impl ClientNetwork {
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8)),
            // The top bit separates IPv6 from IPv4 networks.
            IpAddr::V6(v6) => Self(u64::try_from(v6.to_bits() >> 80).unwrap_or(0) | 1 << 63),
        }
    }
}

/// Class of a network by its recent login failures. Each class has its own queue; they are served in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoginStanding {
    /// No recent failure.
    #[default]
    Clean,
    /// A few recent failures, as users cause who mistype. In a flood from many networks, each one reaches this standing
    /// with its first guess, so the flood delays clean networks only briefly.
    Doubtful,
    /// Many recent failures, as only password guessers cause.
    Suspect,
}

const STANDINGS: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// `None` for operators and for internal work.
    pub partner: Option<PartnerId>,
    pub network: Option<ClientNetwork>,
    pub standing: LoginStanding,
}

impl Turn {
    pub fn for_client(partner: Option<PartnerId>, address: IpAddr) -> Self {
        Self {
            partner,
            network: Some(ClientNetwork::from_address(address)),
            standing: LoginStanding::Clean,
        }
    }
}

struct NetworkTurns<J> {
    network: Option<ClientNetwork>,
    jobs: VecDeque<J>,
}

struct PartnerTurns<J> {
    partner: Option<PartnerId>,
    networks: VecDeque<NetworkTurns<J>>,
    jobs: usize,
}

struct Ring<J> {
    partners: VecDeque<PartnerTurns<J>>,
    jobs: usize,
}

impl<J> Ring<J> {
    const fn new() -> Self {
        Self {
            partners: VecDeque::new(),
            jobs: 0,
        }
    }

    fn turns(&self, partner: Option<PartnerId>) -> Option<&PartnerTurns<J>> {
        self.partners.iter().find(|turns| turns.partner == partner)
    }

    fn network_jobs(&self, turn: &Turn) -> usize {
        let networks = self.turns(turn.partner).map(|turns| &turns.networks);
        let found = networks.and_then(|all| all.iter().find(|turns| turns.network == turn.network));
        found.map_or(0, |turns| turns.jobs.len())
    }

    fn ahead(&self, turn: &Turn) -> usize {
        // Networks take turns: each other network of the partner runs at most `round` jobs first.
        let network_jobs = self.network_jobs(turn);
        let round = network_jobs + 1;
        let networks = self.turns(turn.partner).map(|turns| &turns.networks);
        let others = networks.into_iter().flatten();
        let others = others.filter(|turns| turns.network != turn.network);
        let partner_jobs = network_jobs
            + others
                .map(|turns| turns.jobs.len().min(round))
                .sum::<usize>();
        // Partners take turns in the same way.
        let others = self
            .partners
            .iter()
            .filter(|turns| turns.partner != turn.partner);
        partner_jobs
            + others
                .map(|turns| turns.jobs.min(partner_jobs + 1))
                .sum::<usize>()
    }

    fn push(&mut self, turn: &Turn, job: J) {
        self.jobs += 1;
        let at = self
            .partners
            .iter()
            .position(|turns| turns.partner == turn.partner);
        // A partner takes turns only while it has waiting jobs.
        if at.is_none() {
            self.partners.push_back(PartnerTurns {
                partner: turn.partner,
                networks: VecDeque::new(),
                jobs: 0,
            });
        }
        let at = at.unwrap_or(self.partners.len() - 1);
        let Some(turns) = self.partners.get_mut(at) else {
            return;
        };
        turns.jobs += 1;
        let network = turns
            .networks
            .iter_mut()
            .find(|turns| turns.network == turn.network);
        match network {
            Some(network) => network.jobs.push_back(job),
            None => turns.networks.push_back(NetworkTurns {
                network: turn.network,
                jobs: VecDeque::from([job]),
            }),
        }
    }

    fn pop(&mut self) -> Option<J> {
        let mut turns = self.partners.pop_front()?;
        let mut network = turns.networks.pop_front()?;
        let job = network.jobs.pop_front()?;
        self.jobs -= 1;
        turns.jobs -= 1;
        // Network and partner move to the end of their rings, because they have had their turn.
        if !network.jobs.is_empty() {
            turns.networks.push_back(network);
        }
        if turns.jobs > 0 {
            self.partners.push_back(turns);
        }
        Some(job)
    }

    /// Removes the newest job of the largest network of the largest partner. `than` is the client of a new job: nothing
    /// is removed unless the largest client has more jobs than that client would have.
    fn shed(&mut self, than: Option<&Turn>) -> Option<J> {
        let jobs = |at: &usize| self.partners.get(*at).map(|turns| turns.jobs);
        let at = (0..self.partners.len()).max_by_key(jobs)?;
        let (partner_jobs, network_jobs) = than.map_or((0, 0), |turn| {
            let partner_jobs = self.turns(turn.partner).map_or(0, |turns| turns.jobs);
            (partner_jobs + 1, self.network_jobs(turn) + 1)
        });
        let turns = self.partners.get_mut(at)?;
        // Within one partner, networks are compared; between partners, all their jobs.
        let is_same_partner = than.is_some_and(|turn| turn.partner == turns.partner);
        let jobs = |at: &usize| turns.networks.get(*at).map(|network| network.jobs.len());
        let longest = (0..turns.networks.len()).max_by_key(jobs)?;
        let network = turns.networks.get_mut(longest)?;
        let (has, would_have) = if is_same_partner {
            (network.jobs.len(), network_jobs)
        } else {
            (turns.jobs, partner_jobs)
        };
        // At equal size the waiting job stays: two clients must not displace each other for ever.
        if has <= would_have {
            return None;
        }
        // The newest job has waited least.
        let job = network.jobs.pop_back()?;
        turns.jobs -= 1;
        self.jobs -= 1;
        if network.jobs.is_empty() {
            turns.networks.remove(longest);
        }
        if turns.jobs == 0 {
            self.partners.remove(at);
        }
        Some(job)
    }
}

pub struct FairQueue<J> {
    /// One ring for each [`LoginStanding`], served in that order.
    rings: [Ring<J>; STANDINGS],
    /// For each ring except the last: its turns since the rings behind it had their last turn.
    turns: [usize; STANDINGS - 1],
    capacity: usize,
}

/// The queue is full, or the share of the client is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl<J> FairQueue<J> {
    pub const fn new(capacity: usize) -> Self {
        Self {
            rings: [Ring::new(), Ring::new(), Ring::new()],
            turns: [0; STANDINGS - 1],
            capacity,
        }
    }

    pub fn len(&self) -> usize {
        self.rings.iter().map(|ring| ring.jobs).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn ahead(&self, turn: &Turn) -> usize {
        let (better, rest) = self.rings.split_at(turn.standing as usize);
        let Some((same, worse)) = rest.split_first() else {
            return 0;
        };
        let ahead = same.ahead(turn);
        let worse: usize = worse.iter().map(|ring| ring.jobs).sum();
        let ahead = ahead + worse.min(ahead / BETTER_TURNS + 1);
        // A ring in front gets `BETTER_TURNS` turns for each turn of the rings behind it.
        better.iter().rev().fold(ahead, |ahead, ring| {
            ahead + ring.jobs.min((ahead + 1) * BETTER_TURNS)
        })
    }

    /// A full queue removes and returns the newest job of the client with the most jobs.
    pub fn push(&mut self, turn: &Turn, job: J) -> Result<Option<J>, NoRoom> {
        let network_jobs = self.rings.iter().map(|ring| ring.network_jobs(turn));
        let network_jobs: usize = network_jobs.sum();
        let partner_jobs = self
            .rings
            .iter()
            .filter_map(|ring| ring.turns(turn.partner));
        let partner_jobs: usize = partner_jobs.map(|turns| turns.jobs).sum();
        // All rings count: a network must not get a second share by another standing.
        if turn.network.is_some() && network_jobs >= self.capacity.div_ceil(NETWORK_PART) {
            return Err(NoRoom);
        }
        // One partner's flood must leave room for the first jobs of others.
        if turn.partner.is_some() && partner_jobs >= self.capacity - self.capacity / PARTNER_REST {
            return Err(NoRoom);
        }
        let full = self.len() >= self.capacity;
        let rest = self.rings.get_mut(turn.standing as usize..);
        let Some((same, worse)) = rest.and_then(<[_]>::split_first_mut) else {
            return Err(NoRoom);
        };
        let mut shed = None;
        if full {
            // Networks in a worse standing lose their jobs first.
            let worse = worse.iter_mut().rev().find_map(|ring| ring.shed(None));
            shed = worse.or_else(|| same.shed(Some(turn)));
            if shed.is_none() {
                return Err(NoRoom);
            }
        }
        same.push(turn, job);
        Ok(shed)
    }

    pub fn pop(&mut self) -> Option<J> {
        let (last, better) = self.rings.split_last_mut()?;
        for (ring, turns) in better.iter_mut().zip(&mut self.turns) {
            if *turns < BETTER_TURNS
                && let Some(job) = ring.pop()
            {
                *turns += 1;
                return Some(job);
            }
            *turns = 0;
        }
        // The ring whose turn it is has no job, so any other job runs.
        last.pop().or_else(|| better.iter_mut().find_map(Ring::pop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(partner: u8, network: u8) -> Turn {
        Turn {
            partner: Some(PartnerId::from_bytes([partner; 16])),
            network: Some(ClientNetwork::from_address(IpAddr::from([
                192, 0, network, 1,
            ]))),
            standing: LoginStanding::Clean,
        }
    }

    fn all(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn one_customer_is_one_network() {
        let network = |text: &str| ClientNetwork::from_address(text.parse().unwrap());
        assert_eq!(network("192.0.2.1"), network("192.0.2.255"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.9"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("2001:db8:1::1"), network("2001:db8:1:ffff::2"));
        assert_ne!(network("2001:db8:1::1"), network("2001:db8:2::1"));
        assert_ne!(network("::1"), network("0.0.0.1"));
    }

    #[test]
    fn partners_and_their_networks_take_turns() {
        let mut queue = FairQueue::new(64);
        for _ in 0..4 {
            queue.push(&turn(1, 1), "1.1").unwrap();
        }
        queue.push(&turn(1, 2), "1.2").unwrap();
        queue.push(&turn(1, 2), "1.2").unwrap();
        assert_eq!(queue.ahead(&turn(2, 1)), 1);
        queue.push(&turn(2, 1), "2.1").unwrap();
        assert_eq!(queue.ahead(&turn(1, 3)), 3);
        assert_eq!(
            all(&mut queue),
            ["1.1", "2.1", "1.2", "1.1", "1.2", "1.1", "1.1"]
        );
        assert!(queue.is_empty());
    }

    #[test]
    fn networks_and_partners_are_limited_to_their_share() {
        let mut queue = FairQueue::new(16);
        let taken = |queue: &mut FairQueue<&'static str>, turn| {
            (0..20)
                .take_while(|_| queue.push(&turn, "x").is_ok())
                .count()
        };
        assert_eq!(taken(&mut queue, turn(1, 1)), 4);
        assert_eq!(
            (2..9).map(|n| taken(&mut queue, turn(1, n))).sum::<usize>(),
            10
        );
        assert_eq!(taken(&mut queue, turn(2, 1)), 4);
        assert_eq!(queue.len(), 16);
    }

    #[test]
    fn a_full_queue_sheds_the_job_of_the_largest_client() {
        let mut queue = FairQueue::new(8);
        for n in 0..4 {
            for _ in 0..2 {
                queue.push(&turn(n, 1), "full").unwrap();
            }
        }
        assert_eq!(queue.push(&turn(9, 1), "new"), Ok(Some("full")));
        assert_eq!(queue.push(&turn(9, 2), "new"), Err(NoRoom));
        assert_eq!(queue.len(), 8);
        assert_eq!(all(&mut queue).len(), 8);
    }

    #[test]
    fn suspect_networks_get_one_turn_in_four_and_make_room_first() {
        let guesser = Turn {
            standing: LoginStanding::Suspect,
            ..turn(1, 1)
        };
        let mut queue = FairQueue::new(8);
        for _ in 0..2 {
            queue.push(&guesser, "guess").unwrap();
        }
        for n in 2..6 {
            queue.push(&turn(1, n), "clean").unwrap();
        }
        let order = ["clean", "clean", "clean", "guess", "clean", "guess"];
        assert_eq!(all(&mut queue), order);
        for n in 0..4 {
            queue
                .push(
                    &Turn {
                        standing: LoginStanding::Suspect,
                        ..turn(n, 1)
                    },
                    "guess",
                )
                .unwrap();
            queue.push(&turn(n, 2), "clean").unwrap();
        }
        assert_eq!(queue.push(&turn(9, 1), "clean"), Ok(Some("guess")));
        assert_eq!(
            queue.push(
                &Turn {
                    standing: LoginStanding::Suspect,
                    ..turn(9, 2)
                },
                "guess"
            ),
            Err(NoRoom)
        );
    }

    #[test]
    fn each_standing_gets_one_turn_in_four_of_what_those_before_it_leave() {
        let of = |standing, network| Turn {
            standing,
            ..turn(1, network)
        };
        let mut queue = FairQueue::new(256);
        for network in 0..20 {
            queue
                .push(&of(LoginStanding::Suspect, network), "suspect")
                .unwrap();
            queue
                .push(&of(LoginStanding::Doubtful, 20 + network), "doubtful")
                .unwrap();
            queue
                .push(&of(LoginStanding::Clean, 40 + network), "clean")
                .unwrap();
        }
        let order = all(&mut queue);
        let first = |name| order[..16].iter().filter(|found| **found == name).count();
        assert_eq!(
            (first("clean"), first("doubtful"), first("suspect")),
            (12, 3, 1)
        );
        assert_eq!(order.len(), 60);
    }

    #[test]
    fn a_job_waits_for_no_more_jobs_than_were_estimated() {
        for new in [
            LoginStanding::Clean,
            LoginStanding::Doubtful,
            LoginStanding::Suspect,
        ] {
            for turns in 0..5 {
                let mut queue = FairQueue::new(256);
                for (standing, networks) in [
                    (LoginStanding::Clean, 7),
                    (LoginStanding::Doubtful, 40),
                    (LoginStanding::Suspect, 40),
                ] {
                    for network in 0..networks {
                        let turn = Turn {
                            standing,
                            ..turn(1, 50 * standing as u8 + network)
                        };
                        queue.push(&turn, "other").unwrap();
                    }
                }
                for _ in 0..turns {
                    queue.pop();
                }
                let new = Turn {
                    standing: new,
                    ..turn(1, 255)
                };
                let estimated = queue.ahead(&new);
                queue.push(&new, "new").unwrap();
                let waited = all(&mut queue)
                    .iter()
                    .position(|job| *job == "new")
                    .unwrap();
                assert!(waited <= estimated, "{new:?}: {waited} of {estimated}");
                assert!(
                    new.standing != LoginStanding::Clean || estimated <= 10,
                    "{estimated}"
                );
            }
        }
    }
}
