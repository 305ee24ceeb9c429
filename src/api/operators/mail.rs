//! The mail queue.

use serde::Serialize;

use playgate_domain::mail::{MailKind, RenderedMail, Retried, Secrets, Summary, TestResult};
use playgate_http::offload::{bulk, cold};
use playgate_http::routing::resolve::known;
use playgate_http::{
    ApiError, CombineResults, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
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

const MAILS_LISTED_MAX: usize = 1_000;

pub(crate) async fn mails(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let queue = services.mail.clone();
    let mails = cold(services, move || queue.list(MAILS_LISTED_MAX)).await?;
    let lines: Vec<_> = mails.iter().map(MailEntry::from).collect();
    Reply::json(&lines)
}

pub(crate) async fn show(
    services: &Services,
    _cx: &Context,
    auth: OperatorAuth,
    request: MailRequest,
) -> Result<Reply, ApiError> {
    let queue = services.mail.clone();
    let secrets = if auth.role().sees_secrets() {
        Secrets::Shown
    } else {
        Secrets::Masked
    };
    let mail = cold(services, move || queue.show(&request.mail, secrets))
        .await?
        .ok_or_else(|| ApiError::new(ErrorCode::MailNotFound, "there is no such message"))?;
    Reply::json(&MailReply::from(mail))
}

pub(crate) fn preview(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PreviewMailRequest,
) -> Result<Reply, ApiError> {
    let (subject, text, html) = services.mail.preview(request.kind, request.locale.as_ref());
    Reply::json(&PreviewReply {
        subject,
        text,
        html,
    })
}

pub(crate) async fn retry(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RetryMailRequest,
) -> Result<Reply, ApiError> {
    let (queue, now) = (services.mail.clone(), cx.now);
    let retried = cold(services, move || queue.retry(request.mail.as_ref(), now)).await?;
    if request.mail.is_some() && retried.is_empty() {
        return Err(ApiError::new(
            ErrorCode::MailNotFound,
            "there is no such message",
        ));
    }
    Reply::json(&RetryReply::from(retried))
}

pub(crate) async fn test(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: TestMailRequest,
) -> Result<Reply, ApiError> {
    let (mail, now) = (services.mail.clone(), cx.now);
    // In the bulk pool: a mail server may be slow at each step of the dialogue.
    let tested = bulk(services, move || mail.test(request.to, now)).await?;
    Reply::json(&TestReply::from(tested))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueuedMailLine {
    pub id: String,
    pub to: String,
    pub subject: String,
    pub kind: &'static str,
    pub status: &'static str,
    pub created_at: i64,
}

impl From<&Summary> for QueuedMailLine {
    fn from(mail: &Summary) -> Self {
        Self {
            id: mail.id.to_string(),
            to: mail.to.to_string(),
            subject: mail.subject.clone(),
            kind: mail.kind.as_str(),
            status: mail.status.as_str(),
            created_at: mail.created.0,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailEntry {
    #[serde(flatten)]
    pub line: QueuedMailLine,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl From<&Summary> for MailEntry {
    fn from(mail: &Summary) -> Self {
        Self {
            line: mail.into(),
            attempts: Some(mail.attempts).filter(|attempts| *attempts > 0),
            next_attempt: mail.next.map(|next| next.0),
            server: mail.response.clone(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct MailReply {
    #[serde(flatten)]
    pub entry: MailEntry,
    pub text: String,
    pub html: String,
    pub masked: bool,
}

impl From<RenderedMail> for MailReply {
    fn from(mail: RenderedMail) -> Self {
        Self {
            entry: (&mail.summary).into(),
            text: mail.text,
            html: mail.html,
            masked: mail.secrets == Secrets::Masked,
        }
    }
}

#[derive(Serialize)]
pub(crate) struct PreviewReply {
    pub subject: String,
    pub text: String,
    pub html: String,
}

#[derive(Serialize)]
pub(crate) struct RetryReply {
    pub queued: Vec<String>,
    pub skipped: Vec<SkippedMail>,
}

#[derive(Serialize)]
pub(crate) struct SkippedMail {
    pub id: String,
    pub message: &'static str,
}

impl From<Retried> for RetryReply {
    fn from(retried: Retried) -> Self {
        let skipped = retried.left.into_iter().map(|(id, message)| SkippedMail {
            id: id.to_string(),
            message,
        });
        Self {
            queued: retried.queued.iter().map(ToString::to_string).collect(),
            skipped: skipped.collect(),
        }
    }
}

#[derive(Serialize)]
pub(crate) struct TestReply {
    pub id: String,
    pub status: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialogue: Vec<String>,
}

impl From<TestResult> for TestReply {
    fn from(tested: TestResult) -> Self {
        Self {
            id: tested.id.to_string(),
            status: tested.status.as_str(),
            dialogue: tested.dialogue,
        }
    }
}
