//! Recent activity.

use std::collections::BTreeMap;

use serde::Serialize;

use playgate_http::{ApiError, Context, Input, OperatorAuth, ParseRequest, Payload, Reply};
use playgate_observe::activity::{ActivityPeriod, ActivitySample};
use playgate_services::Services;
use playgate_types::{Described, Malformed, UnixSeconds};

crate::openapi::words::words! { Activity => r##"
[operations.admin_activity]
summary = "Show recent activity"
text = "Samples of the last hour, every 15 seconds, or of the last day, every five minutes. They are kept in memory and start with the process."
query.period = "hour | day?: Period of the samples. Default: `hour`."
returns."200" = "Activity: The samples."
"## }

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

#[derive(Described, Serialize)]
struct Activity {
    /// Seconds between two samples.
    step: u64,
    /// The samples, oldest first.
    samples: Vec<ActivitySampleBody>,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct ActivitySampleBody {
    /// End of the interval that the sample is about. It is `step` seconds long.
    at: UnixSeconds,
    /// The most playback sessions at one time in the interval.
    streams: u64,
    /// Number of requests of viewers, by status class such as `2xx`.
    requests: BTreeMap<String, u64>,
    /// Number of refused requests, by error code.
    refusals: BTreeMap<String, u64>,
    /// Number of successful log-ins.
    logins: u64,
    /// Number of log-ins with a 4xx or 5xx response.
    refused_logins: u64,
    /// Median time to a response, in microseconds. Absent without requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p50_micros: Option<u64>,
    /// Time to a response that 99 of 100 requests did not exceed, in microseconds. Absent without requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    latency_p99_micros: Option<u64>,
}

impl From<ActivitySample> for ActivitySampleBody {
    fn from(sample: ActivitySample) -> Self {
        Self {
            latency_p50_micros: sample.latency_micros(50),
            latency_p99_micros: sample.latency_micros(99),
            at: sample.at,
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
    Reply::json(&Activity {
        step: request.period.step(),
        samples: samples.into_iter().map(ActivitySampleBody::from).collect(),
    })
}
