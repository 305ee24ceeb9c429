//! Recent activity.

use std::collections::BTreeMap;

use serde::Serialize;

use playgate_http::{ApiError, Context, Input, OperatorAuth, ParseRequest, Payload, Reply};
use playgate_observe::activity::{ActivityPeriod, ActivitySample};
use playgate_services::Services;
use playgate_types::Malformed;

pub(crate) struct ActivityRequest {
    pub period: ActivityPeriod,
}

impl ParseRequest for ActivityRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let period = input.query.parsed("period", |text| match text {
            "hour" => Ok(ActivityPeriod::Hour),
            "day" => Ok(ActivityPeriod::Day),
            _ => Err(Malformed("must be hour or day")),
        })?;
        Ok(Self {
            period: period.unwrap_or(ActivityPeriod::Hour),
        })
    }
}

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
