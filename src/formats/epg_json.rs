//! EPG files in JSON, in the format of the schedule's day route: `{livestreamId: [Broadcast…]}`
//! with `pgAge`.
//!
//! The reader streams: it follows the outer brackets and parses one broadcast at a time, so that
//! memory does not grow with the file. Unneeded members are ignored.

use std::io::{BufRead, Cursor, Read};

use serde::Deserialize;
use serde_json::Value;

use super::epg_json_details::{self, WireDetails};
use playgate_domain::schedule::import::bounded_lines::BoundedLines;
use playgate_domain::schedule::import::repairs::{Repair, Repairs};
use playgate_domain::schedule::import::xmltv::{Xmltv, XmltvOptions};
use playgate_domain::schedule::import::{
    DEPTH_MAX, GuideError, GuideEvent, GuideEvents, GuideProblem, GuideProgramme, RepeatedHour,
    Skip,
};
use playgate_domain::schedule::{Image, Metadata};
use playgate_types::UnixSeconds;

const HEAD_BYTES: u64 = 1_024;

pub fn source<'a>(
    mut unpacked: Box<dyn Read + 'a>,
    options: XmltvOptions,
) -> Result<Box<dyn GuideEvents + 'a>, GuideError> {
    // The first bytes decide: names and media types of files do not tell the format.
    let mut head = Vec::new();
    let read = unpacked.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|error| GuideError::Unreadable(error.to_string()))?;
    // A byte order mark may precede the text.
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    let json = matches!(first, Some(b'{' | b'['));
    let whole = Cursor::new(head).chain(unpacked);
    Ok(if json {
        Box::new(JsonGuide::new(whole))
    } else {
        Box::new(Xmltv::new(whole, options))
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireBroadcast {
    id: Option<String>,
    title: Option<String>,
    description: Option<String>,
    subtitle: Option<String>,
    season: Option<u16>,
    episode: Option<u16>,
    start: Option<i64>,
    stop: Option<i64>,
    images: Option<Vec<WireImage>>,
    pg_age: Option<u8>,
    // Of any form, since one that is not understood costs no broadcast.
    categories: Option<Value>,
    date: Option<Value>,
    new: Option<Value>,
    live: Option<Value>,
    premiere: Option<Value>,
    previously_shown: Option<Value>,
    credits: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireImage {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    default: bool,
    filename: String,
    #[serde(default)]
    embedded_text: bool,
    purpose: Option<Value>,
    size: Option<Value>,
}

enum ParserPosition {
    Outside,
    /// Inside the outer object, before a livestream or the end. `more` is set after the first livestream.
    Object {
        more: bool,
    },
    /// Inside the list of a livestream. `more` is set after the first broadcast.
    List {
        more: bool,
    },
    Done,
}

pub struct JsonGuide<R> {
    bytes: BoundedLines<R>,
    position: ParserPosition,
    livestream: String,
    value: Vec<u8>,
    repairs: Repairs,
}

impl<R: Read> JsonGuide<R> {
    pub fn new(source: R) -> Self {
        Self {
            bytes: BoundedLines::new(source),
            position: ParserPosition::Outside,
            livestream: String::new(),
            value: Vec::new(),
            repairs: Repairs::default(),
        }
    }

    fn broken(&self, what: &str) -> GuideError {
        GuideError::Broken {
            line: self.bytes.line(),
            what: what.to_owned(),
        }
    }

    fn peek(&mut self) -> Result<Option<u8>, GuideError> {
        let line = self.bytes.line();
        match self.bytes.fill_buf() {
            Ok(bytes) => Ok(bytes.first().copied()),
            Err(error) => Err(match self.bytes.exceeded() {
                Some(limit) => GuideError::TooLarge(limit),
                None if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    GuideError::Truncated { line }
                }
                None => GuideError::Unreadable(error.to_string()),
            }),
        }
    }

    fn token(&mut self) -> Result<Option<u8>, GuideError> {
        loop {
            // The limit is per piece: white space must not count against a broadcast, nor be unlimited.
            self.bytes.begin_piece();
            match self.peek()? {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.bytes.consume(1),
                other => return Ok(other),
            }
        }
    }

    fn expect(&mut self, wanted: u8, what: &str) -> Result<(), GuideError> {
        match self.token()? {
            Some(found) if found == wanted => {
                self.bytes.consume(1);
                Ok(())
            }
            None => Err(self.truncated()),
            Some(_) => Err(self.broken(what)),
        }
    }

    fn truncated(&self) -> GuideError {
        GuideError::Truncated {
            line: self.bytes.line(),
        }
    }

    /// Reads the next string or object into `self.value`. The JSON library validates it later.
    fn read_value(&mut self) -> Result<(), GuideError> {
        self.value.clear();
        let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
        loop {
            let Some(byte) = self.peek()? else {
                return Err(self.truncated());
            };
            self.bytes.consume(1);
            self.value.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if in_text => escaped = true,
                b'"' => in_text = !in_text,
                b'{' | b'[' if !in_text => depth += 1,
                b'}' | b']' if !in_text => depth = depth.saturating_sub(1),
                _ => {}
            }
            // The JSON library recurses over the text that is collected here.
            if depth > DEPTH_MAX {
                return Err(GuideError::TooLarge("elements are nested over 64 deep"));
            }
            if depth == 0 && !in_text {
                return Ok(());
            }
        }
    }

    fn next_broadcast(&mut self) -> Result<Option<()>, GuideError> {
        loop {
            let token = self.token()?;
            self.position = match (&self.position, token) {
                (ParserPosition::Outside, _) => {
                    self.read_start()?;
                    ParserPosition::Object { more: false }
                }
                (ParserPosition::Object { .. }, Some(b'}')) => {
                    self.bytes.consume(1);
                    ParserPosition::Done
                }
                (ParserPosition::Object { more }, _) => {
                    if *more {
                        self.expect(b',', "a comma is missing between livestreams")?;
                    }
                    self.read_livestream()?;
                    ParserPosition::List { more: false }
                }
                (ParserPosition::List { .. }, Some(b']')) => {
                    self.bytes.consume(1);
                    ParserPosition::Object { more: true }
                }
                (ParserPosition::List { more }, _) => {
                    if *more {
                        self.expect(b',', "a comma is missing between broadcasts")?;
                    }
                    self.position = ParserPosition::List { more: true };
                    return Ok(Some(()));
                }
                (ParserPosition::Done, None) => return Ok(None),
                (ParserPosition::Done, Some(_)) => {
                    // Two files in one: the second would be lost silently.
                    return Err(self.broken("something follows the object"));
                }
            };
        }
    }

    fn read_start(&mut self) -> Result<(), GuideError> {
        if self.peek()? == Some(0xef) {
            self.read_mark()?;
        }
        match self.token()? {
            Some(b'{') => {
                self.bytes.consume(1);
                Ok(())
            }
            _ => Err(GuideError::NotAGuide(
                "it is not an object of livestreams".to_owned(),
            )),
        }
    }

    fn read_mark(&mut self) -> Result<(), GuideError> {
        for wanted in [0xef, 0xbb, 0xbf] {
            if self.peek()? != Some(wanted) {
                return Err(self.broken("its characters are not UTF-8"));
            }
            self.bytes.consume(1);
        }
        Ok(())
    }

    fn read_livestream(&mut self) -> Result<(), GuideError> {
        match self.token()? {
            Some(b'"') => self.read_value()?,
            None => return Err(self.truncated()),
            Some(_) => return Err(self.broken("a livestream id is missing")),
        }
        self.livestream = serde_json::from_slice(&self.value)
            .map_err(|_| self.broken("a livestream id is not a text"))?;
        self.expect(b':', "a colon is missing")?;
        self.expect(b'[', "a livestream has no list of broadcasts")
    }
}

impl<R: Read> GuideEvents for JsonGuide<R> {
    fn next_event(&mut self) -> Result<Option<GuideEvent>, GuideError> {
        if self.next_broadcast()?.is_none() {
            return Ok(None);
        }
        match self.token()? {
            Some(b'{') => {}
            None => return Err(self.truncated()),
            Some(_) => return Err(self.broken("a broadcast is not an object")),
        }
        let line = self.bytes.line();
        self.read_value()?;
        let channel = self.livestream.clone();
        let problem = |kind| {
            let problem = GuideProblem::new(line, kind).of_channel(&channel);
            Ok(Some(GuideEvent::Problem(problem)))
        };
        let wire: WireBroadcast = match serde_json::from_slice(&self.value) {
            Ok(wire) => wire,
            // Valid JSON with a member of a wrong type: skip this broadcast, not the whole file.
            Err(error) if error.is_data() => return problem(Skip::Malformed),
            Err(_) => {
                return Err(GuideError::Broken {
                    line,
                    what: "a broadcast is not JSON".to_owned(),
                });
            }
        };
        let Some(start) = wire.start.map(UnixSeconds) else {
            return problem(Skip::BadTime);
        };
        let (stop, id) = (wire.stop.map(UnixSeconds), wire.id.clone());
        let (metadata, left_out) = metadata(wire);
        self.repairs.add_many(Repair::Detail, line, left_out);
        Ok(Some(GuideEvent::Programme(Box::new(GuideProgramme {
            line,
            channel: self.livestream.clone(),
            start,
            stop,
            id,
            repeated: RepeatedHour::default(),
            metadata,
        }))))
    }

    fn repairs(&self) -> Repairs {
        self.repairs.clone()
    }
}

/// Returns how many details were not understood as well.
fn metadata(wire: WireBroadcast) -> (Metadata, u64) {
    let images = wire.images.unwrap_or_default();
    let details = WireDetails {
        categories: wire.categories,
        date: wire.date,
        new: wire.new,
        live: wire.live,
        premiere: wire.premiere,
        previously_shown: wire.previously_shown,
        credits: wire.credits,
    };
    let mut read = details.read();
    for image in &images {
        let members = (image.purpose.as_ref(), image.size.as_ref());
        let text = (&*image.kind, &*image.filename);
        if let Some(typed) = epg_json_details::typed_image(text, members) {
            read.details.add_image(typed);
        }
    }
    let given = |text: Option<String>| {
        let text = text.as_deref().map_or("", str::trim);
        (!text.is_empty()).then(|| text.into())
    };
    let metadata = Metadata {
        // Rows without a title are skipped later, like those of XMLTV.
        title: wire.title.unwrap_or_default().trim().into(),
        description: given(wire.description),
        subtitle: given(wire.subtitle),
        // Seasons and episodes are counted from 1, so 0 means none.
        season: wire.season.filter(|number| *number > 0),
        episode: wire.episode.filter(|number| *number > 0),
        images: images
            .into_iter()
            .map(|image| Image {
                kind: image.kind.into(),
                default: image.default,
                filename: image.filename.into(),
                embedded_text: image.embedded_text,
            })
            .collect(),
        categories: read.categories,
        pg_age: wire.pg_age,
        rating: None,
        details: read.details.boxed(),
    };
    (metadata, read.left_out)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use playgate_domain::schedule::ratings::Ratings;

    fn read(text: &[u8]) -> Result<Vec<GuideEvent>, GuideError> {
        let options = XmltvOptions {
            zone: playgate_types::Zone::utc(),
            ignore_offsets: false,
            languages: Vec::new(),
            ratings: Arc::new(Ratings::built_in()),
            rating_system: None,
        };
        let mut source = source(Box::new(text), options)?;
        let mut events = Vec::new();
        while let Some(event) = source.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    const WHOLE: &str = r#" {
        "news": [
            {"id": "a", "title": " A \"{[\" ", "description": "D", "subtitle": "S", "season": 2, "episode": 5, "start": 10, "stop": 20,
             "liveAvailable": true, "catchupInterval": {"from": 1, "to": 2}, "streamId": null,
             "images": [{"type": "three-four", "default": true, "filename": "f",
                         "embeddedText": true}], "pgAge": 12},
            {"title": "B", "start": 20},
            {"title": "C", "stop": 20},
            {"title": "D", "start": "20"}
        ],
        "t\u00e9": [], "film": [{"start": 1, "stop": 2}] } "#;

    #[test]
    fn day_response_can_be_imported() {
        let events = read(WHOLE.as_bytes()).unwrap();
        let expected = GuideProgramme {
            line: 3,
            channel: "news".to_owned(),
            id: Some("a".to_owned()),
            start: UnixSeconds(10),
            stop: Some(UnixSeconds(20)),
            repeated: RepeatedHour::default(),
            metadata: Metadata {
                title: "A \"{[\"".into(),
                description: Some("D".into()),
                images: vec![Image {
                    kind: "three-four".into(),
                    default: true,
                    filename: "f".into(),
                    embedded_text: true,
                }],
                categories: Vec::new(),
                pg_age: Some(12),
                rating: None,
                subtitle: Some("S".into()),
                season: Some(2),
                episode: Some(5),
                details: None,
            },
        };
        assert_eq!(events[0], GuideEvent::Programme(Box::new(expected)));
        assert!(matches!(&events[1], GuideEvent::Programme(p) if p.stop.is_none()));
        let problem =
            |line, kind| GuideEvent::Problem(GuideProblem::new(line, kind).of_channel("news"));
        assert_eq!(events[2], problem(8, Skip::BadTime));
        assert_eq!(events[3], problem(9, Skip::Malformed));
        assert!(matches!(&events[4], GuideEvent::Programme(p) if p.channel == "film"));
        assert_eq!(events.len(), 5);
        assert_eq!(read(b"{}").unwrap(), []);
        assert_eq!(read(b"\xef\xbb\xbf{\"a\":[]}").unwrap(), []);
    }

    #[test]
    fn truncated_guide_is_rejected() {
        let end = WHOLE.trim_end().len();
        for cut in 0..end {
            assert!(read(&WHOLE.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn malformed_guide_is_rejected() {
        for text in [
            "[]",
            "{\"a\":{}}",
            "{\"a\":[1]}",
            "{\"a\":[{}]",
            "{\"a\":[{}{}]}",
            "{\"a\":[{},]}",
            "{\"a\":[] \"b\":[]}",
            "{\"a\" []}",
            "{a:[]}",
            "{\"a\":[]} x",
            "{\"a\":[{\"title\":\"\\x\"}]}",
            "{\"a\":[{\"title\": nope}]}",
        ] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("{{\"a\":[{{\"b\":{}", "[".repeat(100));
        assert!(matches!(
            read(deep.as_bytes()),
            Err(GuideError::TooLarge(_))
        ));
        let long = format!("{{\"a\":[{{\"title\":\"{}", "x".repeat(2_000_000));
        assert!(matches!(
            read(long.as_bytes()),
            Err(GuideError::TooLarge(_))
        ));
    }
}
