//! Recent activity, for operators without a monitoring system: the increase of some metrics in each of the last
//! intervals.
//!
//! A job reads the counters of the registry every [`STEP`] and stores the differences, so requests do no extra work.
//! Two rings bound the memory: an hour in steps of 15 seconds and a day in steps of five minutes. A sample has at most
//! as many codes as the service has error codes, so that both take less than a megabyte.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use parking_lot::Mutex;

use super::metrics::{BUCKETS, Registry};
use playgate_types::UnixSeconds;

pub const STEP: Duration = Duration::from_secs(15);
/// Number of short steps in a step of the long ring.
const STEPS_OF_LONG: u32 = 20;
const SHORT_LEN: usize = 240;
const LONG_LEN: usize = 288;

const REQUESTS: &str = "playgate_http_requests_total";
const LATENCY: &str = "playgate_http_request_duration_seconds";
const REFUSED: &str = "playgate_requests_refused_total";
const STREAMS: &str = "playgate_playback_sessions";

/// Prefixes of the labels of routes that viewers do not use.
const INTERNAL_PREFIXES: [&str; 7] = [
    "admin_", "console", "livez", "readyz", "metrics", "ops_", "lab_",
];

type Counts = BTreeMap<String, u64>;
type Buckets = [u64; BUCKETS.len() + 1];

/// Counters of the registry since the start of the process.
#[derive(Clone, Default)]
struct Totals {
    requests: Counts,
    refusals: Counts,
    logins: u64,
    refused_logins: u64,
    latency: Buckets,
}

/// The differences of the counters over one interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActivitySample {
    pub at: UnixSeconds,
    /// Highest number of playback sessions at the end of a step of the interval.
    pub streams: u64,
    /// Requests by status class.
    pub requests: Counts,
    /// Refusals by error code.
    pub refusals: Counts,
    pub logins: u64,
    pub refused_logins: u64,
    latency: Buckets,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityPeriod {
    Hour,
    Day,
}

impl ActivityPeriod {
    /// Seconds between two samples.
    pub const fn step(self) -> u64 {
        match self {
            Self::Hour => STEP.as_secs(),
            Self::Day => STEP.as_secs() * STEPS_OF_LONG as u64,
        }
    }
}

#[derive(Default)]
pub struct Activity(Mutex<Rings>);

#[derive(Default)]
struct Rings {
    before: Option<Totals>,
    short: VecDeque<ActivitySample>,
    long: VecDeque<ActivitySample>,
    /// The incomplete sample at the end of the long ring.
    open: ActivitySample,
    steps: u32,
}

impl Activity {
    /// Takes a sample. The first call only sets the baseline.
    pub fn sample(&self, registry: &Registry, now: UnixSeconds) {
        let totals = Totals::read(registry);
        let mut streams = 0;
        registry.read(STREAMS, |_, value| streams = value);
        let mut rings = self.0.lock();
        // Without a baseline, the counts since the start of the process would appear as the activity of one step.
        let Some(before) = rings.before.replace(totals.clone()) else {
            return;
        };
        let sample = totals.since(&before, now, streams);
        rings.open.merge(&sample);
        push(&mut rings.short, sample, SHORT_LEN);
        rings.steps += 1;
        if rings.steps == STEPS_OF_LONG {
            rings.steps = 0;
            let complete = std::mem::take(&mut rings.open);
            push(&mut rings.long, complete, LONG_LEN);
        }
    }

    pub fn samples(&self, period: ActivityPeriod) -> Vec<ActivitySample> {
        let rings = self.0.lock();
        match period {
            ActivityPeriod::Hour => rings.short.iter().cloned().collect(),
            ActivityPeriod::Day => {
                // The incomplete sample has the most recent minutes of the day.
                let open = (rings.steps > 0).then_some(&rings.open);
                rings.long.iter().chain(open).cloned().collect()
            }
        }
    }
}

fn push(ring: &mut VecDeque<ActivitySample>, sample: ActivitySample, len: usize) {
    if ring.len() == len {
        ring.pop_front();
    }
    ring.push_back(sample);
}

/// Returns the value of a label from the text form of all labels. The labels that are read here contain no escapes.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    labels.split(',').find_map(|pair| {
        let value = pair.strip_prefix(name)?.strip_prefix("=\"")?;
        value.strip_suffix('"')
    })
}

fn is_viewers(labels: &str) -> bool {
    let route = label(labels, "route").unwrap_or_default();
    !INTERNAL_PREFIXES
        .iter()
        .any(|prefix| route.starts_with(prefix))
}

impl Totals {
    fn read(registry: &Registry) -> Self {
        let mut totals = Self::default();
        registry.read(REQUESTS, |labels, value| {
            let status = label(labels, "status").unwrap_or_default();
            if !is_viewers(labels) {
                return;
            }
            *totals.requests.entry(status.to_owned()).or_default() += value;
            match (label(labels, "route"), status) {
                (Some("login"), "2xx") => totals.logins += value,
                (Some("login"), "4xx" | "5xx") => totals.refused_logins += value,
                _ => {}
            }
        });
        registry.read(REFUSED, |labels, value| {
            if let Some(code) = label(labels, "code")
                && is_viewers(labels)
            {
                *totals.refusals.entry(code.to_owned()).or_default() += value;
            }
        });
        registry.read_histogram(LATENCY, |labels, buckets| {
            if is_viewers(labels) {
                add(&mut totals.latency, &buckets);
            }
        });
        totals
    }

