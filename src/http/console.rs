//! Serves the operators' console: a page and its scripts, built into the binary. The console works through
//! the administration interface with the token of the operator.
//!
//! The files need no token. They contain no data, and a browser cannot send a token when it loads a page.

use std::sync::Arc;

use http::HeaderValue;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_FRAME_OPTIONS};

use crate::http::response::cache::CompressibleBody;
use crate::http::response::reply::{Kept, Prepared, Reply, media};

/// Scripts and styles only from this listener, nothing inline, and no requests to other hosts.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
     frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
);

/// Browsers revalidate each time: scripts must match the binary and one another.
const MAX_AGE: u32 = 0;

macro_rules! files {
    ($($name:literal: $media:expr),* $(,)?) => {
        [$(($name, $media, include_str!(concat!("../../data/console/", $name)))),*]
    };
}

type ConsoleFile = (&'static str, Prepared);

pub struct Console(Vec<ConsoleFile>);

impl Console {
    #[must_use]
    pub fn built_in() -> Self {
        let files = files! {
            "index.html": media::HTML,
            "console.css": media::CSS,
            "icon.svg": media::SVG,
            "console.js": media::SCRIPT,
            "access.js": media::SCRIPT,
            "api.js": media::SCRIPT,
            "audit.js": media::SCRIPT,
            "catalog.js": media::SCRIPT,
            "dom.js": media::SCRIPT,
            "guides.js": media::SCRIPT,
            "mail.js": media::SCRIPT,
            "overview.js": media::SCRIPT,
            "panel.js": media::SCRIPT,
            "quality.js": media::SCRIPT,
            "schedule.js": media::SCRIPT,
            "sessions.js": media::SCRIPT,
            "store.js": media::SCRIPT,
            "users.js": media::SCRIPT,
            "why.js": media::SCRIPT,
        };
        Self(files.map(ready).into())
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

fn ready((name, media, text): (&'static str, HeaderValue, &'static str)) -> ConsoleFile {
    let kept = Kept {
        tag: Kept::tag_of(text.as_bytes()),
        max_age: MAX_AGE,
    };
    let body = Arc::new(CompressibleBody::from(text));
    let until = None;
    (
        name,
        Prepared {
            media,
            body,
            kept,
            until,
        },
    )
}
