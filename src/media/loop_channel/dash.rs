//! MPEG-DASH: turns the on-demand manifest of a clip into a live manifest, or into one of a finished range.
//!
//! Segments are listed by a `SegmentTimeline` although all have the same duration: Shaka Player looks back at
//! most a thousand segments by duration, and a timeline reveals a moved clock to players. An audio segment
//! may begin slightly before or after its listed time, because audio frames do not divide the video segment
//! length.

use std::fmt::Write as _;

use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesEnd, BytesStart, Event};
use quick_xml::{Reader, Writer, XmlVersion};

use super::error::{LoopError, unfit};
use super::path::{LoopPath, ManifestRange};
use super::timeline::{DASH_BACK, LoopTimeline, SegmentWindow, decimal, instant};
use playgate_types::UnixSeconds;

/// Suggested distance of a player from the live edge, in segments.
const DELAY_SEGMENTS: u64 = 3;
const TRACKS_MAX: usize = 32;
/// Attributes of `MPD` that a live manifest has of its own.
const OF_LIVE: [&str; 10] = [
    "type",
    "profiles",
    "mediaPresentationDuration",
    "availabilityStartTime",
    "publishTime",
    "minimumUpdatePeriod",
    "suggestedPresentationDelay",
    "timeShiftBufferDepth",
    "maxSegmentDuration",
    "maxSubsegmentDuration",
];
const RENAMED: [(&str, &str); 2] = [
    ("subsegmentAlignment", "segmentAlignment"),
    ("subsegmentStartsWithSAP", "startWithSAP"),
];

/// A manifest, split where a live manifest differs from it.
#[derive(Debug)]
pub(super) struct Dash {
    parts: Vec<ManifestPart>,
    pub(super) files: Vec<String>,
}

#[derive(Debug)]
enum ManifestPart {
    Kept(String),
    Mpd(String),
    Period(String),
    Segments(usize),
    /// The end of `MPD`, where `UTCTiming` is inserted.
    Clock,
}

struct Cut {
    kept: Writer<Vec<u8>>,
    dash: Dash,
    periods: usize,
    file: Option<String>,
}

impl Dash {
    /// [`LoopError::Unfit`] if a loop cannot be made of the manifest.
    pub(super) fn read(text: &str) -> Result<Self, LoopError> {
        let mut reader = Reader::from_str(text);
        // An empty element then has an end event, like any other.
        reader.config_mut().expand_empty_elements = true;
        let mut cut = Cut {
            kept: Writer::new(Vec::new()),
            dash: Self {
                parts: Vec::new(),
                files: Vec::new(),
            },
            periods: 0,
            file: None,
        };
        let broken = |error: quick_xml::Error| unfit(format!("the manifest is broken: {error}"));
        loop {
            match reader.read_event().map_err(broken)? {
                Event::Start(start) => match start.name().as_ref() {
                    "BaseURL" => cut.file = Some(text_of(&mut reader)?),
                    // Elements that locate segments or that a live manifest replaces are dropped.
                    "SegmentBase"
                    | "Location"
                    | "PatchLocation"
                    | "UTCTiming"
                    | "LeapSecondInformation" => {
                        let end = start.to_end().into_owned();
                        reader.read_to_end(end.name()).map_err(broken)?;
                    }
                    "SegmentTemplate" | "SegmentList" => {
                        return Err(unfit("the manifest must name one file for each track"));
                    }
                    _ => cut.start(&start)?,
                },
                Event::End(end) => cut.end(end)?,
                // Entities of a document type could expand without bound.
                Event::DocType(_) => return Err(unfit("the manifest declares a document type")),
                Event::Comment(_) | Event::PI(_) => {}
                Event::Text(text) if text.trim().is_empty() => {}
                Event::Eof => break,
                event => cut.copy_event(event)?,
            }
        }
        // With several periods or a manifest that is cut off, segments would be missing.
        let one = cut.periods == 1 && !cut.dash.files.is_empty();
        let whole = matches!(cut.dash.parts.last(), Some(ManifestPart::Clock));
        (one && whole)
            .then_some(cut.dash)
            .ok_or_else(|| unfit("the manifest must be an MPD of one period with tracks"))
    }

