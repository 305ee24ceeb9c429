//! What the demo brings along: its catalogue, the calls to paste, and the clip, all part of the
//! binary, so that a demo needs nothing beside it.

use std::fs;
use std::path::Path;

use crate::cli::exit::Failure;

/// The catalogue, in the form of a catalogue file.
pub const CATALOG: &str = include_str!("../../../data/demo/catalog.toml");

/// The calls that walk the whole interface, after the variables that they use.
pub const WALK: &str = include_str!("../../../data/demo/walk.sh");

macro_rules! clip {
    ($($name:literal),* $(,)?) => {
        &[$((concat!("demo/", $name), include_bytes!(concat!("../../../data/demo/clip/", $name)))),*]
    };
}

/// The files of the clip, by their paths below the media directory.
const CLIP: &[(&str, &[u8])] = clip![
    "clear/audio.m3u8",
    "clear/audio.mp4",
    "clear/manifest.mpd",
    "clear/master.m3u8",
    "clear/video-180.m3u8",
    "clear/video-180.mp4",
    "clear/video-360.m3u8",
    "clear/video-360.mp4",
    "encrypted/audio.mp4",
    "encrypted/manifest.mpd",
    "encrypted/video-180.mp4",
    "encrypted/video-360.mp4",
];

/// Puts the clip into the media directory.
pub fn unpack(media: &Path) -> Result<(), Failure> {
    for (name, bytes) in CLIP {
        let path = media.join(name);
        let write = || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            fs::write(&path, bytes)
        };
        write().map_err(|error| Failure::file(&path, &error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a manifest names must lie beside it.
    #[test]
    fn the_clip_is_whole() {
        let media = tempfile::tempdir().unwrap();
        unpack(media.path()).unwrap();
        for line in CATALOG.lines().filter(|line| line.starts_with("playlist")) {
            for location in line.split('"').skip(1).step_by(2) {
                let (_, name) = location.split_once(':').unwrap();
                assert!(media.path().join(name).is_file(), "{name}");
            }
        }
        for (manifest, mark) in [
            ("demo/clear/manifest.mpd", "<BaseURL>"),
            ("demo/encrypted/manifest.mpd", "<BaseURL>"),
            ("demo/clear/master.m3u8", "URI=\""),
        ] {
            let path = media.path().join(manifest);
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split(mark).skip(1) {
                let name = rest.split(['<', '"']).next().unwrap();
                assert!(path.with_file_name(name).is_file(), "{manifest}: {name}");
            }
        }
    }
}
