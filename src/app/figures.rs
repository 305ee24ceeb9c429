//! Metrics that are read from the services when they are asked for.

use std::sync::Arc;

use crate::config::Config;
use crate::domain::accounts::HashCounts;
use crate::domain::backups::{Backups, Status};
use crate::domain::clock_guard::ClockGuard;
use crate::domain::feeds::{FeedState, Feeds, Standstill};
use crate::domain::mail::{self, Mail};
use crate::domain::playback::Playback;
use crate::domain::schedule::Schedule;
use crate::domain::schedule::snapshot::Snapshot;
use crate::domain::telemetry::{Counts, ForwardCounts, Forwarder, Telemetry};
use crate::domain::upkeep::{NEEDS, Upkeep, Written};
use crate::observe::metrics::Registry;
use crate::ports::Clock;

/// Makes the figures of the services known.
pub(super) fn register(
    metrics: &Registry,
    config: &Config,
    clock: &Arc<dyn Clock>,
    telemetry: &Telemetry,
    (upkeep, backups): (&Upkeep, &Backups),
    mail: &Mail,
) {
    of_telemetry(metrics, config, telemetry);
    of_store(metrics, upkeep, backups, clock);
    of_mail(metrics, mail, clock);
}

/// Makes the figures of the store and its backups known.
fn of_store(metrics: &Registry, upkeep: &Upkeep, backups: &Backups, clock: &Arc<dyn Clock>) {
    let of = upkeep.clone();
    metrics.gauge_of(
        "playgate_store_writable",
        "Whether the store takes changes: 0 while its disk is full or read-only.",
        &[],
        move || i64::from(of.is_writable()),
    );
    for need in NEEDS {
        let of = upkeep.clone();
        metrics.gauge_of(
            "playgate_store_refused",
            "Whether this is refused since the disk runs full.",
            &[("need", need.name())],
            move || i64::from(of.refuses().is_some_and(|first| first <= need)),
        );
    }
    let of = |read: fn(Written) -> u64| {
        let upkeep = upkeep.clone();
        move || i64::try_from(read(upkeep.written())).unwrap_or(i64::MAX)
    };
    metrics.counter_of(
        "playgate_store_commits_total",
        "Changes that were committed.",
        &[],
        of(|written| written.commits),
    );
    metrics.counter_of(
        "playgate_store_syncs_total",
        "Syncs of the commit log; those who wait for one share it.",
        &[],
        of(|written| written.syncs),
    );
    let of = upkeep.clone();
    metrics.gauge_if(
        "playgate_store_free_bytes",
        "Bytes that are free on the disk of the store.",
        &[],
        move || i64::try_from(of.free_bytes()?).ok(),
    );
    let of = |read: fn(Status, i64) -> Option<i64>| {
        let (backups, clock) = (backups.clone(), Arc::clone(clock));
        move || read(backups.status(), clock.now().0)
    };
    metrics.gauge_if(
        "playgate_backup_newest_age_seconds",
        "The age of the newest proven backup; absent if there is none.",
        &[],
        of(|status, now| Some((now - status.newest?.created.0).max(0))),
    );
    metrics.gauge_if(
        "playgate_backup_newest_records",
        "The records in the newest proven backup.",
        &[],
        of(|status, _| i64::try_from(status.newest?.records).ok()),
    );
    metrics.gauge_if(
        "playgate_backups",
        "The backups of this store that are kept.",
        &[],
        of(|status, _| i64::try_from(status.count).ok()),
    );
    metrics.gauge_if(
        "playgate_backup_last_failure_timestamp_seconds",
        "When a backup could last not be made, since the start.",
        &[],
        of(|status, _| Some(status.failed?.0)),
    );
}

/// Shows whether the clock is believed.
pub(super) fn of_clock(metrics: &Registry, guard: &Arc<ClockGuard>) {
    let guard = Arc::clone(guard);
    metrics.gauge_of(
        "playgate_clock_jump_seconds",
        "By how much the clock jumped, while deletions wait for it to be believed; 0 if it is believed.",
        &[],
        move || guard.doubt().map_or(0, |doubt| doubt.seconds()),
    );
}

/// Makes known how many play.
fn of_playback(metrics: &Registry, playback: &Playback, clock: &Arc<dyn Clock>) {
    let (playback, clock) = (playback.clone(), Arc::clone(clock));
    metrics.gauge_of(
        "playgate_playback_sessions",
        "Playback sessions that run.",
        &[],
        move || i64::try_from(playback.streams(clock.now())).unwrap_or(i64::MAX),
    );
}

