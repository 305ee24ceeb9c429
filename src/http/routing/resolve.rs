//! Partners, operators and users that an operator names by id or by name: reads and resolves them.

use std::sync::Arc;

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::offload::cold;
use crate::routing::endpoint::Input;
use playgate_domain::accounts::User;
use playgate_domain::partners::Partners;
use playgate_services::Services;
use playgate_types::{Email, OperatorId, PartnerId, UserId};

const NAMES_SHOWN: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartnerIdOrName {
    Id(PartnerId),
    Name(String),
}

impl PartnerIdOrName {
    /// Text that has the form of an id is an id.
    pub fn read(text: &str) -> Self {
        PartnerId::parse(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorIdOrName {
    Id(OperatorId),
    Name(String),
}

impl OperatorIdOrName {
    pub fn read(text: &str) -> Self {
        OperatorId::parse(text).map_or_else(|_| Self::Name(text.to_owned()), Self::Id)
    }
}

/// A user by id or by e-mail address. With an address the partner may be omitted if there is only
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UserIdOrEmail {
    Id(UserId),
    Email(Email, Option<PartnerIdOrName>),
}

/// Parses the parameter `partner`.
pub fn partner_in_query(input: &Input<'_>) -> Result<Option<PartnerIdOrName>, ApiError> {
    Ok(input
        .query
        .one("partner")?
        .map(|text| PartnerIdOrName::read(&text)))
}

impl UserIdOrEmail {
    pub fn from_query(input: &Input<'_>) -> Result<Option<Self>, ApiError> {
        let text = input.query.one("user")?;
        text.map(|text| Self::read(&text, input)).transpose()
    }

    pub fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Self::read(&input.text("user")?, input)
    }

    fn read(text: &str, input: &Input<'_>) -> Result<Self, ApiError> {
        // An id contains no `@`, so it cannot be an address.
        if let Ok(user) = UserId::parse(text) {
            return Ok(Self::Id(user));
        }
        let email = known(Email::parse(text), ErrorCode::UserNotFound)?;
        Ok(Self::Email(email, partner_in_query(input)?))
    }
}

/// Answers a malformed id in a path like an unknown one, because no object can have it.
pub fn known<T, E>(read: Result<T, E>, code: ErrorCode) -> Result<T, ApiError> {
    read.map_err(|_| {
        let what = code.as_str().trim_end_matches("_NOT_FOUND");
        ApiError::new(
            code,
            format!("there is no such {}", what.to_ascii_lowercase()),
        )
    })
}

pub fn partner(services: &Services, named: &PartnerIdOrName) -> Result<PartnerId, ApiError> {
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
pub fn partner_or_only(
    services: &Services,
    named: Option<&PartnerIdOrName>,
) -> Result<PartnerId, ApiError> {
    partner_among(&services.partners, named)
}

/// [`partner_or_only`] for worker threads, which do not have the [`Services`].
pub fn partner_among(
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

pub fn operator(services: &Services, named: &OperatorIdOrName) -> Result<OperatorId, ApiError> {
    let found = match named {
        OperatorIdOrName::Id(id) => services.operators.resolve(&id.to_string()),
        OperatorIdOrName::Name(name) => services.operators.resolve(name),
    };
    found.ok_or_else(|| ApiError::new(ErrorCode::OperatorNotFound, "there is no such operator"))
}

pub async fn user(services: &Services, named: &UserIdOrEmail) -> Result<Arc<User>, ApiError> {
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
