//! The paths below a clip's manifest. A manifest is a file, so no real file can lie below it:
//! `demo/clear/manifest.mpd/live.mpd` never hides one.

use std::fmt;

use playgate_types::{MediaPath, UnixSeconds};

/// Maximum length of a name in bytes: two instants and a track fit.
const NAME_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestRange {
    /// A sliding window that ends at the live point.
    Live,
    Window {
        start: UnixSeconds,
        stop: UnixSeconds,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ManifestFormat {
    Dash,
    Hls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopPath {
    /// `live.mpd`, `catchup-START-STOP.mpd`, the same with `.m3u8`, and for an HLS track `live-TRACK.m3u8`.
    Manifest(ManifestFormat, ManifestRange, Option<usize>),
    /// `TRACK-init.mp4`.
    Init(usize),
    /// `TRACK-NUMBER.m4s`.
    Segment(usize, u64),
}

impl ManifestFormat {
    fn from_suffix(text: &str) -> Option<(&str, Self)> {
        [Self::Dash, Self::Hls].into_iter().find_map(|form| {
            let rest = text.strip_suffix(form.extension())?;
            Some((rest.strip_suffix('.')?, form))
        })
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Dash => "mpd",
            Self::Hls => "m3u8",
        }
    }
}

impl LoopPath {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let name = if let Some((rest, form)) = ManifestFormat::from_suffix(text) {
            let mut parts = rest.split('-');
            let span = match parts.next()? {
                "live" => ManifestRange::Live,
                "catchup" => ManifestRange::Window {
                    start: UnixSeconds(parts.next()?.parse().ok()?),
                    stop: UnixSeconds(parts.next()?.parse().ok()?),
                },
                _ => return None,
            };
            let track = parts.next().map(str::parse).transpose().ok()?;
            Self::Manifest(form, span, track)
        } else if let Some(track) = text.strip_suffix("-init.mp4") {
            Self::Init(track.parse().ok()?)
        } else {
            let (track, number) = text.strip_suffix(".m4s")?.split_once('-')?;
            Self::Segment(track.parse().ok()?, number.parse().ok()?)
        };
        // Only the canonical spelling is accepted, so that caches see one URL for each segment.
        (name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for LoopPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(form, span, track) => {
                match span {
                    ManifestRange::Live => write!(f, "live")?,
                    ManifestRange::Window { start, stop } => write!(f, "catchup-{start}-{stop}")?,
                }
                if let Some(track) = track {
                    write!(f, "-{track}")?;
                }
                write!(f, ".{}", form.extension())
            }
            Self::Init(track) => write!(f, "{track}-init.mp4"),
            Self::Segment(track, number) => write!(f, "{track}-{number}.m4s"),
        }
    }
}

/// Returns `None` if `path` is not a manifest, or too long or too deep for the paths below it.
fn clip(path: &str) -> Option<(MediaPath, ManifestFormat)> {
    let clip = MediaPath::parse(path)?;
    let (_, form) = ManifestFormat::from_suffix(clip.as_str())?;
    clip.has_room_below(NAME_MAX).then_some((clip, form))
}

pub fn is_clip(path: &str) -> bool {
    clip(path).is_some()
}

pub fn manifest(path: &str, span: ManifestRange) -> Option<MediaPath> {
    let (clip, form) = clip(path)?;
    let name = LoopPath::Manifest(form, span, None);
    MediaPath::parse(&format!("{}/{name}", clip.as_str()))
}

/// Splits a path into the clip's manifest and the name below it.
pub(super) fn split(path: &MediaPath) -> Option<(MediaPath, ManifestFormat, LoopPath)> {
    let (clip, name) = path.as_str().rsplit_once('/')?;
    let (_, form) = ManifestFormat::from_suffix(clip)?;
    Some((MediaPath::parse(clip)?, form, LoopPath::parse(name)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_spelling() {
        let window = ManifestRange::Window {
            start: UnixSeconds(10),
            stop: UnixSeconds(20),
        };
        for (text, name) in [
            (
                "live.mpd",
                LoopPath::Manifest(ManifestFormat::Dash, ManifestRange::Live, None),
            ),
            (
                "live-0.m3u8",
                LoopPath::Manifest(ManifestFormat::Hls, ManifestRange::Live, Some(0)),
            ),
            (
                "catchup-10-20.mpd",
                LoopPath::Manifest(ManifestFormat::Dash, window, None),
            ),
            (
                "catchup-10-20-3.m3u8",
                LoopPath::Manifest(ManifestFormat::Hls, window, Some(3)),
            ),
            ("1-init.mp4", LoopPath::Init(1)),
            ("1-883634400.m4s", LoopPath::Segment(1, 883_634_400)),
        ] {
            assert_eq!(LoopPath::parse(text), Some(name), "{text}");
        }
        for bad in [
            "",
            "live",
            "mpd",
            "livempd",
            "live.ts",
            "live-.mpd",
            "live-0-1.m3u8",
            "catchup-10.mpd",
            "catchup-10-020.mpd",
            "catchup-x-20.mpd",
            "+1-init.mp4",
            "1-2-3.m4s",
            "1--2.m4s",
            "01-2.m4s",
            "1-99999999999999999999.m4s",
        ] {
            assert_eq!(LoopPath::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn loop_paths_are_below_the_manifest() {
        let path = |text: &str| MediaPath::parse(text).unwrap();
        let live = manifest("a/b.mpd", ManifestRange::Live).unwrap();
        assert_eq!(live.as_str(), "a/b.mpd/live.mpd");
        let name = LoopPath::Manifest(ManifestFormat::Dash, ManifestRange::Live, None);
        assert_eq!(
            split(&live),
            Some((path("a/b.mpd"), ManifestFormat::Dash, name))
        );
        for none in ["a/b.mp4", "b", "a/mpd"] {
            assert_eq!(manifest(none, ManifestRange::Live), None, "{none}");
        }
        let deep = |directories| "a/".repeat(directories) + "b.mpd";
        assert!(is_clip(&deep(14)) && !is_clip(&deep(15)));
        let long = |bytes| "a".repeat(bytes - ".mpd".len()) + ".mpd";
        let longest = 1_024 - 1 - NAME_MAX;
        assert!(is_clip(&long(longest)) && !is_clip(&long(longest + 1)));
        for none in [
            "live.mpd",
            "a/live.mpd",
            "a/b.mpd/x.mpd",
            "a/b.mpd/c/live.mpd",
        ] {
            assert_eq!(split(&path(none)), None, "{none}");
        }
    }
}