/// Makes the figures of telemetry known.
fn of_telemetry(metrics: &Registry, config: &Config, telemetry: &Telemetry) {
    let environment = config.server.environment.as_str();
    let version = crate::types::VERSION;
    let labels = &[("environment", environment), ("version", version)];
    metrics.gauge_of("playgate_info", "What runs here.", labels, || 1);

    let of = |read: fn(Counts) -> u64| {
        let telemetry = telemetry.clone();
        move || i64::try_from(read(telemetry.counts())).unwrap_or(i64::MAX)
    };
    let outcomes: [(&str, fn(Counts) -> u64); 2] = [
        ("accepted", |counts| counts.accepted),
        ("duplicate", |counts| counts.duplicates),
    ];
    for (outcome, read) in outcomes {
        metrics.counter_of(
            "playgate_telemetry_events_total",
            "Events that players reported.",
            &[("outcome", outcome)],
            of(read),
        );
    }
    metrics.counter_of(
        "playgate_telemetry_bytes_total",
        "Bytes of events that were written.",
        &[],
        of(|counts| counts.bytes),
    );
    metrics.gauge_of(
        "playgate_telemetry_lost_estimate",
        "Events that players numbered and that did not arrive.",
        &[],
        of(|counts| counts.lost),
    );
    metrics.gauge_of(
        "playgate_telemetry_remembered",
        "Events of the last seven days that are known again.",
        &[],
        of(|counts| counts.remembered),
    );
}

/// Registers the gauges of services that have their own counts.
pub(super) fn of_services(
    metrics: &Registry,
    forwarder: Option<&Arc<Forwarder>>,
    playback: &Playback,
    (schedule, feeds): (&Arc<Schedule>, &Feeds),
    clock: &Arc<dyn Clock>,
) {
    of_forwarding(metrics, forwarder, clock);
    of_playback(metrics, playback, clock);
    of_feeds(metrics, feeds);
    of_schedule(metrics, schedule);
}

/// Registers the gauges of the schedule.
fn of_schedule(metrics: &Registry, schedule: &Arc<Schedule>) {
    let figures: [(&str, &str, fn(&Snapshot) -> usize); 2] = [
        (
            "playgate_schedule_broadcasts",
            "Broadcasts in the schedule.",
            Snapshot::broadcasts,
        ),
        (
            "playgate_schedule_unrated_broadcasts",
            "Broadcasts in the schedule without an age rating.",
            Snapshot::unrated,
        ),
    ];
    for (figure, meaning, read) in figures {
        let schedule = Arc::clone(schedule);
        metrics.gauge_of(figure, meaning, &[], move || {
            i64::try_from(read(&schedule.snapshot())).unwrap_or(i64::MAX)
        });
    }
}

/// Makes known how forwarding gets on, where there is a sink.
fn of_forwarding(metrics: &Registry, forwarder: Option<&Arc<Forwarder>>, clock: &Arc<dyn Clock>) {
    let Some(forwarder) = forwarder else {
        return;
    };
    let of = |read: fn(ForwardCounts) -> u64| {
        let forwarder = Arc::clone(forwarder);
        move || i64::try_from(read(forwarder.counts())).unwrap_or(i64::MAX)
    };
    let outcomes: [(&str, fn(ForwardCounts) -> u64); 3] = [
        ("sent", |counts| counts.sent),
        ("refused", |counts| counts.refused),
        ("expired", |counts| counts.expired),
    ];
    for (outcome, read) in outcomes {
        metrics.counter_of(
            "playgate_telemetry_forwarded_total",
            "Events that the sink took, that it refused, and that grew too old before it took them.",
            &[("outcome", outcome)],
            of(read),
        );
    }
    metrics.counter_of(
        "playgate_telemetry_forward_failures_total",
        "Batches that the sink did not take when they were offered.",
        &[],
        of(|counts| counts.failures),
    );
    let (forwarder, clock) = (Arc::clone(forwarder), Arc::clone(clock));
    metrics.gauge_of(
        "playgate_telemetry_forward_lag_seconds",
        "How long the oldest event has waited that the sink has not taken; 0 where it has all.",
        &[],
        move || forwarder.lag(clock.now()),
    );
}

/// Makes the figures of the queue of mails known.
fn of_mail(metrics: &Registry, mail: &Mail, clock: &Arc<dyn Clock>) {
    let counts = mail.clone();
    metrics.gauge_of(
        "playgate_mail_queued",
        "Mails that wait for the mail server.",
        &[],
        move || i64::try_from(counts.counts().queued).unwrap_or(i64::MAX),
    );
    let (counts, clock) = (mail.clone(), Arc::clone(clock));
    metrics.gauge_of(
        "playgate_mail_oldest_seconds",
        "How long the oldest of them has waited.",
        &[],
        move || {
            let oldest = counts.counts().oldest;
            oldest.map_or(0, |oldest| clock.now().since(oldest).max(0))
        },
    );
    let outcomes: [(&str, fn(&mail::Counts) -> u64); 4] = [
        ("sent", |counts| counts.sent),
        ("retried", |counts| counts.retried),
        ("failed", |counts| counts.failed),
        ("expired", |counts| counts.expired),
    ];
    for (outcome, read) in outcomes {
        let mail = mail.clone();
        metrics.counter_of(
            "playgate_mail_attempts_total",
            "Mails by what came of the attempt to send them.",
            &[("outcome", outcome)],
            move || i64::try_from(read(&mail.counts())).unwrap_or(i64::MAX),
        );
    }
    let mail = mail.clone();
    metrics.gauge_of(
        "playgate_mail_server_failing",
        "Whether the mail server could not be used when it was last tried.",
        &[],
        move || i64::from(mail.trouble().is_some()),
    );
}

