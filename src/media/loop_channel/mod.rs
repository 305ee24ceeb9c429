//! Loop channels: livestreams without an encoder. A clip for on-demand play is repeated endlessly, so that
//! live, time-shift and catch-up can be tried with moving pictures.
//!
//! A playlist location `loop:demo/clear/manifest.mpd` names the clip's DASH or HLS manifest. Below that path,
//! where no file can lie, the origin serves manifests and segments that are generated on request: the clip's
//! own, shifted in time. The media time is the Unix time, as heartbeats need it, so a loop needs no state and
//! survives restarts. Module `path` defines the names.

mod clip;
mod dash;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hls;
mod mp4_boxes;
mod path;
mod retime;
mod timeline;
mod track;

#[cfg(test)]
mod tests;

use playgate_ports::MediaDirectory;
use playgate_types::{MediaPath, UnixSeconds};

pub use error::LoopError;
pub use path::{ManifestRange, is_clip, manifest};

pub use clip::Clip;
use path::LoopPath;

/// Generates a manifest, playlist or segment as of `now`. Blocks, because it reads files.
pub fn generate(
    media: &MediaDirectory,
    path: &MediaPath,
    now: UnixSeconds,
) -> Result<Vec<u8>, LoopError> {
    let (manifest, form, name) = path::split(path).ok_or(LoopError::Absent)?;
    if let LoopPath::Manifest(asked, ..) = name
        && asked != form
    {
        // A DASH clip has no HLS playlist, and the reverse.
        return Err(LoopError::Absent);
    }
    let clip = Clip::read(media, &manifest, form)?;
    match name {
        LoopPath::Manifest(_, span, track) => clip.manifest(span, track, now),
        LoopPath::Init(track) => clip.init(track),
        LoopPath::Segment(track, number) => clip.segment(media, track, number, now),
    }
}
