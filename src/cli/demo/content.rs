//! Content of the demo: catalogue, example calls and clip, compiled into the binary so that the demo needs
//! no other files.

use std::fs;
use std::path::Path;

use crate::output::Failure;

pub(super) const CATALOG: &str = include_str!("../../../data/demo/catalog.toml");

/// Example calls for the whole interface, without the variables that they use.
pub(super) const WALK: &str = include_str!("../../../data/demo/walk.sh");

macro_rules! clip {
    ($($name:literal),* $(,)?) => {
        &[$((concat!("demo/", $name), include_bytes!(concat!("../../../data/demo/clip/", $name)))),*]
    };
}

/// Files of the clip, by path below the media directory.
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

pub(super) fn unpack(media: &Path) -> Result<(), Failure> {
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

    #[test]
    fn every_file_named_in_a_manifest_exists() {
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
