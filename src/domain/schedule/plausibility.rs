//! Plausibility check: an import that would gut the schedule is held until an operator accepts it.

use std::collections::BTreeMap;

use playgate_types::time::DAY;
use playgate_types::{LivestreamId, UnixSeconds};

/// Most channels that an issue names.
const CHANNELS_NAMED: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlausibilityIssue {
    #[error("the guide has no usable programme")]
    Nothing,
    /// The reason for [`Self::Nothing`] that is most frequent with a new source.
    #[error(
        "the catalogue has none of the guide's channels: {channels}. Map them with `channels` of the EPG source, or create livestreams for them"
    )]
    NoneMapped {
        /// The first ids.
        channels: String,
    },
    /// Over 30 % fewer, in the span that the guide covers.
    #[error("the guide has {new} programmes where there are {now} now")]
    Fewer { now: u64, new: u64 },
    /// One of the days in between is missing, which the sum hides.
    #[error("the guide has {new} programmes on {}, where there are {now} now", .day.date_in_utc())]
    DayLost {
        day: UnixSeconds,
        now: u64,
        new: u64,
    },
    /// The new guide ends over a day earlier.
    #[error("the guide ends on {}, the schedule of its channels on {}", .new.in_utc(), .now.in_utc())]
    Shorter { now: UnixSeconds, new: UnixSeconds },
}

impl PlausibilityIssue {
    /// `channels` are all channels of the guide, none of which is in the catalogue.
    pub(crate) fn none_mapped<'a>(
        channels: impl ExactSizeIterator<Item = &'a LivestreamId>,
    ) -> Self {
        let more = channels.len().saturating_sub(CHANNELS_NAMED);
        let first = channels.take(CHANNELS_NAMED).map(LivestreamId::as_str);
        let mut named = first.collect::<Vec<_>>().join(", ");
        match more {
            0 => {}
            more => named = format!("{named} and {more} more"),
        }
        Self::NoneMapped { channels: named }
    }
}

/// Counts within the span that a guide may replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Coverage {
    pub programmes: u64,
    pub horizon: Option<UnixSeconds>,
}

/// Programmes that start on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DayCoverage {
    pub now: u64,
    pub new: u64,
}

impl DayCoverage {
    /// A day that lost nearly all, or all of a few. Some change at the edges of a guide is usual.
    fn is_lost(self) -> bool {
        let few = self.now >= 3 && self.new == 0;
        few || (self.now >= 10 && self.new.saturating_mul(10) < self.now.saturating_mul(3))
    }
}

impl Coverage {
    pub(crate) fn add(&mut self, other: Self) {
        self.programmes += other.programmes;
        self.horizon = self.horizon.max(other.horizon);
    }
}

/// Compares the schedule with the guide, limited to the span and the channels that the guide
/// covers.
pub(crate) fn plausibility_issues(
    now: Coverage,
    new: Coverage,
    days: &BTreeMap<i64, DayCoverage>,
) -> Vec<PlausibilityIssue> {
    // Both are sums over all channels: one channel with a new schedule must not hold a guide of hundreds.
    let mut issues = Vec::new();
    if new.programmes == 0 {
        // The other checks would only repeat this one.
        issues.push(PlausibilityIssue::Nothing);
        return issues;
    }
    if new.programmes.saturating_mul(10) < now.programmes.saturating_mul(7) {
        issues.push(PlausibilityIssue::Fewer {
            now: now.programmes,
            new: new.programmes,
        });
    }
    let lost = days.iter().find(|(_, day)| day.is_lost());
    if let Some((day, coverage)) = lost.filter(|_| issues.is_empty()) {
        issues.push(PlausibilityIssue::DayLost {
            day: UnixSeconds(day * DAY),
            now: coverage.now,
            new: coverage.new,
        });
    }
    if let (Some(old), Some(horizon)) = (now.horizon, new.horizon)
        && old.since(horizon) > DAY
    {
        issues.push(PlausibilityIssue::Shorter {
            now: old,
            new: horizon,
        });
    }
    issues
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(programmes: u64, horizon: i64) -> Coverage {
        Coverage {
            programmes,
            horizon: (programmes > 0).then_some(UnixSeconds(horizon)),
        }
    }

    #[test]
    fn the_limits_are_exact() {
        let held = |now, new| !plausibility_issues(now, new, &BTreeMap::new()).is_empty();
        assert_eq!(
            plausibility_issues(Coverage::default(), Coverage::default(), &BTreeMap::new()),
            [PlausibilityIssue::Nothing]
        );
        assert!(!held(Coverage::default(), extent(1, 0)), "a first import");
        assert!(!held(extent(10, 0), extent(7, 0)), "30 % fewer");
        assert!(held(extent(100, 0), extent(69, 0)));
        assert!(!held(extent(10, DAY), extent(10, 0)), "a day shorter");
        assert!(held(extent(10, DAY + 1), extent(10, 0)));
        let both = plausibility_issues(extent(100, 3 * DAY), extent(1, 0), &BTreeMap::new());
        let told: Vec<_> = both.iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "the guide has 1 programmes where there are 100 now",
                "the guide ends on 1970-01-01 at 00:00 UTC, the schedule of its channels on \
                 1970-01-04 at 00:00 UTC"
            ]
        );
    }

    #[test]
    fn a_lost_day_is_noticed_among_others() {
        let held = |now, new| {
            let days = BTreeMap::from([
                (20_000, DayCoverage { now: 24, new: 24 }),
                (20_001, DayCoverage { now, new }),
            ]);
            plausibility_issues(extent(140, 0), extent(120, 0), &days)
        };
        for (now, new, is_lost) in [
            (24, 0, true),
            (24, 7, true),
            (24, 8, false),
            (3, 0, true),
            (2, 0, false),
            (3, 1, false),
        ] {
            assert_eq!(!held(now, new).is_empty(), is_lost, "{now} {new}");
        }
        let text = held(24, 0).first().unwrap().to_string();
        assert_eq!(
            text,
            "the guide has 0 programmes on 2024-10-05, where there are 24 now"
        );
    }
}
