//! HLS: turns the playlists of a clip into live playlists, or into those of a finished range.

use std::fmt::Write as _;

use super::error::{LoopError, unfit};
use super::path::{LoopPath, ManifestFormat, ManifestRange};
use super::timeline::{LoopTimeline, SegmentWindow, decimal, moment};
use super::track::TrackHead;

const TRACKS_MAX: usize = 32;
const BYTE_ORDER_MARK: char = '\u{feff}';
/// Tags of a master playlist that do not hold for its loop: the frames of I-frame and image playlists are parts of
/// segments, a start is a place in the clip, and the servers of content steering have no loop.
const LEFT_OUT: [&str; 4] = [
    "#EXT-X-I-FRAME-STREAM-INF:",
    "#EXT-X-IMAGE-STREAM-INF:",
    "#EXT-X-START:",
    "#EXT-X-CONTENT-STEERING:",
];
/// Tags whose URI would be resolved against the loop's path, where no file lies, unless it is absolute.
const WITH_ADDRESS: [&str; 2] = ["#EXT-X-SESSION-KEY:", "#EXT-X-SESSION-DATA:"];

#[derive(Debug)]
pub(super) enum Hls {
    Master(Vec<Line>),
    Media,
}

#[derive(Debug)]
pub(super) enum Line {
    Kept(String),
    /// Text before the name of a media playlist, index of the track, text after it.
    Track(String, usize, String),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Media {
    /// The single file that contains all segments.
    pub(super) file: String,
    keys: Vec<String>,
    /// Whether each segment can be decoded by itself, as the clip says.
    independent: bool,
}

impl Hls {
    pub(super) fn read(text: &str) -> Result<(Self, Vec<String>), LoopError> {
        let mut names: Vec<String> = Vec::new();
        // Variants share media playlists, so each name is one track.
        let mut track = |name: &str| {
            let known = names.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
        };
        // RFC 8216, 4.1 forbids the mark, and editors write it.
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        if !text.starts_with("#EXTM3U") {
            return Err(unfit("the playlist does not begin with `#EXTM3U`"));
        }
        // A media playlist names segments and no variants.
        if !text.contains("#EXT-X-STREAM-INF:") {
            return Ok((Self::Media, names));
        }
        let mut lines = Vec::new();
        for line in text.lines().map(str::trim) {
            lines.push(match line {
                line if LEFT_OUT.iter().any(|tag| line.starts_with(tag)) => continue,
                line if WITH_ADDRESS.iter().any(|tag| line.starts_with(tag))
                    && !is_absolute(line).unwrap_or(true) =>
                {
                    continue;
                }
                line if line.starts_with("#EXT-X-MEDIA:") => match attribute(line, "URI") {
                    Some((before, name, behind)) => {
                        Line::Track(before.to_owned(), track(name), behind.to_owned())
                    }
                    None => Line::Kept(line.to_owned()),
                },
                line if line.starts_with('#') || line.is_empty() => Line::Kept(line.to_owned()),
                // A line that is no tag is a URI (RFC 8216, 4.1).
                name => Line::Track(String::new(), track(name), String::new()),
            });
        }
        if names.len() > TRACKS_MAX {
            return Err(unfit("the playlist has over 32 tracks"));
        }
        Ok((Self::Master(lines), names))
    }
}

pub(super) fn master(lines: &[Line], span: ManifestRange) -> String {
    let mut out = String::new();
    for line in lines {
        // Writing to a string cannot fail.
        let _ = match line {
            Line::Kept(text) => writeln!(out, "{text}"),
            Line::Track(before, track, behind) => {
                let name = LoopPath::Manifest(ManifestFormat::Hls, span, Some(*track));
                writeln!(out, "{before}{name}{behind}")
            }
        };
    }
    out
}

impl Media {
    /// [`LoopError::Unfit`] if a loop cannot be made of the playlist.
    pub(super) fn read(text: &str) -> Result<Self, LoopError> {
        let mut media = Self::default();
        let one_file =
            || unfit("a playlist must name one fragmented MP4 file for all of its segments");
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        for line in text.lines().map(str::trim) {
            if line.starts_with("#EXT-X-KEY:METHOD=NONE") {
                // What follows is clear. Where a key precedes it, only a part of the clip is encrypted.
                if !media.keys.is_empty() {
                    return Err(unfit("the whole clip must be encrypted, or nothing of it"));
                }
            } else if line.starts_with("#EXT-X-KEY:") {
                // A relative key URI would be resolved against the loop's path, where no key lies.
                if is_absolute(line) != Some(true) || !media.file.is_empty() {
                    return Err(unfit(
                        "`EXT-X-KEY` must have an absolute URI and precede `EXT-X-MAP`",
                    ));
                }
                media.keys.push(line.to_owned());
            } else if line.starts_with("#EXT-X-MAP:") {
                let (_, file, _) = attribute(line, "URI").ok_or_else(one_file)?;
                if !media.file.is_empty() && media.file != file {
                    return Err(one_file());
                }
                file.clone_into(&mut media.file);
            } else if line == "#EXT-X-INDEPENDENT-SEGMENTS" {
                media.independent = true;
            } else if !line.starts_with('#') && !line.is_empty() && line != media.file {
                return Err(one_file());
            }
        }
        match media.file.is_empty() {
            true => Err(one_file()),
            false => Ok(media),
        }
    }

