//! Maps errors of partners and operators to API errors.

use crate::domain::operators::{self, OperatorsError};
use crate::domain::partners::{self, PartnersError};
use crate::http::errors::api_error::{ApiError, ErrorCode};

const NAME: &str = "has 1 to 128 visible characters";

impl From<PartnersError> for ApiError {
    fn from(error: PartnersError) -> Self {
        use PartnersError as E;
        match error {
            E::NameMalformed => Self::field("name", NAME),
            E::NameInUse => Self::new(ErrorCode::NameInUse, "name: another partner has this name"),
            E::NotFound => Self::new(ErrorCode::PartnerNotFound, "there is no such partner"),
            E::TokenNotFound => Self::new(
                ErrorCode::TokenNotFound,
                "the partner has no token with this id; list its tokens to find the id",
            ),
            E::TooManyTokens => Self::malformed(format!(
                "a partner has at most {} tokens; revoke one first",
                partners::TOKENS_MAX
            )),
            E::Store(error) => error.into(),
        }
    }
}

impl From<OperatorsError> for ApiError {
    fn from(error: OperatorsError) -> Self {
        use OperatorsError as E;
        match error {
            E::NameMalformed => Self::field("name", NAME),
            E::NameInUse => Self::new(ErrorCode::NameInUse, "name: another operator has this name"),
            E::NotFound => Self::new(ErrorCode::OperatorNotFound, "there is no such operator"),
            E::TokenNotFound => Self::new(
                ErrorCode::TokenNotFound,
                "the operator has no token with this id; list their tokens to find the id",
            ),
            E::TooManyTokens => Self::malformed(format!(
                "an operator has at most {} tokens; revoke one first",
                operators::TOKENS_MAX
            )),
            E::Store(error) => error.into(),
        }
    }
}
