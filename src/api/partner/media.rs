//! The built-in media origin.

use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use http::HeaderValue;
use http::header::{ACCEPT_RANGES, CACHE_CONTROL};

use playgate_http::response::reply::{FileContent, FileReply, media};
use playgate_http::{
    Anyone, ApiError, CompressibleBody, Context, ErrorCode, Input, Kept, ParseRequest, Payload,
    Prepared, Reply,
};
use playgate_media::loop_channel::{self, LoopError};
use playgate_ports::MediaDirectory;
use playgate_ports::media::MediaFile;
use playgate_process::Turn;
use playgate_services::Services;
use playgate_types::{MediaPath, UnixSeconds};

crate::openapi::words::words! { => r##"
[operations.origin]
summary = "Get a file from the built-in origin"
text = "Serves manifests and segments under the address that a preflight returned. The signed token is part of the path, so relative addresses inherit it. Range requests are supported."
headers = ["Range?", "If-Range?"]
returns."200" = { text = "The file. The media type follows from its name.", media = ["*/*"], example = "#EXTM3U\n#EXT-X-VERSION:7\n", headers = { ETag = "string: Strong entity tag.", Accept-Ranges = "string: Always `bytes`." } }
returns."206" = { text = "The requested range of the file.", media = ["*/*"], example = "#EXTM3U\n", headers = { ETag = "string: Strong entity tag.", Content-Range = "string: Byte range in the body, and the size of the file." } }
returns."304" = { text = "Not modified: the tag in `If-None-Match` is current.", headers = { ETag = "string: Strong entity tag." } }
errors = ["PLAYLIST_TOKEN_INVALID", "SESSION_ENDED", "FILE_NOT_FOUND", "RANGE_NOT_SATISFIABLE"]
"## }

pub(crate) struct OriginRequest {
    pub token: String,
    /// The decoded path below the media directory. No segment is empty, `.` or `..`, or contains a
    /// slash, a backslash or a control character.
    pub path: String,
    /// Whether the client asks for a range.
    pub part: bool,
}

impl ParseRequest for OriginRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            token: input.text("token")?.into_owned(),
            path: input.text("path")?.into_owned(),
            part: input.heads.range.value().is_some(),
        })
    }
}

/// The address is that of one viewer, and ends with the session: a shared cache could not use it, and one in the browser would
/// outlive the session.
const CACHING: HeaderValue = HeaderValue::from_static("no-store");

/// Largest manifest in a file that is compressed, in bytes: it is read into memory.
const COMPRESSED_MAX: u64 = 4 * 1024 * 1024;

enum FoundMedia {
    File(MediaFile),
    /// A part of a loop, or a manifest that was read.
    Generated(Vec<u8>),
}

