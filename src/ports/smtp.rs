//! SMTP client: submission over plain text, STARTTLS or TLS, with an optional login by password or OAuth 2.
//!
//! Server replies are shown to operators and logged. A reply may repeat its input, so credentials are masked.
//! Timeouts bound whole replies, not the gap between two bytes: a slow-drip server blocks the queue no longer
//! than a silent one.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, Certificate, CertificateStore, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension};
use lettre::transport::smtp::response::Response;
use lettre::{Address, Message};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::mailer::{
    MailConnection, Mailer, OutgoingMail, SendError, ServerUnavailable, SmtpTranscript,
};
use super::oauth_token::{OAuthSettings, TokenSource};
use hello::hello;
use login::Login;
use playgate_types::Email;
use replies::{Mask, SmtpFailure};

#[path = "smtp_hello.rs"]
mod hello;
#[path = "smtp_login.rs"]
mod login;
#[path = "smtp_replies.rs"]
mod replies;

const QUIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The last second that an RFC 5322 date can express: the end of the year 9999.
const DATE_MAX: i64 = 253_402_300_799;

const PEM: &[u8] = b"-----BEGIN CERTIFICATE-----";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// No encryption, for a server on the same machine.
    None,
    /// Starts in plain text; must switch to TLS before the login.
    StartTls,
    Tls,
}

/// Connection settings of the mail server. Contains a password, so it has no `Debug`.
#[derive(Clone)]
pub struct SmtpSettings {
    pub host: String,
    pub port: u16,
    pub security: SmtpSecurity,
    /// CA certificates (PEM) that replace those of the operating system.
    pub ca: Option<Vec<u8>>,
    /// The name in EHLO; default: a full name of this machine or service.
    pub hello: Option<String>,
    /// The host name of the service's public address.
    pub service: Option<String>,
    pub login: Option<SmtpLogin>,
    pub from_name: Option<String>,
    pub from: Email,
    pub timeout: Duration,
}

/// The user name, and what proves it.
#[derive(Clone)]
pub enum SmtpLogin {
    Password(String, String),
    OAuth(String, OAuthSettings),
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BadSmtp(String);

#[derive(Clone)]
pub struct SmtpMailer {
    host: String,
    port: u16,
    security: SmtpSecurity,
    tls: Option<TlsParameters>,
    hello: ClientId,
    login: Option<Login>,
    from: Mailbox,
    timeout: Duration,
}

impl SmtpMailer {
    pub fn new(settings: SmtpSettings) -> Result<Self, BadSmtp> {
        let tls = match settings.security {
            SmtpSecurity::None => None,
            SmtpSecurity::StartTls | SmtpSecurity::Tls => {
                Some(tls_parameters(&settings.host, settings.ca.as_deref())?)
            }
        };
        let from = address(&settings.from).map_err(BadSmtp)?;
        let login = match settings.login {
            None => None,
            Some(SmtpLogin::Password(user, password)) => Some(Login::Password { user, password }),
            Some(SmtpLogin::OAuth(user, oauth)) => {
                let source = TokenSource::new(oauth, settings.timeout)
                    .map_err(|bad| BadSmtp(format!("`smtp.oauth2.token_url` {bad}")))?;
                let source = Arc::new(source);
                Some(Login::OAuth { user, source })
            }
        };
        let service = settings.service.as_deref();
        Ok(Self {
            tls,
            hello: hello(settings.hello.as_deref(), service, from.domain()),
            from: Mailbox::new(settings.from_name, from),
            login,
            host: settings.host,
            port: settings.port,
            security: settings.security,
            timeout: settings.timeout,
        })
    }

