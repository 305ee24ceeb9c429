//! The queue of mails.

use serde::Serialize;

use crate::domain::mail::{RenderedMail, Secrets, Summary, Tested};

/// A line of the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MailLine {
    /// The id.
    pub id: String,
    /// To whom.
    pub to: String,
    /// The subject.
    pub subject: String,
    /// What it is about.
    pub kind: &'static str,
    /// Where it is.
    pub status: &'static str,
    /// When it was queued.
    pub created_at: i64,
}

impl From<&Summary> for MailLine {
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

/// A line of the operators' list: with how far it is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MailEntry {
    /// What everybody may know.
    #[serde(flatten)]
    pub line: MailLine,
    /// How often it was tried to be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// When it is tried next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<i64>,
    /// What the mail server said, or why it could not be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

impl From<&Summary> for MailEntry {
    fn from(mail: &Summary) -> Self {
        Self {
            line: mail.into(),
            attempts: Some(mail.attempts).filter(|attempts| *attempts > 0),
            next_attempt: mail.next.map(|next| next.0),
            server: mail.words.clone(),
        }
    }
}

/// A mail with its words.
#[derive(Serialize)]
pub struct MailReply {
    /// The line of the list.
    #[serde(flatten)]
    pub entry: MailEntry,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
    /// Whether asterisks stand for its token or PIN.
    pub masked: bool,
}

impl From<RenderedMail> for MailReply {
    fn from(letter: RenderedMail) -> Self {
        Self {
            entry: (&letter.summary).into(),
            text: letter.text,
            html: letter.html,
            masked: letter.secrets == Secrets::Masked,
        }
    }
}

/// The words of a mail that is not sent.
#[derive(Serialize)]
pub struct PreviewReply {
    /// The subject.
    pub subject: String,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
}

/// The answer to a test message.
#[derive(Serialize)]
pub struct TestReply {
    /// The id.
    pub id: String,
    /// Where it is.
    pub status: &'static str,
    /// What was said between us and the mail server, a line each; absent without one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialogue: Vec<String>,
}

impl From<Tested> for TestReply {
    fn from(tested: Tested) -> Self {
        Self {
            id: tested.id.to_string(),
            status: tested.status.as_str(),
            dialogue: tested.dialogue,
        }
    }
}
