//! A simulated audience whose true figures are known: stalls, pauses, failures, retries, skewed clocks, duplicates and
//! lost batches. The events take the way through telemetry, which removes the duplicates.

use std::collections::BTreeMap;

use super::*;
use crate::telemetry::{Budgets, NewEvent, Telemetry, TelemetrySettings, schema};
use playgate_store::{Schema, Store};

pub(super) const PLATFORMS: [&str; 4] = ["web", "android", "ios", "tv"];

/// What a viewer did, in milliseconds of true time.
#[derive(Default)]
struct Truth {
    attempts: u32,
    plays: u32,
    start_failures: u32,
    exits: u32,
    playback_failures: u32,
    waits: u32,
    waited: i64,
    played: i64,
    startups: Vec<i64>,
    bits: f64,
    alive: BTreeMap<i64, i64>,
    /// Events that were lost on the way.
    lost: u32,
}

enum Step {
    Open(Box<OpenedSession>),
    Beat(u64, i64, u64),
    Refuse(u64),
    Stop(u64),
    Batch(u64, Vec<NewEvent<'static>>),
}

struct Audience {
    chance: Chance,
    truth: Truth,
    by_platform: [u32; 4],
    /// By the server's second.
    steps: BTreeMap<i64, Vec<Step>>,
}

struct Viewer {
    number: u64,
    /// Milliseconds by which its clock is ahead.
    skew: i64,
    sequence: i64,
    events: Vec<(i64, NewEvent<'static>)>,
}

impl Viewer {
    fn say(&mut self, at: i64, action: PlayerAction, bitrate: Option<u64>) {
        self.sequence += 1;
        let mut player = event(self.number, at + self.skew, self.sequence, action);
        player.bitrate = bitrate;
        let sent = NewEvent {
            timestamp_millis: player.timestamp_millis,
            sequence: player.sequence,
            action: format!("{:?}", player.action).into(),
            device: Some("tv".into()),
            json: b"{}".into(),
            player: Some(Box::new(player)),
            ignored_values: 0,
        };
        self.events.push((at, sent));
    }
}

impl Audience {
    fn new(seed: u64, viewers: u64) -> Self {
        let mut audience = Self {
            chance: Chance(seed),
            truth: Truth::default(),
            by_platform: [0; 4],
            steps: BTreeMap::new(),
        };
        for number in 0..viewers {
            audience.add(number);
        }
        audience
    }

    fn at(&mut self, millis: i64, step: Step) {
        self.steps
            .entry(millis.div_euclid(1_000))
            .or_default()
            .push(step);
    }

    fn add(&mut self, number: u64) {
        let chance = &mut self.chance;
        let open = NOON.0 * 1_000 + chance.below(2 * HOUR * 1_000);
        let skew = match chance.below(10) {
            0 => chance.below(7_200_000) - 3_600_000,
            1 => chance.below(400_000_000) - 200_000_000,
            _ => chance.below(400) - 200,
        };
        let mut viewer = Viewer {
            number,
            skew,
            sequence: 0,
            events: Vec::new(),
        };
        let platform = usize::try_from(chance.below(4)).unwrap();
        self.by_platform[platform] += 1;
        self.truth.attempts += 1;
        let labels = Labels::default().with(Dimension::Platform, PLATFORMS[platform]);
        let at = UnixSeconds(open.div_euclid(1_000));
        self.at(open, Step::Open(Box::new(opened(number, at, labels))));
        viewer.say(open - 40, PlayerAction::Requested, None);
        let fate = self.chance.below(100);
        let end = match fate {
            0..4 => {
                self.truth.start_failures += 1;
                viewer.say(open + 900, PlayerAction::Failed(None), None);
                open + 1_500
            }
            4..6 => {
                self.truth.start_failures += 1;
                self.at(open + 400, Step::Refuse(number));
                open + 1_000
            }
            6..9 => {
                self.truth.exits += 1;
                open + 3_000
            }
            _ => self.play(&mut viewer, open),
        };
        let stopped = end + 300;
        if fate < 9 || fate % 2 == 0 {
            viewer.say(end, PlayerAction::Stopped, None);
        }
        self.at(stopped, Step::Stop(number));
        *self.truth.alive.entry(open.div_euclid(1_000)).or_default() += 1;
        let end = stopped.div_euclid(1_000).max(open.div_euclid(1_000) + 1);
        *self.truth.alive.entry(end).or_default() -= 1;
        self.send(viewer);
    }

