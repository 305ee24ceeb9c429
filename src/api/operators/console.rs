//! The operators' console: a page and its scripts, built into the binary. The console works through the administration
//! interface with the token of the operator.
//!
//! The files need no token. They contain no data, and a browser cannot send a token when it loads a page.

use std::sync::LazyLock;

use http::header::LOCATION;
use http::{HeaderValue, StatusCode};

use crate::embedded_files::{self, EmbeddedFile, EmbeddedFileRequest, files};
use playgate_http::Anyone;
use playgate_http::ApiError;
use playgate_http::Context;
use playgate_http::ErrorCode;
use playgate_http::HttpState;
use playgate_http::Reply;
use playgate_http::response::reply::media;

#[cfg(debug_assertions)]
use playgate_http::Prepared;

crate::openapi::words::words! { => r##"
[operations.console_root]
summary = "Redirect to the console"
text = "The console is a web page for operators. It uses this interface with the token that the operator enters, loads nothing from other hosts, and keeps the token in the browser tab only."
returns."302" = { text = "Redirect to the console.", headers = { Location = "string: Relative address of the console: `console/`." } }

[operations.console_entry]
summary = "Redirect to the console (path without a slash)"
text = "Same as `console_root`."
like = "console_root"

[operations.console_file]
summary = "File of the console"
text = "A part of the console: script, style, view or icon."
kept = true
returns."200" = { text = "The file.", media = ["text/javascript; charset=utf-8", "text/css; charset=utf-8", "text/html; charset=utf-8", "image/svg+xml"], examples = { "text/javascript; charset=utf-8" = "export const version = 1;\n", "text/css; charset=utf-8" = "main { margin: 0 }\n", "text/html; charset=utf-8" = "<h1>Users</h1>\n", "image/svg+xml" = "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n" } }
errors = ["PATH_NOT_FOUND"]
"## }

/// Scripts and styles only from this listener, nothing inline, and no requests to other hosts. Pictures are `blob:`, since an
/// image element cannot send the token.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

static FILES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(built_in);

fn built_in() -> Vec<EmbeddedFile> {
    let files = files! {
        "console",
        "index.html": media::HTML,
        "console.css": media::CSS,
        "icon.svg": media::SVG,
        "console.js": media::SCRIPT,
        "access.js": media::SCRIPT,
        "api.js": media::SCRIPT,
        "audit.js": media::SCRIPT,
        "broadcast.js": media::SCRIPT,
        "catalog.js": media::SCRIPT,
        "catalog_edit.js": media::SCRIPT,
        "catalog_import.js": media::SCRIPT,
        "catalog_fields.js": media::SCRIPT,
        "rules.js": media::SCRIPT,
        "chart.js": media::SCRIPT,
        "csv.js": media::SCRIPT,
        "dom.js": media::SCRIPT,
        "fleet.js": media::SCRIPT,
        "grid.js": media::SCRIPT,
        "guides.js": media::SCRIPT,
        "i18n.js": media::SCRIPT,
        "icons.js": media::SCRIPT,
        "keyboard.js": media::SCRIPT,
        "lab.js": media::SCRIPT,
        "list.js": media::SCRIPT,
        "mail.js": media::SCRIPT,
        "names.js": media::SCRIPT,
        "overview.js": media::SCRIPT,
        "panel.js": media::SCRIPT,
        "quality.js": media::SCRIPT,
        "requests.js": media::SCRIPT,
        "schedule.js": media::SCRIPT,
        "sessions.js": media::SCRIPT,
        "store.js": media::SCRIPT,
        "user.js": media::SCRIPT,
        "users.js": media::SCRIPT,
        "why.js": media::SCRIPT,
        "words_de.js": media::SCRIPT,
        "words_sv.js": media::SCRIPT,
        "zones.js": media::SCRIPT,
    };
    files.map(embedded_files::embed).into()
}

fn embedded(name: &str) -> Option<Reply> {
    let file = embedded_files::find(&FILES, name)?;
    #[cfg(debug_assertions)]
    let file = &on_disk(name, file);
    Some(embedded_files::reply(file, POLICY))
}

/// A debug build serves the files of the folder in `PLAYGATE_CONSOLE_DIR`, so that a change to the console needs no build.
#[cfg(debug_assertions)]
fn on_disk(name: &str, built_in: &Prepared) -> Prepared {
    let Some(folder) = std::env::var_os("PLAYGATE_CONSOLE_DIR") else {
        return built_in.clone();
    };
    let text =
        std::fs::read_to_string(std::path::Path::new(&folder).join(name)).unwrap_or_default();
    embedded_files::prepared(built_in.media.clone(), text)
}

pub(crate) fn entry(_http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    Ok(Reply::no_content()
        .with_status(StatusCode::FOUND)
        // Relative, so that it also works behind a proxy that adds a path prefix.
        .with_header(LOCATION, HeaderValue::from_static("console/")))
}

pub(crate) fn page(_http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    find("index.html")
}

pub(crate) fn file(
    _http: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: EmbeddedFileRequest,
) -> Result<Reply, ApiError> {
    find(&request.name)
}

fn find(name: &str) -> Result<Reply, ApiError> {
    let found = embedded(name);
    found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, "the console has no such file"))
}