/// Counts of how often passwords and PINs are hashed, made known.
pub(super) fn hashes(metrics: &Registry) -> Arc<HashCounts> {
    let hashes = Arc::<HashCounts>::default();
    let functions: [(&str, fn(&HashCounts) -> u64); 2] = [
        ("argon2", HashCounts::argon2),
        ("foreign", HashCounts::foreign),
    ];
    for (function, read) in functions {
        let hashes = Arc::clone(&hashes);
        metrics.counter_of(
            "playgate_password_hashes_total",
            "Passwords and PINs that were hashed; foreign: as another service did.",
            &[("function", function)],
            move || i64::try_from(read(&hashes)).unwrap_or(i64::MAX),
        );
    }
    hashes
}

/// Makes the figures of the sources of guides known, so that one that fell silent is noticed before
/// viewers see where its last guide ends.
fn of_feeds(metrics: &Registry, feeds: &Feeds) {
    let figures: [(&str, &str, fn(&FeedState) -> i64); 4] = [
        (
            "playgate_guide_last_success_timestamp_seconds",
            "When the guide of a source was last taken, or known already; 0: never.",
            |state| state.succeeded.map_or(0, |at| at.0),
        ),
        (
            "playgate_guide_failures",
            "Failures of a source since it last succeeded.",
            |state| i64::from(state.failures),
        ),
        (
            "playgate_guide_held",
            "1 while the last guide of a source waits for somebody to accept it.",
            |state| {
                let held = state.last.as_ref().map(|last| last.standstill);
                i64::from(held == Some(Standstill::Held))
            },
        ),
        (
            "playgate_guide_unmapped",
            "Channels of the last guide of a source that no livestream carries.",
            |state| {
                let unmapped = state.last.as_ref().map_or(0, |last| last.unmapped);
                i64::try_from(unmapped).unwrap_or(i64::MAX)
            },
        ),
    ];
    for view in feeds.list() {
        let name = view.feed.name;
        for (figure, meaning, read) in figures {
            let (feeds, source) = (feeds.clone(), name.clone());
            metrics.gauge_of(figure, meaning, &[("source", &name)], move || {
                feeds.show(&source).map_or(0, |view| read(&view.state))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Inputs, load};
    use crate::domain;
    use crate::domain::telemetry::{Budgets, NewEvent, Sender, Settings};
    use crate::store::Store;
    use crate::types::{DurationUnit, PartnerId, UnixSeconds, UserId};

    #[test]
    fn what_was_reported_is_in_the_metrics() {
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings {
            directory: directory.path().to_owned(),
            retention_days: 30,
            budgets: Budgets {
                user_per_day: u64::MAX,
                partner_per_day: None,
                total: u64::MAX,
            },
            duration_unit: DurationUnit::Millis,
            sync: false,
            exists: |_, _| Ok(true),
        };
        let store = Store::in_memory(domain::schema());
        let now = UnixSeconds(1_800_000_000);
        let telemetry = Telemetry::open(store, settings, now, |error| panic!("{error}")).unwrap();
        let event = NewEvent {
            timestamp_millis: 0,
            sequence: 1,
            action: "a".to_owned(),
            device: None,
            json: b"{}".to_vec(),
        };
        let sender = Sender {
            user: UserId::from_bytes([1; 16]),
            partner: PartnerId::from_bytes([2; 16]),
        };
        let batch = vec![event.clone(), event];
        telemetry.accept(sender, batch, now).unwrap();

        let inputs = Inputs {
            demo: true,
            ..Inputs::default()
        };
        let Ok(loaded) = load(&inputs) else {
            panic!("the defaults are a configuration");
        };
        let metrics = Registry::default();
        of_telemetry(&metrics, &loaded.config, &telemetry);
        let text = metrics.render();
        for line in [
            "playgate_telemetry_events_total{outcome=\"accepted\"} 1",
            "playgate_telemetry_events_total{outcome=\"duplicate\"} 1",
            "playgate_telemetry_remembered 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("playgate_info{environment=\"staging\""));
    }
}
