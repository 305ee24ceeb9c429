//! The tasks of the service.

use std::sync::Arc;
use std::time::Duration;

use super::Task;
use crate::app::App;
use crate::domain::telemetry::TelemetryError;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn tasks(app: &Arc<App>) -> Vec<Task> {
    let telemetry = [app.telemetry.clone(), app.telemetry.clone()];
    let [retaining, erasing] = telemetry;
    vec![
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