    /// Returns when the viewer stopped.
    fn play(&mut self, viewer: &mut Viewer, open: i64) -> i64 {
        let startup = 300 + self.chance.below(60) * self.chance.below(60);
        let begin = open + startup;
        self.truth.plays += 1;
        self.truth.startups.push(startup);
        let reported = Reported::in_millis(startup as f64);
        viewer.say(begin, PlayerAction::Started(reported), Some(3_000_000));
        let (mut now, mut rate) = (begin, 3_000_000);
        let mut rates = vec![(begin, rate)];
        for _ in 0..self.chance.below(8) {
            let length = 5_000 + self.chance.below(200_000);
            now += length;
            self.truth.played += length;
            self.truth.bits += rate as f64 * length as f64;
            match self.chance.below(4) {
                0 => {
                    let wait = 200 + self.chance.below(4_000);
                    now += wait;
                    self.truth.waits += 1;
                    self.truth.waited += wait;
                    viewer.say(
                        now,
                        PlayerAction::Waited(Reported::in_millis(wait as f64)),
                        None,
                    );
                }
                1 => {
                    viewer.say(now, PlayerAction::Paused, None);
                    now += 1_000 + self.chance.below(60_000);
                    viewer.say(now, PlayerAction::Playing, None);
                }
                _ => {
                    rate = u64::try_from(1_000_000 * (1 + self.chance.below(6))).unwrap();
                    viewer.say(now, PlayerAction::BitrateChanged, Some(rate));
                    rates.push((now, rate));
                }
            }
        }
        let last = 5_000 + self.chance.below(100_000);
        now += last;
        self.truth.played += last;
        self.truth.bits += rate as f64 * last as f64;
        if self.chance.percent(3) {
            self.truth.playback_failures += 1;
            viewer.say(now, PlayerAction::Failed(Some(Arc::from("3016"))), None);
        }
        for beat in 1.. {
            let at = open + beat * 10_000;
            if at > now {
                break;
            }
            let place = rates.partition_point(|(from, _)| *from <= at);
            let rate = rates[place.saturating_sub(1)].1;
            self.at(at, Step::Beat(viewer.number, at / 1_000, rate));
        }
        now
    }

