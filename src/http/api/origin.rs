//! Handler of the built-in origin.

use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use http::HeaderValue;

use crate::app::App;
use crate::http::context::Context;
use crate::http::endpoint::origin::OriginRequest;
use crate::http::error::{ApiError, ErrorCode};
use crate::http::reply::{FileReply, Reply, media};
use crate::ports::media::MediaFile;
use crate::types::MediaPath;

/// GET a file of the origin, or a range of it.
///
/// # Errors
/// `PLAYLIST_TOKEN_INVALID`, `FILE_NOT_FOUND`.
pub async fn origin(app: &App, cx: &Context, request: OriginRequest) -> Result<Reply, ApiError> {
    let path = MediaPath::parse(&request.path).ok_or_else(no_file)?;
    // Before the disk is asked: without a token nobody learns what there is.
    if !app.playback.origin_allows(&request.token, &path, cx.now) {
        return Err(ApiError::new(
            ErrorCode::PlaylistTokenInvalid,
            "the signed address is not valid here, or has expired",
        ));
    }
    let directory = app.media.clone();
    let media = media_type(path.as_str());
    let found = app
        .cold
        .run(move |()| directory.open(&path))?
        .await?
        .map_err(ApiError::internal)?;
    let MediaFile {
        file,
        length,
        changed,
    } = found.ok_or_else(no_file)?;
    let mut tag = DefaultHasher::new();
    tag.write_u64(length);
    tag.write_u128(changed);
    Ok(Reply::file(FileReply {
        file,
        length,
        media,
        tag: tag.finish(),
        caching: HeaderValue::from_static("no-store"),
    }))
}

fn no_file() -> ApiError {
    ApiError::new(ErrorCode::FileNotFound, "there is no such file")
}

/// The media type of a file by its name: what players go by. Nothing is sent as a type that a
/// browser runs.
fn media_type(path: &str) -> HeaderValue {
    let extension = Path::new(path).extension().and_then(|text| text.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    HeaderValue::from_static(match extension.as_str() {
        "mpd" => "application/dash+xml",
        "m3u8" => "application/vnd.apple.mpegurl",
        "ism" | "ismc" => "application/vnd.ms-sstr+xml",
        "mp4" | "m4s" | "m4v" | "cmfv" | "ismv" => "video/mp4",
        "m4a" | "cmfa" | "isma" => "audio/mp4",
        "ts" => "video/mp2t",
        "aac" => "audio/aac",
        "mp3" => "audio/mpeg",
        "webm" => "video/webm",
        "vtt" => "text/vtt; charset=utf-8",
        "ttml" | "dfxp" => "application/ttml+xml",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        _ => return media::BYTES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_as_what_players_know() {
        for (path, expected) in [
            ("a/manifest.mpd", "application/dash+xml"),
            ("a/MASTER.M3U8", "application/vnd.apple.mpegurl"),
            ("1.m4s", "video/mp4"),
            ("1.ts", "video/mp2t"),
            ("page.html", "application/octet-stream"),
            ("picture.svg", "application/octet-stream"),
            ("mpd", "application/octet-stream"),
        ] {
            assert_eq!(media_type(path), expected, "{path}");
        }
    }
}
