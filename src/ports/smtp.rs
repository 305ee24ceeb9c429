//! A mail server over SMTP: submission with STARTTLS, TLS or neither, and a login.
//!
//! What a server answers is shown to operators and logged. It may repeat what it was given, so the
//! credentials are taken out of it.

use std::io;
use std::time::{Duration, UNIX_EPOCH};

use data_encoding::BASE64;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    Certificate, CertificateStore, SmtpConnection, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension};
use lettre::transport::smtp::response::Response;
use lettre::{Address, Message};

use super::mailer::{Dialogue, MailLine, Mailer, Parcel, Trouble, Unsent};
use crate::types::Email;

/// The most characters of a server's answer that are kept.
const WORDS_MAX: usize = 300;
/// How long a server may take over our leave.
const LEAVE: Duration = Duration::from_secs(2);
/// The last second that the form of a date has room for: the end of the year 9999.
const DATE_MAX: i64 = 253_402_300_799;

/// How a certificate as PEM begins.
const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// How the connection is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    Plain,
    /// It starts plain and must turn to TLS before anything is said.
    StartTls,
    /// TLS from the first byte.
    Tls,
}

/// How a mail server is reached. It holds a password, so it has no `Debug`.
#[derive(Clone)]
pub struct SmtpSettings {
    /// Its name, which its certificate must have.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How the connection is protected.
    pub security: Security,
    /// Whom alone to trust, as PEM; without it whom this machine trusts.
    pub ca: Option<Vec<u8>>,
    /// User and password.
    pub login: Option<(String, String)>,
    /// The name beside the sender's address.
    pub from_name: Option<String>,
    /// The sender.
    pub from: Email,
    /// How long the server may take over each answer.
    pub timeout: Duration,
}

/// A setting that cannot be used: what is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSmtp(String);

/// A mail server over SMTP.
#[derive(Clone)]
pub struct SmtpMailer {
    host: String,
    port: u16,
    security: Security,
    tls: Option<TlsParameters>,
    login: Option<Credentials>,
    from: Mailbox,
    timeout: Duration,
    mask: Mask,
}

impl SmtpMailer {
    /// Prepares the way to the server; connects nowhere.
    ///
    /// # Errors
    /// [`BadSmtp`] says which setting is wrong.
    pub fn new(settings: SmtpSettings) -> Result<Self, BadSmtp> {
        let tls = match settings.security {
            Security::Plain => None,
            Security::StartTls | Security::Tls => {
                Some(tls_parameters(&settings.host, settings.ca.as_deref())?)
            }
        };
        let from = address(&settings.from).map_err(BadSmtp)?;
        let login = settings.login.as_ref();
        Ok(Self {
            tls,
            from: Mailbox::new(settings.from_name, from),
            mask: Mask::new(login),
            login: login.map(|(user, password)| Credentials::new(user.clone(), password.clone())),
            host: settings.host,
            port: settings.port,
            security: settings.security,
            timeout: settings.timeout,
        })
    }

    fn open(&self, dialogue: &mut Dialogue) -> Result<SmtpConnection, Error> {
        let name = ClientId::default();
        let wrapped = self.tls.as_ref().filter(|_| self.security == Security::Tls);
        dialogue.push(format!("connecting to {}:{}", self.host, self.port));
        let address = (self.host.as_str(), self.port);
        let timeout = Some(self.timeout);
        let mut connection = SmtpConnection::connect(address, timeout, &name, wrapped, None)?;
        let heard = |connection: &SmtpConnection, dialogue: &mut Dialogue| {
            let server = self.mask.words(&features(connection));
            dialogue.push(format!("C: EHLO {name}"));
            dialogue.push(format!("S: {server}"));
        };
        heard(&connection, dialogue);
        if let (Security::StartTls, Some(tls)) = (self.security, &self.tls) {
            dialogue.push("C: STARTTLS".to_owned());
            connection.starttls(tls, &name)?;
            dialogue.push("S: (the connection is encrypted)".to_owned());
            heard(&connection, dialogue);
        }
        if let Some(login) = &self.login {
            dialogue.push("C: AUTH ********".to_owned());
            let answer = connection.auth(&[Mechanism::Plain, Mechanism::Login], login)?;
            dialogue.push(format!("S: {}", self.mask.answer(&answer)));
        }
        Ok(connection)
    }

