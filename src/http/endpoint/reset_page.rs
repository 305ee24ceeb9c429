//! Requests of the page that a reset mail leads to.

use super::{Input, Payload};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::query::Query;
use crate::types::{TokenHash, TokenKind};

/// A reset token as a link or a form brings it.
pub struct LinkToken {
    /// The token, to be put into the form again.
    pub text: String,
    /// What it is stored under.
    pub hash: TokenHash,
}

/// GET on the page. The token is looked at and not used up: programs open links before people do.
pub struct ResetPageRequest {
    /// The token of the link.
    pub token: LinkToken,
}

/// POST of the page's form. The passwords are the handler's to judge: who typed them is to see the
/// form again.
pub struct ResetFormRequest {
    /// The token of the link.
    pub token: LinkToken,
    /// The new password.
    pub password: String,
    /// The same again.
    pub again: String,
}

fn token(query: &Query<'_>) -> Result<LinkToken, ApiError> {
    let text = query.one("token")?.unwrap_or_default().into_owned();
    match TokenHash::hash_presented(TokenKind::Reset, &text) {
        Some(hash) => Ok(LinkToken { text, hash }),
        None => Err(ApiError::new(
            ErrorCode::ResetTokenInvalid,
            "the address has no reset token",
        )),
    }
}

impl ResetPageRequest {
    pub(super) fn parse(input: &Input<'_>) -> Result<Self, ApiError> {
        Ok(Self {
            token: token(&input.query)?,
        })
    }
}

impl ResetFormRequest {
    pub(super) fn parse(payload: Payload) -> Result<Self, ApiError> {
        let body = payload.whole()?;
        let text =
            std::str::from_utf8(&body).map_err(|_| ApiError::malformed("the body is no form"))?;
        let form = Query::new(text);
        let field = |name| Ok::<_, ApiError>(form.one(name)?.unwrap_or_default().into_owned());
        Ok(Self {
            token: token(&form)?,
            password: field("password")?,
            again: field("again")?,
        })
    }
}
