//! The login at a mail server: which mechanism, and its dialogue (RFC 4954).
//!
//! The dialogue is ours and not the library's: it knows no OAUTHBEARER, and does not answer the error that XOAUTH2 sends as
//! a challenge.

use std::sync::Arc;

use data_encoding::BASE64;
use lettre::transport::smtp::authentication::Mechanism;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::response::Response;

use super::super::mailer::SmtpTranscript;
use super::super::oauth_token::TokenSource;
use super::{SmtpFailure, SmtpMailer};

/// No `Debug`: it contains the password.
#[derive(Clone)]
pub(super) enum Login {
    Password {
        user: String,
        password: String,
    },
    OAuth {
        user: String,
        source: Arc<TokenSource>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Plain,
    Login,
    Xoauth2,
    OauthBearer,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Login => "LOGIN",
            Self::Xoauth2 => "XOAUTH2",
            Self::OauthBearer => "OAUTHBEARER",
        }
    }
}

impl Login {
    const fn methods(&self) -> [Method; 2] {
        match self {
            Self::Password { .. } => [Method::Plain, Method::Login],
            Self::OAuth { .. } => [Method::Xoauth2, Method::OauthBearer],
        }
    }

    /// The setting that fits a server which offers none of the methods.
    const fn other_setting(&self) -> &'static str {
        match self {
            Self::Password { .. } => "smtp.oauth2",
            Self::OAuth { .. } => "smtp.password",
        }
    }

    /// Whether the other setting allows this method.
    fn is_other(&self, offered: &str) -> bool {
        let methods = match self {
            Self::Password { .. } => [Method::Xoauth2, Method::OauthBearer],
            Self::OAuth { .. } => [Method::Plain, Method::Login],
        };
        methods.iter().any(|method| method.name() == offered)
    }
}

/// The codes with which a server refuses a mechanism that it has offered: RFC 4954, 4 and 6.
const UNUSABLE_METHOD: [u16; 3] = [502, 504, 534];

impl SmtpMailer {
    pub(super) async fn log_in(
        &self,
        login: &Login,
        connection: &mut AsyncSmtpConnection,
        dialogue: &mut SmtpTranscript,
    ) -> Result<(), SmtpFailure> {
        let methods = self.usable(login, connection).await?;
        let mut failure = None;
        for method in methods {
            match self.log_in_with(login, method, connection, dialogue).await {
                Ok(answer) => {
                    dialogue.push(format!("S: {}", self.mask().reply(&answer)));
                    return Ok(());
                }
                Err(refused) if refused.code().is_some_and(|c| UNUSABLE_METHOD.contains(&c)) => {
                    dialogue.push(format!("S: {}", self.mask().failure(&refused)));
                    failure = Some(refused);
                }
                Err(other) => return Err(other),
            }
        }
        Err(failure.unwrap_or(SmtpFailure::Late))
    }

    /// The methods that both sides know, the preferred one first.
    async fn usable(
        &self,
        login: &Login,
        connection: &mut AsyncSmtpConnection,
    ) -> Result<Vec<Method>, SmtpFailure> {
        let server = connection.server_info();
        let known = login.methods().into_iter().filter(|method| match method {
            Method::Plain => server.supports_auth_mechanism(Mechanism::Plain),
            Method::Login => server.supports_auth_mechanism(Mechanism::Login),
            Method::Xoauth2 => server.supports_auth_mechanism(Mechanism::Xoauth2),
            Method::OauthBearer => false,
        });
        let known: Vec<Method> = known.collect();
        if !known.is_empty() {
            return Ok(known);
        }
        // The library keeps only what it knows, so the server is asked again.
        let asking = connection.command(format!("EHLO {}\r\n", self.hello));
        let offered = offered(&self.within(1, asking).await?);
        let named = |method: &Method| offered.iter().any(|name| name == method.name());
        let usable: Vec<Method> = login.methods().into_iter().filter(named).collect();
        if usable.is_empty() {
            return Err(SmtpFailure::Ours(no_method(login, &offered)));
        }
        Ok(usable)
    }

    async fn log_in_with(
        &self,
        login: &Login,
        method: Method,
        connection: &mut AsyncSmtpConnection,
        dialogue: &mut SmtpTranscript,
    ) -> Result<Response, SmtpFailure> {
        match login {
            Login::Password { user, password } => {
                // The transcript is shown to operators and logged.
                dialogue.push("C: AUTH ********".to_owned());
                self.password_login(connection, method, user, password)
                    .await
            }
            Login::OAuth { user, source } => {
                let (token, kept) = source.token().await.map_err(SmtpFailure::Token)?;
                dialogue.push(format!("C: AUTH {} ********", method.name()));
                let login = self.token_login(connection, method, user, &token);
                let first = login.await;
                if !kept || !matches!(&first, Err(failure) if failure.is_permanent()) {
                    return first;
                }
                // The token may have been revoked since it was issued.
                source.forget();
                let (token, _) = source.token().await.map_err(SmtpFailure::Token)?;
                dialogue.push(format!("C: AUTH {} ******** (a new token)", method.name()));
                self.token_login(connection, method, user, &token).await
            }
        }
    }

