//! The way to a mail server: what it is given, and what it may answer.

use crate::types::{Email, MailId, UnixSeconds};

/// A mail as the server gets it.
pub struct OutgoingMail {
    /// Names the mail at every attempt, so that whoever gets it twice can tell.
    pub id: MailId,
    /// To whom.
    pub to: Email,
    /// When it was queued.
    pub date: UnixSeconds,
    /// The subject, one line.
    pub subject: String,
    /// The text part.
    pub text: String,
    /// The HTML part.
    pub html: String,
}

/// What was said between us and the server, a line each, without credentials.
pub type SmtpTranscript = Vec<String>;

/// The server cannot be used: nothing that is said of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUnavailable {
    /// Why, on one line.
    pub words: String,
    /// Whether it will not mend by itself: somebody has to change a setting.
    pub lasting: bool,
}

/// Why a mail was not taken. The texts are the server's words, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No mail would be.
    Trouble(ServerUnavailable),
    /// Not now.
    Later(String),
    /// Not ever.
    Refused(String),
}

/// A mail server.
pub trait Mailer: Send + Sync {
    /// Connects and logs in; blocking.
    ///
    /// # Errors
    /// [`ServerUnavailable`].
    fn connect(
        &self,
        dialogue: &mut SmtpTranscript,
    ) -> Result<Box<dyn MailLine>, ServerUnavailable>;
}

/// A connection to a mail server. After an error it is to be dropped.
pub trait MailLine {
    /// Hands a mail over; blocking. Returns the server's words: the mail is its duty then.
    ///
    /// # Errors
    /// [`SendError`]. A connection that broke is [`SendError::Later`]: whether the server has taken the
    /// mail is not known then, and it may get it twice.
    fn send(
        &mut self,
        parcel: &OutgoingMail,
        dialogue: &mut SmtpTranscript,
    ) -> Result<String, SendError>;

    /// Takes leave.
    fn close(self: Box<Self>);
}
