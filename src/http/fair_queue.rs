//! A bounded queue that gives turns: first to partners, then to the networks of a partner, so that
//! neither the flood of one partner nor that of a few networks makes the others wait.
//!
//! Networks whose log-ins have failed of late are in a second queue, which gets one turn in four while
//! the first has work. A network that many people share is slowed down by one guesser and never shut out.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::types::PartnerId;

/// Turns of networks without failures, for each one of a network with failures.
const CLEAN_TURNS: usize = 3;
/// The part of the queue that the jobs of one network may fill: a quarter.
const NETWORK_PART: usize = 4;
/// The part of the queue that one partner leaves to others: an eighth.
const PARTNER_REST: usize = 8;

/// The network of a client: /24 of IPv4, /48 of IPv6, which is about what one customer of a provider,
/// or one attacker, gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(u64);

impl Network {
    /// The network of an address.
    #[must_use]
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8)),
            // Above all of IPv4.
            IpAddr::V6(v6) => Self(u64::try_from(v6.to_bits() >> 80).unwrap_or(0) | 1 << 63),
        }
    }
}

/// Whose turn a job waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// The partner; none for operators and for what nobody asked for.
    pub partner: Option<PartnerId>,
    /// The network of the client, where it counts.
    pub network: Option<Network>,
    /// Whether log-ins from there have failed of late.
    pub suspect: bool,
}

impl Turn {
    /// The turn of a client at an address, of a partner if it is one, whatever its log-ins came to.
    #[must_use]
    pub fn for_client(partner: Option<PartnerId>, address: IpAddr) -> Self {
        Self {
            partner,
            network: Some(Network::from_address(address)),
            suspect: false,
        }
    }
}

/// The jobs of one network, as they came.
struct NetworkTurns<J> {
    network: Option<Network>,
    jobs: VecDeque<J>,
}

/// The networks of one partner, in the order of their turns.
struct PartnerTurns<J> {
    partner: Option<PartnerId>,
    networks: VecDeque<NetworkTurns<J>>,
    jobs: usize,
}

/// Partners in the order of their turns.
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

    fn of(&self, partner: Option<PartnerId>) -> Option<&PartnerTurns<J>> {
        self.partners.iter().find(|of| of.partner == partner)
    }

    fn of_network(&self, turn: &Turn) -> usize {
        let networks = self.of(turn.partner).map(|of| &of.networks);
        let found = networks.and_then(|all| all.iter().find(|of| of.network == turn.network));
        found.map_or(0, |of| of.jobs.len())
    }

    /// How many jobs come before the next one of this turn.
    fn ahead(&self, turn: &Turn) -> usize {
        let own = self.of_network(turn);
        let round = own + 1;
        let networks = self.of(turn.partner).map(|of| &of.networks);
        let others = networks.into_iter().flatten();
        let others = others.filter(|of| of.network != turn.network);
        let of_partner = own + others.map(|of| of.jobs.len().min(round)).sum::<usize>();
        let others = self.partners.iter().filter(|of| of.partner != turn.partner);
        of_partner + others.map(|of| of.jobs.min(of_partner + 1)).sum::<usize>()
    }

    fn push(&mut self, turn: &Turn, job: J) {
        self.jobs += 1;
        let at = self
            .partners
            .iter()
            .position(|of| of.partner == turn.partner);
        if at.is_none() {
            self.partners.push_back(PartnerTurns {
                partner: turn.partner,
                networks: VecDeque::new(),
                jobs: 0,
            });
        }
        let at = at.unwrap_or(self.partners.len() - 1);
        let Some(of) = self.partners.get_mut(at) else {
            return;
        };
        of.jobs += 1;
        let network = of.networks.iter_mut().find(|of| of.network == turn.network);
        match network {
            Some(network) => network.jobs.push_back(job),
            None => of.networks.push_back(NetworkTurns {
                network: turn.network,
                jobs: VecDeque::from([job]),
            }),
        }
    }

    fn pop(&mut self) -> Option<J> {
        let mut of = self.partners.pop_front()?;
        let mut network = of.networks.pop_front()?;
        let job = network.jobs.pop_front()?;
        self.jobs -= 1;
        of.jobs -= 1;
        if !network.jobs.is_empty() {
            of.networks.push_back(network);
        }
        if of.jobs > 0 {
            self.partners.push_back(of);
        }
        Some(job)
    }

    /// Takes out the newest job of the partner, and there of the network, that has the most; for a job
    /// of this ring only if that is more than the turn of the new job would have.
    fn shed(&mut self, than: Option<&Turn>) -> Option<J> {
        let jobs = |at: &usize| self.partners.get(*at).map(|of| of.jobs);
        let at = (0..self.partners.len()).max_by_key(jobs)?;
        let own = than.map_or((0, 0), |turn| {
            let of_partner = self.of(turn.partner).map_or(0, |of| of.jobs);
            (of_partner + 1, self.of_network(turn) + 1)
        });
        let of = self.partners.get_mut(at)?;
        let is_own = than.is_some_and(|turn| turn.partner == of.partner);
        let jobs = |at: &usize| of.networks.get(*at).map(|network| network.jobs.len());
        let longest = (0..of.networks.len()).max_by_key(jobs)?;
        let network = of.networks.get_mut(longest)?;
        let (has, would_have) = if is_own {
            (network.jobs.len(), own.1)
        } else {
            (of.jobs, own.0)
        };
        if has <= would_have {
            return None;
        }
        let job = network.jobs.pop_back()?;
        of.jobs -= 1;
        self.jobs -= 1;
        if network.jobs.is_empty() {
            of.networks.remove(longest);
        }
        if of.jobs == 0 {
            self.partners.remove(at);
        }
        Some(job)
    }
}

