//! Keys of the mail server.

use std::path::PathBuf;
use std::time::Duration;

use super::address::hello_name;
use super::mail_server::MailServer;
use super::schema::{KeyDeclaration, KeyReader, Section, section};
use super::secret::Secret;
use super::setting::Setting;
use super::value_parsers::{
    duration, enum_value, mail_user, number, path, secret, some, text, url,
};
use playgate_ports::SmtpSecurity;
use playgate_types::text::is_invisible;

section! {
    pub struct SmtpConfig {
        /// Host name of the mail server, also as `host:port` or `smtps://host`; without it mail is stored, not sent.
        host: Option<String> = some(text(253)), None;
        /// Port; default: 587, with `tls` 465, with `none` 25.
        port: Option<u16> = some(number(1..=65_535)), None;
        /// Connection security: `starttls`, `tls` or `none`.
        security: SmtpSecurity = enum_value, Some("starttls");
        /// CA certificates for the mail server, PEM; default: those of the system.
        ca: Option<PathBuf> = some(path), None;
        /// User name for the login.
        username: Option<String> = some(mail_user), None;
        /// Password for the login.
        password: Option<Secret> = some(secret(1)), None;
        /// Name in EHLO; default: the full name of this machine, else the name in `public_url` or the domain of `mail.from`.
        hello: Option<String> = some(hello_name), None;
        /// Time-out of the mail server's responses.
        timeout: Duration = duration(1..=300), Some("30s");
    }
}

section! {
    pub struct SmtpOauth2Config {
        /// Token endpoint of OAuth 2 for the login, instead of a password; `http` on loopback only.
        token_url: Option<String> = some(url), None;
        /// Client id.
        client_id: Option<String> = some(text(256)), None;
        /// Client secret.
        client_secret: Option<Secret> = some(secret(1)), None;
        /// Refresh token; without it the client's own credentials are used.
        refresh_token: Option<Secret> = some(secret(8)), None;
        /// Scope, as the provider of the mail server names it.
        scope: Option<String> = some(text(1_024)), None;
    }
}

impl SmtpConfig {
    pub(super) fn server(&self) -> Option<MailServer> {
        self.host.as_deref().map(MailServer::parse)
    }

    /// The host, without port and scheme.
    pub fn server_name(&self) -> Option<String> {
        self.server().map(|server| server.host)
    }

    pub fn security(&self) -> SmtpSecurity {
        let tls = self.server().is_some_and(|server| server.tls);
        match self.security {
            // The default; a scheme is more definite.
            SmtpSecurity::StartTls if tls => SmtpSecurity::Tls,
            security => security,
        }
    }

    pub fn port(&self) -> u16 {
        // Submission (RFC 6409), submission over TLS (RFC 8314), and relay on the same machine.
        let usual = match self.security() {
            SmtpSecurity::StartTls => 587,
            SmtpSecurity::Tls => 465,
            SmtpSecurity::None => 25,
        };
        let written = self.server().and_then(|server| server.port);
        self.port.or(written).unwrap_or(usual)
    }
}

/// Doubts about the mail server, for `config check`, the log and `doctor`.
pub(super) fn warnings(smtp: &SmtpConfig) -> Vec<String> {
    let Some(server) = smtp.server() else {
        return Vec::new();
    };
    let mut warnings: Vec<&str> = server.doubt.into_iter().collect();
    if server.port.is_some_and(|port| port != smtp.port()) {
        warnings.push("`smtp.host` has another port than `smtp.port`, which is used; remove one");
    }
    if server.tls && smtp.security() == SmtpSecurity::None {
        warnings.push(
            "`smtp.host` asks for TLS and `smtp.security` is `none`, which is used; remove one",
        );
    }
    match (smtp.port(), smtp.security()) {
        (465, SmtpSecurity::StartTls) => warnings.push(
            "mail servers take TLS from the first byte at port 465: set `smtp.security = \"tls\"`",
        ),
        (587 | 25, SmtpSecurity::Tls) => warnings.push(
            "mail servers begin without TLS at ports 587 and 25: set `smtp.security = \"starttls\"`, or `smtp.port = 465`",
        ),
        _ => {}
    }
    let password = smtp.password.as_ref().map_or("", Secret::reveal);
    if password.contains(|c: char| c == '\u{a0}' || is_invisible(c)) {
        warnings.push(
            "`smtp.password` has a no-break space or an invisible character, as copied from a page; type these places again",
        );
    }
    warnings.into_iter().map(str::to_owned).collect()
}
