//! Access tokens of OAuth 2 (RFC 6749) for the login at a mail server: client credentials, or a refresh token.
//!
//! A token is kept until shortly before it expires. Secrets are in request bodies only, never in an error.

use playgate_types::percent_encoded;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;

use super::http_client::{BadAddress, RequestTarget, no_connection};
use super::kept_token::KeptToken;

/// Bytes of a response of the token endpoint. Tokens of Microsoft with many claims have about 4 KiB.
const RESPONSE_MAX: usize = 64 * 1024;
/// A token is renewed this long before it expires, so that it is valid while a connection lasts.
const MARGIN: Duration = Duration::from_secs(60);
/// The validity of a token whose response names none (RFC 6749, 5.1: the field is recommended only).
const USUAL_LIFE: u64 = 600;
/// A longer validity is used up to this.
const LONGEST_LIFE: u64 = 86_400;

/// No `Debug`: it contains secrets.
#[derive(Clone)]
pub struct OAuthSettings {
    pub token_url: String,
    pub client_id: String,
    pub client_secret: Option<String>,
    /// With it the grant is `refresh_token`, without it `client_credentials`.
    pub refresh_token: Option<String>,
    pub scope: Option<String>,
    /// The directory of the file with a newer refresh token.
    pub keys: PathBuf,
}

impl OAuthSettings {
    fn kept(&self) -> Option<KeptToken> {
        let first = self.refresh_token.as_deref()?;
        let settings = [self.token_url.as_str(), &self.client_id, first];
        Some(KeptToken::new(self.keys.clone(), &settings))
    }
}

/// Why there is no token. The text is one line for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct TokenError {
    pub text: String,
    /// Whether a retry is useless until an operator changes a setting.
    pub lasting: bool,
}

pub(crate) struct TokenSource {
    endpoint: RequestTarget,
    settings: OAuthSettings,
    timeout: Duration,
    /// Held while a token is fetched: a refresh token may be good for one use, and a second one may end the login.
    fetching: tokio::sync::Mutex<()>,
    kept: Option<KeptToken>,
    state: Mutex<TokenState>,
}

struct TokenState {
    access: Option<(String, Instant)>,
    /// The newest one: some services replace it with every answer, and revoke the one before.
    refresh: Option<String>,
}

impl TokenSource {
    pub(crate) fn new(settings: OAuthSettings, timeout: Duration) -> Result<Self, BadAddress> {
        let kept = settings.kept();
        let newest = kept.as_ref().and_then(KeptToken::read);
        Ok(Self {
            endpoint: RequestTarget::parse(&settings.token_url)?,
            fetching: tokio::sync::Mutex::new(()),
            kept,
            state: Mutex::new(TokenState {
                access: None,
                refresh: newest.or_else(|| settings.refresh_token.clone()),
            }),
            settings,
            timeout,
        })
    }

