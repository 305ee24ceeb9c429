//! The probes of the operations listener.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;

use playgate_http::response::reply::media;
use playgate_http::{Anyone, ApiError, Context, Reply};
use playgate_services::Services;

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
    let mut reasons = services.readiness.reasons();
    if !services.store_admin.is_writable() {
        let why = "the disk is full or read-only: reads are served, writes are rejected";
        // A reason that the store itself reported is more specific.
        reasons.entry("store").or_insert_with(|| why.to_owned());
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut warnings = services.readiness.warnings();
    // Only a warning: with a nearly full disk, running playback continues and logged-in users can
    // still read.
    if let Some(need) = services.store_admin.refuses() {
        warnings.insert("store", format!("low disk space: {}", need.refusal()));
    }
    if let Some(jump) = services.clock_guard.untrusted_jump() {
        warnings.insert("clock", jump.to_string());
    }
    let lost = services.schedule.lost_overrides();
    if let Some((id, first)) = lost.first() {
        warnings.insert(
            "overrides",
            format!(
                "{} of the rights set for single broadcasts apply to nothing, since an import removed the broadcast: `{id}` \
                 was “{}” on {}, {}. Set the rights of the broadcast that replaced it, then run \
                 `playgate rights clear {id}`",
                lost.len(),
                first.title,
                first.livestream,
                first.start.in_utc()
            ),
        );
    }
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
