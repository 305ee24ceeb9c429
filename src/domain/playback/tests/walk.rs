//! Random walks through the states of entitlements and sessions in the diagram of [`playback`](super::super),
//! compared with a model that has only these states. `PROPTEST_CASES=100000` runs the long form.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::world::{CATCHUP, program};
use super::*;
use crate::decision::DecisionTrace;
use playgate_types::BroadcastId;

const USERS: u8 = 2;
const DEVICES: [&str; 4] = ["tv", "phone", "tablet", "laptop"];
const ASSETS: [&str; 3] = ["news", "film", "film-adult"];
/// Fewer than the number of devices, so that every limit is reached.
const DEVICES_MOST: usize = 3;
const TOTAL: u32 = 2;
const PER_ASSET: u32 = 1;
/// The programs of `news` change every ten minutes, in this order; those that need a PIN come twice in a row.
const SLOT: i64 = 600;
const KINDS: [Kind; 4] = [Kind::Free, Kind::Dark, Kind::Adult, Kind::Adult];
/// Longer than any walk: no step waits over an hour.
const SLOTS: i64 = 40 * 6;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Free,
    /// Without live rights.
    Dark,
    /// Needs a PIN.
    Adult,
}

#[derive(Clone, Debug)]
enum Step {
    Entitle {
        user: u8,
        asset: &'static str,
        offset: i32,
        pin: bool,
        session: Option<Index>,
    },
    /// Entitlement and preflight, as a player does.
    Play {
        user: u8,
        asset: &'static str,
        device: &'static str,
    },
    Preflight {
        /// Requested by the other user.
        foreign: bool,
        token: Index,
        device: &'static str,
    },
    Beat {
        foreign: bool,
        session: Index,
        /// The token of the session, or another one.
        token: Option<Index>,
        device: Option<&'static str>,
        behind: i64,
    },
    License {
        foreign: bool,
        session: Index,
        token: Option<Index>,
    },
    Stop {
        foreign: bool,
        session: Index,
    },
    Revoke(Index),
    /// Revokes or restores the offer of all users; revoking voids the tokens.
    Offer(bool),
    Sweep,
    Restart,
    Wait(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let foreign = || proptest::bool::weighted(0.1);
    let maybe = || proptest::option::weighted(0.15, any::<Index>());
    let behind = || prop_oneof![6 => Just(0), 2 => 1..1_500_i64, 1 => Just(-59), 1 => Just(-61)];
    prop_oneof![
        4 => (1..=USERS, select(&ASSETS[..]), prop_oneof![3 => Just(0), 1 => -1_500..0], any::<bool>(),
              proptest::option::weighted(0.6, any::<Index>()))
            .prop_map(|(user, asset, offset, pin, session)| Step::Entitle {
                user, asset, offset, pin, session
            }),
        6 => (1..=USERS, select(&ASSETS[..]), select(&DEVICES[..]))
            .prop_map(|(user, asset, device)| Step::Play { user, asset, device }),
        2 => (foreign(), any::<Index>(), select(&DEVICES[..]))
            .prop_map(|(foreign, token, device)| Step::Preflight { foreign, token, device }),
        8 => (foreign(), any::<Index>(), maybe(),
              proptest::option::weighted(0.1, select(&DEVICES[..])), behind())
            .prop_map(|(foreign, session, token, device, behind)| Step::Beat { foreign, session, token, device, behind
            }),
        2 => (foreign(), any::<Index>(), maybe())
            .prop_map(|(foreign, session, token)| Step::License { foreign, session, token }),
        1 => (foreign(), any::<Index>()).prop_map(|(foreign, session)| Step::Stop { foreign, session }),
        1 => any::<Index>().prop_map(Step::Revoke),
        1 => proptest::bool::weighted(0.8).prop_map(Step::Offer),
        1 => Just(Step::Sweep),
        1 => Just(Step::Restart),
        5 => select(vec![1, 10, 29, 30, 34]).prop_map(Step::Wait),
        3 => select(vec![35, 36, 299, 300]).prop_map(Step::Wait),
        1 => select(vec![334, 335, 600, 3_600]).prop_map(Step::Wait),
    ]
}

/// Returns the requesting user: the owner, or the other user if `foreign`.
fn asker(owner: u8, foreign: bool) -> u8 {
    if foreign { USERS + 1 - owner } else { owner }
}

/// A token in the model.
struct Ticket {
    token: Token,
    user: u8,
    asset: &'static str,
    offset: i32,
    issued: UnixSeconds,
    expires: UnixSeconds,
    device: Option<&'static str>,
    unlock: Option<String>,
    gone: bool,
}

/// A session in the model.
struct Run {
    id: SessionId,
    ticket: usize,
    user: u8,
    asset: &'static str,
    device: &'static str,
    since: UnixSeconds,
    seen: UnixSeconds,
    /// Its offset from the live point at the start.
    began: i64,
    /// The player's offset from the live point, once a heartbeat reported it.
    lag: i64,
    unlocks: HashSet<String>,
    ended: Option<(EndReason, UnixSeconds)>,
    forgotten: bool,
}

impl Run {
    fn is_alive(&self, now: UnixSeconds) -> bool {
        self.ended.is_none() && now.since(self.seen) < 35
    }