    async fn open(
        &self,
        dialogue: &mut SmtpTranscript,
    ) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let name = self.hello.clone();
        // With implicit TLS the handshake comes before the greeting of the server.
        let wrapped = self
            .tls
            .as_ref()
            .filter(|_| self.security == SmtpSecurity::Tls);
        dialogue.push(format!("connecting to {}:{}", self.host, self.port));
        let address = (self.host.as_str(), self.port);
        let timeout = Some(self.timeout);
        let connecting =
            AsyncSmtpConnection::connect_tokio1(address, timeout, &name, wrapped.cloned(), None);
        // Three replies: connection, greeting, EHLO.
        let mut connection = self.within(3, connecting).await?;
        let record_features = |connection: &AsyncSmtpConnection, dialogue: &mut SmtpTranscript| {
            let server = self.mask().line(&features(connection));
            dialogue.push(format!("C: EHLO {name}"));
            dialogue.push(format!("S: {server}"));
        };
        record_features(&connection, dialogue);
        // Not opportunistic: an attacker who removes STARTTLS from the capabilities makes this fail, and no
        // mail is sent.
        if let (SmtpSecurity::StartTls, Some(tls)) = (self.security, &self.tls) {
            dialogue.push("C: STARTTLS".to_owned());
            let encrypting = connection.starttls(tls.clone(), &name);
            // STARTTLS, the handshake, and a second EHLO.
            self.within(3, encrypting).await?;
            dialogue.push("S: (the connection is encrypted)".to_owned());
            record_features(&connection, dialogue);
        }
        if let Some(login) = &self.login {
            self.log_in(login, &mut connection, dialogue).await?;
        }
        Ok(connection)
    }

    fn mask(&self) -> Mask {
        Mask::new(self.login.as_ref())
    }

    async fn within<T>(
        &self,
        answers: u32,
        step: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, SmtpFailure> {
        // The limit covers whole replies: a server that sends a byte now and then would never exceed a limit
        // between bytes.
        match timeout(self.timeout * answers, step).await {
            Ok(done) => done.map_err(SmtpFailure::Smtp),
            Err(_) => Err(SmtpFailure::Late),
        }
    }

    fn compose(&self, mail: &OutgoingMail) -> Result<(Address, Vec<u8>), String> {
        let to = address(&mail.to)?;
        let seconds = u64::try_from(mail.date.0.clamp(0, DATE_MAX)).unwrap_or(0);
        let id = format!("<{}@{}>", mail.id, self.from.email.domain());
        // RFC 3834: auto-responders must not reply.
        let automatic = HeaderName::new_from_ascii_str("Auto-Submitted");
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, to.clone()))
            .subject(mail.subject.as_str())
            .date(UNIX_EPOCH + Duration::from_secs(seconds))
            // The id of the queue: a repeated delivery has the same Message-ID, by which mailboxes recognise
            // duplicates.
            .message_id(Some(id))
            .raw_header(HeaderValue::new(automatic, "auto-generated".to_owned()))
            .multipart(both_parts(mail)?);
        let message = message.map_err(|error| format!("cannot compose the message: {error}"))?;
        Ok((to, message.formatted()))
    }
}

/// Plain text and HTML. An image of the HTML is beside it and not beside the text, whose readers would see an attachment.
fn both_parts(mail: &OutgoingMail) -> Result<MultiPart, String> {
    let (text, html) = (mail.text.clone(), mail.html.clone());
    let Some(logo) = &mail.logo else {
        return Ok(MultiPart::alternative_plain_html(text, html));
    };
    let media = ContentType::parse(logo.media).map_err(|error| error.to_string())?;
    let logo = Attachment::new_inline("logo".to_owned()).body(logo.bytes.to_vec(), media);
    let with_logo = MultiPart::related()
        .singlepart(SinglePart::html(html))
        .singlepart(logo);
    Ok(MultiPart::alternative()
        .singlepart(SinglePart::plain(text))
        .multipart(with_logo))
}

impl Mailer for SmtpMailer {
    fn connect(
        &self,
        dialogue: &mut SmtpTranscript,
    ) -> Result<Box<dyn MailConnection>, ServerUnavailable> {
        // The caller is a blocking thread, so the connection gets its own runtime.
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| ServerUnavailable {
            response: error.to_string(),
            lasting: false,
        })?;
        match runtime.block_on(self.open(dialogue)) {
            Ok(connection) => Ok(Box::new(SmtpConnection {
                mailer: self.clone(),
                connection,
                runtime,
            })),
            Err(failure) => {
                // Does not wait for a pending name lookup.
                runtime.shutdown_background();
                let unavailable = self.mask().unavailable(&failure);
                let speaker = if failure.is_answer() { "S: " } else { "" };
                dialogue.push(format!("{speaker}{}", unavailable.response));
                Err(unavailable)
            }
        }
    }
}

struct SmtpConnection {
    mailer: SmtpMailer,
    connection: AsyncSmtpConnection,
    runtime: Runtime,
}

