//! A view counts as what it was, whatever order its reports, events and end arrive in, and whatever part of them is lost.

use std::cmp::Reverse;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Played,
    PlayedAndFailed,
    StartFailed,
    Exited,
}

impl Truth {
    const ALL: [Self; 4] = [
        Self::Played,
        Self::PlayedAndFailed,
        Self::StartFailed,
        Self::Exited,
    ];

    fn plays(self) -> bool {
        matches!(self, Self::Played | Self::PlayedAndFailed)
    }
}

/// What arrives at the service.
#[derive(Clone, Debug)]
enum Arrival {
    Opened(u64),
    Beat(u64, i64),
    Ended(u64, bool),
    Event(Box<PlayerEvent>),
}

/// One user who starts the same title several times on a device.
struct Viewing {
    chance: Chance,
    /// By the second of their arrival. Those of one second are shuffled.
    arrivals: Vec<(UnixSeconds, u64, Arrival)>,
    /// How the player names its session.
    naming: Naming,
    sequence: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// The reports of CMCD name it by their address.
    Always,
    Never,
}

impl Viewing {
    fn arrives(&mut self, at: UnixSeconds, arrival: Arrival) {
        let tie = self.chance.next();
        self.arrivals.push((at, tie, arrival));
    }

    /// An event is uploaded up to ten minutes later, or never if `may_be_lost`.
    fn reports(&mut self, start: u64, at_millis: i64, may_be_lost: bool, action: PlayerAction) {
        self.sequence += 1;
        if may_be_lost && self.chance.percent(30) {
            return;
        }
        let mut event = PlayerEvent {
            session: Some(Arc::from(session(start).to_string().as_str())),
            ..event(1, at_millis, self.sequence, action)
        };
        if self.naming == Naming::Never {
            event.session = None;
        }
        let delay = if self.chance.percent(50) {
            self.chance.below(2_000)
        } else {
            self.chance.below(600_000)
        };
        let received = UnixSeconds((at_millis + delay).div_euclid(1_000));
        self.arrives(received, Arrival::Event(Box::new(event)));
    }

    /// Returns when it ended.
    fn starts(&mut self, start: u64, at: UnixSeconds, truth: Truth) -> UnixSeconds {
        use PlayerAction::{Failed, Paused, Playing, Requested, Started, Stopped, Waiting};
        let millis = |seconds: i64| (at.0 + seconds) * 1_000;
        self.arrives(at, Arrival::Opened(start));
        // Only a report without the session's id may come before the session.
        let early = if self.naming == Naming::Never { 400 } else { 0 };
        self.reports(start, millis(0) - early, true, Requested);
        let length = 30 + self.chance.below(90);
        if !truth.plays() {
            if truth == Truth::StartFailed {
                self.reports(start, millis(2) + 300, false, Failed(None));
            }
            let end = at + 3 + self.chance.below(20);
            self.arrives(end, Arrival::Ended(start, true));
            return end;
        }
        // A play is known by its first frame or by heartbeats.
        let beats = self.chance.percent(50);
        if beats {
            for beat in 1..=length / 10 {
                self.arrives(at + beat * 10, Arrival::Beat(start, beat * 10));
            }
        }
        self.reports(start, millis(1), beats, Started(None));
        self.reports(start, millis(12), true, Waiting);
        self.reports(start, millis(14), true, Playing);
        self.reports(start, millis(20), true, Paused);
        self.reports(start, millis(22), true, Playing);
        if truth == Truth::PlayedAndFailed {
            self.reports(start, millis(length) - 900, false, Failed(None));
        } else {
            self.reports(start, millis(length) - 900, true, Stopped);
        }
        let end = at + length;
        self.arrives(end, Arrival::Ended(start, self.sequence % 2 == 0));
        end
    }

    fn arrive_at(mut self, quality: &Quality) {
        self.arrivals.sort_by_key(|(at, tie, arrival)| {
            // The server opens a session before anything can refer to it.
            (*at, Reverse(matches!(arrival, Arrival::Opened(_))), *tie)
        });
        for (at, _, arrival) in self.arrivals {
            match arrival {
                Arrival::Opened(start) => quality.opened(OpenedSession {
                    session: session(start),
                    ..opened(1, at, Labels::default())
                }),
                Arrival::Beat(start, position) => {
                    quality.beat(&user(1), session(start), at, position, 2_000_000);
                }
                Arrival::Ended(start, stopped) => {
                    quality.ended(&user(1), session(start), at, stopped);
                }
                Arrival::Event(event) => quality.stored(sender(1), *event, at),
            }
        }
    }
}

