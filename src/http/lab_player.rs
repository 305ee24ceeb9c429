//! The files of the lab's player page, built into the binary. The page plays through the partner interface with the
//! browser's own media functions; it has no third-party script.

use std::sync::LazyLock;

use http::HeaderValue;

use crate::http::embedded_files::{EmbeddedFile, embed, find, reply};
use crate::http::response::reply::{Reply, media};

/// No request of the page can leave this listener. Pictures come from buffers of the page (`blob:`).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; media-src blob:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

macro_rules! files {
    ($($name:literal: $media:expr),* $(,)?) => {
        [$(($name, $media, include_str!(concat!("../../data/lab/", $name)))),*]
    };
}

static FILES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(built_in);

fn built_in() -> Vec<EmbeddedFile> {
    let own = files! {
        "index.html": media::HTML,
        "lab.css": media::CSS,
        "calls.js": media::SCRIPT,
        "client.js": media::SCRIPT,
        "dom.js": media::SCRIPT,
        "interface.js": media::SCRIPT,
        "lab.js": media::SCRIPT,
        "manifest.js": media::SCRIPT,
        "media.js": media::SCRIPT,
        "situations.js": media::SCRIPT,
        "telemetry.js": media::SCRIPT,
    };
    let icon = include_str!("../../data/console/icon.svg");
    let shared = [("icon.svg", media::SVG, icon)];
    own.into_iter().chain(shared).map(embed).collect()
}

#[must_use]
pub(crate) fn file(name: &str) -> Option<Reply> {
    find(&FILES, name).map(|file| reply(file, POLICY))
}
