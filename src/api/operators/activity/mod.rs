//! Handler of recent activity.

pub(crate) mod request;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::operators::activity::request::ActivityRequest;
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::ApiError;
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_observe::activity::ActivitySample;
use playgate_services::Services;

#[derive(Serialize)]
struct ActivityBody {
    step: u64,
    samples: Vec<SampleLine>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SampleLine {
    at: i64,
    streams: u64,
    requests: BTreeMap<String, u64>,
    refusals: BTreeMap<String, u64>,
    logins: u64,
    refused_logins: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p50_micros: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p99_micros: Option<u64>,
}

impl From<ActivitySample> for SampleLine {
    fn from(sample: ActivitySample) -> Self {
        Self {
            latency_p50_micros: sample.latency_micros(50),
            latency_p99_micros: sample.latency_micros(99),
            at: sample.at.0,
            streams: sample.streams,
            requests: sample.requests,
            refusals: sample.refusals,
            logins: sample.logins,
            refused_logins: sample.refused_logins,
        }
    }
}

pub(crate) fn activity(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ActivityRequest,
) -> Result<Reply, ApiError> {
    let samples = services.activity.samples(request.period);
    Reply::json(&ActivityBody {
        step: request.period.step(),
        samples: samples.into_iter().map(SampleLine::from).collect(),
    })
}
