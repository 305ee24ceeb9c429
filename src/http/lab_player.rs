//! The files of the lab's player page, built into the binary. The page plays through the partner interface with the
//! browser's own media functions; it has no third-party script.

use std::sync::Arc;

use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};
use serde::Serialize;

use crate::http::response::cache::CompressibleBody;
use crate::http::response::reply::{Kept, Prepared, Reply, media};

/// Only this listener: no request of the page can leave it. Pictures come from buffers of the page (`blob:`).
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; media-src blob:; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

/// What the demo prints at its start. It protects nothing but the demo's own sample data.
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

/// Browsers revalidate each time: scripts must match the binary and one another.
const MAX_AGE: u32 = 0;

type PlayerFile = (&'static str, Prepared);

pub struct LabPlayer(Vec<PlayerFile>);

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
        Self(own.into_iter().chain(shared).map(prepare).collect())
    }

    #[must_use]
    pub fn file(&self, name: &str) -> Option<Reply> {
        let (_, file) = self.0.iter().find(|(known, _)| *known == name)?;
        let reply = Reply::prepared(file.clone())
            .with_header(CONTENT_SECURITY_POLICY, POLICY)
            .with_header(REFERRER_POLICY, HeaderValue::from_static("no-referrer"))
            .with_header(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        Some(reply)
    }
}

fn prepare((name, media, text): (&'static str, HeaderValue, &'static str)) -> PlayerFile {
    let kept = Kept {
        tag: Kept::tag_of(text.as_bytes()),
        max_age: MAX_AGE,
    };
    let prepared = Prepared {
        media,
        body: Arc::new(CompressibleBody::from(text)),
        kept,
        until: None,
    };
    (name, prepared)
}
