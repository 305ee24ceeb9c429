//! Livestreams without an encoder: a clip for on-demand play that is played round and round for
//! ever, so that live, time-shift and catch-up can be tried against moving pictures.
//!
//! A playlist location `loop:demo/clear/manifest.mpd` names the clip's manifest, of MPEG-DASH or HLS.
//! Below it, where no file can lie, the origin answers with manifests and segments that are made as
//! they are asked for: the clip's own, moved in time. The loop's media time is the Unix time, as the
//! heartbeat wants it, so it needs no state and goes on over restarts. The `name` module tells what there is.

mod clip;
mod dash;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod hls;
mod mp4_boxes;
mod path;
mod retime;
mod timeline;
mod track;

#[cfg(test)]
mod tests;

use crate::ports::media::MediaDirectory;
use crate::types::{MediaPath, UnixSeconds};

pub use error::LoopError;
pub use path::{ManifestRange, manifest};

use clip::Clip;
use path::LoopPath;

/// What stands at a path below a clip's manifest, at one moment. Blocks: it reads files.
///
/// # Errors
/// [`LoopError`].
pub fn answer(
    media: &MediaDirectory,
    path: &MediaPath,
    now: UnixSeconds,
) -> Result<Vec<u8>, LoopError> {
    let (manifest, form, name) = path::split(path).ok_or(LoopError::Absent)?;
    if let LoopPath::Manifest(asked, ..) = name
        && asked != form
    {
        return Err(LoopError::Absent);
    }
    let clip = Clip::read(media, &manifest, form)?;
    match name {
        LoopPath::Manifest(_, span, track) => clip.manifest(span, track, now),
        LoopPath::Init(track) => clip.init(track),
        LoopPath::Segment(track, number) => clip.segment(media, track, number, now),
    }
}
