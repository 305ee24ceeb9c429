//! Requests of the page that a reset mail links to.

use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::request::payload::Payload;
use playgate_http::request::query::Query;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_types::{TokenHash, TokenKind};

pub(crate) struct LinkToken {
    pub text: String,
    pub hash: TokenHash,
}

/// `GET /reset`. The request checks the token without using it up, because mail scanners open links
/// before users do.
pub(crate) struct ResetPageRequest {
    pub token: LinkToken,
}

/// `POST /reset`. The handler validates the passwords, so that a mistake shows the form again.
pub(crate) struct ResetFormRequest {
    pub token: LinkToken,
    pub password: String,
    pub again: String,
    /// Shown again after a mistake, and not used otherwise: the token decides on the account.
    pub username: String,
}

fn token(query: &Query<'_>) -> Result<LinkToken, ApiError> {
    let text = query.one("token")?.unwrap_or_default();
    // Mail programs break long links, and people paste them with what surrounds them.
    match TokenHash::find_pasted(TokenKind::Reset, &text) {
        Some((text, hash)) => Ok(LinkToken { text, hash }),
        None => Err(ApiError::new(
            ErrorCode::ResetTokenInvalid,
            "the reset token is missing in the address",
        )),
    }
}

impl ParseRequest for ResetPageRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: token(&input.query)?,
        })
    }
}

impl ParseRequest for ResetFormRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.whole()?;
        let text = std::str::from_utf8(&body)
            .map_err(|_| ApiError::malformed("the body is not a form"))?;
        let form = Query::new(text);
        let field = |name| Ok::<_, ApiError>(form.one(name)?.unwrap_or_default().into_owned());
        Ok(Self {
            token: token(&form)?,
            password: field("password")?,
            again: field("again")?,
            username: field("username")?,
        })
    }
}
