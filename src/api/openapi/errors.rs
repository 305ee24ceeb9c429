//! Determines the error codes of a route: those that follow from the route table, and those listed
//! in its description.

use std::collections::BTreeMap;

use playgate_http::{Endpoint, ErrorCode, RateClass, Route, RouteSet};
use playgate_types::Role;

pub(super) type Codes = BTreeMap<u16, Vec<ErrorCode>>;

pub(super) const ROUTING_ERRORS: [ErrorCode; 4] = [
    ErrorCode::PathNotFound,
    ErrorCode::VersionNotServed,
    ErrorCode::MethodNotAllowed,
    ErrorCode::MethodNotImplemented,
];

/// Errors of every operation: framing, limits, an overloaded or failing service.
pub(super) const COMMON_ERRORS: [ErrorCode; 12] = [
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

fn codes_from_table(route: &Route) -> Vec<ErrorCode> {
    let mut codes = match route.endpoint {
        Endpoint::Open(_) => Vec::new(),
        Endpoint::Partner(_) => vec![ErrorCode::PartnerTokenInvalid],
        Endpoint::User(_) => vec![ErrorCode::PartnerTokenInvalid, ErrorCode::UserTokenInvalid],
        Endpoint::Operator(_) => vec![ErrorCode::OperatorTokenInvalid],
    };
    if route
        // A route that every role may use never answers `ROLE_NOT_ALLOWED`.
        .roles
        .is_some_and(|roles| roles.len() < Role::ALL.len())
    {
        codes.push(ErrorCode::RoleNotAllowed);
    }
    if matches!(route.endpoint, Endpoint::Partner(_) | Endpoint::User(_)) {
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

/// Returns the codes of a route by status. A code of [`COMMON_ERRORS`] is included even if it is alone
/// in its status.
///
/// # Errors
/// The listed name that is not an error code.
pub(super) fn codes_of_route(
    table: RouteSet,
    route: &Route,
    listed: &[String],
) -> Result<Codes, String> {
    let mut codes = codes_from_table(route);
    if table == RouteSet::Ops {
        codes.push(ErrorCode::MisdirectedRequest);
    }
    for word in listed {
        codes.push(parse_code(word).ok_or_else(|| word.clone())?);
    }
    let mut of_status = Codes::new();
    for code in codes.into_iter().chain(COMMON_ERRORS) {
        let codes = of_status.entry(code.status().as_u16()).or_default();
        // A description may list a code that follows from the route too.
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    Ok(of_status)
}

/// Parses a code, or a status and a code where two codes have the same name.
fn parse_code(word: &str) -> Option<ErrorCode> {
    let (status, word) = word.split_once(' ').unwrap_or(("", word));
    let mut codes = ErrorCode::ALL.iter().copied();
    codes.find(|code| {
        code.as_str() == word && (status.is_empty() || code.status().as_str() == status)
    })
}

pub(super) fn are_common(codes: &[ErrorCode]) -> bool {
    codes.iter().all(|code| COMMON_ERRORS.contains(code))
}