    fn is_over(&self, now: UnixSeconds) -> bool {
        now.since(self.seen) >= 35 + 300
    }

    /// The error for a session that has ended.
    fn end(&self, now: UnixSeconds) -> Result<(), PlaybackError> {
        match self.ended {
            _ if self.forgotten => Err(PlaybackError::SessionNotFound),
            Some((reason, _)) => Err(PlaybackError::SessionEnded(reason)),
            None if self.is_over(now) => Err(PlaybackError::SessionEnded(EndReason::Expired)),
            None => Ok(()),
        }
    }
}

/// Kind, id and start of the program on air.
fn on_air(at: UnixSeconds) -> (Kind, String, UnixSeconds) {
    let slot = at.since(NOW).div_euclid(SLOT);
    let nth = usize::try_from(slot.rem_euclid(4)).unwrap();
    (KINDS[nth], format!("p{slot}"), NOW + slot * SLOT)
}

struct Walk {
    lab: Lab,
    settings: PlaybackSettings,
    now: UnixSeconds,
    tickets: Vec<Ticket>,
    runs: Vec<Run>,
    devices: HashSet<(u8, &'static str)>,
    offered: bool,
    starts: u64,
}

impl Walk {
    fn new(when_full: WhenFull) -> Self {
        let settings = PlaybackSettings {
            clearkey: true,
            streams_total: TOTAL,
            streams_per_asset: PER_ASSET,
            devices: DEVICES_MOST,
            when_full,
            // The heartbeat rate limit has its own test.
            beats: BeatRate {
                per_second: 1_000,
                burst: 1_000,
            },
            ..PlaybackSettings::default()
        };
        let lab = Lab::with(settings.clone());
        let mut programs = lab.world.programs.lock();
        for slot in -10..SLOTS {
            let start = NOW + slot * SLOT;
            let (kind, id, _) = on_air(start);
            let mut one = program(id.clone().leak(), start, start + SLOT);
            one.rights.live = kind != Kind::Dark;
            programs.push(one);
            if kind == Kind::Adult {
                lab.world.pins.lock().insert(id);
            }
        }
        drop(programs);
        lab.world.pins.lock().insert("film-adult".to_owned());
        Self {
            lab,
            settings,
            now: NOW,
            tickets: Vec::new(),
            runs: Vec::new(),
            devices: HashSet::new(),
            offered: true,
            starts: 1,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Entitle {
                user,
                asset,
                offset,
                pin,
                session,
            } => self.entitle(user, asset, offset, pin, session),
            Step::Play {
                user,
                asset,
                device,
            } => {
                self.entitle(user, asset, 0, true, None);
                self.preflight(false, self.tickets.len() - 1, device);
            }
            Step::Preflight {
                foreign,
                token,
                device,
            } => {
                if let Some(ticket) = self.ticket(token) {
                    self.preflight(foreign, ticket, device);
                }
            }
            Step::Beat {
                foreign,
                session,
                token,
                device,
                behind,
            } => self.beat(foreign, session, token, device, behind),
            Step::License {
                foreign,
                session,
                token,
            } => self.license(foreign, session, token),
            Step::Stop { foreign, session } => self.stop(foreign, session),
            Step::Revoke(session) => self.revoke(session),
            Step::Offer(offered) => self.offer(offered),
            Step::Sweep => self.sweep(),
            Step::Restart => self.restart(),
            Step::Wait(seconds) => self.now = self.now + seconds,
        }
        self.look();
    }

