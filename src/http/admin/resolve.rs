//! Whom an operator means: by id or by name.

use std::sync::Arc;

use crate::app::App;
use crate::domain::accounts::User;
use crate::domain::partners::Partners;
use crate::http::endpoint::admin::system::{OperatorRef, PartnerRef};
use crate::http::endpoint::admin::users::UserRef;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::types::{OperatorId, PartnerId};

/// How many names a refusal offers.
const SHOWN: usize = 10;

/// The partner that is named.
///
/// # Errors
/// `PARTNER_NOT_FOUND`.
pub fn partner(app: &App, named: &PartnerRef) -> Result<PartnerId, ApiError> {
    known_partner(&app.partners, named)
}

fn known_partner(partners: &Partners, named: &PartnerRef) -> Result<PartnerId, ApiError> {
    let found = match named {
        PartnerRef::Id(id) => partners.resolve(&id.to_string()),
        PartnerRef::Name(name) => partners.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::PartnerNotFound, "there is no such partner"))
}

/// The partner that is named, or the only one there is.
///
/// # Errors
/// `PARTNER_NOT_FOUND`; `INVALID_REQUEST` if none is named and there are several.
pub fn partner_or_only(app: &App, named: Option<&PartnerRef>) -> Result<PartnerId, ApiError> {
    partner_among(&app.partners, named)
}

/// As [`partner_or_only`], for code that runs on a thread of its own.
///
/// # Errors
/// As [`partner_or_only`].
pub fn partner_among(
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
            "there is no partner yet",
        )),
        several => {
            let names: Vec<&str> = several.iter().map(|one| &*one.name).collect();
            let (shown, more) = names.split_at(names.len().min(SHOWN));
            let more = if more.is_empty() { "" } else { ", …" };
            let which = format!("has to name one of {}{more}", shown.join(", "));
            Err(ApiError::field("partner", which))
        }
    }
}

/// The operator who is named.
///
/// # Errors
/// `OPERATOR_NOT_FOUND`.
pub fn operator(app: &App, named: &OperatorRef) -> Result<OperatorId, ApiError> {
    let found = match named {
        OperatorRef::Id(id) => app.operators.resolve(&id.to_string()),
        OperatorRef::Name(name) => app.operators.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::OperatorNotFound, "there is no such operator"))
}

/// The user who is named.
///
/// # Errors
/// `USER_NOT_FOUND`; what [`partner_or_only`] refuses.
pub async fn user(app: &App, named: &UserRef) -> Result<Arc<User>, ApiError> {
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
