//! The list of jobs and their intervals. Expired data is rejected on access, so most intervals only affect
//! disk space. Exceptions: the playback sweep, after which clients get `SESSION_ENDED` for a session without
//! heartbeats, and the checkpoint, which bounds what a restart has to make up for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::{JobFailure, Task};
use playgate_domain::accounts::AccountsError;
use playgate_domain::epg_sources::Refresh;
use playgate_domain::identities::IdentityError;
use playgate_domain::schedule::ScheduleError;
use playgate_domain::set_aside;
use playgate_observe::activity::STEP;
use playgate_records::telemetry::TelemetryError;
use playgate_services::Services;
use playgate_types::UnixSeconds;

const SECOND: Duration = Duration::from_secs(1);
/// Until then, a standby forwards the reads of a catalogue or schedule that has changed.
const FOLLOW_EVERY: Duration = Duration::from_millis(50);
const MINUTE: Duration = Duration::from_secs(60);
/// Distance in seconds from the middle of the demo's guide at which it is extended. The guide reaches 26 hours both
/// ways, and players go back a few hours.
const DEMO_GUIDE_REACH: i64 = 18 * 3_600;

pub(super) fn tasks(services: &Arc<Services>) -> Vec<Task> {
    let mut tasks = vec![clock(services), activity(services)];
    tasks.push(token_uses(services));
    tasks.extend(accounts(services));
    tasks.extend(playback(services));
    tasks.push(schedule(services));
    tasks.extend(epg_sources(services));
    tasks.extend(demo_guide(services));
    tasks.extend(telemetry(services));
    tasks.extend(quality(services));
    tasks.extend(journal(services));
    tasks.push(lost_files(services));
    tasks.push(set_aside_retention(services));
    tasks.extend(forwarding(services));
    tasks.push(backups(services));
    tasks.extend(geoip(services));
    tasks.push(zone_rules(services));
    tasks.extend(certificate(services));
    tasks
}

/// The jobs of a standby of a fleet, which change only its memory and its own files.
pub(super) fn tasks_of_standby(services: &Arc<Services>) -> Vec<Task> {
    let (guard, following) = (Arc::clone(&services.clock_guard), Arc::clone(services));
    let retaining = Arc::clone(services);
    let mut tasks = vec![
        Task::new("standby-clock", SECOND, move |_| {
            guard.follow();
            Ok::<_, Infallible>(0)
        }),
        Task::new("standby-state", FOLLOW_EVERY, move |_| follow(&following)),
        Task::new("standby-retention", 60 * MINUTE, move |now| {
            let days = retaining.config.schedule.retention_days;
            retaining.schedule.hide_old_days(now, days);
            let records = retaining.journal.retain(now)?;
            let hours = match &retaining.forwarder {
                Some(forwarder) => forwarder.retain_as_standby(now)?,
                None => retaining.telemetry.retain_as_standby(now)?,
            };
            Ok::<_, JobFailure>(records + hours)
        }),
    ];
    tasks.push(set_aside_retention(services));
    tasks.extend(forwarding(services));
    tasks.extend(geoip(services));
    tasks.push(zone_rules(services));
    tasks.extend(certificate(services));
    tasks
}

/// Derives catalogue and schedule again after commits of the owner.
fn follow(services: &Services) -> Result<usize, ScheduleError> {
    let Services {
        catalog, schedule, ..
    } = services;
    // The rights of the catalogue are part of the rendered schedule.
    let is_new_catalog = catalog.catch_up_then(|| schedule.refresh())?;
    let is_new_schedule = schedule.catch_up()?;
    Ok(usize::from(is_new_catalog) + usize::from(is_new_schedule))
}

