//! Maps errors of partners and operators to API errors.

use crate::errors::api_error::{ApiError, ErrorCode};
use playgate_domain::identities::{IdentityError, IdentityKind};

impl From<IdentityError> for ApiError {
    fn from(error: IdentityError) -> Self {
        use IdentityError as E;
        match error {
            E::NameMalformed => Self::field("name", "must have 1 to 128 visible characters"),
            E::LabelMalformed => Self::field("label", "has at most 64 visible characters"),
            E::NameInUse(kind) => {
                let message = format!("name: another {kind} has this name");
                Self::new(ErrorCode::NameInUse, message)
            }
            E::NotFound(kind) => {
                let code = match kind {
                    IdentityKind::Partner => ErrorCode::PartnerNotFound,
                    IdentityKind::Operator => ErrorCode::OperatorNotFound,
                };
                Self::new(code, format!("there is no such {kind}"))
            }
            E::TokenNotFound(kind) => Self::new(
                ErrorCode::TokenNotFound,
                format!("the {kind} has no token with this id; list the tokens to find the id"),
            ),
            E::TooManyTokens(kind) => Self::malformed(format!(
                "no {kind} may have more than {} tokens; revoke one first",
                kind.tokens_max()
            )),
            E::Store(error) => error.into(),
        }
    }
}