    /// Picks one of the latest sessions, if there is any.
    fn run(&self, index: Index) -> Option<usize> {
        let count = self.runs.len();
        (count > 0).then(|| count - 1 - index.index(count.min(6)))
    }

    fn ticket(&self, index: Index) -> Option<usize> {
        let count = self.tickets.len();
        (count > 0).then(|| count - 1 - index.index(count.min(6)))
    }

    fn entitle(
        &mut self,
        user: u8,
        asset: &'static str,
        offset: i32,
        pin: bool,
        session: Option<Index>,
    ) {
        let (now, live) = (self.now, asset == "news");
        let offset = if live { offset } else { 0 };
        let (kind, id, start) = on_air(now + i64::from(offset));
        let subject = if live { id.clone() } else { asset.to_owned() };
        let pin_needed = if live {
            kind == Kind::Adult
        } else {
            asset == "film-adult"
        };
        let right = GrantedRight {
            playing: if live {
                super::live(offset).playing
            } else {
                PlayedAsset::Vod
            },
            program: live.then(|| (BroadcastId::parse(&id).unwrap(), start + SLOT)),
            pin_needed,
            ..vod()
        };
        let named = session.and_then(|index| self.run(index));
        let session = named.map(|at| self.runs[at].id);
        // A session of another user or asset, or one that is over, is ignored.
        let joined = named.filter(|at| {
            let run = &self.runs[*at];
            run.user == user && run.asset == asset && run.end(now).is_ok()
        });
        let unlocked = joined.is_some_and(|at| self.runs[at].unlocks.contains(&subject));
        let locked = pin_needed && !unlocked;
        let (viewer, id) = (viewer(user), super::asset(asset));
        let playback = &self.lab.playback;
        let grant = match playback.check_pin(viewer, id, right, session.as_ref(), now) {
            PinCheck::Open(grant) => {
                assert!(!locked, "no PIN was asked for");
                grant
            }
            PinCheck::Locked(waits) => {
                assert!(locked, "a PIN was asked for");
                if !pin {
                    return;
                }
                waits.unlock(|_| Ok::<(), ()>(())).unwrap()
            }
        };
        let token = playback.issue(grant, now).wait().unwrap().token;
        let mut unlock = locked.then_some(subject);
        if let Some(at) = joined {
            let run = &mut self.runs[at];
            run.unlocks.extend(unlock.take());
            if live {
                run.lag = i64::from(offset);
            }
        }
        self.tickets.push(Ticket {
            token,
            user,
            asset,
            offset,
            issued: now,
            expires: now + 86_400,
            device: None,
            unlock,
            gone: false,
        });
    }