    fn compose(&self, parcel: &Parcel) -> Result<(Address, Vec<u8>), String> {
        let to = address(&parcel.to)?;
        let seconds = u64::try_from(parcel.date.0.clamp(0, DATE_MAX)).unwrap_or(0);
        let id = format!("<{}@{}>", parcel.id, self.from.email.domain());
        // Decision: no answering machine should answer it (RFC 3834).
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to.clone()))
            .subject(parcel.subject.as_str())
            .date(UNIX_EPOCH + Duration::from_secs(seconds))
            .message_id(Some(id))
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .multipart(MultiPart::alternative_plain_html(
                parcel.text.clone(),
                parcel.html.clone(),
            ));
        let message = message.map_err(|error| format!("the message cannot be made: {error}"))?;
        Ok((to, message.formatted()))
    }
}

impl Mailer for SmtpMailer {
    fn connect(&self, dialogue: &mut Dialogue) -> Result<Box<dyn MailLine>, Trouble> {
        match self.open(dialogue) {
            Ok(connection) => Ok(Box::new(SmtpLine {
                mailer: self.clone(),
                connection,
            })),
            Err(error) => {
                let trouble = self.mask.trouble(&error);
                let answered = error.status().is_some();
                let speaker = if answered { "S: " } else { "" };
                dialogue.push(format!("{speaker}{}", trouble.words));
                Err(trouble)
            }
        }
    }
}

struct SmtpLine {
    mailer: SmtpMailer,
    connection: SmtpConnection,
}

impl MailLine for SmtpLine {
    fn send(&mut self, parcel: &Parcel, dialogue: &mut Dialogue) -> Result<String, Unsent> {
        let (to, message) = self.mailer.compose(parcel).map_err(Unsent::Refused)?;
        let from = self.mailer.from.email.clone();
        let mask = self.mailer.mask.clone();
        // The sender is the same for every mail: who objects to it objects to us.
        let of_sender = |error: &Error| Unsent::Trouble(mask.trouble(error));
        let of_mail = |error: &Error| mask.judge(error);
        let command = Mail::new(Some(from), Vec::new());
        self.say(&command.to_string(), dialogue, &of_sender)?;
        let command = Rcpt::new(to, Vec::new());
        self.say(&command.to_string(), dialogue, &of_mail)?;
        self.say(&Data.to_string(), dialogue, &of_mail)?;
        dialogue.push(format!("C: ({} bytes)", message.len()));
        let answer = self.connection.message(&message);
        self.heard(answer, dialogue, &of_mail)
    }

    fn close(mut self: Box<Self>) {
        // The mail is handed over: whatever the server makes of our leave.
        let _ = self.connection.set_timeout(Some(LEAVE));
        let _ = self.connection.quit();
    }
}

impl SmtpLine {
    fn say(
        &mut self,
        command: &str,
        dialogue: &mut Dialogue,
        judge: &dyn Fn(&Error) -> Unsent,
    ) -> Result<String, Unsent> {
        dialogue.push(format!("C: {}", command.trim_end()));
        let answer = self.connection.command(command);
        self.heard(answer, dialogue, judge)
    }

    fn heard(
        &self,
        answer: Result<Response, Error>,
        dialogue: &mut Dialogue,
        judge: &dyn Fn(&Error) -> Unsent,
    ) -> Result<String, Unsent> {
        let mask = &self.mailer.mask;
        let words = answer
            .as_ref()
            .map_or_else(|e| mask.error(e), |a| mask.answer(a));
        dialogue.push(format!("S: {words}"));
        answer.map(|_| words).map_err(|error| judge(&error))
    }
}

