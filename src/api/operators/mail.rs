//! The mail queue.

use serde::Serialize;

use playgate_domain::mail::{MailKind, RenderedMail, Retried, Secrets, Summary, TestResult};
use playgate_http::offload::{bulk, cold};
use playgate_http::routing::resolve::known;
use playgate_http::{
    ApiError, CombineResults, Context, ErrorCode, Input, OperatorAuth, ParseRequest, Payload, Reply,
};
use playgate_services::Services;
use playgate_types::{Described, Email, JsonType, Locale, MailId, UnixSeconds};

crate::openapi::words::words! { MailEntry, MailBody, MailPreview, RetriedMail, TestedMail => r##"
[requests.TestMail]
to = "Email: Recipient address."

[requests.MailRetry]
id = "Id?: Id of the mail. Without it: every mail of the last seven days that has failed or expired."

[operations.admin_mails]
summary = "List mails"
text = "Newest first, at most 1000. Mails of the same second are in queue order."
returns."200" = "[MailEntry]: The mails."

[operations.admin_show_mail]
summary = "Show a mail"
text = "The token or PIN is masked with asterisks. The role `admin` and the local administration socket see it unmasked. Each unmasked reading is written to the audit record first, and is refused if that write fails."
returns."200" = "Mail: The mail with its body. Tokens and PINs are erased once the mail is sent."
errors = ["MAIL_NOT_FOUND"]

[operations.admin_preview_mail]
summary = "Preview a mail template"
text = "Renders the template with sample values."
query.locale = "Locale?: Language of the mail."
returns."200" = "MailPreview: The rendered mail."
errors = ["MAIL_NOT_FOUND"]

[operations.admin_retry_mail]
summary = "Send mail again"
text = "Queues mail that has failed or expired, for example after a fault of the mail server was mended. A queued mail is tried at once. A reset mail can be sent while its link is valid."
send = "MailRetry?: The mail."
returns."200" = "RetriedMail: What is queued, and what cannot be sent."
errors = ["MAIL_NOT_FOUND"]

[operations.admin_test_mail]
summary = "Send a test mail"
text = "Sends at once, without the queue, and returns the response of the mail server."
send = "TestMail: Recipient."
returns."200" = "TestedMail: Result of the delivery."
"## }

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
    Reply::json(&MailBody::from(mail))
}

pub(crate) fn preview(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PreviewMailRequest,
) -> Result<Reply, ApiError> {
    let (subject, text, html) = services.mail.preview(request.kind, request.locale.as_ref());
    Reply::json(&MailPreview {
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
    Reply::json(&RetriedMail::from(retried))
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
    Reply::json(&TestedMail::from(tested))
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailLine {
    /// Id of the mail.
    pub id: MailId,
    /// E-mail address of the recipient.
    pub to: String,
    /// Subject of the mail.
    pub subject: String,
    /// What the mail is about.
    #[described(JsonType::OneOf(&["reset", "password-changed", "email-changed", "pin", "test"]))]
    pub kind: &'static str,
    /// Delivery state. `sink`: stored only, because no mail server is configured.
    #[described(JsonType::OneOf(&["sink", "queued", "sent", "failed", "expired"]))]
    pub status: &'static str,
    /// Time at which the mail was queued.
    pub created_at: UnixSeconds,
}

impl From<&Summary> for MailLine {
    fn from(mail: &Summary) -> Self {
        Self {
            id: mail.id,
            to: mail.to.to_string(),
            subject: mail.subject.clone(),
            kind: mail.kind.as_str(),
            status: mail.status.as_str(),
            created_at: mail.created,
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailEntry {
    #[serde(flatten)]
    pub line: MailLine,
    /// Number of delivery attempts. Absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Time of the next delivery attempt. Absent if none is planned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<UnixSeconds>,
    /// Last response of the mail server, or the reason why it could not be reached. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl From<&Summary> for MailEntry {
    fn from(mail: &Summary) -> Self {
        Self {
            line: mail.into(),
            attempts: Some(mail.attempts).filter(|attempts| *attempts > 0),
            next_attempt: mail.next,
            server: mail.response.clone(),
        }
    }
}

#[derive(Described, Serialize)]
pub(crate) struct MailBody {
    #[serde(flatten)]
    pub entry: MailEntry,
    /// Text of the mail as plain text.
    pub text: String,
    /// Text of the mail as HTML.
    pub html: String,
    /// Whether the token or PIN is replaced by asterisks.
    pub masked: bool,
}

impl From<RenderedMail> for MailBody {
    fn from(mail: RenderedMail) -> Self {
        Self {
            entry: (&mail.summary).into(),
            text: mail.text,
            html: mail.html,
            masked: mail.secrets == Secrets::Masked,
        }
    }
}

#[derive(Described, Serialize)]
pub(crate) struct MailPreview {
    /// Subject of the mail.
    pub subject: String,
    /// Text of the mail as plain text.
    pub text: String,
    /// Text of the mail as HTML.
    pub html: String,
}

#[derive(Described, Serialize)]
pub(crate) struct RetriedMail {
    /// Ids of the mails that are queued again.
    #[described(JsonType::List(&JsonType::Named("Id")))]
    pub queued: Vec<String>,
    /// Mails that cannot be sent, and why.
    pub skipped: Vec<SkippedMail>,
}

#[derive(Described, Serialize)]
pub(crate) struct SkippedMail {
    /// Id of the mail.
    pub id: MailId,
    /// Why it cannot be sent again: it was sent, its link or PIN is no longer valid, or no mail server is set.
    pub message: &'static str,
}

impl From<Retried> for RetriedMail {
    fn from(retried: Retried) -> Self {
        let skipped = retried
            .left
            .into_iter()
            .map(|(id, message)| SkippedMail { id, message });
        Self {
            queued: retried.queued.iter().map(ToString::to_string).collect(),
            skipped: skipped.collect(),
        }
    }
}

#[derive(Described, Serialize)]
pub(crate) struct TestedMail {
    /// Id of the mail.
    pub id: MailId,
    /// Delivery state.
    #[described(JsonType::OneOf(&["sink", "queued", "sent", "failed", "expired"]))]
    pub status: &'static str,
    /// SMTP transcript, one line per entry. Absent if no mail server is configured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialogue: Vec<String>,
}

impl From<TestResult> for TestedMail {
    fn from(tested: TestResult) -> Self {
        Self {
            id: tested.id,
            status: tested.status.as_str(),
            dialogue: tested.dialogue,
        }
    }
}
