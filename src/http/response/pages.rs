//! The pages of the public listener for viewers: a new password, what is on now, an address without a page. They have the
//! name, logo and colour of the mails, work without scripts, and load nothing but the logo.
//!
//! A reset token must not leak from the address of its page: the pages send no referrer, cannot be framed or cached,
//! and the form posts to the address without the token.

use data_encoding::BASE64;
use http::header::{CONTENT_SECURITY_POLICY, InvalidHeaderValue, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderName, HeaderValue, StatusCode};
use ring::digest;
use serde::Deserialize;

use crate::response::reply::{Reply, media};
use playgate_domain::mail::{Brand, Logo};
use playgate_types::html_escape::escaped;

const SKELETON: &str = include_str!("../../../data/pages/page.html");
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
pub struct Words {
    #[serde(skip)]
    pub language: &'static str,
    title: String,
    account: String,
    password: String,
    again: String,
    button: String,
    mismatch: String,
    done: String,
    ask_again: String,
    pub on_now: String,
    pub nothing: String,
    pub no_guide: String,
    pub progress: String,
    pub more: String,
    pub developers: String,
    pub docs: String,
    pub watch: String,
    pub lab: String,
    pub console: String,
    pub console_demo: String,
    pub console_at: String,
    missing: String,
    missing_text: String,
    home: String,
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
    /// The link is used, too old or replaced; links work for this many minutes.
    DeadLink(&'a str, u32),
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
    brand: String,
    /// What stands above each page: the logo, or the name.
    head: String,
    style: String,
    policy: HeaderValue,
}

impl Pages {
    pub fn new(brand: &Brand) -> Result<Self, &'static str> {
        let style = STYLE
            .replace("{colour}", &brand.colour.to_string())
            .replace("{ink}", &brand.colour.ink().to_string());
        let name = escaped(&brand.name);
        let (head, images) = match &brand.logo {
            None => (name.clone(), None),
            Some(logo) => {
                let source = escaped(&logo.source());
                let image = format!("<img src=\"{source}\" alt=\"{name}\">");
                let images = match logo {
                    // Without the query, which a policy cannot have.
                    Logo::Address(address) => address.split(['?', '#']).next().unwrap_or_default(),
                    Logo::File(_) => "data:",
                };
                (image, Some(images))
            }
        };
        let policy = policy(&style, None, "'self'").map_err(|_| "the policy")?;
        let policy = match images {
            None => policy,
            Some(images) => {
                let policy = policy.to_str().unwrap_or_default();
                let policy = format!("{policy}; img-src {images}");
                HeaderValue::from_str(&policy).map_err(|_| "the policy")?
            }
        };
        Ok(Self {
            fallback: Words::read(FALLBACK)?,
            others: TRANSLATIONS
                .map(Words::read)
                .into_iter()
                .collect::<Result<_, _>>()?,
            brand: name,
            head,
            style,
            policy,
        })
    }

    pub fn words(&self, language: &str) -> &Words {
        let mut others = self.others.iter();
        let words = others.find(|words| words.language == language);
        words.unwrap_or(&self.fallback)
    }

    pub fn reset(&self, language: &str, status: StatusCode, view: &ResetPageView<'_>) -> Reply {
        let words = self.words(language);
        self.page(words, "reset", &words.title, &content(words, view))
            .with_status(status)
    }

    /// The page for an address without one. `home` is the address of the front page.
    pub fn missing(&self, language: &str, home: &str) -> Reply {
        let words = self.words(language);
        let content = format!(
            "<p>{}</p>\n<p><a href=\"{}/\">{}</a></p>",
            escaped(&words.missing_text),
            escaped(home),
            escaped(&words.home)
        );
        self.page(words, "missing", &words.missing, &content)
            .with_status(StatusCode::NOT_FOUND)
    }

    /// Makes a page. `content` is HTML.
    pub fn page(&self, words: &Words, kind: &str, title: &str, content: &str) -> Reply {
        let page = fill(
            SKELETON,
            &[
                ("{language}", words.language),
                ("{kind}", kind),
                ("{title}", &escaped(title)),
                ("{head}", &self.head),
                ("{brand}", &self.brand),
                // The style is inserted byte for byte, because the policy allows it by its hash.
                ("{style}", &self.style),
                ("{content}", content),
            ],
        );
        Reply::bytes(media::HTML, page)
            .with_header(CONTENT_SECURITY_POLICY, self.policy.clone())
            // The address of the page may contain a reset token.
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
        ResetPageView::DeadLink(why, minutes) => {
            let how = words.ask_again.replace("{minutes}", &minutes.to_string());
            format!("{}<p>{}</p>", alert(why), escaped(&how))
        }
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
        let pages = Pages::new(&Brand::default()).unwrap();
        text(pages.reset(language, StatusCode::OK, view))
    }

    fn text(reply: Reply) -> String {
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
                ResetPageView::DeadLink("Gone.", 30),
            ] {
                let page = html(language, &view);
                assert!(page.contains(&format!("<html lang=\"{language}\">")));
                let (_, body) = page.split_once("</style>").unwrap();
                assert!(!body.contains('{'), "{page}");
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
    fn a_logo_is_the_only_image_that_a_page_may_load() {
        for (logo, allowed) in [
            (None, None),
            (
                Some("https://tv.example/a.png?v=2"),
                Some("img-src https://tv.example/a.png"),
            ),
        ] {
            let brand = Brand {
                name: "T&V".to_owned(),
                logo: logo.map(|address| Logo::Address(address.to_owned())),
                ..Brand::default()
            };
            let pages = Pages::new(&brand).unwrap();
            let policy = pages.policy.to_str().unwrap().to_owned();
            assert_eq!(
                policy.split("; ").find(|part| part.starts_with("img-src")),
                allowed
            );
            let page = text(pages.missing("sv", "https://tv.example"));
            assert!(page.contains("<title>Sidan finns inte · T&amp;V</title>"));
            assert!(page.contains("href=\"https://tv.example/\""), "{page}");
            assert_eq!(page.contains("alt=\"T&amp;V\""), logo.is_some());
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
