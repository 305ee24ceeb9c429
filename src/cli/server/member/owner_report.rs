//! The report of the owner on its fleet, and the warning in `/readyz` that follows from it.

use std::sync::Arc;
use std::time::Duration;

use playgate_fleet::Fence;
use playgate_fleet::health::FleetReporter;
use playgate_observe::FleetReport;
use playgate_services::Services;

const WARN_EVERY: Duration = Duration::from_secs(1);
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Starts the tasks that refresh the fleet report and the warning in `/readyz`.
pub(super) fn start(fence: Arc<Fence>, reporter: Arc<FleetReporter>, services: &Services) {
    let readiness = Arc::clone(&services.readiness);
    let view = Arc::clone(&services.fleet);
    tokio::spawn(async move {
        loop {
            let warning = match fence.is_leased() {
                true => view.get().and_then(|report| severe(&report)),
                false => Some(
                    "etcd does not answer, and changes are refused; run `playgate doctor`"
                        .to_owned(),
                ),
            };
            readiness.warn("fleet", warning);
            tokio::time::sleep(WARN_EVERY).await;
        }
    });
    let view = Arc::clone(&services.fleet);
    let since = reporter.clock.now();
    tokio::spawn(async move {
        loop {
            let reporter = Arc::clone(&reporter);
            // Calls of etcd block.
            let reported = tokio::task::spawn_blocking(move || reporter.report()).await;
            if let Ok(report) = reported {
                view.set(FleetReport {
                    owner_since: Some(since),
                    ..report
                });
            }
            tokio::time::sleep(REPORT_EVERY).await;
        }
    });
}

/// Returns the severe problems, for `/readyz`; `playgate doctor` lists all.
fn severe(report: &FleetReport) -> Option<String> {
    let problems = report.problems().into_iter();
    let texts = problems
        .filter(|problem| problem.is_severe)
        .map(|problem| problem.text);
    Some(texts.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}
