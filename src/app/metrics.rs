//! Registers metrics whose values are read from the services on each scrape.

use std::sync::Arc;

use super::{fleet_metrics, quality_metrics};
use playgate_config::Config;
use playgate_domain::accounts::HashCounts;
use playgate_domain::backups::{BackupStatus, Backups};
use playgate_domain::clock_guard::ClockGuard;
use playgate_domain::epg_sources::{EpgSourceState, EpgSources, HoldReason};
use playgate_domain::mail::{self, Mail};
use playgate_domain::playback::Playback;
use playgate_domain::schedule::Schedule;
use playgate_domain::schedule::snapshot::ScheduleSnapshot;
use playgate_domain::store_admin::{NEEDS, StoreAdmin, Written};
use playgate_observe::Registry;
use playgate_observe::metrics::metric_value;
use playgate_ports::Clock;
use playgate_records::journal::{JournalCounts, RequestJournal};
use playgate_records::telemetry::{ForwardCounts, Forwarder, Telemetry, TelemetryCounts};
use playgate_services::Services;
use playgate_services::health::Health;

pub(super) fn register(services: &Services) {
    let (metrics, clock) = (&*services.metrics, &services.clock);
    register_telemetry(metrics, &services.config, &services.telemetry);
    quality_metrics::register(metrics, &services.quality);
    register_store(metrics, &services.store_admin, &services.backups, clock);
    register_mail(metrics, &services.mail, clock);
    register_journal(metrics, &services.journal);
    register_forwarding(metrics, services.forwarder.as_ref(), clock);
    register_playback(metrics, &services.playback, clock);
    register_epg_sources(metrics, &services.epg_sources);
    register_schedule(metrics, &services.schedule);
    register_clock(metrics, &services.clock_guard);
    register_health(metrics, services);
    // A single node must not show series of a fleet, which alerts would take for a fleet without members.
    if !services.config.fleet.endpoints.is_empty() {
        fleet_metrics::register(metrics, &services.fleet);
    }
}

fn register_store(
    metrics: &Registry,
    store_admin: &StoreAdmin,
    backups: &Backups,
    clock: &Arc<dyn Clock>,
) {
    let of = store_admin.clone();
    metrics.gauge_of(
        "playgate_store_writable",
        "1 if the store accepts writes; 0 if its disk is full or read-only.",
        &[],
        move || i64::from(of.is_writable()),
    );
    for need in NEEDS {
        let of = store_admin.clone();
        metrics.gauge_of(
            "playgate_store_writes_rejected",
            "1 if writes of this class are rejected for lack of disk space.",
            &[("need", need.name())],
            // The classes are in order: all after the first rejected one are rejected too.
            move || i64::from(of.refuses().is_some_and(|first| first <= need)),
        );
    }
    let of = |read: fn(Written) -> u64| {
        let store_admin = store_admin.clone();
        move || metric_value(read(store_admin.written()))
    };
    metrics.counter_of(
        "playgate_store_commits_total",
        "Transactions committed since the start.",
        &[],
        of(|written| written.commits),
    );
    metrics.counter_of(
        "playgate_store_syncs_total",
        "Syncs of the write-ahead log; concurrent commits share one.",
        &[],
        of(|written| written.syncs),
    );
    let of = store_admin.clone();
    metrics.gauge_if(
        "playgate_store_free_bytes",
        "Free bytes on the file system of the store.",
        &[],
        move || i64::try_from(of.free_bytes()?).ok(),
    );
    let of = |read: fn(BackupStatus, i64) -> Option<i64>| {
        let (backups, clock) = (backups.clone(), Arc::clone(clock));
        move || read(backups.status(), clock.now().0)
    };
    metrics.gauge_if(
        "playgate_backup_newest_age_seconds",
        "Age in seconds of the newest verified backup; absent without one.",
        &[],
        // A clock that was set back must not give a negative age.
        of(|status, now| Some((now - status.newest?.created.0).max(0))),
    );
    metrics.gauge_if(
        "playgate_backup_newest_records",
        "Records in the newest verified backup; absent without one.",
        &[],
        of(|status, _| i64::try_from(status.newest?.records).ok()),
    );
    metrics.gauge_if(
        "playgate_backups",
        "Backups of this store in the backup directory.",
        &[],
        of(|status, _| i64::try_from(status.count).ok()),
    );
    metrics.gauge_if(
        "playgate_backup_last_failure_timestamp_seconds",
        "Unix time of the last failed backup; absent without one since the start.",
        &[],
        of(|status, _| Some(status.failed?.0)),
    );
}