/// The queue.
pub struct FairQueue<J> {
    clean: Ring<J>,
    suspect: Ring<J>,
    /// Turns of the first ring since the last one of the second.
    clean_turns: usize,
    most: usize,
}

/// Why a job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl<J> FairQueue<J> {
    /// A queue of at most so many jobs.
    #[must_use]
    pub const fn new(most: usize) -> Self {
        Self {
            clean: Ring::new(),
            suspect: Ring::new(),
            clean_turns: 0,
            most,
        }
    }

    /// How many jobs wait.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.clean.jobs + self.suspect.jobs
    }

    /// Whether none waits.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs come before the next one of a turn.
    #[must_use]
    pub fn ahead(&self, turn: &Turn) -> usize {
        if turn.suspect {
            let own = self.suspect.ahead(turn);
            own + self.clean.jobs.min((own + 1) * CLEAN_TURNS)
        } else {
            let own = self.clean.ahead(turn);
            own + self.suspect.jobs.min(own / CLEAN_TURNS + 1)
        }
    }

    /// Adds a job. In a full queue the newest job of whoever has more of them makes room and is
    /// returned; suspect networks do so first.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub fn push(&mut self, turn: &Turn, job: J) -> Result<Option<J>, NoRoom> {
        let rings = [&self.clean, &self.suspect];
        let of_network = rings
            .map(|ring| ring.of_network(turn))
            .iter()
            .sum::<usize>();
        let of_partner = rings.map(|ring| ring.of(turn.partner).map_or(0, |of| of.jobs));
        let of_partner = of_partner.iter().sum::<usize>();
        if turn.network.is_some() && of_network >= self.most.div_ceil(NETWORK_PART) {
            return Err(NoRoom);
        }
        if turn.partner.is_some() && of_partner >= self.most - self.most / PARTNER_REST {
            return Err(NoRoom);
        }
        let mut shed = None;
        if self.len() >= self.most {
            shed = if turn.suspect {
                self.suspect.shed(Some(turn))
            } else {
                self.suspect
                    .shed(None)
                    .or_else(|| self.clean.shed(Some(turn)))
            };
            if shed.is_none() {
                return Err(NoRoom);
            }
        }
        if turn.suspect {
            self.suspect.push(turn, job);
        } else {
            self.clean.push(turn, job);
        }
        Ok(shed)
    }

    /// Takes the job whose turn it is.
    pub fn pop(&mut self) -> Option<J> {
        if self.clean_turns >= CLEAN_TURNS || self.clean.jobs == 0 {
            self.clean_turns = 0;
            if let Some(job) = self.suspect.pop() {
                return Some(job);
            }
        }
        self.clean_turns += 1;
        self.clean.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(partner: u8, network: u8) -> Turn {
        Turn {
            partner: Some(PartnerId::from_bytes([partner; 16])),
            network: Some(Network::from_address(IpAddr::from([192, 0, network, 1]))),
            suspect: false,
        }
    }

    fn all(queue: &mut FairQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn networks_are_those_of_one_customer() {
        let of = |text: &str| Network::from_address(text.parse().unwrap());
        assert_eq!(of("192.0.2.1"), of("192.0.2.255"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.9"));
        assert_ne!(of("192.0.2.1"), of("192.0.3.1"));
        assert_eq!(of("2001:db8:1::1"), of("2001:db8:1:ffff::2"));
        assert_ne!(of("2001:db8:1::1"), of("2001:db8:2::1"));
        assert_ne!(of("::1"), of("0.0.0.1"));
    }

    #[test]
    fn partners_take_turns_and_so_do_the_networks_of_one() {
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
    fn one_network_and_one_partner_fill_their_part_alone() {
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
    fn in_a_full_queue_whoever_has_the_most_makes_room() {
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
            suspect: true,
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
                        suspect: true,
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
                    suspect: true,
                    ..turn(9, 2)
                },
                "guess"
            ),
            Err(NoRoom)
        );
    }
}