/// What must not be seen of what a server says: the credentials, in each form that they are sent in.
#[derive(Clone)]
struct Mask(Vec<String>);

impl Mask {
    fn new(login: Option<&(String, String)>) -> Self {
        Self(login.map_or_else(Vec::new, |(user, password)| {
            vec![
                BASE64.encode(format!("\0{user}\0{password}").as_bytes()),
                BASE64.encode(password.as_bytes()),
                password.clone(),
            ]
        }))
    }

    /// A text on one line, bounded, without the credentials.
    fn words(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            text = text.replace(secret, "********");
        }
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars()
            .filter(|c| !c.is_control())
            .take(WORDS_MAX)
            .collect()
    }

    fn answer(&self, answer: &Response) -> String {
        let lines: Vec<&str> = answer.message().collect();
        self.words(&format!("{} {}", answer.code(), lines.join(" ")))
    }

    fn error(&self, error: &Error) -> String {
        let cause = std::error::Error::source(error);
        self.words(&match (error.status(), cause) {
            (Some(code), Some(words)) => format!("{code} {words}"),
            _ if timed_out(error) => "no answer in time".to_owned(),
            _ => error.to_string(),
        })
    }

    fn trouble(&self, error: &Error) -> Trouble {
        Trouble {
            words: self.error(error),
            lasting: error.is_permanent() || error.is_client(),
        }
    }

    fn judge(&self, error: &Error) -> Unsent {
        let words = self.error(error);
        if error.is_permanent() {
            Unsent::Refused(words)
        } else {
            Unsent::Later(words)
        }
    }
}

/// What a server calls itself, and what of the things that matter here it can do.
fn features(connection: &SmtpConnection) -> String {
    let server = connection.server_info();
    let known = [
        Extension::StartTls,
        Extension::Authentication(Mechanism::Plain),
        Extension::Authentication(Mechanism::Login),
        Extension::EightBitMime,
    ];
    known
        .into_iter()
        .filter(|feature| server.supports_feature(*feature))
        .fold(server.name().to_owned(), |text, feature| {
            format!("{text}, {feature}")
        })
}

/// Whether the server took too long: a socket says so in either of two ways.
fn timed_out(error: &Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(one) = cause {
        if let Some(io) = one.downcast_ref::<io::Error>() {
            return matches!(
                io.kind(),
                io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
            );
        }
        cause = one.source();
    }
    false
}

/// An address as SMTP has it; ours are narrower, but what it does not know it must not be given.
fn address(email: &Email) -> Result<Address, String> {
    let (user, domain) = email.as_str().rsplit_once('@').unwrap_or_default();
    Address::new(user, domain).map_err(|error| format!("the address cannot be used: {error}"))
}

