//! The mail queue.

use serde::Serialize;

use playgate_domain::mail::{RenderedMail, Retried, Secrets, Summary, TestResult};

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
