//! Keys of the mail server.

use std::path::PathBuf;
use std::time::Duration;

use super::address::hello_name;
use super::schema::{KeyDeclaration, KeyReader, Section, section};
use super::secret::Secret;
use super::value_parsers::{Setting, duration, enum_value, number, path, secret, some, text, url};
use crate::ports::smtp::SmtpSecurity;

section! {
    pub struct SmtpConfig {
        /// Host name of the mail server; without it mail is stored, not sent.
        host: Option<String> = some(text(253)), None;
        /// Port; default: 587, with `tls` 465, with `none` 25.
        port: Option<u16> = some(number(1..=65_535)), None;
        /// Connection security: `starttls`, `tls` or `none`.
        security: SmtpSecurity = enum_value, Some("starttls");
        /// CA certificates for the mail server, PEM; default: those of the system.
        ca: Option<PathBuf> = some(path), None;
        /// User name for the login.
        username: Option<String> = some(text(256)), None;
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
    pub fn port(&self) -> u16 {
        // Submission (RFC 6409), submission over TLS (RFC 8314), and relay on the same machine.
        let usual = match self.security {
            SmtpSecurity::StartTls => 587,
            SmtpSecurity::Tls => 465,
            SmtpSecurity::None => 25,
        };
        self.port.unwrap_or(usual)
    }
}
