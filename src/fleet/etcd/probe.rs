//! Examines each endpoint of etcd for operators. The client of the log uses any endpoint that answers and would hide a
//! broken one.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::gateway::{EtcdSettings, Gateway, Repeat, number};
use playgate_observe::fleet::EndpointReport;
use playgate_ports::RequestTarget;
use playgate_ports::cert_validity::Validity;
use playgate_ports::http_client::Broken;
use playgate_store::replication::SharedLogError;

const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum size of etcd's metrics. A new etcd has 60 KiB of them.
const METRICS_MAX: usize = 4 * 1024 * 1024;

pub fn probe(settings: &EtcdSettings, runtime: &Handle) -> Vec<EndpointReport> {
    std::thread::scope(|scope| {
        let asked = settings.endpoints.iter().map(|url| {
            let one = EtcdSettings {
                endpoints: vec![url.clone()],
                timeout: TIMEOUT,
                login: settings
                    .login
                    .as_deref()
                    .map(|login| Arc::new(login.apart())),
                // The report shows a failed endpoint, so its errors do not count as those of the log.
                errors: Arc::default(),
                ..settings.clone()
            };
            scope.spawn(move || {
                let mut report = EndpointReport {
                    url: url.clone(),
                    ..EndpointReport::default()
                };
                if let Err(error) = ask(&one, url, runtime, &mut report) {
                    report.error = Some(match error {
                        SharedLogError::Unknown(why) | SharedLogError::Refused(why) => why,
                        other => other.to_string(),
                    });
                }
                report
            })
        });
        let asked: Vec<_> = asked.collect();
        // A thread that has panicked has no report.
        asked.into_iter().flat_map(|asking| asking.join()).collect()
    })
}

fn ask(
    settings: &EtcdSettings,
    url: &str,
    runtime: &Handle,
    report: &mut EndpointReport,
) -> Result<(), SharedLogError> {
    let mut gateway = Gateway::new(settings, runtime.clone())?;
    let status = gateway.call("/v3/maintenance/status", &json!({}), Repeat::Safe)?;
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str);
    let member_id = text("/header/member_id");
    report.version = text("/version").unwrap_or_default().to_owned();
    report.is_leader = member_id.is_some() && text("/leader") == member_id;
    report.bytes = number(status.get("dbSize"));
    // A member of etcd that has lost the majority answers the call above but not this one.
    let get = json!({ "action": "GET" });
    let answer = gateway.call("/v3/maintenance/alarm", &get, Repeat::Safe)?;
    report.alarms = alarms(&answer, member_id);
    runtime.block_on(async {
        let Ok(target) = RequestTarget::parse_with(url, settings.tls.as_ref()) else {
            return;
        };
        if let Ok(Ok(Some(certificate))) = timeout(TIMEOUT, target.certificate()).await {
            report.certificate = Validity::parse(&certificate).map(Validity::until);
        }
        // The metrics may be served elsewhere or not at all (`--listen-metrics-urls`).
        if let Ok(Ok(metrics)) = timeout(TIMEOUT, metrics(&target)).await {
            report.quota = value(&metrics, "etcd_server_quota_backend_bytes");
            report.sync_millis = sync_millis(&metrics);
        }
    });
    Ok(())
}

fn alarms(answer: &Value, member_id: Option<&str>) -> Vec<String> {
    let alarms = answer.get("alarms").and_then(Value::as_array);
    let of_member = alarms.into_iter().flatten().filter(|alarm| {
        let member = alarm.get("memberID").and_then(Value::as_str);
        member == member_id
    });
    of_member
        .filter_map(|alarm| Some(alarm.get("alarm")?.as_str()?.to_owned()))
        .collect()
}

async fn metrics(target: &RequestTarget) -> Result<String, Broken> {
    let request = target.request(Method::GET).uri("/metrics");
    let answer = target.send(request.body(Empty::<Bytes>::new())?).await?;
    let body = Limited::new(answer.body, METRICS_MAX).collect().await?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

fn value(metrics: &str, name: &str) -> Option<u64> {
    let mut lines = metrics.lines();
    let text = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    whole(text)
}

fn whole(text: &str) -> Option<u64> {
    // Prometheus writes large numbers as `2.147483648e+09`.
    let value: f64 = text.trim().parse().ok()?;
    // A negative or very large value is not a size.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    (0.0..9e15).contains(&value).then_some(value as u64)
}

/// Returns the 99th percentile of the sync time: the upper bound of its bucket, in milliseconds.
fn sync_millis(metrics: &str) -> Option<u64> {
    const NAME: &str = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"";
    let buckets = metrics.lines().filter_map(|line| {
        let (bound, count) = line.strip_prefix(NAME)?.split_once("\"} ")?;
        Some((bound.parse::<f64>().ok()?, whole(count)?))
    });
    let buckets: Vec<_> = buckets.collect();
    let (_, all) = *buckets.last()?;
    let (bound, _) = buckets
        .iter()
        .find(|(_, count)| *count >= all - all / 100)?;
    // The last bucket has no bound.
    (all > 0 && bound.is_finite()).then(|| whole(&(bound * 1_000.0).to_string()))?
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"} 900
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.004\"} 985
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.008\"} 991
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.016\"} 1000
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"} 1000
etcd_disk_wal_fsync_duration_seconds_sum 0.7
etcd_server_quota_backend_bytes 2.147483648e+09
etcd_server_quota_backend_bytes_other 7
";

    #[test]
    fn quota_and_sync_time_are_read_from_the_metrics_of_etcd() {
        let quota = value(METRICS, "etcd_server_quota_backend_bytes");
        assert_eq!(quota, Some(2 << 30));
        assert_eq!(sync_millis(METRICS), Some(8));
        // One slow sync in a hundred does not change the 99th percentile; two in a hundred do.
        let slow = METRICS.replace("} 991", "} 980").replace("} 985", "} 970");
        assert_eq!(sync_millis(&slow), Some(16));
        assert_eq!(sync_millis("nothing"), None);
        assert_eq!(value("", "etcd_server_quota_backend_bytes"), None);
    }

    #[test]
    fn alarms_are_those_of_the_member_that_answers() {
        let answer = json!({ "alarms": [
            { "memberID": "7", "alarm": "NOSPACE" },
            { "memberID": "8", "alarm": "CORRUPT" },
        ] });
        assert_eq!(alarms(&answer, Some("7")), ["NOSPACE"]);
        assert_eq!(alarms(&json!({}), Some("7")), Vec::<String>::new());
    }
}
