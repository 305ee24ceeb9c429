//! Resolves partners, operators and users that an operator names by id or by name.

use std::sync::Arc;

use crate::domain::accounts::User;
use crate::domain::partners::Partners;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::http::routing::endpoint::admin::operators::OperatorIdOrName;
use crate::http::routing::endpoint::admin::partners::PartnerIdOrName;
use crate::http::routing::endpoint::admin::users::UserIdOrEmail;
use crate::services::Services;
use crate::types::{OperatorId, PartnerId};

const NAMES_SHOWN: usize = 10;

pub(crate) fn partner(services: &Services, named: &PartnerIdOrName) -> Result<PartnerId, ApiError> {
    known_partner(&services.partners, named)
}

fn known_partner(partners: &Partners, named: &PartnerIdOrName) -> Result<PartnerId, ApiError> {
    let found = match named {
        PartnerIdOrName::Id(id) => partners.resolve(&id.to_string()),
        PartnerIdOrName::Name(name) => partners.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::PartnerNotFound, "there is no such partner"))
}

/// Resolves the partner; without a name, the only partner of the installation.
///
/// # Errors
/// `PARTNER_NOT_FOUND`; `INVALID_REQUEST` if no partner is named and there are several.
pub(crate) fn partner_or_only(
    services: &Services,
    named: Option<&PartnerIdOrName>,
) -> Result<PartnerId, ApiError> {
    partner_among(&services.partners, named)
}

/// [`partner_or_only`] for worker threads, which do not have the [`Services`].
pub(crate) fn partner_among(
    partners: &Partners,
    named: Option<&PartnerIdOrName>,
) -> Result<PartnerId, ApiError> {
    if let Some(named) = named {
        return known_partner(partners, named);
    }
    match partners.list().as_slice() {
        [only] => Ok(only.id),
        [] => Err(ApiError::new(
            ErrorCode::PartnerNotFound,
            "there is no partner yet; add one first",
        )),
        several => {
            let names: Vec<&str> = several.iter().map(|one| &*one.name).collect();
            let (shown, more) = names.split_at(names.len().min(NAMES_SHOWN));
            let more = if more.is_empty() { "" } else { ", …" };
            let which = format!("must be one of {}{more}", shown.join(", "));
            Err(ApiError::field("partner", which))
        }
    }
}

pub(crate) fn operator(
    services: &Services,
    named: &OperatorIdOrName,
) -> Result<OperatorId, ApiError> {
    let found = match named {
        OperatorIdOrName::Id(id) => services.operators.resolve(&id.to_string()),
        OperatorIdOrName::Name(name) => services.operators.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::OperatorNotFound, "there is no such operator"))
}

pub(crate) async fn user(
    services: &Services,
    named: &UserIdOrEmail,
) -> Result<Arc<User>, ApiError> {
    let id = match named {
        UserIdOrEmail::Id(id) => Some(*id),
        UserIdOrEmail::Email(email, named) => {
            let partner = partner_or_only(services, named.as_ref())?;
            let (accounts, email) = (services.accounts.clone(), email.clone());
            cold(services, move || accounts.find(partner, &email)).await?
        }
    };
    id.and_then(|id| services.accounts.user(&id))
        .ok_or_else(|| ApiError::new(ErrorCode::UserNotFound, "there is no such user"))
}