    fn preflight(&mut self, foreign: bool, nth: usize, device: &'static str) {
        let now = self.now;
        let ticket = &self.tickets[nth];
        let user = asker(ticket.user, foreign);
        let start = Lab::start(&viewer(user), ticket.asset, &ticket.token, device);
        let found = self
            .lab
            .preflight(start, now)
            .map(|started| started.session);
        let expected = self.room(user, nth, device);
        let (id, displaced) = match (found, expected) {
            (Ok(id), Ok(displaced)) => (id, displaced),
            (Err(PlaybackError::StreamLimitReached(ways)), Err(Refused::Streams(ids))) => {
                let found: Vec<_> = ways.iter().map(|way| way.session).collect();
                assert_eq!(found, ids);
                return;
            }
            (Err(found), Err(Refused::Other(expected))) => {
                assert_eq!(found, expected);
                return;
            }
            (found, Err(expected)) => panic!("{found:?}, not {expected:?}"),
            (found, Ok(_)) => panic!("{found:?}, and it should have started"),
        };
        let at = self.now;
        let ticket = &mut self.tickets[nth];
        let mut unlocks: HashSet<String> = ticket.unlock.take().into_iter().collect();
        let mut began = i64::from(ticket.offset);
        for run in self.runs.iter_mut().filter(|run| run.ended.is_none()) {
            if run.user == user && run.device == device {
                // A session of the same asset on the device passes on its unlocks and its position.
                if run.asset == ticket.asset && !run.is_over(at) {
                    unlocks.extend(run.unlocks.iter().cloned());
                    let moved = run.is_alive(at) && ticket.issued <= run.since;
                    if moved && run.asset == "news" && run.lag <= 60 {
                        began = run.lag;
                    }
                }
                run.ended = Some((EndReason::Replaced, at));
            } else if displaced.contains(&run.id) {
                run.ended = Some((EndReason::Displaced, at));
            }
        }
        self.devices.insert((user, device));
        ticket.device = Some(device);
        self.runs.push(Run {
            id,
            ticket: nth,
            user,
            asset: ticket.asset,
            device,
            since: now,
            seen: now,
            began,
            lag: began,
            unlocks,
            ended: None,
            forgotten: false,
        });
    }

    /// The sessions that must end for a start, or why it is refused.
    fn room(&self, user: u8, nth: usize, device: &str) -> Result<Vec<SessionId>, Refused> {
        let ticket = &self.tickets[nth];
        let usable = ticket.user == user
            && self.holds(ticket)
            && ticket.device.is_none_or(|bound| bound == device);
        if !usable || !self.offered {
            return Err(Refused::Other(PlaybackError::EntitlementInvalid));
        }
        let registered = self.devices.iter().filter(|(whose, _)| *whose == user);
        let known = self.devices.iter().any(|one| *one == (user, device));
        if !known && registered.count() >= DEVICES_MOST {
            return Err(Refused::Other(PlaybackError::DeviceLimitReached));
        }
        let mut others = self.others(user, device);
        let here = |run: &&Run| run.asset == ticket.asset;
        let full = |runs: &[&Run], most: u32| runs.len() >= usize::try_from(most).unwrap();
        let mut displaced = Vec::new();
        loop {
            let same: Vec<&Run> = others.iter().copied().filter(here).collect();
            let in_the_way = if full(&same, PER_ASSET) {
                same
            } else if full(&others, TOTAL) {
                others.clone()
            } else {
                return Ok(displaced);
            };
            if self.settings.when_full == WhenFull::Deny {
                return Err(Refused::Streams(
                    in_the_way.iter().map(|run| run.id).collect(),
                ));
            }
            let oldest = in_the_way[0].id;
            displaced.push(oldest);
            others.retain(|run| run.id != oldest);
        }
    }

    /// The streams of a user on other devices, oldest first.
    fn others(&self, user: u8, device: &str) -> Vec<&Run> {
        let mut others: Vec<&Run> = self
            .runs
            .iter()
            .filter(|run| run.user == user && run.device != device && run.is_alive(self.now))
            .collect();
        others.sort_by_key(|run| (run.since, run.id));
        others
    }

    fn holds(&self, ticket: &Ticket) -> bool {
        !ticket.gone && self.now < ticket.expires
    }

    /// The expected result for the program at the playing position.
    fn judge(&self, run: &Run, grace: i64) -> Result<(), PlaybackError> {
        let now = self.now;
        if run.asset != "news" {
            let locked = run.asset == "film-adult" && !run.unlocks.contains(run.asset);
            return match locked && now.since(run.since) >= grace {
                true => Err(PlaybackError::PinCodeRequired),
                false => Ok(()),
            };
        }
        let position = now + run.lag;
        let at = if position > now + 60 { now } else { position };
        let (kind, id, start) = on_air(at);
        let shown_later = start + SLOT <= now && now < start + SLOT + CATCHUP;
        if kind == Kind::Dark && !shown_later {
            return Err(PlaybackError::NoLiveRights { by_default: true });
        }
        let late = at.since(start) >= 30;
        match kind == Kind::Adult && late && !run.unlocks.contains(&id) {
            true => Err(PlaybackError::PinCodeRequired),
            false => Ok(()),
        }
    }

