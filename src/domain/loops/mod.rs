//! Livestreams without an encoder: a clip for on-demand play that is played round and round for
//! ever, so that live, time-shift and catch-up can be tried against moving pictures.
//!
//! A playlist location `loop:demo/clear/manifest.mpd` names the clip's manifest, of MPEG-DASH or HLS.
//! Below it, where no file can lie, the origin answers with manifests and segments that are made as
//! they are asked for: the clip's own, moved in time. The loop's media time is the Unix time, as the
//! heartbeat wants it, so it needs no state and goes on over restarts. The `name` module tells what there is.

mod boxes;
mod clip;
mod dash;
mod error;
mod fragment;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod grid;
mod hls;
mod name;
mod track;

#[cfg(test)]
mod tests;

use crate::ports::media::MediaDirectory;
use crate::types::{MediaPath, UnixSeconds};

pub use error::LoopError;
pub use name::{Span, manifest};

use clip::Clip;
use name::Name;

/// What stands at a path below a clip's manifest, at one moment. Blocks: it reads files.
///
/// # Errors
/// [`LoopError`].
pub fn answer(
    media: &MediaDirectory,
    path: &MediaPath,
    now: UnixSeconds,
) -> Result<Vec<u8>, LoopError> {
    let (manifest, form, name) = name::split(path).ok_or(LoopError::Absent)?;
    if let Name::Manifest(asked, ..) = name
        && asked != form
    {
        return Err(LoopError::Absent);
    }
    let clip = Clip::read(media, &manifest, form)?;
    match name {
        Name::Manifest(_, span, track) => clip.manifest(span, track, now),
        Name::Init(track) => clip.init(track),
        Name::Segment(track, number) => clip.segment(media, track, number, now),
    }
}