fn register_health(metrics: &Registry, services: &Services) {
    let health = Health::new(services);
    let asked = health.clone();
    metrics.gauge_of(
        "playgate_ready",
        "1 if the service is ready; if not, /readyz has the reasons.",
        &[],
        move || i64::from(asked.reasons().is_empty()),
    );
    metrics.gauge_of(
        "playgate_warnings",
        "Parts of the service that warn; /readyz has their sentences.",
        &[],
        move || metric_value(health.warnings().len()),
    );
    if let Some(tls) = services.tls.clone() {
        metrics.gauge_of(
            "playgate_tls_certificate_end_timestamp_seconds",
            "Unix time at which the certificate of the TLS listeners ends; absent without TLS.",
            &[],
            move || tls.certificate_ends().0,
        );
    }
}

fn register_clock(metrics: &Registry, guard: &Arc<ClockGuard>) {
    let guard = Arc::clone(guard);
    metrics.gauge_of(
        "playgate_clock_jump_seconds",
        "Seconds that the clock jumped, negative if backwards; deletions by age pause until it is 0.",
        &[],
        move || guard.untrusted_jump().map_or(0, |jump| jump.seconds()),
    );
}

fn register_playback(metrics: &Registry, playback: &Playback, clock: &Arc<dyn Clock>) {
    let (playback, clock) = (playback.clone(), Arc::clone(clock));
    metrics.gauge_of(
        "playgate_playback_sessions",
        "Active playback sessions.",
        &[],
        move || metric_value(playback.streams(clock.now())),
    );
}

fn register_telemetry(metrics: &Registry, config: &Config, telemetry: &Telemetry) {
    let environment = config.server.environment.as_str();
    let version = playgate_types::VERSION;
    let labels = &[("environment", environment), ("version", version)];
    metrics.gauge_of(
        "playgate_build_info",
        "Version and environment as labels; the value is always 1.",
        labels,
        || 1,
    );

    let of = |read: fn(TelemetryCounts) -> u64| {
        let telemetry = telemetry.clone();
        move || metric_value(read(telemetry.counts()))
    };
    let outcomes: [(&str, fn(TelemetryCounts) -> u64); 3] = [
        ("accepted", |counts| counts.accepted),
        ("duplicate", |counts| counts.duplicates),
        ("rejected", |counts| counts.rejected),
    ];
    for (outcome, read) in outcomes {
        metrics.counter_of(
            "playgate_telemetry_events_total",
            "Telemetry events received, by outcome.",
            &[("outcome", outcome)],
            of(read),
        );
    }
    metrics.counter_of(
        "playgate_telemetry_ignored_values_total",
        "Durations, bitrates and ids of accepted events that cannot be: the events count without them.",
        &[],
        of(|counts| counts.ignored_values),
    );
    metrics.counter_of(
        "playgate_telemetry_bytes_total",
        "Bytes of telemetry events written to disk.",
        &[],
        of(|counts| counts.bytes),
    );
    metrics.gauge_of(
        "playgate_telemetry_missing_events_estimate",
        "Estimated number of telemetry events that never arrived, from gaps in players' sequence numbers.",
        &[],
        of(|counts| counts.lost),
    );
    metrics.gauge_of(
        "playgate_telemetry_dedup_entries",
        "Entries in the window that detects duplicate telemetry events.",
        &[],
        of(|counts| counts.remembered),
    );
}

fn register_schedule(metrics: &Registry, schedule: &Arc<Schedule>) {
    let figures: [(&str, &str, fn(&ScheduleSnapshot) -> usize); 2] = [
        (
            "playgate_schedule_broadcasts",
            "Broadcasts in the schedule.",
            ScheduleSnapshot::broadcasts,
        ),
        (
            "playgate_schedule_unrated_broadcasts",
            "Broadcasts in the schedule without an age rating.",
            ScheduleSnapshot::unrated,
        ),
    ];
    for (figure, meaning, read) in figures {
        let schedule = Arc::clone(schedule);
        metrics.gauge_of(figure, meaning, &[], move || {
            metric_value(read(&schedule.snapshot()))
        });
    }
}

