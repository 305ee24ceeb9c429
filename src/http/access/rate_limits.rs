//! The rate limits that are checked before the body is read.

use std::net::IpAddr;

use crate::http::access::auth::{Authenticator, PARTNER_LIMIT};
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::routing::route::RateClass;
use crate::types::{PartnerId, UnixSeconds};

pub(crate) fn check(
    authenticator: &dyn Authenticator,
    class: RateClass,
    partner: Option<PartnerId>,
    peer: IpAddr,
    now: UnixSeconds,
) -> Result<(), ApiError> {
    authenticator
        .admit(class, partner, peer, now)
        .map_err(|limit| {
            let code = match class {
                // All users of a partner share this limit, so it must not read as too many attempts of one viewer.
                _ if limit.name == PARTNER_LIMIT => ErrorCode::RateLimited,
                RateClass::General => ErrorCode::RateLimited,
                RateClass::SignUp | RateClass::Login | RateClass::ResetMail | RateClass::Reset => {
                    ErrorCode::TooManyAttempts
                }
            };
            ApiError::new(code, "too many requests; see Retry-After").with_limit(limit)
        })
}
