//! Handlers of the partner lab.

pub(crate) mod answer;
pub(crate) mod request;

use crate::operators::lab::answer::ScenarioBody;
use crate::operators::lab::request::ReportScenarioRequest;
use crate::operators::partners::request::PartnerRequest;
use playgate_http::access::auth::{OperatorAuth, PartnerAuth};
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_http::routing::resolve;
use playgate_http::routing::resolve::PartnerIdOrName;
use playgate_services::Services;
use playgate_types::{PartnerId, PartnerKind};

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
pub(crate) fn own_lab(services: &Services, auth: &PartnerAuth) -> Result<PartnerId, ApiError> {
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