    fn beat(
        &mut self,
        foreign: bool,
        session: Index,
        token: Option<Index>,
        device: Option<&'static str>,
        behind: i64,
    ) {
        let Some(nth) = self.run(session) else {
            return;
        };
        let now = self.now;
        let ticket = self.token_of(nth, token);
        let run = &self.runs[nth];
        let user = asker(run.user, foreign);
        let device = device.unwrap_or(run.device);
        let heartbeat = Heartbeat {
            login: None,
            user: &super::user(user),
            session: Some(run.id),
            token: Some(self.tickets[ticket].token.hash()),
            device,
            beat: Beat {
                position: now.0 - behind,
                ..Beat::default()
            },
            trace: &DecisionTrace::off(),
        };
        let found = self.lab.beaten(&heartbeat, now);
        assert_eq!(found, self.expected_beat(user, nth, ticket, device, behind));
    }

    fn expected_beat(
        &mut self,
        user: u8,
        nth: usize,
        ticket: usize,
        device: &str,
        behind: i64,
    ) -> Result<(), PlaybackError> {
        let (run, ticket, now) = (&self.runs[nth], &self.tickets[ticket], self.now);
        run.end(now)?;
        if ticket.gone || ticket.user != user {
            return Err(PlaybackError::EntitlementInvalid);
        }
        if !self.holds(ticket) {
            return Err(PlaybackError::EntitlementExpired);
        }
        let fits = run.user == user
            && ticket.asset == run.asset
            && ticket.device.is_none_or(|bound| bound == device)
            && run.device == device;
        if !fits {
            return Err(PlaybackError::SessionMismatch);
        }
        let others = self.others(user, device);
        let here = others.iter().filter(|other| other.asset == run.asset);
        let free = here.count() < usize::try_from(PER_ASSET).unwrap()
            && others.len() < usize::try_from(TOTAL).unwrap();
        let beats = run.is_alive(now) || free;
        let run = &mut self.runs[nth];
        run.lag = -behind;
        if !beats {
            return Err(PlaybackError::SessionEnded(EndReason::Expired));
        }
        run.seen = now;
        self.judge(&self.runs[nth], 30)
    }

    /// The token of a session, or another one.
    fn token_of(&self, run: usize, other: Option<Index>) -> usize {
        other
            .and_then(|index| self.ticket(index))
            .unwrap_or(self.runs[run].ticket)
    }

    fn license(&mut self, foreign: bool, session: Index, token: Option<Index>) {
        let Some(nth) = self.run(session) else {
            return;
        };
        let run = &self.runs[nth];
        let user = asker(run.user, foreign);
        let ticket = &self.tickets[self.token_of(nth, token)];
        let request = LicenseAttempt {
            keys: "",
            user: &super::user(user),
            session: Some(run.id),
            token: Some(ticket.token.hash()),
            device: None,
            drm: Drm::Clearkey,
            kids: &[],
            trace: &DecisionTrace::off(),
        };
        let found = self.lab.playback.license(&request, self.now).map(|_| ());
        let valid = run.user == user
            && ticket.user == user
            && ticket.asset == run.asset
            && self.holds(ticket)
            && ticket.device.is_none_or(|bound| bound == run.device);
        let expected = run.end(self.now).and_then(|()| match valid {
            true => self.judge(run, 0),
            false => Err(PlaybackError::EntitlementInvalid),
        });
        assert_eq!(found, expected);
    }