/// Checks the clock even without requests, and records the highest time seen.
fn clock(services: &Arc<Services>) -> Task {
    let guard = Arc::clone(&services.clock_guard);
    let task = Task::new("clock", SECOND, move |_| {
        // A clock in doubt is reported elsewhere; this job itself succeeded.
        let _ = guard.check();
        Ok::<_, Infallible>(0)
    });
    // Runs immediately, so that a process that is killed early leaves a time for the next one to compare with.
    task.waker.wake();
    task
}

/// Samples the metrics for the charts of the last hour and day.
fn activity(services: &Arc<Services>) -> Task {
    let (activity, metrics) = (
        Arc::clone(&services.activity),
        Arc::clone(&services.metrics),
    );
    Task::new("activity", STEP, move |now| {
        activity.sample(&metrics, now);
        Ok::<_, Infallible>(0)
    })
}

/// Writes the last uses of tokens, which requests record in memory.
fn token_uses(services: &Arc<Services>) -> Task {
    let (partners, operators) = (services.partners.clone(), services.operators.clone());
    Task::new("token-uses", MINUTE, move |_| {
        Ok::<_, IdentityError>(partners.save_uses()? + operators.save_uses()?)
    })
}

fn accounts(services: &Arc<Services>) -> [Task; 4] {
    let (accounts, mail) = (services.accounts.clone(), services.mail.clone());
    let uses = services.accounts.clone();
    let looked_for_orphans = AtomicBool::new(false);
    [
        delivery(services),
        Task::new("accounts", MINUTE, move |now| {
            let mut done = 0;
            // Once per process: only earlier versions left orphans behind.
            if !looked_for_orphans.load(Relaxed) {
                done += accounts.remove_orphans(now)?;
                looked_for_orphans.store(true, Relaxed);
            }
            done += accounts.sweep(now)?.total();
            Ok::<_, AccountsError>(done)
        })
        .deletes(),
        Task::new("mail", MINUTE, move |now| mail.sweep(now)).deletes(),
        Task::new("login-uses", MINUTE, move |_| uses.store_uses()),
    ]
}

fn delivery(services: &Arc<Services>) -> Task {
    let (mail, readiness) = (services.mail.clone(), Arc::clone(&services.readiness));
    let links = "links in mails lead to this machine itself; set `public_url`";
    let links = services.config.links_lead_here().then(|| links.to_owned());
    readiness.warn("addresses", links);
    let guard = Arc::clone(&services.clock_guard);
    let task = Task::new("mail-delivery", 5 * SECOND, move |now| {
        // A viewer waits for a reset mail: it is sent even while the clock is in doubt.
        let done = match guard.check() {
            Ok(now) => mail.deliver(now),
            Err(_) => mail.deliver_without_expiry(now),
        };
        // Failing mail is a warning and does not make the service unready: users can still log in and watch.
        readiness.warn("mail", mail.last_failure());
        done
    });
    let waker = task.waker.clone();
    // Mail is sent as soon as it is queued; the interval is for retries.
    services.mail.on_notify(move || waker.wake());
    task
}

fn playback(services: &Arc<Services>) -> [Task; 4] {
    let [sessions, entitlements, ended, beats] = [0; 4].map(|_| services.playback.clone());
    [
        Task::new("playback-sessions", 5 * SECOND, move |now| {
            sessions.sweep_sessions(now)
        })
        .needs_time(),
        Task::new("playback-entitlements", MINUTE, move |now| {
            entitlements.sweep_entitlements(now)
        })
        .deletes(),
        Task::new("playback-ended", MINUTE, move |now| ended.sweep_ended(now)).deletes(),
        Task::new("playback-beats", 30 * SECOND, move |_| beats.checkpoint()),
    ]
}

/// Checks every few seconds whether the daily backup is due by the (possibly moved) clock.
fn backups(services: &Arc<Services>) -> Task {
    let backups = services.backups.clone();
    // A backup dated in the future would count as the newest until then, and rotate good ones out.
    Task::new("backup", 5 * SECOND, move |now| backups.run_scheduled(now)).needs_time()
}

