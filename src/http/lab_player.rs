//! The files of the lab's player page, built into the binary. The page plays through the partner interface with the
//! browser's own media functions; it has no third-party script.

use http::HeaderValue;
use serde::Serialize;

use crate::http::embedded_files::{EmbeddedFile, embed, find, reply};
use crate::http::response::reply::{Reply, media};

/// No request of the page can leave this listener. Pictures come from buffers of the page (`blob:`).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; media-src blob:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

/// Credentials that the demo prints at its start. They protect nothing but its sample data.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DemoAccess {
    pub partner_token: String,
    pub identity: &'static str,
    pub access_key: &'static str,
    pub pin_code: &'static str,
    /// Base address of the operations listener, for the front page.
    #[serde(skip)]
    pub ops_url: String,
}

macro_rules! files {
    ($($name:literal: $media:expr),* $(,)?) => {
        [$(($name, $media, include_str!(concat!("../../data/lab/", $name)))),*]
    };
}

pub struct LabPlayer(Vec<EmbeddedFile>);

impl LabPlayer {
    #[must_use]
    pub fn built_in() -> Self {
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
        Self(own.into_iter().chain(shared).map(embed).collect())
    }

    #[must_use]
    pub fn file(&self, name: &str) -> Option<Reply> {
        find(&self.0, name).map(|file| reply(file, POLICY))
    }
}