#[test]
fn a_view_counts_as_what_it_was_in_every_order() {
    for seed in 0..400 {
        let mut chance = Chance(seed);
        let naming = [Naming::Always, Naming::Never][usize::from(chance.percent(60))];
        let mut viewing = Viewing {
            chance,
            arrivals: Vec::new(),
            naming,
            sequence: 0,
        };
        let mut at = NOON;
        let mut truths = Vec::new();
        for start in 1..=1 + viewing.chance.below(4) {
            let place = usize::try_from(viewing.chance.below(4)).unwrap();
            let truth = Truth::ALL[place];
            truths.push(truth);
            let end = viewing.starts(u64::try_from(start).unwrap(), at, truth);
            // Often a moment after the end of the one before.
            at = end + 2 + viewing.chance.below(3) * viewing.chance.below(100);
        }
        let directory = tempfile::tempdir().unwrap();
        let quality = open(directory.path());
        let story = format!(
            "seed {seed}: {truths:?}, {naming:?}, {:?}",
            viewing.arrivals
        );
        viewing.arrive_at(&quality);
        let number = |is: fn(&Truth) -> bool| truths.iter().filter(|truth| is(truth)).count();
        let expected = [
            truths.len(),
            number(|truth| truth.plays()),
            number(|truth| *truth == Truth::StartFailed),
            number(|truth| *truth == Truth::Exited),
            number(|truth| *truth == Truth::PlayedAndFailed),
        ];
        let later = NOON + 2 * HOUR;
        for close in [false, true] {
            if close {
                quality.tick(later).unwrap();
            }
            let found = figures(&quality, later);
            let found = [
                found.attempts,
                found.plays,
                found.start_failures,
                found.exits_before_start,
                found.playback_failures,
            ]
            .map(|count| usize::try_from(count).unwrap());
            assert_eq!(found, expected, "closed {close}: {story}");
        }
        // With clocks that are right no event begins a view of its own.
        assert_eq!(quality.counts().late, 0, "{story}");
    }
}

#[test]
fn what_a_device_kept_for_hours_is_not_about_what_it_plays_now() {
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    quality.opened(opened(1, NOON, Labels::default()));
    quality.ended(&user(1), session(1), NOON + 60, true);
    quality.tick(NOON + 2 * HOUR).unwrap();
    let again = NOON + 2 * HOUR;
    quality.opened(OpenedSession {
        session: session(2),
        ..opened(1, again, Labels::default())
    });
    let at = |seconds: i64| (again.0 + seconds) * 1_000;
    let session_event = |sequence: i64, seconds, action| PlayerEvent {
        session: Some(Arc::from(session(2).to_string().as_str())),
        ..event(1, at(seconds), sequence, action)
    };
    let started = session_event(1, 1, PlayerAction::Started(None));
    quality.stored(sender(1), started, again + 1);
    // The device was offline. The first start is closed.
    let failed = event(1, NOON.0 * 1_000 + 50_000, 9, PlayerAction::Failed(None));
    quality.stored(sender(1), failed, again + 5);
    let stopped = session_event(2, 61, PlayerAction::Stopped);
    quality.stored(sender(1), stopped, again + 61);
    let found = figures(&quality, again + 70);
    assert_eq!((found.plays, found.playback_failures), (1, 0));
    assert_eq!(quality.counts().late, 1);
}

#[test]
fn a_viewer_who_plays_on_from_the_end_plays() {
    use PlayerAction::{Started, Stopped};
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    quality.opened(opened(1, NOON, Labels::default()));
    // CMCD reports each time that it plays, and a stop of another start came late.
    let reports = [
        (70_000, Started(None)),
        (0, Started(None)),
        (60_000, Stopped),
        (100_000, Stopped),
    ];
    for (sequence, (at, action)) in (1..).zip(reports) {
        let event = event(1, NOON.0 * 1_000 + at, sequence, action);
        quality.stored(sender(1), event, NOON + 101);
    }
    let query = ViewsQuery {
        from: NOON - 10,
        to: NOON + 10,
        filters: Vec::new(),
        outcome: None,
        limit: 10,
    };
    let views = quality.views(&query).unwrap();
    assert_eq!(views[0].figures.minutes_played, 1.5);
}
