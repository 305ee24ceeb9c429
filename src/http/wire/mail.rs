//! The queue of mails.

use serde::Serialize;

use crate::domain::mail::{Letter, Summary};

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

/// A mail with its words.
#[derive(Serialize)]
pub struct MailReply {
    /// The line of the list.
    #[serde(flatten)]
    pub line: MailLine,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
}

impl From<Letter> for MailReply {
    fn from(letter: Letter) -> Self {
        Self {
            line: (&letter.summary).into(),
            text: letter.text,
            html: letter.html,
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
}
