//! Which codes a route answers with: those that follow from the table, and those that are said of it.

use std::collections::BTreeMap;

use crate::http::error::ErrorCode;
use crate::http::route::{Endpoint, RateClass, Route};
use crate::http::router::RouteSet;
use crate::types::Role;

/// Codes by their statuses.
pub type Codes = BTreeMap<u16, Vec<ErrorCode>>;

/// What a request meets before it gets to an operation.
pub const BEFORE: [ErrorCode; 4] = [
    ErrorCode::PathNotFound,
    ErrorCode::VersionNotServed,
    ErrorCode::MethodNotAllowed,
    ErrorCode::MethodNotImplemented,
];

/// What a request of any operation may meet: framing, limits, a busy or failing service.
pub const ANYWHERE: [ErrorCode; 12] = [
    ErrorCode::InvalidRequest,
    ErrorCode::RequestTimeout,
    ErrorCode::PayloadTooLarge,
    ErrorCode::UriTooLong,
    ErrorCode::UnsupportedCoding,
    ErrorCode::ExpectationFailed,
    ErrorCode::HeadersTooLarge,
    ErrorCode::Internal,
    ErrorCode::CodingNotImplemented,
    ErrorCode::Overloaded,
    ErrorCode::DeadlineExceeded,
    ErrorCode::StoreUnavailable,
];

/// What follows from a route: who may call it, how often, and what it waits for.
fn derived(route: &Route) -> Vec<ErrorCode> {
    let mut codes = match route.target {
        Endpoint::Open(_) => Vec::new(),
        Endpoint::Partner(_) => vec![ErrorCode::PartnerTokenInvalid],
        Endpoint::User(_) => vec![ErrorCode::PartnerTokenInvalid, ErrorCode::UserTokenInvalid],
        Endpoint::Operator(_) => vec![ErrorCode::OperatorTokenInvalid],
    };
    if route
        .roles()
        .is_some_and(|roles| roles.len() < Role::ALL.len())
    {
        codes.push(ErrorCode::RoleNotAllowed);
    }
    if matches!(route.target, Endpoint::Partner(_) | Endpoint::User(_)) {
        codes.push(ErrorCode::RateLimited);
    }
    match route.rate {
        RateClass::General => {}
        RateClass::SignUp | RateClass::Login | RateClass::ResetMail | RateClass::Reset => {
            codes.push(ErrorCode::TooManyAttempts);
        }
    }
    codes
}

/// The codes of a route: of those that are met anywhere, only where others have their status.
///
/// # Errors
/// The word that is no code.
pub fn codes_of_route(table: RouteSet, route: &Route, said: &[String]) -> Result<Codes, String> {
    let mut codes = derived(route);
    if table == RouteSet::Ops {
        codes.push(ErrorCode::MisdirectedRequest);
    }
    for word in said {
        codes.push(named(word).ok_or_else(|| word.clone())?);
    }
    let mut of_status = Codes::new();
    for code in codes.into_iter().chain(ANYWHERE) {
        let codes = of_status.entry(code.status().as_u16()).or_default();
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    Ok(of_status)
}

/// A code by its word, or by status and word where two have the same word.
fn named(word: &str) -> Option<ErrorCode> {
    let (status, word) = word.split_once(' ').unwrap_or(("", word));
    let mut codes = ErrorCode::ALL.iter().copied();
    codes.find(|code| {
        code.as_str() == word && (status.is_empty() || code.status().as_str() == status)
    })
}

/// Whether a status has no codes but those that are met anywhere.
#[must_use]
pub fn are_common(codes: &[ErrorCode]) -> bool {
    codes.iter().all(|code| ANYWHERE.contains(code))
}
