//! The lab's player page, built into the binary. The page is made of the JavaScript packages and plays with the browser's own
//! media functions; it has no third-party script. In production it is refused: a page that holds tokens of viewers and
//! ends sessions has no place next to real users.

use std::sync::LazyLock;

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde::Serialize;

use crate::embedded_files::{self, EmbeddedFile, EmbeddedFileRequest, files};
use playgate_config::Environment;
use playgate_http::response::reply::media;
use playgate_http::{Anyone, ApiError, Context, ErrorCode, HttpState, Reply};
use playgate_services::DemoAccess;

crate::openapi::words::words! { => r##"
[operations.lab_entry]
summary = "Redirect to the player page"
text = "The page plays films, livestreams and catch-up through this interface and shows each call. It loads nothing from other hosts. Where `environment` is `production` it is answered 404 with the reason."
returns."302" = { text = "Redirect to the player page.", headers = { Location = "string: Relative address of the page: `lab/`." } }
errors = ["PATH_NOT_FOUND"]

[operations.lab_settings]
summary = "Settings of the player page"
text = "In the demo with the demo's partner token and user, so that the page plays at once."
returns."200" = { text = "The settings.", type = "object", example = '{"environment": "staging", "headerPrefix": "Service-", "publicUrl": "https://tv.example"}' }
errors = ["PATH_NOT_FOUND"]

[operations.lab_file]
summary = "File of the player page"
text = "A part of the page: script, style or icon."
kept = true
returns."200" = { text = "The file.", media = ["text/javascript; charset=utf-8", "text/css; charset=utf-8", "text/html; charset=utf-8", "image/svg+xml"], examples = { "text/javascript; charset=utf-8" = "export const version = 1;\n", "text/css; charset=utf-8" = "main { margin: 0 }\n", "text/html; charset=utf-8" = "<h1>Player</h1>\n", "image/svg+xml" = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n" } }
errors = ["PATH_NOT_FOUND"]
"## }

/// No request of the page can leave this listener. Pictures come from buffers of the page (`blob:`), and so does the worker
/// that times heartbeats.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; media-src blob:; \
     worker-src blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

static FILES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(built_in);

fn built_in() -> Vec<EmbeddedFile> {
    let player_files = files! {
        "lab",
        "index.html": media::HTML,
        "lab.css": media::CSS,
        "poster.svg": media::SVG,
        "calls.js": media::SCRIPT,
        "dom.js": media::SCRIPT,
        "lab.js": media::SCRIPT,
        "recorder.js": media::SCRIPT,
        "situations.js": media::SCRIPT,
        "titles.js": media::SCRIPT,
    };
    // The demo's own page, which it prints.
    let demo = files! {
        "demo",
        "watch.html": media::HTML,
        "watch.css": media::CSS,
        "watch.js": media::SCRIPT,
    };
    let shared = files!("console", "icon.svg": media::SVG);
    player_files
        .into_iter()
        .chain(demo)
        .chain(shared)
        .map(embedded_files::embed)
        .collect()
}

fn embedded(name: &str) -> Option<Reply> {
    embedded_files::find(&FILES, name).map(|file| embedded_files::reply(file, POLICY))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SettingsBody<'a> {
    environment: &'static str,
    header_prefix: &'a str,
    public_url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    demo: Option<&'a DemoAccess>,
}

fn check_environment(http: &HttpState) -> Result<(), ApiError> {
    match http.settings.environment {
        Environment::Staging => Ok(()),
        Environment::Production => Err(ApiError::new(
            ErrorCode::PathNotFound,
            "the lab player is not served, because `environment` is `production`; use a staging server or `playgate demo`",
        )),
    }
}

pub(crate) fn entry(http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    check_environment(http)?;
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        // Relative, so that it also works behind a proxy that adds a path prefix.
        .with_header(LOCATION, HeaderValue::from_static("lab/")))
}

pub(crate) fn page(http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    find(http, "index.html")
}

pub(crate) fn settings(http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    check_environment(http)?;
    Reply::json(&SettingsBody {
        environment: http.settings.environment.as_str(),
        header_prefix: &http.settings.header_prefix,
        public_url: &http.settings.public_url,
        demo: http.services.demo.access.get(),
    })
}

pub(crate) fn file(
    http: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: EmbeddedFileRequest,
) -> Result<Reply, ApiError> {
    find(http, &request.name)
}

fn find(http: &HttpState, name: &str) -> Result<Reply, ApiError> {
    check_environment(http)?;
    let found = embedded(name);
    found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, "the lab player has no such file"))
}
