//! Serves the operators' console: a page and its scripts, built into the binary. The console works through
//! the administration interface with the token of the operator.
//!
//! The files need no token. They contain no data, and a browser cannot send a token when it loads a page.

use std::sync::LazyLock;

use http::HeaderValue;

use crate::http::embedded_files::{EmbeddedFile, embed, find, reply};
use crate::http::response::reply::{Reply, media};

/// Scripts and styles only from this listener, nothing inline, and no requests to other hosts.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

macro_rules! files {
    ($($name:literal: $media:expr),* $(,)?) => {
        [$(($name, $media, include_str!(concat!("../../data/console/", $name)))),*]
    };
}

static FILES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(built_in);

fn built_in() -> Vec<EmbeddedFile> {
    let files = files! {
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
        "chart.js": media::SCRIPT,
        "csv.js": media::SCRIPT,
        "dom.js": media::SCRIPT,
        "fleet.js": media::SCRIPT,
        "grid.js": media::SCRIPT,
        "guides.js": media::SCRIPT,
        "i18n.js": media::SCRIPT,
        "lab.js": media::SCRIPT,
        "list.js": media::SCRIPT,
        "mail.js": media::SCRIPT,
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
    files.map(embed).into()
}

#[must_use]
pub(crate) fn file(name: &str) -> Option<Reply> {
    let file = find(&FILES, name)?;
    #[cfg(debug_assertions)]
    let file = &on_disk(name, file);
    Some(reply(file, POLICY))
}

/// A debug build serves the files of the folder in `PLAYGATE_CONSOLE_DIR`, so that a change to the console needs no build.
#[cfg(debug_assertions)]
fn on_disk(
    name: &str,
    built_in: &crate::http::response::prepared::Prepared,
) -> crate::http::response::prepared::Prepared {
    let Some(folder) = std::env::var_os("PLAYGATE_CONSOLE_DIR") else {
        return built_in.clone();
    };
    let text =
        std::fs::read_to_string(std::path::Path::new(&folder).join(name)).unwrap_or_default();
    crate::http::embedded_files::prepared(built_in.media.clone(), text)
}
