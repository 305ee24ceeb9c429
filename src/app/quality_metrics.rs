//! Registers the metrics of quality figures.

use playgate_observe::Registry;
use playgate_observe::metrics::metric_value;
use playgate_records::quality::{Quality, QualityCounts, RecentFigures};

pub(super) fn register(metrics: &Registry, quality: &Quality) {
    let of = |read: fn(QualityCounts) -> u64| {
        let quality = quality.clone();
        move || metric_value(read(quality.counts()))
    };
    let outcomes: [(&str, fn(QualityCounts) -> u64); 4] = [
        ("counted", |counts| counts.counted),
        ("late", |counts| counts.late),
        ("clock", |counts| counts.clock),
        ("dropped", |counts| counts.dropped),
    ];
    for (outcome, read) in outcomes {
        metrics.counter_of(
            "playgate_quality_inputs_total",
            "Heartbeats and events by whether they count for a view: late ones are of a closed or unknown view, clock \
             ones of a player's clock that jumped, dropped ones found a full queue.",
            &[("outcome", outcome)],
            of(read),
        );
    }
    metrics.gauge_of(
        "playgate_quality_open_views",
        "Views that still take events.",
        &[],
        of(|counts| counts.open_views),
    );
    metrics.counter_of(
        "playgate_quality_evicted_views_total",
        "Views closed early because too many were open.",
        &[],
        of(|counts| counts.evicted),
    );
    register_recent(metrics, quality);
}

fn register_recent(metrics: &Registry, quality: &Quality) {
    type Figure = (&'static str, &'static str, fn(RecentFigures) -> u64);
    let figures: [Figure; 6] = [
        (
            "playgate_quality_recent_attempts",
            "Playback sessions that began in the last 10 minutes.",
            |recent| recent.attempts,
        ),
        (
            "playgate_quality_recent_plays",
            "Playback sessions of the last 10 minutes with a first frame.",
            |recent| recent.plays,
        ),
        (
            "playgate_quality_recent_start_failures",
            "Playback sessions of the last 10 minutes with a failure and no first frame.",
            |recent| recent.start_failures,
        ),
        (
            "playgate_quality_recent_playback_failures",
            "Playback sessions of the last 10 minutes with a failure after the first frame.",
            |recent| recent.playback_failures,
        ),
        (
            "playgate_quality_recent_waited_seconds",
            "Time that playback sessions of the last 10 minutes waited in mid-play.",
            |recent| recent.waited_millis / 1_000,
        ),
        (
            "playgate_quality_recent_played_seconds",
            "Time that playback sessions of the last 10 minutes played.",
            |recent| recent.played_millis / 1_000,
        ),
    ];
    for (name, meaning, read) in figures {
        let quality = quality.clone();
        metrics.gauge_of(name, meaning, &[], move || {
            metric_value(read(quality.recent()))
        });
    }
}