fn register_forwarding(
    metrics: &Registry,
    forwarder: Option<&Arc<Forwarder>>,
    clock: &Arc<dyn Clock>,
) {
    let Some(forwarder) = forwarder else {
        return;
    };
    let of = |read: fn(ForwardCounts) -> u64| {
        let forwarder = Arc::clone(forwarder);
        move || metric_value(read(forwarder.counts()))
    };
    let outcomes: [(&str, fn(ForwardCounts) -> u64); 3] = [
        ("sent", |counts| counts.sent),
        ("refused", |counts| counts.refused),
        ("expired", |counts| counts.expired),
    ];
    for (outcome, read) in outcomes {
        metrics.counter_of(
            "playgate_telemetry_forwarded_total",
            "Telemetry events sent to the sink, refused by it, or expired before it accepted them.",
            &[("outcome", outcome)],
            of(read),
        );
    }
    metrics.counter_of(
        "playgate_telemetry_forward_failures_total",
        "Failed attempts to send a batch of telemetry events to the sink.",
        &[],
        of(|counts| counts.failures),
    );
    let (forwarder, clock) = (Arc::clone(forwarder), Arc::clone(clock));
    metrics.gauge_of(
        "playgate_telemetry_forward_lag_seconds",
        "Age in seconds of the oldest event not yet forwarded; 0 if all are.",
        &[],
        move || forwarder.lag(clock.now()),
    );
}

fn register_journal(metrics: &Registry, journal: &RequestJournal) {
    let of = |read: fn(JournalCounts) -> u64| {
        let journal = journal.clone();
        move || metric_value(read(journal.counts()))
    };
    metrics.counter_of(
        "playgate_journal_records_total",
        "Records written to the request journal since the start.",
        &[],
        of(|counts| counts.written),
    );
    let reasons: [(&str, fn(JournalCounts) -> u64); 3] = [
        ("queue", |counts| counts.dropped),
        ("disk", |counts| counts.unwritten),
        ("no_partner", |counts| counts.limited),
    ];
    for (reason, read) in reasons {
        metrics.counter_of(
            "playgate_journal_dropped_total",
            "Requests that were not recorded: the queue was full, the disk had no room or failed, or too many refusals without a partner token.",
            &[("reason", reason)],
            of(read),
        );
    }
    metrics.gauge_of(
        "playgate_journal_bytes",
        "Size of the request journal on the disk.",
        &[],
        of(|counts| counts.bytes),
    );
    let readers = journal.clone();
    metrics.gauge_of(
        "playgate_journal_waiting",
        "Readers that wait for the next records of the request journal.",
        &[],
        move || metric_value(readers.waiting()),
    );
}

fn register_mail(metrics: &Registry, mail: &Mail, clock: &Arc<dyn Clock>) {
    let counts = mail.clone();
    metrics.gauge_of(
        "playgate_mail_queued",
        "Mails in the queue.",
        &[],
        move || metric_value(counts.counts().queued),
    );
    let (counts, clock) = (mail.clone(), Arc::clone(clock));
    metrics.gauge_of(
        "playgate_mail_oldest_seconds",
        "Age in seconds of the oldest mail in the queue; 0 if it is empty.",
        &[],
        move || {
            let oldest = counts.counts().oldest;
            oldest.map_or(0, |oldest| clock.now().since(oldest).max(0))
        },
    );
    let outcomes: [(&str, fn(&mail::MailCounts) -> u64); 4] = [
        ("sent", |counts| counts.sent),
        ("retried", |counts| counts.retried),
        ("failed", |counts| counts.failed),
        ("expired", |counts| counts.expired),
    ];
    for (outcome, read) in outcomes {
        let mail = mail.clone();
        metrics.counter_of(
            "playgate_mail_attempts_total",
            "Attempts to send a mail, by outcome.",
            &[("outcome", outcome)],
            move || metric_value(read(&mail.counts())),
        );
    }
    let mail = mail.clone();
    metrics.gauge_of(
        "playgate_mail_server_failing",
        "1 if the last attempt to use the mail server failed.",
        &[],
        move || i64::from(mail.last_failure().is_some()),
    );
}