    pub(super) fn write(
        &self,
        track: usize,
        head: &TrackHead,
        (timeline, target): (&LoopTimeline, u64),
        window: &SegmentWindow,
    ) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.try_write(&mut out, track, head, (timeline, target), window);
        out
    }

    fn try_write(
        &self,
        out: &mut String,
        track: usize,
        head: &TrackHead,
        (timeline, target): (&LoopTimeline, u64),
        window: &SegmentWindow,
    ) -> std::fmt::Result {
        let scale = u64::from(head.scale);
        let lengths = head.lengths(timeline.clip(head.scale));
        let first = *window.numbers.start();
        let (turn, piece) = timeline.iteration(first);
        let begin = timeline.begin(turn, head.scale).unwrap_or_default();
        let begin = begin.saturating_add(head.pieces.get(piece).map_or(0, |piece| piece.start));
        // `EXT-X-MAP` requires version 6 (RFC 8216, 7).
        writeln!(out, "#EXTM3U\n#EXT-X-VERSION:6")?;
        writeln!(out, "#EXT-X-TARGETDURATION:{target}")?;
        writeln!(out, "#EXT-X-MEDIA-SEQUENCE:{first}")?;
        match window.span {
            ManifestRange::Live => {}
            ManifestRange::Window { .. } => {
                // Of an EVENT playlist only lines at its end may be added (RFC 8216, 4.3.3.5 and 6.2.1). A finished range
                // keeps the type: players that began before its end still fetch it.
                writeln!(out, "#EXT-X-PLAYLIST-TYPE:EVENT")?;
                // A viewer who starts a program over begins at its start.
                writeln!(out, "#EXT-X-START:TIME-OFFSET=0")?;
            }
        }
        if self.independent {
            writeln!(out, "#EXT-X-INDEPENDENT-SEGMENTS")?;
        }
        for key in &self.keys {
            writeln!(out, "{key}")?;
        }
        writeln!(out, "#EXT-X-MAP:URI=\"{}\"", LoopPath::Init(track))?;
        writeln!(out, "#EXT-X-PROGRAM-DATE-TIME:{}", moment(begin, scale))?;
        for number in window.numbers.clone() {
            let (_, piece) = timeline.iteration(number);
            let length = decimal(lengths.get(piece).copied().unwrap_or_default(), scale);
            writeln!(
                out,
                "#EXTINF:{length},\n{}",
                LoopPath::Segment(track, number)
            )?;
        }
        // Without this tag players fetch a finished playlist again and again.
        if !window.is_open {
            writeln!(out, "#EXT-X-ENDLIST")?;
        }
        Ok(())
    }
}

/// Whether the URI of a tag is absolute; `None` if it has none.
fn is_absolute(line: &str) -> Option<bool> {
    attribute(line, "URI").map(|(_, address, _)| address.contains(':'))
}

/// Splits a line at a quoted attribute: the text before the value, the value, and the text after it.
fn attribute<'a>(line: &'a str, name: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let mark = format!("{name}=\"");
    let at = line.match_indices(&mark).map(|(at, _)| at).find(|at| {
        let before = line.get(..*at).unwrap_or_default();
        // `URI` must not match the end of a longer name such as `X-URI`.
        before.ends_with([',', ':'])
    })?;
    let (before, rest) = line.split_at_checked(at + mark.len())?;
    let end = rest.find('"')?;
    let (value, behind) = rest.split_at_checked(end)?;
    Some((before, value, behind))
}
