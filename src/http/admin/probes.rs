//! Handlers of the operations listener's probes.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Serialize;

use crate::app::App;
use crate::http::error::ApiError;
use crate::http::reply::{Reply, media};

/// Alive: the runtime answers.
///
/// # Errors
/// None.
pub fn livez(_app: &App) -> Result<Reply, ApiError> {
    Ok(Reply::bytes(media::TEXT, &b"ok\n"[..]))
}

#[derive(Serialize)]
struct ReadyBody {
    ready: bool,
    reasons: BTreeMap<&'static str, String>,
    warnings: BTreeMap<&'static str, String>,
}

/// Ready: every part of the service is; otherwise 503 with the reasons. Warnings change nothing.
///
/// # Errors
/// `INTERNAL`.
pub fn readyz(app: &App) -> Result<Reply, ApiError> {
    let mut reasons = app.readiness.reasons();
    if !app.upkeep.is_writable() {
        let why = "the disk is full or read-only: what is there is served, nothing is taken";
        reasons.entry("store").or_insert_with(|| why.to_owned());
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut warnings = app.readiness.warnings();
    // Decision: a warning, and no reason to be out of service. Who plays goes on, who is logged in reads.
    if let Some(need) = app.upkeep.refuses() {
        warnings.insert("store", format!("the disk runs full: {}", need.refusal()));
    }
    if let Some(doubt) = app.clock_guard.doubt() {
        warnings.insert("clock", doubt.to_string());
    }
    let body = ReadyBody {
        ready,
        reasons,
        warnings,
    };
    Reply::json_with(status, &body)
}

/// The metrics, in Prometheus' text form.
///
/// # Errors
/// None.
pub fn metrics(app: &App) -> Result<Reply, ApiError> {
    Ok(Reply::bytes(media::METRICS, app.metrics.render()))
}