fn tls_parameters(host: &str, ca: Option<&[u8]>) -> Result<TlsParameters, BadSmtp> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = ca {
        let bad = |error: Error| BadSmtp(format!("`smtp.ca`: {error}"));
        // Without one nobody would be trusted, and every mail would fail for it.
        let found = pem.windows(PEM.len()).any(|bytes| bytes == PEM);
        if !found {
            return Err(BadSmtp("`smtp.ca`: holds no certificate as PEM".to_owned()));
        }
        let certificate = Certificate::from_pem(pem).map_err(bad)?;
        builder = builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    builder
        .build()
        .map_err(|error| BadSmtp(format!("no TLS to the mail server: {error}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::{MailId, UnixSeconds};

    fn settings() -> SmtpSettings {
        SmtpSettings {
            host: "mail.example".to_owned(),
            port: 25,
            security: Security::Plain,
            ca: None,
            login: Some(("tv".to_owned(), "hunter2 hunter2".to_owned())),
            from_name: Some("Åsa, \"TV\"".to_owned()),
            from: Email::parse("tv@example.org").unwrap(),
            timeout: Duration::from_secs(1),
        }
    }

    fn parcel(to: &str, subject: &str) -> Parcel {
        Parcel {
            id: MailId::from_bytes([7; 16]),
            to: Email::parse(to).unwrap(),
            date: UnixSeconds(1_767_225_600),
            subject: subject.to_owned(),
            text: "Hej på dig\n.\nQUIT\n".to_owned(),
            html: "<p>Hej på dig</p>".to_owned(),
        }
    }

    fn composed(parcel: &Parcel) -> String {
        let mailer = SmtpMailer::new(settings()).unwrap();
        let (_, message) = mailer.compose(parcel).unwrap();
        String::from_utf8(message).unwrap()
    }

    #[test]
    fn a_message_has_its_headers_and_both_parts() {
        let message = composed(&parcel("ann@example.com", "Välj ett nytt lösenord"));
        let (head, body) = message.split_once("\r\n\r\n").unwrap();
        for line in [
            "To: ann@example.com",
            "Message-ID: <BwcHBwcHBwcHBwcHBwcHBw@example.org>",
            "Date: Thu, 01 Jan 2026 00:00:00 +0000",
            "Auto-Submitted: auto-generated",
            "MIME-Version: 1.0",
        ] {
            assert!(head.lines().any(|l| l == line), "{line} is not in\n{head}");
        }
        assert!(head.contains("tv@example.org>") && message.is_ascii());
        assert!(
            body.contains("Content-Type: text/plain") && body.contains("Content-Type: text/html")
        );
        let far = Parcel {
            date: UnixSeconds(i64::MAX),
            ..parcel("a@b.example", "x")
        };
        assert!(composed(&far).contains("31 Dec 9999"));
    }

    #[test]
    fn what_a_server_says_is_one_short_line_without_credentials() {
        let mask = Mask::new(settings().login.as_ref());
        let plain = BASE64.encode(b"\0tv\0hunter2 hunter2");
        let said = format!(
            "no\r\n {plain} \u{1b}[31m hunter2 hunter2 {}",
            "x".repeat(1_000)
        );
        let words = mask.words(&said);
        assert!(
            words.starts_with("no ******** [31m ******** xxx"),
            "{words}"
        );
        assert_eq!(words.chars().count(), WORDS_MAX);
    }

    #[test]
    fn a_file_of_certificates_must_hold_one() {
        let with = |ca: &[u8]| SmtpSettings {
            security: Security::Tls,
            ca: Some(ca.to_vec()),
            ..settings()
        };
        for bad in [
            &b""[..],
            b"not a certificate",
            b"-----BEGIN CERTIFICATE-----\nx\n",
        ] {
            let error = SmtpMailer::new(with(bad)).err().unwrap().to_string();
            assert!(error.starts_with("`smtp.ca`"), "{error}");
        }
    }

    proptest! {
        /// Whatever an account's address and a template's subject are: no further header, no further
        /// recipient.
        #[test]
        fn nothing_begins_a_header(
            local in "[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}(\\.[a-z0-9!#$%&'*+-]{1,9})?",
            subject in "[^\r\n]{0,80}",
        ) {
            let to = format!("{local}@example.com");
            let parcel = parcel(&to, &subject);
            let message = composed(&parcel);
            let (head, _) = message.split_once("\r\n\r\n").unwrap();
            let names: Vec<&str> = head
                .split("\r\n")
                .filter(|line| !line.starts_with([' ', '\t']))
                .map(|line| line.split(':').next().unwrap())
                .collect();
            prop_assert_eq!(names.iter().filter(|name| **name == "To").count(), 1);
            prop_assert_eq!(names.len(), 8, "{}", head);
            prop_assert!(!message.replace("\r\n", "").contains(['\r', '\n']));
        }
    }
}
