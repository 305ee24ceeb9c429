//! The JavaScript packages for partners, built into the binary, so that a page of a lab needs no other server. `index.json` has
//! the version and, for import maps and script elements, the integrity of each file.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use data_encoding::BASE64;
use ring::digest;
use serde::Serialize;

use crate::embedded_files::{self, EmbeddedFile, EmbeddedFileRequest};
use playgate_http::response::reply::media;
use playgate_http::{Anyone, ApiError, Context, ErrorCode, HttpState, Prepared, Reply};

crate::openapi::words::words! { => r##"
[operations.client_index]
summary = "Index of the JavaScript packages"
text = "The version of the packages `@playgate/client` and `@playgate/player`, and the size and the integrity of each file."
kept = true
returns."200" = { text = "The index.", type = "object", example = '{"version": "0.1.0", "files": {"client.js": {"bytes": 5081, "integrity": "sha384-CVURoADnETSnucFiTpQauxGfe6esSueS2b8LL/v04tA3R52F9s3UMEABM+X1yygf"}}}' }

[operations.client_file]
summary = "File of the JavaScript packages"
text = "A module of the packages, for pages of any origin."
kept = true
returns."200" = { text = "The file.", media = ["text/javascript; charset=utf-8"], example = "export { PlaygateClient } from './client.js';\n" }
errors = ["PATH_NOT_FOUND"]
"## }

#[derive(Serialize)]
struct PackageIndex {
    version: &'static str,
    files: BTreeMap<&'static str, PackageFile>,
}

#[derive(Serialize)]
struct PackageFile {
    bytes: usize,
    integrity: String,
}

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../data/client/", $name)))),*]
    };
}

static SCRIPTS: &[(&str, &str)] = scripts![
    "account.js",
    "adapter-builtin.js",
    "adapter-dash.js",
    "adapter-hls.js",
    "adapter-shaka.js",
    "adapter-video.js",
    "builtin-manifest.js",
    "builtin-stream.js",
    "cache.js",
    "client.js",
    "clock.js",
    "drm.js",
    "error.js",
    "guide.js",
    "heartbeats.js",
    "login.js",
    "measures.js",
    "obligations.js",
    "playback.js",
    "player-adapter.js",
    "player-controls.js",
    "player-element.js",
    "player-panels.js",
    "player-template.js",
    "player-texts.js",
    "player-tracks.js",
    "playgate-client.js",
    "playgate-player.js",
    "prepare.js",
    "retry.js",
    "session.js",
    "storage.js",
    "telemetry.js",
    "timer.js",
    "timings.js",
    "transport.js",
    "view.js",
];

static FILES: LazyLock<Vec<EmbeddedFile>> = LazyLock::new(|| {
    let scripts = SCRIPTS.iter();
    let scripts = scripts.map(|(name, text)| embedded_files::embed((name, media::SCRIPT, text)));
    scripts.collect()
});

static INDEX: LazyLock<Prepared> = LazyLock::new(|| {
    let file = |text: &str| PackageFile {
        bytes: text.len(),
        integrity: integrity(text),
    };
    let files = SCRIPTS.iter().map(|(name, text)| (*name, file(text)));
    let index = PackageIndex {
        version: env!("CARGO_PKG_VERSION"),
        files: files.collect(),
    };
    // Maps with keys of text, and numbers: it cannot fail.
    embedded_files::prepared(media::JSON, serde_json::to_vec(&index).unwrap_or_default())
});

/// Returns what browsers compare a file with.
fn integrity(text: &str) -> String {
    let hash = digest::digest(&digest::SHA384, text.as_bytes());
    format!("sha384-{}", BASE64.encode(hash.as_ref()))
}

pub(crate) fn index(_http: &HttpState, _cx: &Context, _: Anyone) -> Result<Reply, ApiError> {
    Ok(Reply::prepared(INDEX.clone()))
}

/// Pages of partners, on other origins, load these files too: they hold no token.
pub(crate) fn file(
    _http: &HttpState,
    _cx: &Context,
    _: Anyone,
    request: EmbeddedFileRequest,
) -> Result<Reply, ApiError> {
    let found = embedded_files::find(&FILES, &request.name);
    let message = "the packages have no such file; `/client/index.json` lists them";
    let file = found.ok_or_else(|| ApiError::new(ErrorCode::PathNotFound, message))?;
    Ok(Reply::prepared(file.clone()))
}
