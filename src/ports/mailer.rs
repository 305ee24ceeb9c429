//! The interface to a mail server.

use std::sync::Arc;

use playgate_types::{Email, MailId, UnixSeconds};

pub struct OutgoingMail {
    /// The message id. It is the same for every attempt, so that recipients can detect duplicates.
    pub id: MailId,
    pub to: Email,
    pub date: UnixSeconds,
    pub subject: String,
    pub text: String,
    pub html: String,
    /// An image that the HTML names `cid:logo`.
    pub logo: Option<InlineImage>,
}

#[derive(Clone, Debug)]
pub struct InlineImage {
    pub media: &'static str,
    pub bytes: Arc<[u8]>,
}

/// The lines of the dialogue with the server, without credentials.
pub type SmtpTranscript = Vec<String>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUnavailable {
    pub response: String,
    /// Whether retrying is useless until an operator changes a setting.
    pub lasting: bool,
}

/// Why a mail was not accepted. The texts are the server's replies, on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendError {
    Unavailable(ServerUnavailable),
    Later(String),
    /// By the server, about this mail as far as it says.
    Refused(String),
    /// The mail cannot be sent to any server; the server was not asked.
    Invalid(String),
}

pub trait Mailer: Send + Sync {
    fn connect(
        &self,
        dialogue: &mut SmtpTranscript,
    ) -> Result<Box<dyn MailConnection>, ServerUnavailable>;
}

/// A connection to a mail server. It must be dropped after an error.
pub trait MailConnection {
    /// Sends a mail; blocks. Returns the server's reply, with which the server takes responsibility for the
    /// mail. A broken connection is [`SendError::Later`]: the server may have accepted the mail, and may get
    /// it twice.
    fn send(
        &mut self,
        mail: &OutgoingMail,
        dialogue: &mut SmtpTranscript,
    ) -> Result<String, SendError>;

    fn close(self: Box<Self>);
}
