//! The list of jobs and their intervals. Expired data is rejected on access, so most intervals only affect
//! disk space. Exceptions: the playback sweep, after which clients get `SESSION_ENDED` for a session without
//! heartbeats, and the checkpoint, which bounds what a restart has to make up for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::Task;
use crate::app::App;
use crate::domain::accounts::AccountsError;
use crate::domain::telemetry::TelemetryError;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn tasks(app: &Arc<App>) -> Vec<Task> {
    let mut tasks = vec![clock(app)];
    tasks.extend(accounts(app));
    tasks.extend(playback(app));
    tasks.push(schedule(app));
    tasks.extend(guides(app));
    tasks.extend(telemetry(app));
    tasks.extend(forwarding(app));
    tasks.push(backups(app));
    tasks.extend(places(app));
    tasks.extend(certificate(app));
    tasks
}

/// Checks the clock even without requests, and records the highest time seen.
fn clock(app: &Arc<App>) -> Task {
    let guard = Arc::clone(&app.clock_guard);
    let task = Task::new("clock", SECOND, move |_| {
        // A clock in doubt is reported elsewhere; this job itself succeeded.
        let _ = guard.check();
        Ok::<_, Infallible>(0)
    });
    // Runs at once, so that a process that is killed early leaves a time for the next one to compare with.
    task.bell.wake();
    task
}

fn accounts(app: &Arc<App>) -> [Task; 3] {
    let (accounts, mail) = (app.accounts.clone(), app.mail.clone());
    let looked_for_orphans = AtomicBool::new(false);
    [
        delivery(app),
        Task::new("accounts", MINUTE, move |now| {
            let mut done = 0;
            // Once per process: no version since has left orphans behind.
            if !looked_for_orphans.load(Relaxed) {
                done += accounts.remove_orphans(now)?;
                looked_for_orphans.store(true, Relaxed);
            }
            done += accounts.sweep(now)?.total();
            Ok::<_, AccountsError>(done)
        })
        .deletes(),
        Task::new("mail", MINUTE, move |now| mail.sweep(now)).deletes(),
    ]
}

/// Mail is sent as soon as it is queued; the interval is for retries.
fn delivery(app: &Arc<App>) -> Task {
    let (mail, readiness) = (app.mail.clone(), Arc::clone(&app.readiness));
    let guard = Arc::clone(&app.clock_guard);
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
    let bell = task.bell.clone();
    app.mail.on_notify(move || bell.wake());
    task
}

fn playback(app: &Arc<App>) -> [Task; 4] {
    let [sessions, entitlements, ended, beats] = [0; 4].map(|_| app.playback.clone());
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
fn backups(app: &Arc<App>) -> Task {
    let backups = app.backups.clone();
    // A backup dated in the future would count as the newest until then, and rotate good ones out.
    Task::new("backup", 5 * SECOND, move |now| backups.run_scheduled(now)).needs_time()
}

fn schedule(app: &Arc<App>) -> Task {
    let schedule = Arc::clone(&app.schedule);
    let days = app.config.schedule.retention_days;
    Task::new("schedule-retention", 60 * MINUTE, move |now| {
        schedule.retain(now, days)
    })
    .deletes()
}

/// Reloads the GeoIP database after the operator replaced it. `None` without a database.
fn places(app: &Arc<App>) -> Option<Task> {
    let places = app.places.clone()?;
    Some(Task::new("places", MINUTE, move |_| {
        places.refresh().map(usize::from)
    }))
}

/// Reloads a renewed certificate. `None` without TLS.
fn certificate(app: &Arc<App>) -> Option<Task> {
    let (tls, readiness) = (app.tls.clone()?, Arc::clone(&app.readiness));
    Some(Task::new("certificate", 10 * SECOND, move |now| {
        let done = tls.refresh(now);
        // The previous pair stays in use, so viewers notice nothing: the operator has to be warned.
        let failure = done.as_ref().err().map(ToString::to_string);
        readiness.warn("tls", failure.or_else(|| tls.trouble(now)));
        done.map(usize::from)
    }))
}

/// Imports from the EPG sources that are due; each has its own interval. `None` without a source.
fn guides(app: &Arc<App>) -> Option<Task> {
    let feeds = app.feeds.clone();
    let any = !app.config.epg.sources.is_empty();
    // An import omits broadcasts older than the retention, so the clock must be right.
    any.then(|| Task::new("guides", 5 * SECOND, move |now| feeds.run_due(now)).needs_time())
}

fn telemetry(app: &Arc<App>) -> [Task; 5] {
    let [retaining, erasing, bounded, used, compressing] = [0; 5].map(|_| app.telemetry.clone());
    let forwarder = app.forwarder.clone();
    let (forwarded, readiness) = (forwarder.clone(), Arc::clone(&app.readiness));
    [
        // Deletes by size, so it also runs while the clock is in doubt.
        Task::new("telemetry-room", 10 * SECOND, move |now| {
            let done = match &forwarded {
                Some(forwarder) => forwarder.make_room(now),
                None => bounded.make_room(now),
            };
            readiness.warn("telemetry", bounded.trouble(now));
            done
        }),
        // One bounded part per run.
        Task::new("telemetry-compression", SECOND, move |now| {
            let merged = compressing.tidy_recent();
            Ok::<_, TelemetryError>(merged + compressing.compress(now)?)
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

/// Forwards a batch when it is full or has waited long enough. `None` without a sink.
fn forwarding(app: &Arc<App>) -> Option<Task> {
    let (forwarder, readiness) = (app.forwarder.clone()?, Arc::clone(&app.readiness));
    let hurried = Arc::clone(&forwarder);
    let task = Task::new("telemetry-forwarding", SECOND, move |now| {
        let done = forwarder.run(now);
        // As with mail: an unavailable sink does not make the service unready.
        readiness.warn("forwarding", forwarder.trouble(now));
        done
    });
    Some(task.on_shutdown(move || hurried.stop()))
}