impl MailConnection for SmtpConnection {
    fn send(
        &mut self,
        mail: &OutgoingMail,
        dialogue: &mut SmtpTranscript,
    ) -> Result<String, SendError> {
        let (to, message) = self.mailer.compose(mail).map_err(SendError::Invalid)?;
        let from = self.mailer.from.email.clone();
        let mask = self.mailer.mask();
        // The sender is the same for every mail: a rejected sender means that no mail will be accepted.
        let of_sender = |failure: &SmtpFailure| SendError::Unavailable(mask.unavailable(failure));
        let of_mail = |failure: &SmtpFailure| mask.classify(failure);
        let command = Mail::new(Some(from), Vec::new());
        self.send_command(&command.to_string(), dialogue, &of_sender)?;
        let command = Rcpt::new(to, Vec::new());
        self.send_command(&command.to_string(), dialogue, &of_mail)?;
        self.send_command(&Data.to_string(), dialogue, &of_mail)?;
        dialogue.push(format!("C: ({} bytes)", message.len()));
        let handing = self.mailer.within(1, self.connection.message(&message));
        let answer = self.runtime.block_on(handing);
        self.record_reply(answer, dialogue, &of_mail)
    }

    fn close(mut self: Box<Self>) {
        let leaving = async { timeout(QUIT_TIMEOUT, self.connection.quit()).await };
        // The mail was handed over already; a failed QUIT does not matter.
        let _ = self.runtime.block_on(leaving);
    }
}

impl SmtpConnection {
    fn send_command(
        &mut self,
        command: &str,
        dialogue: &mut SmtpTranscript,
        classify: &dyn Fn(&SmtpFailure) -> SendError,
    ) -> Result<String, SendError> {
        dialogue.push(format!("C: {}", command.trim_end()));
        let asking = self.mailer.within(1, self.connection.command(command));
        let answer = self.runtime.block_on(asking);
        self.record_reply(answer, dialogue, classify)
    }

    fn record_reply(
        &self,
        answer: Result<Response, SmtpFailure>,
        dialogue: &mut SmtpTranscript,
        classify: &dyn Fn(&SmtpFailure) -> SendError,
    ) -> Result<String, SendError> {
        let mask = self.mailer.mask();
        let reply = answer
            .as_ref()
            .map_or_else(|failure| mask.failure(failure), |a| mask.reply(a));
        dialogue.push(format!("S: {reply}"));
        answer.map(|_| reply).map_err(|failure| classify(&failure))
    }
}

fn features(connection: &AsyncSmtpConnection) -> String {
    let server = connection.server_info();
    let known = [
        Extension::StartTls,
        Extension::Authentication(Mechanism::Plain),
        Extension::Authentication(Mechanism::Login),
        Extension::Authentication(Mechanism::Xoauth2),
        Extension::EightBitMime,
    ];
    known
        .into_iter()
        .filter(|feature| server.supports_feature(*feature))
        .fold(server.name().to_owned(), |text, feature| {
            format!("{text}, {feature}")
        })
}

fn address(email: &Email) -> Result<Address, String> {
    let (user, domain) = email.as_str().rsplit_once('@').unwrap_or_default();
    Address::new(user, domain).map_err(|error| format!("the address cannot be used: {error}"))
}

fn tls_parameters(host: &str, ca: Option<&[u8]>) -> Result<TlsParameters, BadSmtp> {
    let mut builder = TlsParameters::builder(host.to_owned());
    if let Some(pem) = ca {
        let bad = |error: Error| BadSmtp(format!("`smtp.ca`: {error}"));
        // Without a certificate no server would be trusted, and every mail would fail.
        let found = pem.windows(PEM.len()).any(|bytes| bytes == PEM);
        if !found {
            return Err(BadSmtp("`smtp.ca`: contains no PEM certificate".to_owned()));
        }
        let certificate = Certificate::from_pem(pem).map_err(bad)?;
        builder = builder
            // `smtp.ca` replaces the CAs of the system: a private mail server must not be impersonated with a
            // public certificate.
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    builder
        .build()
        .map_err(|error| BadSmtp(format!("cannot set up TLS for the mail server: {error}")))
}

#[cfg(test)]
#[path = "smtp_tests.rs"]
mod tests;
