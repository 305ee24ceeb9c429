//! Handlers of the faults of lab partners.

pub(crate) mod answer;
pub(crate) mod request;
pub mod targets;

use std::time::Instant;

use crate::operators::faults::answer::FaultLine;
use crate::operators::faults::request::{AddFaultRequest, FaultRequest};
use crate::operators::lab::lab_partner;
use crate::operators::request_members::PartnerRequest;
use playgate_domain::lab::{FaultMatch, FaultView, NewFault, TooManyFaults};
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, ErrorCode, OperatorAuth, Reply};
use playgate_services::Services;
use playgate_types::{AssetId, LivestreamId};

pub(crate) async fn add_fault(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: AddFaultRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let user = match &request.user {
        Some(named) => {
            let user = resolve::user(services, named).await?;
            if user.partner != partner {
                let why = "can never match: the user belongs to another partner";
                return Err(ApiError::field("match.user", why));
            }
            Some(user.id)
        }
        None => None,
    };
    if let Some(asset) = &request.asset {
        check_asset(services, asset)?;
    }
    let fault = NewFault {
        route: request.route,
        labels: request.labels,
        matching: FaultMatch {
            user,
            asset: request.asset,
            device: request.device,
            session: request.session,
        },
        after: request.after,
        times: request.times,
        probability: request.probability,
        seed: request.seed,
        action: request.action,
        lifetime: request.lifetime,
    };
    let added = services.lab.add_fault(partner, fault, Instant::now());
    let view: FaultView = added.map_err(|TooManyFaults| {
        ApiError::malformed(format!("{TooManyFaults}; remove some first"))
    })?;
    Reply::made(&view.id.to_string(), &FaultLine::from(&view))
}

/// A fault on a misspelt asset would never be applied.
fn check_asset(services: &Services, asset: &str) -> Result<(), ApiError> {
    let catalog = services.catalog.snapshot();
    let known = AssetId::parse(asset).is_ok_and(|id| catalog.asset(&id).is_some())
        || LivestreamId::parse(asset).is_ok_and(|id| catalog.livestream(&id).is_some());
    if known {
        return Ok(());
    }
    let message = format!("match.asset: the catalogue has no {asset}");
    Err(ApiError::new(ErrorCode::AssetNotFound, message))
}

pub(crate) fn faults(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let faults = services.lab.faults(&partner, Instant::now());
    Reply::json(&faults.iter().map(FaultLine::from).collect::<Vec<_>>())
}

pub(crate) async fn clear_faults(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PartnerRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    services.lab.clear_faults(&partner, None);
    Ok(Reply::no_content())
}

pub(crate) async fn clear_fault(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: FaultRequest,
) -> Result<Reply, ApiError> {
    let partner = lab_partner(services, &request.partner)?;
    let removed = request
        .fault
        .map(|fault| services.lab.clear_faults(&partner, Some(fault)));
    match removed {
        Some(1) => Ok(Reply::no_content()),
        _ => Err(ApiError::new(
            ErrorCode::FaultNotFound,
            "the partner has no fault with this id",
        )),
    }
}