    fn stop(&mut self, foreign: bool, session: Index) {
        let Some(nth) = self.run(session) else {
            return;
        };
        let (run, now) = (&mut self.runs[nth], self.now);
        let user = asker(run.user, foreign);
        let (whose, id) = (super::user(user), Some(&run.id));
        let playback = &self.lab.playback;
        let stopped = playback.stop(&whose, id, EndReason::Stopped, now);
        let found = stopped.and_then(playgate_store::Commit::wait);
        let expected = match run.end(now) {
            // The owner is checked before expiry; a recorded end comes first.
            _ if run.ended.is_none() && run.user != user => Err(PlaybackError::SessionMismatch),
            Ok(()) => {
                run.ended = Some((EndReason::Stopped, now));
                Ok(())
            }
            ended => ended,
        };
        assert_eq!(found, expected);
    }

    fn revoke(&mut self, session: Index) {
        let Some(nth) = self.run(session) else {
            return;
        };
        let (run, now) = (&mut self.runs[nth], self.now);
        let revoked = self.lab.playback.revoke(&run.id, now);
        let found = revoked.and_then(playgate_store::Commit::wait);
        if run.ended.is_some() {
            assert_eq!(found, run.end(now));
        } else {
            assert_eq!(found, Ok(()));
            run.ended = Some((EndReason::Revoked, now));
        }
    }

    fn offer(&mut self, offered: bool) {
        self.lab.world.revoked.store(!offered, Ordering::Relaxed);
        self.offered = offered;
        if offered {
            return;
        }
        for user in 1..=USERS {
            let voided = self.lab.playback.void_lost(&viewer(user), self.now);
            voided.wait().unwrap();
        }
        for ticket in self.tickets.iter_mut().filter(|ticket| !ticket.gone) {
            ticket.gone = true;
            for run in self.runs.iter_mut().filter(|run| run.ended.is_none()) {
                if (run.user, run.asset) == (ticket.user, ticket.asset) {
                    run.ended = Some((EndReason::Revoked, self.now));
                }
            }
        }
    }

    fn sweep(&mut self) {
        let (now, playback) = (self.now, &self.lab.playback);
        playback.sweep_sessions(now).unwrap();
        playback.sweep_entitlements(now).unwrap();
        playback.sweep_ended(now).unwrap();
        playback.checkpoint().unwrap();
        for ticket in &mut self.tickets {
            ticket.gone |= now.since(ticket.expires) >= 3_600;
        }
        for run in &mut self.runs {
            match run.ended {
                None if run.is_over(now) => run.ended = Some((EndReason::Expired, now)),
                Some((_, at)) if now.since(at) >= 3_600 => run.forgotten = true,
                Some(_) | None => {}
            }
        }
    }

    /// Liveness periods start again, and player positions are forgotten.
    fn restart(&mut self) {
        let lab = &mut self.lab;
        self.starts += 1;
        lab.playback = Lab::open_again(&lab.store, self.settings.clone(), &lab.world, self.starts);
        lab.playback.refresh(self.now);
        for run in self.runs.iter_mut().filter(|run| run.ended.is_none()) {
            run.seen = self.now;
            run.lag = run.began;
        }
    }

    /// Checks all sessions: none is lost, and no slot leaks.
    fn look(&self) {
        let (now, playback) = (self.now, &self.lab.playback);
        let alive = self.runs.iter().filter(|run| run.is_alive(now)).count();
        assert_eq!(playback.streams(now), alive);
        for user in 1..=USERS {
            let views = playback.sessions_of(&super::user(user), now);
            let found: HashSet<_> = views.iter().map(|view| view.id).collect();
            let mine = self.runs.iter().filter(|run| run.user == user);
            let expected: HashSet<_> = mine
                .filter(|run| run.end(now).is_ok())
                .map(|run| run.id)
                .collect();
            assert_eq!(found, expected);
        }
    }
}

#[derive(Debug)]
enum Refused {
    Streams(Vec<SessionId>),
    Other(PlaybackError),
}

proptest! {
    #[test]
    fn sessions_follow_the_state_diagram(
        displace in any::<bool>(),
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let when_full = if displace { WhenFull::Displace } else { WhenFull::Deny };
        let mut walk = Walk::new(when_full);
        steps.into_iter().for_each(|step| walk.take(step));
        let tables = walk.lab.store.verify().unwrap().tables;
        prop_assert!(tables.iter().all(|table| table.is_sound()));
    }
}