    async fn password_login(
        &self,
        connection: &mut AsyncSmtpConnection,
        method: Method,
        user: &str,
        password: &str,
    ) -> Result<Response, SmtpFailure> {
        if method == Method::Plain {
            let text = BASE64.encode(format!("\0{user}\0{password}").as_bytes());
            let command = format!("AUTH PLAIN {text}\r\n");
            return self.within(1, connection.command(command)).await;
        }
        self.within(1, connection.command("AUTH LOGIN\r\n")).await?;
        // By position and not by the words of the prompts, which differ between servers.
        for text in [user, password] {
            let command = format!("{}\r\n", BASE64.encode(text.as_bytes()));
            let answer = self.within(1, connection.command(command)).await?;
            if !answer.has_code(334) {
                return Ok(answer);
            }
        }
        Err(SmtpFailure::Ours(
            "the mail server asks for more than user name and password".to_owned(),
        ))
    }

    async fn token_login(
        &self,
        connection: &mut AsyncSmtpConnection,
        method: Method,
        user: &str,
        token: &str,
    ) -> Result<Response, SmtpFailure> {
        let (text, abort) = match method {
            // RFC 7628, 3.1; the answer to an error is its dummy message.
            Method::OauthBearer => (
                format!(
                    "n,a={},\u{1}host={}\u{1}port={}\u{1}auth=Bearer {token}\u{1}\u{1}",
                    user.replace('=', "=3D").replace(',', "=2C"),
                    self.host,
                    self.port
                ),
                "AQ==\r\n",
            ),
            _ => (
                format!("user={user}\u{1}auth=Bearer {token}\u{1}\u{1}"),
                "\r\n",
            ),
        };
        let command = format!(
            "AUTH {} {}\r\n",
            method.name(),
            BASE64.encode(text.as_bytes())
        );
        let answer = self.within(1, connection.command(command)).await?;
        if !answer.has_code(334) {
            return Ok(answer);
        }
        // The reason comes as a challenge, and the reply follows an empty answer.
        let reason = answer.first_word().and_then(|word| {
            let decoded = BASE64.decode(word.as_bytes()).ok()?;
            String::from_utf8(decoded).ok()
        });
        let refused = match self.within(1, connection.command(abort)).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        Err(match (refused.code(), reason) {
            (Some(code), Some(reason)) => SmtpFailure::Login {
                code,
                text: format!("{} {reason}", self.mask().failure(&refused)),
            },
            _ => refused,
        })
    }
}

/// The mechanisms of an EHLO response. `AUTH=LOGIN` is the form of servers older than the standard.
fn offered(answer: &Response) -> Vec<String> {
    let mut offered: Vec<String> = answer
        .message()
        .map(str::to_ascii_uppercase)
        .filter_map(|line| {
            let rest = line.strip_prefix("AUTH")?;
            rest.starts_with([' ', '=']).then(|| rest.to_owned())
        })
        .flat_map(|rest| {
            let names = rest.split([' ', '=']).filter(|name| !name.is_empty());
            names.map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    offered.sort_unstable();
    offered.dedup();
    offered
}

fn no_method(login: &Login, offered: &[String]) -> String {
    if offered.is_empty() {
        return "the mail server offers no login on this connection; remove `smtp.username`, or set `smtp.security` and `smtp.port` as its provider says"
            .to_owned();
    }
    let usable: Vec<&str> = login.methods().map(Method::name).to_vec();
    let said = format!(
        "the mail server offers the logins {}, but the settings allow {}",
        offered.join(", "),
        usable.join(" or ")
    );
    if offered.iter().any(|name| login.is_other(name)) {
        return format!("{said}; set `{}`", login.other_setting());
    }
    said
}

#[cfg(test)]
mod tests {
    use lettre::transport::smtp::response::{Category, Code, Detail, Severity};

    use super::*;

    fn ehlo(lines: &[&str]) -> Response {
        let code = Code::new(
            Severity::PositiveCompletion,
            Category::MailSystem,
            Detail::Zero,
        );
        Response::new(code, lines.iter().map(|&line| line.to_owned()).collect())
    }

    #[test]
    fn offered_logins_are_read_in_every_spelling() {
        let server = [
            "mail.example",
            "auth=LOGIN",
            "AUTH login Plain XOAUTH2",
            "AUTHOR x",
        ];
        assert_eq!(offered(&ehlo(&server)), ["LOGIN", "PLAIN", "XOAUTH2"]);
        assert!(offered(&ehlo(&["mail.example", "8BITMIME"])).is_empty());
    }

    #[test]
    fn without_a_fitting_login_the_message_names_what_the_server_offers() {
        let login = Login::Password {
            user: "tv".to_owned(),
            password: "x".to_owned(),
        };
        let said = no_method(&login, &["XOAUTH2".to_owned()]);
        assert!(
            said.contains("logins XOAUTH2") && said.contains("`smtp.oauth2`"),
            "{said}"
        );
        let said = no_method(&login, &["GSSAPI".to_owned(), "CRAM-MD5".to_owned()]);
        assert!(
            said.contains("GSSAPI, CRAM-MD5") && !said.contains("set `"),
            "{said}"
        );
        assert!(no_method(&login, &[]).contains("offers no login"));
    }
}