    /// Batches by time; some come late, twice, in another order, or never.
    fn send(&mut self, viewer: Viewer) {
        let Viewer { number, events, .. } = viewer;
        let mut batches: BTreeMap<i64, Vec<NewEvent<'static>>> = BTreeMap::new();
        for (at, event) in events {
            batches
                .entry(at.div_euclid(15_000) * 15_000 + 15_000)
                .or_default()
                .push(event);
        }
        let count = batches.len();
        for (place, (at, mut batch)) in batches.into_iter().enumerate() {
            // The first batch is never late: it shows the delay of the clock.
            let late = place > 0 && self.chance.percent(10);
            let at = if late {
                at + self.chance.below(1_200_000)
            } else {
                at
            };
            if place > 0 && place + 1 < count && self.chance.percent(1) {
                self.truth.lost += u32::try_from(batch.len()).unwrap();
                continue;
            }
            if self.chance.percent(20) {
                batch.reverse();
            }
            if self.chance.percent(20) {
                let again = at + self.chance.below(60_000);
                self.at(again, Step::Batch(number, batch.clone()));
            }
            self.at(at, Step::Batch(number, batch));
        }
    }
}

fn telemetry(directory: &Path) -> Telemetry {
    let settings = TelemetrySettings {
        directory: directory.join("telemetry"),
        retention_days: 30,
        budgets: Budgets {
            user_per_day: u64::MAX,
            partner_per_day: None,
            total: u64::MAX,
        },
        sync: false,
        exists: |_, _| Ok(true),
    };
    let store = Store::in_memory(schema(Schema::default()));
    let telemetry = Telemetry::open(store, settings, |_| {}).unwrap();
    telemetry.begin(NOON).unwrap();
    telemetry
}

/// Plays the steps. Returns the time of the last one.
fn play(quality: &Quality, telemetry: &Telemetry, audience: &mut Audience) -> UnixSeconds {
    let mut now = NOON;
    for (second, steps) in std::mem::take(&mut audience.steps) {
        now = UnixSeconds(second);
        for step in steps {
            match step {
                Step::Open(session) => quality.opened(*session),
                Step::Beat(number, position, bitrate) => {
                    quality.beat(&user(number), session(number), now, position, bitrate);
                }
                Step::Refuse(number) => {
                    quality.license_refused(&user(number), session(number), now);
                }
                Step::Stop(number) => quality.ended(&user(number), session(number), now, true),
                Step::Batch(number, batch) => {
                    telemetry.ingest(sender(number), batch, now).unwrap();
                }
            }
        }
        if second % 60 == 0 {
            quality.tick(now).unwrap();
        }
    }
    now
}

#[track_caller]
fn near(read: f64, truth: f64, error: f64) {
    assert!(
        (read - truth).abs() <= error * truth.abs(),
        "{read}, in truth {truth}"
    );
}

impl Truth {
    fn compare(&self, read: &Figures) {
        let counts = |figures: &Figures| {
            [
                figures.attempts,
                figures.plays,
                figures.start_failures,
                figures.exits_before_start,
                figures.playback_failures,
            ]
        };
        let truth = [
            self.attempts,
            self.plays,
            self.start_failures,
            self.exits,
            self.playback_failures,
        ];
        assert_eq!(counts(read), truth);
        assert!(read.rebuffer_count <= self.waits && read.rebuffer_count + self.lost >= self.waits);
        let mut startups = self.startups.clone();
        startups.sort_unstable();
        let rank = |percent: usize| startups[(percent * startups.len()).div_ceil(100) - 1] as f64;
        near(read.startup_p50_millis.unwrap(), rank(50), 0.011);
        near(read.startup_p95_millis.unwrap(), rank(95), 0.011);
        near(read.minutes_played, self.played as f64 / 60_000.0, 0.01);
        let ratio = self.waited as f64 / (self.waited + self.played) as f64;
        near(read.rebuffer_ratio.unwrap(), ratio, 0.03);
        near(
            read.mean_bitrate.unwrap(),
            self.bits / self.played as f64,
            0.02,
        );
        let mut alive = 0;
        let alive = self.alive.values().map(|by| {
            alive += by;
            alive
        });
        let alive = alive.max().unwrap() as f64;
        near(f64::from(read.max_concurrent), alive, 0.01);
    }
}

#[test]
fn the_report_of_a_simulated_audience_is_the_truth() {
    let (seed, viewers) = seed_and_size(7, 3_000);
    let directory = tempfile::tempdir().unwrap();
    let quality = open(&directory.path().join("quality"));
    let telemetry = telemetry(directory.path());
    telemetry.observe(Arc::new(quality.clone()));
    let mut audience = Audience::new(seed, viewers);
    let now = play(&quality, &telemetry, &mut audience);
    let before = figures(&quality, now);
    audience.truth.compare(&before);
    // Closing the views changes nothing.
    let later = now + 2 * HOUR;
    assert_eq!(quality.tick(later).unwrap(), 0);
    let after = figures(&quality, later);
    assert_eq!(before, after);
    let by_platform = QualityQuery {
        by: vec![GroupBy::Dimension(Dimension::Platform)],
        ..all()
    };
    let report = quality.report(&by_platform, later).unwrap();
    assert_eq!(report.total.figures, after);
    for row in &report.rows {
        let KeyPart::Name(name) = &row.key[0] else {
            panic!("{row:?}")
        };
        let place = PLATFORMS.iter().position(|platform| *platform == &**name);
        assert_eq!(row.figures.attempts, audience.by_platform[place.unwrap()]);
    }
    let by_minute = QualityQuery {
        by: vec![GroupBy::Minute],
        ..all()
    };
    let minutes = quality.report(&by_minute, later).unwrap().rows;
    let attempts: u32 = minutes.iter().map(|row| row.figures.attempts).sum();
    assert_eq!(attempts, audience.truth.attempts);
    let most = minutes.iter().map(|row| row.figures.max_concurrent).max();
    assert_eq!(most, Some(after.max_concurrent));
    assert_eq!(quality.counts().dropped, 0);
}

/// The long form: `PLAYGATE_QUALITY_VIEWS=1000000 cargo test --release --lib views_are_counted_in -- --nocapture`.
#[test]
fn many_views_are_counted_in_bounded_memory() {
    let (seed, viewers) = seed_and_size(11, 20_000);
    let directory = tempfile::tempdir().unwrap();
    let quality = open(directory.path());
    let mut chance = Chance(seed);
    let (mut most_open, mut most_hours) = (0, 0);
    // The rate of a million views a day.
    for number in 0..viewers {
        let now = NOON + i64::try_from(number * 86_400 / 1_000_000).unwrap();
        let labels = Labels::default()
            .with(
                Dimension::Platform,
                PLATFORMS[usize::try_from(number % 4).unwrap()],
            )
            .with(Dimension::DeviceModel, &format!("m{}", chance.below(1_000)))
            .with(Dimension::Country, &format!("c{}", chance.below(40)))
            .with(Dimension::AppVersion, &format!("1.{}", chance.below(20)));
        quality.opened(opened(number, now, labels));
        let at = now.0 * 1_000;
        let started = PlayerAction::Started(Reported::in_millis(800.0));
        quality.stored(sender(number), event(number, at, 1, started), now);
        let stopped = event(number, at + 60_000, 2, PlayerAction::Stopped);
        quality.stored(sender(number), stopped, now + 60);
        quality.ended(&user(number), session(number), now + 60, true);
        if number % 500 == 0 {
            let open = quality.tick(now).unwrap();
            most_open = most_open.max(open);
            most_hours = most_hours.max(quality.inner.state.lock().hours.len());
        }
    }
    let bytes = quality.bytes().unwrap();
    let memory = std::fs::read_to_string("/proc/self/status").unwrap();
    let memory = memory
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or_default();
    println!(
        "{viewers} views, {most_open} open, {most_hours} hours, {bytes} bytes of files; {memory}"
    );
    // Open views are those of the last hour and of the minutes between two searches.
    assert!(most_open <= 45_000, "{most_open}");
    assert!(most_hours <= 8, "{most_hours}");
    let began = std::time::Instant::now();
    let query = QualityQuery {
        to: NOON + 40 * DAY,
        ..all()
    };
    let report = quality.report(&query, NOON + 40 * DAY).unwrap();
    println!("a report took {:?}", began.elapsed());
    assert_eq!(u64::from(report.total.figures.attempts), viewers);
    assert_eq!(u64::from(report.total.figures.plays), viewers);
}

#[allow(
    clippy::disallowed_methods,
    reason = "the long form is asked for by the environment, as in all tests"
)]
pub(super) fn seed_and_size(seed: u64, size: u64) -> (u64, u64) {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let seed = number("PLAYGATE_QUALITY_SEED").unwrap_or(seed);
    let size = number("PLAYGATE_QUALITY_VIEWS").unwrap_or(size);
    println!("PLAYGATE_QUALITY_SEED={seed} PLAYGATE_QUALITY_VIEWS={size}");
    (seed, size)
}
