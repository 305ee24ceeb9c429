//! Handlers of the faults of lab partners.

pub(crate) mod answer;
pub(crate) mod request;
pub mod targets;

use std::time::Instant;

use crate::operators::faults::answer::FaultBody;
use crate::operators::faults::request::{AddFaultRequest, FaultRequest};
use crate::operators::lab::lab_partner;
use crate::operators::request_members::PartnerRequest;
use playgate_domain::lab::{FaultMatch, FaultView, NewFault, TooManyFaults};
use playgate_http::routing::resolve;
use playgate_http::{ApiError, Context, ErrorCode, OperatorAuth, Reply};
use playgate_services::Services;
use playgate_types::{AssetId, LivestreamId};

crate::openapi::words::words! { answer::FaultBody => r##"
[requests.NewFault]
route = "string: Operation id of the partner interface, `license` for the four license routes, or `any`."
match = "FaultMatch?: Conditions on the request. All must hold."
after = "FaultCount?: Number of matching requests that are served normally first. Default 0."
times = "FaultTimes?: How often the fault is applied. Without it there is no limit."
probability = "FaultProbability?: Share of the matching requests. Default 1."
seed = "FaultCount?: Seed of the random choice. The same seed and the same requests give the same run. Default 0."
do = "FaultAction: What happens to the request."
until = "Span?: How long the fault exists, in real time."

[operations.admin_faults]
summary = "List the faults of a lab partner"
returns."200" = "[Fault]: The faults, oldest first."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]

[operations.admin_add_fault]
summary = "Add a fault to a lab partner"
text = "Each fault counts the requests that match it. The oldest fault that is due is applied, and the response has the header `X-Playgate-Fault`. Faults are kept in memory: a restart ends them."
send = "NewFault: The fault."
returns."200" = "Fault: The fault was added."
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED", "USER_NOT_FOUND", "ASSET_NOT_FOUND"]

[operations.admin_clear_faults]
summary = "Remove all faults of a lab partner"
returns."204" = { text = "The faults were removed." }
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED"]

[operations.admin_clear_fault]
summary = "Remove a fault of a lab partner"
returns."204" = { text = "The fault was removed." }
errors = ["PARTNER_NOT_FOUND", "LAB_NOT_ALLOWED", "FAULT_NOT_FOUND"]
"## }

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
    Reply::made(&view.id.to_string(), &FaultBody::from(&view))
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
    Reply::json(&faults.iter().map(FaultBody::from).collect::<Vec<_>>())
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
