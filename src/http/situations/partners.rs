//! The situations of partners and operators.

use crate::domain::operators::OperatorsError;
use crate::domain::partners::PartnersError;
use crate::http::error::{ApiError, ErrorCode};

impl From<PartnersError> for ApiError {
    fn from(error: PartnersError) -> Self {
        use PartnersError as E;
        match error {
            E::NameMalformed => Self::field("name", error.to_string()),
            E::NameInUse => Self::new(ErrorCode::NameInUse, "name: another partner has it"),
            E::NotFound => Self::new(ErrorCode::PartnerNotFound, "there is no such partner"),
            E::TokenNotFound => Self::new(
                ErrorCode::TokenNotFound,
                "the partner has no such token; the list of its tokens tells their ids",
            ),
            E::TooManyTokens => Self::malformed(error.to_string()),
            E::Store(error) => error.into(),
        }
    }
}

impl From<OperatorsError> for ApiError {
    fn from(error: OperatorsError) -> Self {
        use OperatorsError as E;
        match error {
            E::NameMalformed => Self::field("name", error.to_string()),
            E::NameInUse => Self::new(ErrorCode::NameInUse, "name: another operator has it"),
            E::NotFound => Self::new(ErrorCode::OperatorNotFound, "there is no such operator"),
            E::TokenNotFound => Self::new(
                ErrorCode::TokenNotFound,
                "the operator has no such token; the list of their tokens tells its ids",
            ),
            E::TooManyTokens => Self::malformed(error.to_string()),
            E::Store(error) => error.into(),
        }
    }
}