pub(super) fn register_hashing(metrics: &Registry) -> Arc<HashCounts> {
    let hashes = Arc::<HashCounts>::default();
    let functions: [(&str, fn(&HashCounts) -> u64); 2] = [
        ("argon2", HashCounts::argon2),
        ("foreign", HashCounts::foreign),
    ];
    for (function, read) in functions {
        let hashes = Arc::clone(&hashes);
        metrics.counter_of(
            "playgate_password_hashes_total",
            "Password and PIN hashes computed; foreign: imported hashes other than Argon2.",
            &[("function", function)],
            move || metric_value(read(&hashes)),
        );
    }
    hashes
}

fn register_epg_sources(metrics: &Registry, sources: &EpgSources) {
    let figures: [(&str, &str, fn(&EpgSourceState) -> i64); 4] = [
        (
            "playgate_epg_import_last_success_timestamp_seconds",
            "Unix time of the last successful import of an EPG source, unchanged guides included; 0 if never.",
            |state| state.succeeded.map_or(0, |at| at.0),
        ),
        (
            "playgate_epg_import_failures",
            "Failed imports of an EPG source since its last success.",
            |state| i64::from(state.failures),
        ),
        (
            "playgate_epg_import_awaiting_approval",
            "1 if the last import of an EPG source is held until an operator accepts it.",
            |state| {
                let held = state.last.as_ref().map(|last| last.standstill);
                i64::from(held == Some(HoldReason::Held))
            },
        ),
        (
            "playgate_epg_unmapped_channels",
            "Channels in the last guide of an EPG source that no livestream maps to.",
            |state| {
                let unmapped = state.last.as_ref().map_or(0, |last| last.unmapped);
                metric_value(unmapped)
            },
        ),
    ];
    for view in sources.list() {
        let name = view.source.name;
        for (figure, meaning, read) in figures {
            let (sources, source) = (sources.clone(), name.clone());
            metrics.gauge_of(figure, meaning, &[("source", &name)], move || {
                sources.show(&source).map_or(0, |view| read(&view.state))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_config::{Inputs, load};
    use playgate_records::telemetry::{Budgets, NewEvent, Sender, TelemetrySettings};
    use playgate_store::Store;
    use playgate_types::{PartnerId, UnixSeconds, UserId};

    #[test]
    fn reported_events_appear_in_the_metrics() {
        let directory = tempfile::tempdir().unwrap();
        let settings = TelemetrySettings {
            directory: directory.path().to_owned(),
            retention_days: 30,
            budgets: Budgets {
                user_per_day: u64::MAX,
                partner_per_day: None,
                total: u64::MAX,
            },
            sync: false,
            exists: |_, _| Ok(true),
        };
        let store = Store::in_memory(playgate_records::schema());
        let now = UnixSeconds(1_800_000_000);
        let telemetry = Telemetry::open(store, settings, |error| panic!("{error}")).unwrap();
        telemetry.begin(now).unwrap();
        let event = NewEvent {
            timestamp_millis: 0,
            sequence: 1,
            action: "a".into(),
            device: None,
            json: b"{}".into(),
            player: None,
            ignored_values: 2,
        };
        let sender = Sender {
            user: UserId::from_bytes([1; 16]),
            partner: PartnerId::from_bytes([2; 16]),
        };
        let batch = vec![event.clone(), event];
        telemetry.ingest(sender, batch, now).unwrap();
        telemetry.count_rejected(3);

        let inputs = Inputs {
            demo: true,
            ..Inputs::default()
        };
        let Ok(loaded) = load(&inputs) else {
            panic!("the defaults are a configuration");
        };
        let metrics = Registry::default();
        register_telemetry(&metrics, &loaded.config, &telemetry);
        let text = metrics.render();
        for line in [
            "playgate_telemetry_events_total{outcome=\"accepted\"} 1",
            "playgate_telemetry_events_total{outcome=\"duplicate\"} 1",
            "playgate_telemetry_events_total{outcome=\"rejected\"} 3",
            "playgate_telemetry_ignored_values_total 2",
            "playgate_telemetry_dedup_entries 1",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(text.contains("playgate_build_info{environment=\"staging\""));
    }
}