    /// The texts that must be masked wherever a server repeats them.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let state = self.state.lock();
        let access = state.access.as_ref().map(|(token, _)| token.clone());
        let given = &self.settings;
        [
            access,
            state.refresh.clone(),
            given.refresh_token.clone(),
            given.client_secret.clone(),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns a token, and whether it was kept from an earlier login.
    pub(crate) async fn token(&self) -> Result<(String, bool), TokenError> {
        let late = TokenError {
            text: "the OAuth 2 token endpoint did not answer in time".to_owned(),
            lasting: false,
        };
        let fetched = timeout(self.timeout, async {
            let _one_at_a_time = self.fetching.lock().await;
            match self.valid() {
                Some(token) => Ok((token, true)),
                None => self.fetch().await.map(|token| (token, false)),
            }
        });
        fetched.await.unwrap_or(Err(late))
    }

    fn valid(&self) -> Option<String> {
        let state = self.state.lock();
        let (token, until) = state.access.as_ref()?;
        (Instant::now() < *until).then(|| token.clone())
    }

    /// Discards a token that the mail server has refused: it may have been revoked.
    pub(crate) fn forget(&self) {
        self.state.lock().access = None;
    }

    async fn fetch(&self) -> Result<String, TokenError> {
        let request = self
            .endpoint
            .request(Method::POST)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(Full::new(Bytes::from(self.form())));
        let unreached = |text: &str| TokenError {
            text: format!("OAuth 2 token endpoint: {text}"),
            lasting: false,
        };
        let request = request.map_err(|_| unreached("the request cannot be made"))?;
        let answer = self.endpoint.send(request).await;
        let answer = answer.map_err(|error| unreached(no_connection(&*error)))?;
        let status = answer.head.status;
        let body = Limited::new(answer.body, RESPONSE_MAX).collect().await;
        let body = body.map_err(|_| unreached("the response broke off or is too large"))?;
        let body: Value = serde_json::from_slice(&body.to_bytes()).unwrap_or(Value::Null);
        self.accept(status, &body)
    }

    fn form(&self) -> String {
        let given = &self.settings;
        let refresh = self.state.lock().refresh.clone();
        let grant = match refresh {
            Some(_) => "refresh_token",
            None => "client_credentials",
        };
        let fields = [
            ("grant_type", Some(grant)),
            ("client_id", Some(given.client_id.as_str())),
            ("client_secret", given.client_secret.as_deref()),
            ("refresh_token", refresh.as_deref()),
            ("scope", given.scope.as_deref()),
        ];
        let fields = fields.into_iter().filter_map(|(name, value)| {
            let value = value?;
            Some(format!("{name}={}", percent_encoded(value)))
        });
        fields.collect::<Vec<_>>().join("&")
    }

    fn accept(&self, status: StatusCode, body: &Value) -> Result<String, TokenError> {
        let text = |name: &str| body.get(name).and_then(Value::as_str);
        let Some(token) = text("access_token").filter(|token| !token.is_empty()) else {
            // RFC 6749, 5.2: the code, and a sentence for the developer.
            let said = [text("error"), text("error_description")];
            let said: Vec<&str> = said.into_iter().flatten().collect();
            return Err(TokenError {
                text: format!(
                    "the OAuth 2 token endpoint answered {}: {}",
                    status.as_u16(),
                    if said.is_empty() {
                        "no access_token".to_owned()
                    } else {
                        said.join(": ")
                    }
                ),
                lasting: !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS,
            });
        };
        // A number, but some services send it as text.
        let life = body.get("expires_in").and_then(|life| {
            life.as_u64()
                .or_else(|| life.as_str().and_then(|text| text.trim().parse().ok()))
        });
        let life = Duration::from_secs(life.unwrap_or(USUAL_LIFE).min(LONGEST_LIFE));
        let mut state = self.state.lock();
        if let (Some(kept), Some(newer)) = (&self.kept, text("refresh_token"))
            && state.refresh.as_deref() != Some(newer)
        {
            // Before its first use: the older one may be refused from here on.
            if let Err(error) = kept.write(newer) {
                tracing::error!(%error, "failed to keep the new refresh token of the mail server: after a restart its login may be refused until `smtp.oauth2.refresh_token` is set anew");
            }
            state.refresh = Some(newer.to_owned());
        }
        let until = Instant::now() + life.saturating_sub(MARGIN);
        state.access = Some((token.to_owned(), until));
        Ok(token.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn source(refresh: Option<&str>) -> TokenSource {
        source_in(Path::new("/dev/null/keys"), refresh)
    }

    fn source_in(keys: &Path, refresh: Option<&str>) -> TokenSource {
        let settings = OAuthSettings {
            token_url: "http://127.0.0.1:1/token".to_owned(),
            client_id: "tv".to_owned(),
            client_secret: Some("a+b & c".to_owned()),
            refresh_token: refresh.map(str::to_owned),
            scope: Some("https://outlook.office365.com/.default".to_owned()),
            keys: keys.to_owned(),
        };
        TokenSource::new(settings, Duration::from_secs(5)).unwrap()
    }

    #[test]
    fn each_grant_has_its_form_and_values_are_encoded() {
        let scope = "scope=https%3A%2F%2Foutlook.office365.com%2F.default";
        assert_eq!(
            source(None).form(),
            format!(
                "grant_type=client_credentials&client_id=tv&client_secret=a%2Bb%20%26%20c&{scope}"
            )
        );
        let form = source(Some("r/1")).form();
        assert!(form.starts_with("grant_type=refresh_token&"), "{form}");
        assert!(form.contains("&refresh_token=r%2F1&"), "{form}");
    }

    #[test]
    fn a_response_without_a_token_shows_what_the_service_said() {
        let source = source(None);
        let refused =
            json!({"error": "invalid_client", "error_description": "AADSTS7000215: wrong secret"});
        let error = source
            .accept(StatusCode::UNAUTHORIZED, &refused)
            .unwrap_err();
        assert!(error.lasting);
        assert_eq!(
            error.text,
            "the OAuth 2 token endpoint answered 401: invalid_client: AADSTS7000215: wrong secret"
        );
        let down = source.accept(StatusCode::BAD_GATEWAY, &Value::Null);
        assert!(!down.unwrap_err().lasting);
    }

    #[test]
    fn a_validity_written_as_text_is_kept_and_a_newer_refresh_token_replaces_the_older() {
        let source = source(Some("old"));
        let answer = json!({"access_token": "t", "expires_in": "3599", "refresh_token": "new"});
        assert_eq!(source.accept(StatusCode::OK, &answer).unwrap(), "t");
        let (_, until) = source.state.lock().access.clone().unwrap();
        assert!(until > Instant::now() + Duration::from_secs(3_000));
        assert!(source.form().contains("refresh_token=new"));
        assert!(source.secrets().contains(&"t".to_owned()));
        // Control: one that expires at once is not used again.
        let answer = json!({"access_token": "u", "expires_in": 30});
        source.accept(StatusCode::OK, &answer).unwrap();
        let (_, until) = source.state.lock().access.clone().unwrap();
        assert!(until <= Instant::now());
    }

    #[test]
    fn a_newer_refresh_token_outlives_a_restart_and_a_newly_configured_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let first = source_in(folder.path(), Some("old"));
        let answer = json!({"access_token": "t", "refresh_token": "new"});
        first.accept(StatusCode::OK, &answer).unwrap();
        drop(first);
        let again = source_in(folder.path(), Some("old"));
        assert!(again.form().contains("refresh_token=new"));
        assert!(again.secrets().contains(&"new".to_owned()));
        let form = source_in(folder.path(), Some("other")).form();
        assert!(form.contains("refresh_token=other"), "{form}");
        // Without a refresh token none is taken over.
        assert!(
            !source_in(folder.path(), None)
                .form()
                .contains("refresh_token")
        );
    }
}
