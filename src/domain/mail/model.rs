//! What a mail is about, and how it looks once rendered.

use serde::{Deserialize, Serialize};

use super::Secrets;
use crate::ports::mailer::SmtpTranscript;
use crate::types::time::{DAY, HOUR};
use crate::types::{Email, Locale, MailId, UnixSeconds, UserId};

/// What a mail is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// Carries the link with a reset token.
    Reset,
    /// Tells that the password has been changed.
    PasswordChanged,
    /// Carries a new PIN.
    Pin,
    /// An operator tries whether mail arrives.
    Test,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Reset, Self::PasswordChanged, Self::Pin, Self::Test];

    /// The name on the command line, on the wire and of the template's files.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::PasswordChanged => "password-changed",
            Self::Pin => "pin",
            Self::Test => "test",
        }
    }

    /// Reads a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    /// For how many seconds the secret of a mail is kept.
    ///
    /// Decision: a mail keeps its token or PIN apart from its words, sealed, and loses it once it is
    /// sent; in the sink after a day, a PIN after a week. The token itself is void sooner.
    pub(super) const fn secret_kept(self) -> i64 {
        match self {
            Self::Reset | Self::PasswordChanged | Self::Test => 24 * HOUR,
            Self::Pin => 7 * DAY,
        }
    }
}

/// Where a mail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Kept to be looked at: no mail server is configured.
    Sink,
    /// It waits for the mail server.
    Queued,
    /// The mail server has taken it.
    Sent,
    /// The mail server has refused it for good.
    Failed,
    /// Its time ran out before the server took it, or what it brings became void.
    Expired,
}

impl Status {
    /// The name on the wire.
    #[must_use]
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

/// A mail that is to be queued.
#[derive(Clone)]
pub struct Draft {
    /// What it is about.
    pub kind: Kind,
    /// The account's stored address: never one from a request.
    pub to: Email,
    /// Whose account it is about, if it is about one.
    pub user: Option<UserId>,
    /// The language that was asked for, or the user's.
    pub locale: Option<Locale>,
    /// The reset token or the PIN; empty for a notice.
    pub secret: String,
    /// Seconds that the secret is good for, which the mail tells.
    pub good_for: i64,
}

/// A line of the list of mails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: MailId,
    /// To whom.
    pub to: Email,
    /// The subject.
    pub subject: String,
    /// What it is about.
    pub kind: Kind,
    /// Where it is.
    pub status: Status,
    /// When it was queued.
    pub created: UnixSeconds,
    /// How often it was tried to be sent.
    pub attempts: u32,
    /// When it is tried next, if it waits.
    pub next: Option<UnixSeconds>,
    /// What came of the last attempt, in the server's words.
    pub words: Option<String>,
}

/// A mail, rendered. It may carry its secret, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct RenderedMail {
    /// The line of the list.
    pub summary: Summary,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
    /// Whether its token or PIN stands in it.
    pub secrets: Secrets,
}

/// What came of a test message.
pub struct Tested {
    /// Its id.
    pub id: MailId,
    /// Where it is.
    pub status: Status,
    /// What was said between us and the server.
    pub dialogue: SmtpTranscript,
}

/// Figures of the queue, since the start where they are counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Mails that wait for the server.
    pub queued: usize,
    /// When the oldest of them was queued.
    pub oldest: Option<UnixSeconds>,
    /// Mails that the server took.
    pub sent: u64,
    /// Attempts that are repeated.
    pub retried: u64,
    /// Mails that the server refused.
    pub failed: u64,
    /// Mails whose time ran out.
    pub expired: u64,
}
