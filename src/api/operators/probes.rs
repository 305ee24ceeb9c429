//! The probes of the operations listener.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;

use playgate_http::response::reply::media;
use playgate_http::{Anyone, ApiError, Context, Reply};
use playgate_services::Services;
use playgate_services::health::Health;

pub(crate) fn livez(_services: &Services, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    // No part of the service is checked: a failed liveness probe restarts the process, and that frees no disk.
    Ok(Reply::bytes(media::TEXT, &b"ok\n"[..]))
}

#[derive(Serialize)]
struct ReadyBody {
    ready: bool,
    reasons: BTreeMap<&'static str, String>,
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
    let body = ReadyBody {
        ready,
        reasons,
        warnings,
    };
    Reply::json_with(status, &body)
}

pub(crate) fn metrics(services: &Services, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    Ok(Reply::bytes(media::METRICS, services.metrics.render()))
}
