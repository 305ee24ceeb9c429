//! The tasks of the service.

use std::sync::Arc;
use std::time::Duration;

use super::Task;
use crate::app::App;
use crate::domain::telemetry::TelemetryError;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn tasks(app: &Arc<App>) -> Vec<Task> {
    let telemetry = [app.telemetry.clone(), app.telemetry.clone()];
    let [retaining, erasing] = telemetry;
    let playback = || app.playback.clone();
    let (sessions, entitlements, ended, beats) = (playback(), playback(), playback(), playback());
    let (accounts, mail) = (app.accounts.clone(), app.mail.clone());
    vec![
        // Often: what is over must not look running for long.
        Task::new("sessions-sweep", 5 * SECOND, move |now| {
            sessions.sweep_sessions(now)
        }),
        Task::new("entitlements-sweep", MINUTE, move |now| {
            entitlements.sweep_entitlements(now)
        }),
        Task::new("ended-sessions-sweep", MINUTE, move |now| {
            ended.sweep_ended(now)
        }),
        Task::new("beats-checkpoint", MINUTE, move |_| beats.checkpoint()),
        Task::new("accounts-sweep", MINUTE, move |now| {
            accounts.sweep(now).map(|swept| swept.total())
        }),
        Task::new("mail-sweep", 10 * MINUTE, move |now| mail.sweep(now)),
        Task::new("telemetry-retention", 10 * MINUTE, move |now| {
            retaining.retain(now)
        }),
        Task::new("telemetry-erasure", MINUTE, move |_| {
            let mut erased = 0;
            // A handful at a time, until none is left.
            loop {
                match erasing.run_erasures()? {
                    0 => return Ok::<_, TelemetryError>(erased),
                    users => erased += users,
                }
            }
        }),
    ]
}