fn schedule(services: &Arc<Services>) -> Task {
    let schedule = Arc::clone(&services.schedule);
    let days = services.config.schedule.retention_days;
    Task::new("schedule-retention", 60 * MINUTE, move |now| {
        Ok::<_, ScheduleError>(schedule.retain(now, days)? + schedule.sweep_lost_overrides(now)?)
    })
    .deletes()
}

fn geoip(services: &Arc<Services>) -> Option<Task> {
    let (geoip, readiness) = (services.geoip.clone()?, Arc::clone(&services.readiness));
    Some(Task::new("geoip", MINUTE, move |_| {
        let done = geoip.refresh();
        // The previous database stays in use and grows old: the operator has to be warned.
        let failure = done.as_ref().err();
        let failure = failure.map(|error| format!("`geo.database` cannot be read: {error}"));
        readiness.warn("geoip", failure);
        done.map(usize::from)
    }))
}

/// Follows the system's rules of time zones, which are updated without a restart.
fn zone_rules(services: &Arc<Services>) -> Task {
    let services = Arc::clone(services);
    let task = Task::new("zone-rules", MINUTE, move |now| {
        let changed = services.zones.refresh();
        let rules = services.zones.used();
        let warning = rules.warning(now);
        services.readiness.warn("time-zones", warning);
        let Some(rules) = changed else {
            return Ok(0);
        };
        tracing::info!(
            release = rules.summary(),
            "the rules of time zones have changed"
        );
        // TV days and offsets of the rendered schedule follow from the rules.
        services.schedule.refresh()?;
        Ok::<_, ScheduleError>(1)
    });
    // Runs immediately, so that damaged zone files are reported at the start.
    task.waker.wake();
    task
}

fn certificate(services: &Arc<Services>) -> Option<Task> {
    let (tls, readiness) = (services.tls.clone()?, Arc::clone(&services.readiness));
    Some(Task::new("certificate", 10 * SECOND, move |now| {
        let done = tls.refresh(now);
        // The previous pair stays in use, so viewers notice nothing: the operator has to be warned.
        let failure = done.as_ref().err().map(ToString::to_string);
        readiness.warn("tls", failure.or_else(|| tls.warning(now)));
        done.map(usize::from)
    }))
}

fn epg_sources(services: &Arc<Services>) -> Option<Task> {
    let sources = services.epg_sources.clone();
    let any = !services.config.epg.sources.is_empty();
    // An import omits broadcasts older than the retention, so the clock must be right.
    any.then(|| Task::new("epg-sources", 5 * SECOND, move |now| sources.run_due(now)).needs_time())
}

/// Extends the guide of the demo when the clock gets near its end. `None` where the clock cannot be moved.
fn demo_guide(services: &Arc<Services>) -> Option<Task> {
    services.lab_clock.as_ref()?;
    let (demo, sources) = (Arc::clone(&services.demo), services.epg_sources.clone());
    let mut last_import: Option<UnixSeconds> = None;
    Some(Task::new("demo-guide", SECOND, move |now| {
        let Some(guide) = demo.guide.get() else {
            return Ok(0);
        };
        // An import replaces what operators have imported, so it waits until the guide nearly ends.
        let last = last_import.unwrap_or(guide.first_import);
        if last.since(now).abs() < DEMO_GUIDE_REACH {
            return Ok(0);
        }
        // Accepted even if it looks implausible: after a long move of the clock it has nothing in common with the last
        // guide.
        let how = Refresh {
            accept: true,
            ..Refresh::default()
        };
        let draft = sources.read("", (guide.generate)(now).as_bytes())?;
        sources.import(draft, &sources.options("", how, now), false)?;
        last_import = Some(now);
        Ok::<_, JobFailure>(1)
    }))
}

