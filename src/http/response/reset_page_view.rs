//! Renders the page behind the link of a password-reset mail.
//!
//! The page works without scripts and loads nothing. The token must not leak from the address: the page sends
//! no referrer, cannot be framed or cached, and its form posts to the address without the token.

use data_encoding::BASE64;
use http::header::{CONTENT_SECURITY_POLICY, InvalidHeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use ring::digest;
use serde::Deserialize;

use crate::response::reply::{Reply, media};
use playgate_types::html_escape::escape;

const SKELETON: &str = include_str!("../../../data/pages/reset.html");
const FORM: &str = include_str!("../../../data/pages/form.html");
const STYLE: &str = include_str!("../../../data/pages/page.css");
const FALLBACK: (&str, &str) = ("en", include_str!("../../../data/pages/en.toml"));
const TRANSLATIONS: [(&str, &str); 2] = [
    ("sv", include_str!("../../../data/pages/sv.toml")),
    ("de", include_str!("../../../data/pages/de.toml")),
];
const ROBOTS: HeaderName = HeaderName::from_static("x-robots-tag");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    #[serde(skip)]
    language: &'static str,
    title: String,
    account: String,
    password: String,
    again: String,
    button: String,
    mismatch: String,
    done: String,
}

impl Words {
    fn read((language, text): (&'static str, &str)) -> Result<Self, &'static str> {
        let words: Self = toml::from_str(text).map_err(|_| language)?;
        Ok(Self { language, ..words })
    }
}

pub enum ResetPageView<'a> {
    Form(ResetForm<'a>),
    Done,
    Refused(&'a str),
}

pub struct ResetForm<'a> {
    pub token: &'a str,
    /// The address of the account: a password manager stores the new password under it.
    pub account: &'a str,
    /// The fewest characters of a password, for the suggestions of browsers.
    pub least: usize,
    /// The mistake of the previous attempt.
    pub fault: Option<ResetFormError<'a>>,
}

pub enum ResetFormError<'a> {
    Mismatch,
    Message(&'a str),
}

pub struct Pages {
    fallback: Words,
    others: Vec<Words>,
    policy: HeaderValue,
}

impl Pages {
    pub fn built_in() -> Result<Self, &'static str> {
        Ok(Self {
            fallback: Words::read(FALLBACK)?,
            others: TRANSLATIONS
                .map(Words::read)
                .into_iter()
                .collect::<Result<_, _>>()?,
            policy: policy(STYLE, None, "'self'").map_err(|_| "the policy")?,
        })
    }

    pub fn reset(&self, language: &str, status: StatusCode, view: &ResetPageView<'_>) -> Reply {
        let mut others = self.others.iter();
        let words = others.find(|words| words.language == language);
        let words = words.unwrap_or(&self.fallback);
        let page = fill(
            SKELETON,
            &[
                ("{language}", words.language),
                ("{title}", &escaped(&words.title)),
                // The style is inserted byte for byte, because the policy allows it by its hash.
                ("{style}", STYLE),
                ("{content}", &content(words, view)),
            ],
        );
        Reply::bytes(media::HTML, page)
            .with_status(status)
            .with_header(CONTENT_SECURITY_POLICY, self.policy.clone())
            // The address of the page contains the reset token.
            .with_header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
            // For browsers that do not know `frame-ancestors`: a page that frames the form could collect the password.
            .with_header(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"))
            .with_header(ROBOTS, HeaderValue::from_static("noindex"))
    }
}

/// Content security policy for a page with this inline style and script: it loads nothing, cannot be framed,
/// and posts forms only to `forms`.
pub fn policy(
    style: &str,
    script: Option<&str>,
    forms: &str,
) -> Result<HeaderValue, InvalidHeaderValue> {
    // By hash instead of `unsafe-inline`: an injected style could leak the token through the addresses that it loads.
    let hash =
        |text: &str| BASE64.encode(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    let script = script.map(|script| format!("script-src 'sha256-{}'; ", hash(script)));
    HeaderValue::from_str(&format!(
        "default-src 'none'; style-src 'sha256-{}'; {}form-action {forms}; base-uri 'none'; \
         frame-ancestors 'none'",
        hash(style),
        script.unwrap_or_default(),
    ))
}

fn content(words: &Words, view: &ResetPageView<'_>) -> String {
    match view {
        ResetPageView::Done => format!("<p role=\"status\">{}</p>", escaped(&words.done)),
        ResetPageView::Refused(why) => alert(why),
        ResetPageView::Form(given) => {
            let alert = match &given.fault {
                None => String::new(),
                Some(ResetFormError::Mismatch) => alert(&words.mismatch),
                Some(ResetFormError::Message(why)) => alert(why),
            };
            let form = fill(
                FORM,
                &[
                    // The token comes from the address, so anyone can put markup there.
                    ("{token}", &escaped(given.token)),
                    ("{username}", &escaped(given.account)),
                    ("{least}", &given.least.to_string()),
                    ("{account}", &escaped(&words.account)),
                    ("{password}", &escaped(&words.password)),
                    ("{again}", &escaped(&words.again)),
                    ("{button}", &escaped(&words.button)),
                ],
            );
            alert + &form
        }
    }
}

fn alert(why: &str) -> String {
    // Operators add messages in languages that this page does not have.
    format!("<p role=\"alert\" dir=\"auto\">{}</p>\n", escaped(why))
}

pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}

pub fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let text = template.to_owned();
    values
        .iter()
        .fold(text, |text, (name, value)| text.replace(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::reply::Content;

    fn form<'a>(token: &'a str, fault: Option<ResetFormError<'a>>) -> ResetPageView<'a> {
        let (account, least) = ("ann@example.com", 8);
        ResetPageView::Form(ResetForm {
            token,
            account,
            least,
            fault,
        })
    }

    fn html(language: &str, view: &ResetPageView<'_>) -> String {
        let reply = Pages::built_in()
            .unwrap()
            .reset(language, StatusCode::OK, view);
        let Content::Bytes(_, bytes) = reply.content else {
            panic!("a page is bytes");
        };
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn every_language_has_every_word() {
        for (language, _) in [FALLBACK].into_iter().chain(TRANSLATIONS) {
            for view in [
                form("pgr_x", Some(ResetFormError::Mismatch)),
                ResetPageView::Done,
            ] {
                let page = html(language, &view);
                assert!(page.contains(&format!("<html lang=\"{language}\">")));
                assert!(!page.replace(STYLE, "").contains('{'), "{page}");
            }
        }
        assert_eq!(
            html("fi", &ResetPageView::Done),
            html("en", &ResetPageView::Done)
        );
    }

    #[test]
    fn the_policy_forbids_loading_and_scripts() {
        let page = html("en", &form("pgr_x", None));
        for word in [
            "<script", "src=", "href=", "http:", "https:", "style=", "onload",
        ] {
            assert!(!page.contains(word), "{word}");
        }
    }

    #[test]
    fn shown_values_are_escaped() {
        let token = "\"><script>";
        let page = html("en", &form(token, Some(ResetFormError::Message("<b>&"))));
        assert!(page.contains("value=\"&quot;&gt;&lt;script&gt;\""));
        assert!(page.contains("&lt;b&gt;&amp;") && !page.contains("<script"));
    }
}