    pub(super) fn write(
        &self,
        timeline: &LoopTimeline,
        window: &SegmentWindow,
        now: UnixSeconds,
    ) -> String {
        let mut out = String::new();
        for part in &self.parts {
            // Writing to a string cannot fail.
            let _ = match part {
                ManifestPart::Kept(text) => out.write_str(text),
                ManifestPart::Mpd(kept) => mpd(&mut out, kept, timeline, window, now),
                ManifestPart::Period(kept) => write!(out, "<Period{kept} start=\"PT0S\">"),
                ManifestPart::Segments(track) => segments(&mut out, *track, timeline, window),
                ManifestPart::Clock if window.is_open => write!(
                    out,
                    "<UTCTiming schemeIdUri=\"urn:mpeg:dash:utc:direct:2014\" value=\"{}\"/></MPD>",
                    instant(now)
                ),
                ManifestPart::Clock => out.write_str("</MPD>"),
            };
        }
        out
    }
}

impl Cut {
    fn start(&mut self, start: &BytesStart<'_>) -> Result<(), LoopError> {
        let part = match start.name().as_ref() {
            "MPD" => {
                let kind = start.try_get_attribute("type").map_err(attributes)?;
                // A live manifest has no file to repeat.
                if kind.is_some_and(|kind| &*kind.value != "static") {
                    return Err(unfit("the manifest is not for on-demand play"));
                }
                let mut kept = kept(start, &OF_LIVE, |name| name)?;
                // ISO 23009-1, 5.3.1.2: mandatory.
                if !has(start, "minBufferTime")? {
                    kept.push_str(" minBufferTime=\"PT2S\"");
                }
                ManifestPart::Mpd(kept)
            }
            "Period" => {
                self.periods += 1;
                let mut kept = kept(start, &["start", "duration"], |name| name)?;
                // By its id a player finds the period again in the next version of the manifest.
                if !has(start, "id")? {
                    kept.push_str(" id=\"0\"");
                }
                ManifestPart::Period(kept)
            }
            "AdaptationSet" => {
                // The attributes have the same meaning for segments, under another name. An attribute must not occur twice.
                let mut replaced = Vec::new();
                for (subsegment, segment) in RENAMED {
                    if has(start, subsegment)? {
                        replaced.push(segment);
                    }
                }
                let renamed = |name| RENAMED.iter().find(|(subsegment, _)| *subsegment == name);
                let attributes = kept(start, &replaced, |name| {
                    renamed(name).map_or(name, |(_, segment)| segment)
                })?;
                ManifestPart::Kept(format!("<AdaptationSet{attributes}>"))
            }
            "Representation" => {
                // A `BaseURL` outside a representation names no track.
                self.file = None;
                return self.copy_event(Event::Start(start.borrow()));
            }
            _ => return self.copy_event(Event::Start(start.borrow())),
        };
        self.push(part);
        Ok(())
    }

    fn end(&mut self, end: BytesEnd<'_>) -> Result<(), LoopError> {
        match end.name().as_ref() {
            "MPD" => self.push(ManifestPart::Clock),
            "Representation" => {
                let file = self.file.take();
                let file = file.ok_or_else(|| unfit("a representation names no file"))?;
                let track = self.dash.files.len();
                if track == TRACKS_MAX {
                    return Err(unfit("the manifest has over 32 representations"));
                }
                self.dash.files.push(file);
                self.push(ManifestPart::Segments(track));
                self.copy_event(Event::End(end))?;
            }
            _ => self.copy_event(Event::End(end))?,
        }
        Ok(())
    }

    fn copy_event(&mut self, event: Event<'_>) -> Result<(), LoopError> {
        self.kept.write_event(event).map_err(LoopError::Disk)
    }

    fn push(&mut self, part: ManifestPart) {
        let kept = std::mem::take(self.kept.get_mut());
        let kept = String::from_utf8_lossy(&kept).into_owned();
        self.dash.parts.extend([ManifestPart::Kept(kept), part]);
    }
}

