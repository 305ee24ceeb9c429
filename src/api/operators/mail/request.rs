//! Requests about mail.

use playgate_domain::mail::MailKind;
use playgate_http::errors::api_error::{ApiError, CombineResults, ErrorCode};
use playgate_http::request::payload::Payload;
use playgate_http::routing::endpoint::{Input, ParseRequest};
use playgate_http::routing::resolve::known;
use playgate_types::{Email, Locale, MailId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MailRequest {
    pub mail: MailId,
}

impl ParseRequest for MailRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            mail: known(MailId::parse(&input.text("mail")?), ErrorCode::MailNotFound)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PreviewMailRequest {
    pub kind: MailKind,
    pub locale: Option<Locale>,
}

impl ParseRequest for PreviewMailRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let kind = input.text("kind").and_then(|text| {
            let unknown =
                || ApiError::new(ErrorCode::MailNotFound, "there is no such kind of mail");
            MailKind::parse(&text).ok_or_else(unknown)
        });
        let (kind, locale) = (kind, input.query.parsed("locale", Locale::parse)).combine()?;
        Ok(Self { kind, locale })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RetryMailRequest {
    /// Without it: all mails that were given up lately.
    pub mail: Option<MailId>,
}

impl ParseRequest for RetryMailRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.object()?;
        let id = body.text("id")?.map(str::to_owned);
        // A misspelt member would send every mail instead of one.
        body.only(&["id"])?;
        let mail = id.map(|id| known(MailId::parse(&id), ErrorCode::MailNotFound));
        Ok(Self {
            mail: mail.transpose()?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestMailRequest {
    pub to: Email,
}

impl ParseRequest for TestMailRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            to: payload.object()?.required("to", Email::parse)?,
        })
    }
}
