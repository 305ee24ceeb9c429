//! Resolves partners, operators and users that an operator names by id or by name.

use std::sync::Arc;

use crate::app::App;
use crate::domain::accounts::User;
use crate::domain::partners::Partners;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::http::routing::endpoint::admin::system::{OperatorRef, PartnerRef};
use crate::http::routing::endpoint::admin::users::UserRef;
use crate::types::{OperatorId, PartnerId};

/// Maximum number of partner names in an error message.
const SHOWN: usize = 10;

/// # Errors
/// `PARTNER_NOT_FOUND`.
pub(crate) fn partner(app: &App, named: &PartnerRef) -> Result<PartnerId, ApiError> {
    known_partner(&app.partners, named)
}

fn known_partner(partners: &Partners, named: &PartnerRef) -> Result<PartnerId, ApiError> {
    let found = match named {
        PartnerRef::Id(id) => partners.resolve(&id.to_string()),
        PartnerRef::Name(name) => partners.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::PartnerNotFound, "there is no such partner"))
}

/// Resolves the partner; without a name, the only partner of the installation.
///
/// # Errors
/// `PARTNER_NOT_FOUND`; `INVALID_REQUEST` if no partner is named and there are several.
pub(crate) fn partner_or_only(
    app: &App,
    named: Option<&PartnerRef>,
) -> Result<PartnerId, ApiError> {
    partner_among(&app.partners, named)
}

/// [`partner_or_only`] for worker threads, which do not have the [`App`].
pub(crate) fn partner_among(
    partners: &Partners,
    named: Option<&PartnerRef>,
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
            let (shown, more) = names.split_at(names.len().min(SHOWN));
            let more = if more.is_empty() { "" } else { ", …" };
            let which = format!("must be one of {}{more}", shown.join(", "));
            Err(ApiError::field("partner", which))
        }
    }
}

/// # Errors
/// `OPERATOR_NOT_FOUND`.
pub(crate) fn operator(app: &App, named: &OperatorRef) -> Result<OperatorId, ApiError> {
    let found = match named {
        OperatorRef::Id(id) => app.operators.resolve(&id.to_string()),
        OperatorRef::Name(name) => app.operators.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::OperatorNotFound, "there is no such operator"))
}

/// # Errors
/// `USER_NOT_FOUND`, and the errors of [`partner_or_only`].
pub(crate) async fn user(app: &App, named: &UserRef) -> Result<Arc<User>, ApiError> {
    let id = match named {
        UserRef::Id(id) => Some(*id),
        UserRef::Email(email, named) => {
            let partner = partner_or_only(app, named.as_ref())?;
            let (accounts, email) = (app.accounts.clone(), email.clone());
            cold(app, move || accounts.find(partner, &email)).await?
        }
    };
    id.and_then(|id| app.accounts.user(&id))
        .ok_or_else(|| ApiError::new(ErrorCode::UserNotFound, "there is no such user"))
}