fn attributes(error: quick_xml::events::attributes::AttrError) -> LoopError {
    unfit(format!("the manifest is broken: {error}"))
}

fn has(start: &BytesStart<'_>, name: &str) -> Result<bool, LoopError> {
    let found = start.try_get_attribute(name).map_err(attributes)?;
    Ok(found.is_some())
}

/// Returns the attributes of a tag, without those in `but`.
fn kept<'a>(
    start: &'a BytesStart<'_>,
    but: &[&str],
    name: impl Fn(&'a str) -> &'a str,
) -> Result<String, LoopError> {
    let mut kept = BytesStart::new("");
    for attribute in start.attributes() {
        let attribute = attribute.map_err(attributes)?;
        let key = attribute.key.into_inner();
        if !but.contains(&key) {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            let value = value.map_err(|error| unfit(format!("the manifest is broken: {error}")))?;
            kept.push_attribute((name(key), &*value));
        }
    }
    Ok(kept.attributes_raw().to_owned())
}

fn text_of(reader: &mut Reader<&[u8]>) -> Result<String, LoopError> {
    let mut text = String::new();
    loop {
        match reader.read_event() {
            Ok(Event::Text(piece)) => text.push_str(&piece.xml10_content()),
            Ok(Event::GeneralRef(name)) => {
                text.push_str(resolve_xml_entity(&name).unwrap_or_default());
            }
            Ok(Event::End(_)) => return Ok(text.trim().to_owned()),
            // Markup in a file name would be lost, so it is an error.
            _ => return Err(unfit("the file name of a track is not plain text")),
        }
    }
}

fn mpd(
    out: &mut String,
    kept: &str,
    timeline: &LoopTimeline,
    window: &SegmentWindow,
    now: UnixSeconds,
) -> std::fmt::Result {
    let (piece, second) = timeline.piece();
    write!(
        out,
        "<MPD{kept} profiles=\"urn:mpeg:dash:profile:isoff-live:2011\" maxSegmentDuration=\"PT{}S\"",
        decimal(piece, second)
    )?;
    if window.is_open {
        let begin = match window.span {
            ManifestRange::Live => UnixSeconds(0),
            ManifestRange::Window { start, .. } => start,
        };
        // The start of availability is that of the media time, so segment numbers need no offset.
        write!(
            out,
            " type=\"dynamic\" availabilityStartTime=\"{}\" publishTime=\"{}\" \
             minimumUpdatePeriod=\"PT{}S\" suggestedPresentationDelay=\"PT{}S\"",
            instant(begin),
            instant(now),
            decimal(piece, second),
            decimal(piece.saturating_mul(DELAY_SEGMENTS), second),
        )?;
    } else {
        write!(out, " type=\"static\"")?;
    }
    match window.span {
        ManifestRange::Live => write!(out, " timeShiftBufferDepth=\"PT{DASH_BACK}S\">"),
        ManifestRange::Window { start, stop } => {
            let length = stop.since(start);
            write!(out, " mediaPresentationDuration=\"PT{length}S\">")
        }
    }
}

fn segments(
    out: &mut String,
    track: usize,
    timeline: &LoopTimeline,
    window: &SegmentWindow,
) -> std::fmt::Result {
    let (piece, second) = timeline.piece();
    let (first, last) = (*window.numbers.start(), *window.numbers.end());
    write!(out, "<SegmentTemplate timescale=\"{second}\"")?;
    if let ManifestRange::Window { start, .. } = window.span {
        // A window begins at 0 for the player, while the segments count from 1970.
        let offset = i128::from(start.0).max(0) * i128::from(second);
        write!(out, " presentationTimeOffset=\"{offset}\"")?;
    }
    // `r` counts the repetitions, so the first segment is not included.
    write!(
        out,
        " startNumber=\"{first}\" initialization=\"{}\" media=\"{track}-$Number$.m4s\">\
         <SegmentTimeline><S t=\"{}\" d=\"{piece}\" r=\"{}\"/></SegmentTimeline></SegmentTemplate>",
        LoopPath::Init(track),
        u128::from(first) * u128::from(piece),
        last - first,
    )
}