    fn since(&self, before: &Self, at: UnixSeconds, streams: u64) -> ActivitySample {
        let mut latency = self.latency;
        for (bucket, before) in latency.iter_mut().zip(before.latency) {
            *bucket = bucket.saturating_sub(before);
        }
        ActivitySample {
            at,
            streams,
            requests: difference(&self.requests, &before.requests),
            refusals: difference(&self.refusals, &before.refusals),
            logins: self.logins.saturating_sub(before.logins),
            refused_logins: self.refused_logins.saturating_sub(before.refused_logins),
            latency,
        }
    }
}

/// Omits counts that did not change.
fn difference(now: &Counts, before: &Counts) -> Counts {
    now.iter()
        .map(|(name, count)| {
            let before = before.get(name).copied().unwrap_or_default();
            (name.clone(), count.saturating_sub(before))
        })
        // Most counts of an interval are 0, and a day has 288 samples.
        .filter(|(_, count)| *count > 0)
        .collect()
}

fn add(to: &mut Buckets, buckets: &Buckets) {
    for (sum, count) in to.iter_mut().zip(buckets) {
        *sum += count;
    }
}

impl ActivitySample {
    fn merge(&mut self, other: &Self) {
        self.at = other.at;
        // The peak: a sum or the last value of streams would mean nothing over five minutes.
        self.streams = self.streams.max(other.streams);
        for (all, of) in [
            (&mut self.requests, &other.requests),
            (&mut self.refusals, &other.refusals),
        ] {
            for (name, count) in of {
                *all.entry(name.clone()).or_default() += count;
            }
        }
        self.logins += other.logins;
        self.refused_logins += other.refused_logins;
        add(&mut self.latency, &other.latency);
    }

    /// Returns the latency in microseconds that `percent` of the requests did not exceed, or `None` without requests.
    pub fn latency_micros(&self, percent: u64) -> Option<u64> {
        let total: u64 = self.latency.iter().sum();
        // Within a bucket the requests are assumed to be spread evenly, as Prometheus does.
        let rank = (total * percent).div_ceil(100);
        let mut below = 0;
        let mut lower = 0;
        // Requests beyond the last bound count as if they had taken exactly that time.
        let bounds = BUCKETS.iter().chain(BUCKETS.last());
        for (count, upper) in self.latency.iter().zip(bounds) {
            if *count > 0 && below + count >= rank {
                return Some(lower + (upper - lower) * (rank - below) / count);
            }
            below += count;
            lower = *upper;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(registry: &Registry, status: &str) -> std::sync::Arc<crate::metrics::Counter> {
        registry.counter(REQUESTS, "R.", &[("route", "login"), ("status", status)])
    }

    #[test]
    fn a_sample_has_what_was_counted_since_the_previous_one() {
        let registry = Registry::default();
        let (good, bad) = (login(&registry, "2xx"), login(&registry, "4xx"));
        let admin = [("route", "admin_users"), ("status", "2xx")];
        let admin = registry.counter(REQUESTS, "R.", &admin);
        let refused = registry.counter(
            REFUSED,
            "F.",
            &[("route", "login"), ("code", "LOGIN_FAILED")],
        );
        let admin_refused = [("route", "admin_users"), ("code", "USER_NOT_FOUND")];
        let admin_refused = registry.counter(REFUSED, "F.", &admin_refused);
        let latency = registry.histogram(LATENCY, "L.", &[("route", "login")]);
        registry.gauge(STREAMS, "S.", &[]).set(7);
        let activity = Activity::default();
        good.add(5);
        activity.sample(&registry, UnixSeconds(0));
        assert!(activity.samples(ActivityPeriod::Hour).is_empty());
        good.add(2);
        bad.one();
        refused.one();
        admin.one();
        admin_refused.one();
        latency.observe(Duration::from_micros(700));
        activity.sample(&registry, UnixSeconds(15));
        activity.sample(&registry, UnixSeconds(30));
        let samples = activity.samples(ActivityPeriod::Hour);
        let [first, second] = &samples[..] else {
            panic!("{samples:?}")
        };
        assert_eq!((first.at, first.streams), (UnixSeconds(15), 7));
        assert_eq!((first.logins, first.refused_logins), (2, 1));
        assert_eq!(first.requests["2xx"], 2, "without the operator's request");
        assert_eq!(first.refusals["LOGIN_FAILED"], 1);
        assert_eq!(first.refusals.len(), 1, "without the operator's refusal");
        assert_eq!(first.latency_micros(99), Some(1_000));
        assert!(second.requests.is_empty());
        assert_eq!(second.latency_micros(50), None);
    }

    #[test]
    fn both_rings_are_bounded_and_the_long_one_has_sums() {
        let registry = Registry::default();
        let good = login(&registry, "2xx");
        let activity = Activity::default();
        let steps = i64::from(STEPS_OF_LONG) * 300 + 3;
        for step in 0..=steps {
            activity.sample(&registry, UnixSeconds(step * 15));
            good.one();
        }
        assert_eq!(activity.samples(ActivityPeriod::Hour).len(), SHORT_LEN);
        let long = activity.samples(ActivityPeriod::Day);
        assert_eq!(long.len(), LONG_LEN + 1);
        assert_eq!(long.first().unwrap().logins, u64::from(STEPS_OF_LONG));
        assert_eq!(long.last().unwrap().logins, 3, "not complete");
    }
}