fn telemetry(services: &Arc<Services>) -> [Task; 5] {
    let [retaining, erasing, bounded, used, compressing] =
        [0; 5].map(|_| services.telemetry.clone());
    let forwarder = services.forwarder.clone();
    let (forwarded, readiness) = (forwarder.clone(), Arc::clone(&services.readiness));
    [
        // Deletes by size, so it also runs while the clock is in doubt.
        Task::new("telemetry-room", 10 * SECOND, move |now| {
            let done = match &forwarded {
                Some(forwarder) => forwarder.make_room(now),
                None => bounded.make_room(now),
            };
            readiness.warn("telemetry", bounded.warning(now));
            done
        }),
        // One bounded part per run.
        Task::new("telemetry-compression", SECOND, move |now| {
            compressing.compress(now)
        }),
        Task::new("telemetry-usage", 30 * SECOND, move |_| used.save_usage()),
        Task::new(
            "telemetry-retention",
            10 * MINUTE,
            move |now| match &forwarder {
                Some(forwarder) => forwarder.retain(now),
                None => retaining.retain(now),
            },
        )
        .deletes(),
        Task::new("telemetry-erasure", 10 * SECOND, move |_| {
            let mut erased = 0;
            // A few at a time, until none is left.
            loop {
                match erasing.run_erasures()? {
                    0 => return Ok::<_, TelemetryError>(erased),
                    users => erased += users,
                }
            }
        }),
    ]
}

fn quality(services: &Arc<Services>) -> [Task; 2] {
    let (ticking, retaining) = (services.quality.clone(), services.quality.clone());
    let readiness = Arc::clone(&services.readiness);
    [
        Task::new("quality", 5 * SECOND, move |now| {
            let done = ticking.tick(now).map(|_| 0);
            readiness.warn("quality", ticking.write_error());
            done
        })
        // Closes views by their age.
        .needs_time(),
        Task::new("quality-retention", 60 * MINUTE, move |now| {
            retaining.retain(now)
        })
        .deletes(),
    ]
}

fn journal(services: &Arc<Services>) -> [Task; 2] {
    let [retaining, erasing] = [0; 2].map(|_| services.journal.clone());
    [
        Task::new("journal-retention", MINUTE, move |now| {
            retaining.retain(now)
        })
        .deletes(),
        Task::new("journal-erasure", 2 * SECOND, move |_| {
            erasing.run_erasures()
        }),
    ]
}

/// Reports files that another program has deleted, and those that could not be used.
fn lost_files(services: &Arc<Services>) -> Task {
    let services = Arc::clone(services);
    let data_dir = services.config.server.data_dir.clone();
    let task = Task::new("lost-files", 10 * SECOND, move |now| {
        let readiness = &services.readiness;
        readiness.warn("files", set_aside::warning(&data_dir));
        let segments = services.journal.look_for_deleted(now)?;
        readiness.warn("journal", services.journal.warning(now));
        Ok::<_, JobFailure>(segments + services.telemetry.look_for_deleted(now)?)
    });
    // Runs immediately, so that a start which sets a file aside says so.
    task.waker.wake();
    task
}

/// What repairs and restores keep may have data of erased users.
fn set_aside_retention(services: &Arc<Services>) -> Task {
    let data_dir = services.config.server.data_dir.clone();
    Task::new("set-aside-retention", 60 * MINUTE, move |now| {
        set_aside::remove_old(&data_dir, now)
    })
    .deletes()
}

fn forwarding(services: &Arc<Services>) -> Option<Task> {
    let (forwarder, readiness) = (services.forwarder.clone()?, Arc::clone(&services.readiness));
    let at_shutdown = Arc::clone(&forwarder);
    // The jobs of the standby have stopped it.
    forwarder.resume();
    let task = Task::new("telemetry-forwarding", SECOND, move |now| {
        let done = forwarder.run(now);
        // As with mail: an unavailable sink does not make the service unready.
        readiness.warn("forwarding", forwarder.warning(now));
        done
    });
    Some(task.on_shutdown(move || at_shutdown.stop()))
}
