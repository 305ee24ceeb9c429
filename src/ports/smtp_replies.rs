//! Replies of a mail server: what they mean, and how they are shown.

use data_encoding::BASE64;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::response::Response;

use super::super::mailer::{SendError, ServerUnavailable};
use super::super::oauth_token::TokenError;
use super::login::Login;

/// Maximum length of a server reply that is kept, in characters.
pub(super) const REPLY_MAX: usize = 300;
pub(super) const TIMED_OUT: &str = "the mail server did not answer in time";

pub(super) enum SmtpFailure {
    Smtp(Error),
    Late,
    /// Settings and server do not fit.
    Ours(String),
    Token(TokenError),
    /// A refused login with the reason that the server gave before.
    Login {
        code: u16,
        text: String,
    },
}

impl SmtpFailure {
    pub(super) fn is_answer(&self) -> bool {
        self.code().is_some()
    }

    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Smtp(error) => error.status()?.to_string().parse().ok(),
            Self::Login { code, .. } => Some(*code),
            Self::Late | Self::Ours(_) | Self::Token(_) => None,
        }
    }

    pub(super) fn is_permanent(&self) -> bool {
        self.code().is_some_and(|code| code >= 500)
    }

    /// Whether a retry is useless until an operator changes a setting.
    pub(super) fn is_lasting(&self) -> bool {
        match self {
            // `is_client`: this client cannot continue with the server's capabilities.
            Self::Smtp(error) => self.is_permanent() || error.is_client(),
            Self::Login { .. } => self.is_permanent(),
            Self::Ours(_) => true,
            Self::Token(error) => error.lasting,
            Self::Late => false,
        }
    }

    /// Whether an answer to a command about one mail is about the session, so that every mail would get it: syntax and
    /// sequence of commands, the greeting (504), a missing login, a server that closes.
    pub(super) fn is_about_session(&self) -> bool {
        self.code()
            .is_some_and(|code| matches!(code, 421 | 500..=504 | 521 | 530 | 534 | 535 | 538))
    }
}

/// Masks the credentials in server replies, in each encoding in which they are sent.
#[derive(Clone)]
pub(super) struct Mask(Vec<String>);

impl Mask {
    pub(super) fn new(login: Option<&Login>) -> Self {
        Self(match login {
            None => Vec::new(),
            Some(Login::Password { user, password }) => vec![
                // AUTH PLAIN, then AUTH LOGIN, then the text itself.
                BASE64.encode(format!("\0{user}\0{password}").as_bytes()),
                BASE64.encode(password.as_bytes()),
                password.clone(),
            ],
            Some(Login::OAuth { source, .. }) => source.secrets(),
        })
    }

    /// Returns the text on one line, truncated, with credentials masked.
    pub(super) fn line(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // Masked before the text is cut: the half of a password would not be recognised.
        for secret in &self.0 {
            text = text.replace(secret, "********");
        }
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars()
            .filter(|c| !c.is_control())
            .take(REPLY_MAX)
            .collect()
    }

    pub(super) fn reply(&self, answer: &Response) -> String {
        let lines: Vec<&str> = answer.message().collect();
        self.line(&format!("{} {}", answer.code(), lines.join(" ")))
    }

    pub(super) fn failure(&self, failure: &SmtpFailure) -> String {
        let error = match failure {
            SmtpFailure::Smtp(error) => error,
            SmtpFailure::Late => return TIMED_OUT.to_owned(),
            SmtpFailure::Token(error) => return self.line(&error.text),
            SmtpFailure::Ours(text) | SmtpFailure::Login { text, .. } => return self.line(text),
        };
        let cause = std::error::Error::source(error);
        self.line(&match (error.status(), cause) {
            (Some(code), Some(reply)) => format!("{code} {reply}"),
            _ if error.is_timeout() => TIMED_OUT.to_owned(),
            _ => error.to_string(),
        })
    }

    pub(super) fn unavailable(&self, failure: &SmtpFailure) -> ServerUnavailable {
        ServerUnavailable {
            response: self.failure(failure),
            lasting: failure.is_lasting(),
        }
    }

    pub(super) fn classify(&self, failure: &SmtpFailure) -> SendError {
        if failure.is_about_session() {
            return SendError::Unavailable(self.unavailable(failure));
        }
        let reply = self.failure(failure);
        if failure.is_permanent() {
            SendError::Refused(reply)
        } else {
            SendError::Later(reply)
        }
    }
}
