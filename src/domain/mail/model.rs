//! Types of the mail queue: kinds, states, drafts and rendered mails.

use serde::{Deserialize, Serialize};

use super::Secrets;
use playgate_ports::mailer::SmtpTranscript;
use playgate_types::time::{DAY, HOUR};
use playgate_types::{Email, Locale, MailId, UnixSeconds, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MailKind {
    Reset,
    PasswordChanged,
    Pin,
    Test,
    /// To the old and the new address.
    EmailChanged,
}

impl MailKind {
    pub const ALL: [Self; 5] = [
        Self::Reset,
        Self::PasswordChanged,
        Self::EmailChanged,
        Self::Pin,
        Self::Test,
    ];

    /// The name on the command line, in the API and in the names of template files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::PasswordChanged => "password-changed",
            Self::EmailChanged => "email-changed",
            Self::Pin => "pin",
            Self::Test => "test",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// Whether a mail is useless without its token or PIN.
    pub(super) const fn has_secret(self) -> bool {
        matches!(self, Self::Reset | Self::Pin)
    }

    /// Seconds after which the sweep removes the secret of a mail.
    ///
    /// Tokens and PINs are stored sealed and separate from the text. They are also removed once the mail is
    /// sent; tokens expire earlier.
    pub(super) const fn secret_retention(self) -> i64 {
        match self {
            Self::Reset | Self::PasswordChanged | Self::EmailChanged | Self::Test => 24 * HOUR,
            Self::Pin => 7 * DAY,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MailStatus {
    /// Stored only: no mail server is configured.
    Sink,
    Queued,
    Sent,
    /// Rejected permanently by the mail server. It keeps its token or PIN while that is valid, so that an operator can send it
    /// again.
    Failed,
    /// No server accepted it in time, or its token or PIN became invalid.
    Expired,
}

impl MailStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sink => "sink",
            Self::Queued => "queued",
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Expired => "expired",
        }
    }
}

#[derive(Clone)]
pub struct MailDraft {
    pub kind: MailKind,
    /// The account's stored address, never one from a request.
    pub to: Email,
    pub user: Option<UserId>,
    pub locale: Option<Locale>,
    /// The reset token or the PIN; empty for a notice.
    pub secret: String,
    /// Validity of the secret in seconds, as stated in the mail.
    pub good_for: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub id: MailId,
    pub to: Email,
    pub subject: String,
    pub kind: MailKind,
    pub status: MailStatus,
    pub created: UnixSeconds,
    pub attempts: u32,
    pub next: Option<UnixSeconds>,
    pub response: Option<String>,
}

/// A rendered mail. No `Debug`: it may contain its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct RenderedMail {
    pub summary: Summary,
    pub text: String,
    pub html: String,
    pub secrets: Secrets,
}

pub struct TestResult {
    pub id: MailId,
    pub status: MailStatus,
    pub dialogue: SmtpTranscript,
}

/// What was done with mails that were to be sent again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retried {
    pub queued: Vec<MailId>,
    /// Those that cannot be sent, and why.
    pub left: Vec<(MailId, &'static str)>,
}

impl Retried {
    pub const fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.left.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MailCounts {
    pub queued: usize,
    pub oldest: Option<UnixSeconds>,
    pub sent: u64,
    pub retried: u64,
    pub failed: u64,
    pub expired: u64,
}
