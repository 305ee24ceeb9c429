//! The probes of the operations listener.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;

use playgate_http::response::reply::media;
use playgate_http::{Anyone, ApiError, Context, Reply};
use playgate_services::Services;
use playgate_services::health::Health;
use playgate_types::Described;

crate::openapi::words::words! { ReadinessBody => r##"
[operations.livez]
summary = "Liveness check"
text = "Answers as long as the process runs, also while the store is being opened."
returns."200" = { text = "The process is alive.", media = ["text/plain; charset=utf-8"], example = "ok\n" }

[operations.readyz]
summary = "Readiness check"
text = "For load balancers: whether this process should get requests."
returns."200" = "Readiness: The service is ready."
returns."503" = { text = "The service is not ready; `reasons` says why.", type = "Readiness", example = '{"ready": false, "reasons": {"store": "the disk is full or read-only: reads are served, writes are rejected"}, "warnings": {}}' }

[operations.metrics]
summary = "Metrics"
text = "For Prometheus. Each metric has its meaning in a `HELP` line."
returns."200" = { text = "Metrics in the Prometheus text format.", media = ["text/plain; version=0.0.4; charset=utf-8"], example = '''
# HELP playgate_build_info Version and environment as labels; the value is always 1.
# TYPE playgate_build_info gauge
playgate_build_info{environment="production",version="0.1.0"} 1
''' }
"## }

pub(crate) fn livez(_services: &Services, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    // No part of the service is checked: a failed liveness probe restarts the process, and that frees no disk.
    Ok(Reply::bytes(media::TEXT, &b"ok\n"[..]))
}

#[derive(Described, Serialize)]
struct ReadinessBody {
    /// Whether the service is ready.
    ready: bool,
    /// Why the service is not ready, by component. Empty if it is.
    reasons: BTreeMap<&'static str, String>,
    /// Problems that do not affect readiness, by component.
    warnings: BTreeMap<&'static str, String>,
}

pub(crate) fn readyz(services: &Services, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    let health = Health::new(services);
    let (reasons, warnings) = (health.reasons(), health.warnings());
    let ready = reasons.is_empty();
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = ReadinessBody {
        ready,
        reasons,
        warnings,
    };
    Reply::json_with(status, &body)
}

pub(crate) fn metrics(services: &Services, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    Ok(Reply::bytes(media::METRICS, services.metrics.render()))
}