pub(crate) async fn origin(
    services: &Services,
    cx: &Context,
    _: Anyone,
    request: OriginRequest,
) -> Result<Reply, ApiError> {
    // A malformed path is answered like a missing file, before anything of it reaches the disk.
    let path = MediaPath::parse(&request.path).ok_or_else(file_not_found)?;
    // Checked before the disk is accessed, so that no request without a token learns which files
    // exist.
    let access = services
        .playback
        .origin_access(&request.token, &path, cx.now)?
        .ok_or_else(|| {
            ApiError::new(
                ErrorCode::PlaylistTokenInvalid,
                "the signed address is not valid here, or has expired",
            )
        })?;
    let directory = services.media.clone();
    let media = media_type(path.as_str());
    let is_manifest = is_manifest(path.as_str());
    // A stale manifest is made for an earlier time. The segments that it lists exist at any later time.
    let now = match access.stale_since {
        Some(since) if is_manifest => since,
        _ => cx.now,
    };
    // The signed address names no partner.
    let turn = Turn::for_client(None, cx.peer);
    let found = services
        .cold
        .run_for(turn, move |()| {
            let found = find(&directory, &path, now);
            if let Err(LoopError::Unfit(why)) = &found {
                tracing::warn!(
                    path = path.as_str(),
                    why,
                    "failed to make a loop channel of the clip"
                );
            }
            found
        })?
        .await?;
    let (content, tag) = match found {
        Ok(FoundMedia::File(MediaFile {
            file,
            length,
            changed,
        })) => {
            // Length and time of change stand for the content: hashing a segment would read it twice.
            let mut tag = DefaultHasher::new();
            tag.write_u64(length);
            tag.write_u128(changed);
            (FileContent::Disk(file, length), tag.finish())
        }
        Ok(FoundMedia::Generated(bytes)) => {
            let tag = Kept::tag_of(&bytes);
            let bytes = bytes.into();
            // Players fetch live playlists every few seconds, and some have thousands of lines. A range is one of the
            // uncompressed bytes.
            if is_manifest && !request.part {
                let kept = Kept { tag, max_age: 0 };
                let manifest = Prepared {
                    media,
                    body: Arc::new(CompressibleBody::from(bytes)),
                    kept,
                    until: None,
                };
                return Ok(Reply::prepared(manifest)
                    .with_header(CACHE_CONTROL, CACHING)
                    .with_header(ACCEPT_RANGES, HeaderValue::from_static("bytes")));
            }
            (FileContent::Made(bytes), tag)
        }
        Err(LoopError::Absent) => return Err(file_not_found()),
        Err(LoopError::Unfit(_)) => {
            return Err(ApiError::new(
                ErrorCode::FileNotFound,
                "the clip of this livestream cannot be looped; see the log",
            ));
        }
        Err(LoopError::Disk(error)) => return Err(ApiError::internal(error)),
    };
    Ok(Reply::file(FileReply {
        content,
        media,
        tag,
        caching: CACHING,
    }))
}

fn is_manifest(path: &str) -> bool {
    let extension = Path::new(path).extension();
    extension
        .is_some_and(|text| text.eq_ignore_ascii_case("mpd") || text.eq_ignore_ascii_case("m3u8"))
}

/// Finds a file, or generates a part of a loop channel. Blocks.
fn find(
    directory: &MediaDirectory,
    path: &MediaPath,
    now: UnixSeconds,
) -> Result<FoundMedia, LoopError> {
    match directory.open(path)? {
        // An existing file always wins over a generated one with the same path.
        Some(file) if is_manifest(path.as_str()) && file.length <= COMPRESSED_MAX => {
            Ok(FoundMedia::Generated(read(file)?))
        }
        Some(file) => Ok(FoundMedia::File(file)),
        None => loop_channel::generate(directory, path, now).map(FoundMedia::Generated),
    }
}

fn read(file: MediaFile) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // Limited, because the file may grow meanwhile.
    file.file.take(COMPRESSED_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn file_not_found() -> ApiError {
    ApiError::new(ErrorCode::FileNotFound, "there is no such file")
}

fn media_type(path: &str) -> HeaderValue {
    let extension = Path::new(path).extension().and_then(|text| text.to_str());
    let extension = extension.unwrap_or_default().to_ascii_lowercase();
    HeaderValue::from_static(match extension.as_str() {
        "mpd" => "application/dash+xml",
        "m3u8" => "application/vnd.apple.mpegurl",
        "ism" | "ismc" => "application/vnd.ms-sstr+xml",
        "mp4" | "m4s" | "m4v" | "m4i" | "m4f" | "cmfv" | "ismv" => "video/mp4",
        "m4a" | "cmfa" | "isma" => "audio/mp4",
        "cmft" | "cmfm" | "ismt" => "application/mp4",
        "ts" | "m2t" | "m2ts" | "mts" => "video/mp2t",
        "aac" => "audio/aac",
        "ac3" => "audio/ac3",
        "ec3" => "audio/eac3",
        "mp3" => "audio/mpeg",
        "webm" => "video/webm",
        "vtt" | "webvtt" => "text/vtt; charset=utf-8",
        // Session data of HLS.
        "json" => "application/json",
        "ttml" | "dfxp" => "application/ttml+xml",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        // No extension maps to HTML or SVG: a file of the media directory must not run scripts in the origin
        // of the service.
        _ => return media::BYTES,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_determines_the_media_type() {
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
