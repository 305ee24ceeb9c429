//! The partner lab.

use serde::Serialize;

use crate::operators::request_members::PartnerRequest;
use playgate_domain::lab::{ScenarioReport, ScenarioState};
use playgate_http::routing::resolve;
use playgate_http::{
    ApiError, Context, ErrorCode, Input, OperatorAuth, ParseRequest, PartnerAuth, PartnerIdOrName,
    Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{Described, JsonType, Malformed, PartnerId, PartnerKind};

crate::openapi::words::words! { ScenarioBody => r##"
[requests.ScenarioReport]
scenario = "ScenarioWords: Name of the scenario."
state = "ScenarioState: State of the run."
steps = "[ScenarioWords]?: All steps in words, at most 50."
done = "FaultCount?: Number of steps that are done. Default 0."
failure = "ScenarioWords?: Why the next step failed."

[operations.admin_scenario]
summary = "Read the state of a scenario"
text = "The last report of `playgate lab run`. Empty if there was no run since the start or the last reset."
returns."200" = "Scenario: The state."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]

[operations.admin_report_scenario]
summary = "Report the state of a scenario"
text = "For the program that runs a scenario, so that others can watch. Changes nothing else."
send = "ScenarioReport: The state."
returns."204" = { text = "The report is kept." }
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]
"## }

/// Limits of a scenario report, which is kept in memory: its steps, and the bytes of each text.
const STEPS_MAX: usize = 50;
const WORDS_MAX: usize = 200;

pub(crate) struct ReportScenarioRequest {
    pub partner: PartnerIdOrName,
    pub report: ScenarioReport,
}

impl ParseRequest for ReportScenarioRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        body.only(&["scenario", "state", "steps", "done", "failure"])?;
        let short = |text: &str| match text.len() <= WORDS_MAX {
            true => Ok(text.to_owned()),
            false => Err(Malformed("must have at most 200 bytes")),
        };
        let steps = body.texts("steps")?.unwrap_or_default();
        if steps.len() > STEPS_MAX || steps.iter().any(|step| step.len() > WORDS_MAX) {
            let why =
                format!("must have at most {STEPS_MAX} steps of at most {WORDS_MAX} bytes each");
            return Err(body.refuse("steps", why));
        }
        let done = body.integer("done")?.unwrap_or(0);
        let done = usize::try_from(done)
            .ok()
            .filter(|done| *done <= steps.len());
        let report = ScenarioReport {
            scenario: body.required("scenario", short)?,
            state: body.required("state", |text| {
                let wrong = Malformed("must be running, passed or failed");
                ScenarioState::parse(text).ok_or(wrong)
            })?,
            done: done.ok_or_else(|| body.refuse("done", "must be a number of these steps"))?,
            steps,
            failure: body.parsed("failure", short)?,
        };
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            report,
        })
    }
}

pub(super) fn check_environment(services: &Services) -> Result<(), ApiError> {
    if services.allows_lab() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::LabNotAllowed,
        "lab partners are not allowed in production; set `environment` to staging",
    ))
}

/// Resolves a lab partner.
///
/// # Errors
/// `PARTNER_NOT_FOUND`; `LAB_NOT_ALLOWED` in production and for other partners.
pub(super) fn lab_partner(
    services: &Services,
    named: &PartnerIdOrName,
) -> Result<PartnerId, ApiError> {
    let partner = resolve::partner(services, named)?;
    check_environment(services)?;
    check_kind(services.partners.kind(&partner))?;
    Ok(partner)
}

/// Returns the partner of a request under `/api/lab/`.
///
/// # Errors
/// `LAB_NOT_ALLOWED` in production and for other partners.
pub(crate) fn requesting_lab_partner(
    services: &Services,
    auth: &PartnerAuth,
) -> Result<PartnerId, ApiError> {
    check_environment(services)?;
    check_kind(Some(auth.kind()))?;
    Ok(auth.partner())
}

fn check_kind(kind: Option<PartnerKind>) -> Result<(), ApiError> {
    if kind == Some(PartnerKind::Lab) {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::LabNotAllowed,
        "the partner is not a lab partner; add one with `playgate partner add NAME --lab`",
    ))
}

pub(crate) fn scenario(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let report = services.lab.scenario(&partner);
    Reply::json(&report.map(ScenarioBody::from).unwrap_or_default())
}

/// Keeps the report of a scenario for readers of [`scenario`].
pub(crate) fn report_scenario(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: ReportScenarioRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    services.lab.report_scenario(partner, request.report);
    Ok(Reply::no_content())
}

/// Empty if no scenario was run.
#[derive(Default, Described, Serialize)]
pub(crate) struct ScenarioBody {
    /// Name of the scenario. Absent if none was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<String>,
    /// State of the run. Absent if none was run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("ScenarioState"))]
    state: Option<&'static str>,
    /// All steps of the scenario in words, in order. Absent if none was run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    /// Number of steps that are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<usize>,
    /// Why the next step failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

impl From<ScenarioReport> for ScenarioBody {
    fn from(report: ScenarioReport) -> Self {
        Self {
            scenario: Some(report.scenario),
            state: Some(report.state.as_str()),
            steps: report.steps,
            done: Some(report.done),
            failure: report.failure,
        }
    }
}
