//! Telemetry bodies: the batch of events, its response and the exported event. `docs/interface.md` describes the format.

use std::borrow::Cow;

use memchr::memchr2;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserializer as _, Serialize};
use serde_json::error::Category;
use serde_json::value::RawValue;

use playgate_decode::strict_json::not_json;
use playgate_formats::event_members::{EventMembers, JsonMembers, JsonText, read_plain_batch};
use playgate_formats::player_event::player_event;
use playgate_http::{ApiError, ErrorCode};
use playgate_records::telemetry::{Accepted, EVENT_BYTES_MAX, EVENTS_MAX, NewEvent, StoredEvent};
use playgate_types::{Described, JsonType, PartnerId, UnixSeconds, UserId};

/// Timestamps from this value on are in milliseconds. In seconds it would be the year 5138, in
/// milliseconds it is March 1973.
const MILLIS_FROM: i64 = 100_000_000_000;

/// End of the year 9999, in milliseconds.
const TIMESTAMP_MAX: i64 = 253_402_300_799_999;

#[derive(Debug, PartialEq, Eq, Described, Serialize)]
pub(crate) struct RejectedEvent {
    /// Index of the event in the batch, counted from 0.
    index: usize,
    /// Why the event was rejected, as a code.
    #[described(JsonType::OneOf(&["INVALID_EVENT", "EVENT_TOO_LARGE", "TOO_MANY_EVENTS"]))]
    code: &'static str,
    /// Why the event was rejected, in words for developers.
    message: Cow<'static, str>,
}

#[derive(Debug, Default)]
pub(crate) struct Batch<'a> {
    pub events: Vec<NewEvent<'a>>,
    pub rejected: Vec<RejectedEvent>,
}

#[derive(Debug, Described, Serialize)]
pub(crate) struct TelemetryResult {
    /// Number of events that were stored.
    accepted: u32,
    /// Number of duplicates: same user, device, `seqId`, `timestamp` and `action` as an event of the last seven days.
    duplicates: u32,
    /// Events that were not stored, with the reasons.
    rejected: Vec<RejectedEvent>,
}

impl TelemetryResult {
    pub(crate) const fn new(taken: Accepted, rejected: Vec<RejectedEvent>) -> Self {
        Self {
            accepted: taken.accepted,
            duplicates: taken.duplicates,
            rejected,
        }
    }
}

impl<'a> Batch<'a> {
    /// Parses a batch.
    ///
    /// # Errors
    /// `INVALID_REQUEST` if the body is not a JSON array; `PAYLOAD_TOO_LARGE` if it has more than
    /// `ELEMENTS_MAX` elements. Players drop their batch on the first and halve it on the second,
    /// so no other mistake may reject the whole batch.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, ApiError> {
        let mut batch = Self::default();
        let plain = read_plain_batch(body, |text, members| {
            // A batch that exceeds a limit is read again below, where events are rejected one by one.
            let fits = batch.len() < EVENTS_MAX && text.len() <= EVENT_BYTES_MAX;
            fits.then(|| batch.push(event(text, members)))
        });
        if plain.is_some() {
            return Ok(batch);
        }
        // The fast reader may have stopped midway; the whole body is read again.
        batch = Self::default();
        let (texts, more) = match elements(body) {
            Ok(elements) => elements,
            // One event that is no JSON must not cost the others.
            Err(whole) => return salvaged_batch(body).ok_or(whole),
        };
        for text in texts {
            batch.push(doubtful_event(text.get()));
        }
        // Rejected one by one, so that the player can send them again in another batch.
        for _ in 0..more {
            batch.push(Err(("TOO_MANY_EVENTS", TOO_MANY_EVENTS.into())));
        }
        Ok(batch)
    }

    fn len(&self) -> usize {
        self.events.len() + self.rejected.len()
    }

    fn push(&mut self, event: Result<NewEvent<'a>, RefusedEvent>) {
        let index = self.len();
        match event {
            Ok(event) => self.events.push(event),
            Err((code, message)) => self.rejected.push(RejectedEvent {
                index,
                code,
                message,
            }),
        }
    }
}

const TOO_MANY_EVENTS: &str = "the batch has more than 500 events; send this one in another batch";

/// Maximum number of elements. Each one gets an entry in the response, and an array of half a
/// million elements would make a response of 40 MB. An event has at least 38 bytes, so a longer
/// array cannot consist of events.
const ELEMENTS_MAX: usize = 28_000;

/// Collects the text of the first `EVENTS_MAX` elements. Further ones are only counted: a megabyte
/// has room for half a million.
struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = (Vec<&'de RawValue>, usize);

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        let mut more = 0;
        while texts.len() < EVENTS_MAX {
            match seq.next_element()? {
                Some(text) => texts.push(text),
                None => return Ok((texts, 0)),
            }
        }
        // Only counted: the body may have a million elements.
        while seq.next_element::<IgnoredAny>()?.is_some() {
            more += 1;
        }
        Ok((texts, more))
    }
}

const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

fn elements(body: &[u8]) -> Result<(Vec<&RawValue>, usize), ApiError> {
    // RFC 8259, 8.1: a JSON text must not begin with a byte order mark.
    if body.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Err(ApiError::field(
            "body",
            "must not begin with a byte order mark",
        ));
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    let read = from
        .deserialize_seq(Elements)
        .and_then(|elements| from.end().map(|()| elements));
    let (texts, more) = read.map_err(|error| {
        // Checked first, because the parser would report both as syntax errors.
        let what = match error.classify() {
            _ if body.is_empty() => "is empty".to_owned(),
            _ if body.starts_with(GZIP_MAGIC) => {
                "is gzip without `Content-Encoding: gzip`".to_owned()
            }
            Category::Data => "must be a JSON array of events".to_owned(),
            Category::Eof | Category::Io | Category::Syntax => not_json(body),
        };
        ApiError::field("body", what)
    })?;
    // Each rejected element is named in the response, which would grow to 40 MB.
    if texts.len() + more > ELEMENTS_MAX {
        let message = format!("a batch has at most {ELEMENTS_MAX} elements: halve it and retry");
        return Err(ApiError::new(ErrorCode::PayloadTooLarge, message));
    }
    Ok((texts, more))
}

/// Reads the events of a body that is an array, but not of JSON alone: some clients write `NaN`, or a raw line break in a
/// text. `None` if not a single event can be used.
fn salvaged_batch(body: &[u8]) -> Option<Batch<'_>> {
    let texts = split_elements(std::str::from_utf8(body).ok()?)?;
    if texts.len() > ELEMENTS_MAX {
        return None;
    }
    let mut batch = Batch::default();
    for text in texts {
        batch.push(match batch.len() < EVENTS_MAX {
            true => doubtful_event(text),
            false => Err(("TOO_MANY_EVENTS", TOO_MANY_EVENTS.into())),
        });
    }
    (!batch.events.is_empty()).then_some(batch)
}

/// Splits an array at the commas between its elements. `None` if the brackets and quotes do not match.
fn split_elements(body: &str) -> Option<Vec<&str>> {
    let inner = body.trim().strip_prefix('[')?.strip_suffix(']')?;
    let (mut texts, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    let (mut in_text, mut is_escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                texts.push(inner.get(begin..at)?);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if in_text || depth > 0 {
        return None;
    }
    texts.push(inner.get(begin..)?);
    // A comma after the last event.
    texts.retain(|text| !text.trim().is_empty());
    Some(texts.into_iter().map(str::trim).collect())
}

type RefusedEvent = (&'static str, Cow<'static, str>);

fn invalid(message: impl Into<Cow<'static, str>>) -> RefusedEvent {
    ("INVALID_EVENT", message.into())
}

fn doubtful_event(text: &str) -> Result<NewEvent<'_>, RefusedEvent> {
    // Rejected by itself: with a 413 for the batch, the player would lose all its events.
    if text.len() > EVENT_BYTES_MAX {
        let message = format!("the event is longer than {EVENT_BYTES_MAX} bytes");
        return Err(("EVENT_TOO_LARGE", message.into()));
    }
    let members = EventMembers::read(text).map_err(invalid)?;
    event(text, &members.ok_or_else(|| invalid("must be an object"))?)
}

fn event<'a>(text: &'a str, members: &EventMembers<'a>) -> Result<NewEvent<'a>, RefusedEvent> {
    let EventMembers { top, context } = members;
    // Only what the interface describes is checked; other members are stored as they are.
    for name in ["source", "component"] {
        if top.get(name).is_some_and(|value| !value.is_string()) {
            return Err(invalid(format!("{name}: must be a string")));
        }
    }
    for name in ["context", "extra"] {
        if top.get(name).is_some_and(|value| !value.is_object()) {
            return Err(invalid(format!("{name}: must be an object")));
        }
    }
    let timestamp = integer(top, "timestamp")?;
    // Players send either unit. Unlike durations, the two ranges of plausible times do not overlap.
    let timestamp_millis = if timestamp < MILLIS_FROM {
        timestamp.saturating_mul(1_000)
    } else {
        timestamp
    };
    if !(0..=TIMESTAMP_MAX).contains(&timestamp_millis) {
        return Err(invalid(
            "timestamp: must be seconds or milliseconds since 1970",
        ));
    }
    let action = top.get("action");
    let action = action.ok_or_else(|| invalid("action: is missing"))?;
    let action = action.as_str().filter(|action| !action.is_empty());
    let action = action.ok_or_else(|| invalid("action: must be a non-empty string"))?;
    let sequence = integer(top, "seqId")?;
    let (player, ignored_values) = player_event(&action, timestamp_millis, sequence, context);
    Ok(NewEvent {
        timestamp_millis,
        sequence,
        action,
        device: context.get("device_id").and_then(JsonText::text),
        json: one_line(text),
        player: player.map(Box::new),
        ignored_values,
    })
}

fn integer(members: &JsonMembers<'_>, name: &'static str) -> Result<i64, RefusedEvent> {
    let value = members.get(name);
    let value = value.ok_or_else(|| invalid(format!("{name}: is missing")))?;
    let integer = value.whole();
    integer.ok_or_else(|| invalid(format!("{name}: must be an integer")))
}

fn one_line(text: &str) -> Cow<'_, [u8]> {
    if memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return Cow::Borrowed(text.as_bytes());
    }
    // An export has one event per line. In valid JSON, line breaks occur only between tokens, where a space means the same.
    let space = |byte| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            byte
        }
    };
    Cow::Owned(text.bytes().map(space).collect())
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExportedEvent<'a> {
    /// User who sent the event.
    user_id: UserId,
    /// Id of the partner of the user.
    partner_id: PartnerId,
    /// Time at which the server received the event.
    received_timestamp: UnixSeconds,
    /// Player clock minus server clock, in seconds.
    clock_skew: i64,
    /// The event as the player sent it.
    #[described(JsonType::AnyObject)]
    event: &'a RawValue,
}

/// Appends an event as a line of the export.
///
/// # Errors
/// The stored event is not valid JSON, which cannot happen.
pub fn write_line(event: &StoredEvent, out: &mut Vec<u8>) -> serde_json::Result<()> {
    let line = ExportedEvent {
        user_id: event.sender.user,
        partner_id: event.sender.partner,
        received_timestamp: event.received,
        clock_skew: event.clock_skew(),
        event: serde_json::from_slice(&event.json)?,
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
        "timestamp": 1800000000, "source": "APP_ACTION", "component": "player/core",
        "action": "playback_buffering", "seqId": 4,
        "context": {"playback_buffering_type": "initial", "duration": 812.5, "asset_id": "news",
            "playback_bitrate": 3500000, "device_id": "tv-1", "later": [1, {"a": null}]},
        "extra": {"player_version": "1.2"}, "unknown": true
    }"#;

    fn batch(body: &str) -> Batch<'_> {
        match Batch::read(body.as_bytes()) {
            Ok(batch) => batch,
            Err(error) => panic!("{error:?}"),
        }
    }

    fn rejected(event: &str) -> (&'static str, String) {
        let body = format!("[{SAMPLE},{event}]");
        let mut batch = batch(&body);
        assert_eq!(batch.events.len(), 1, "{event}");
        let refused = batch.rejected.pop().unwrap();
        assert_eq!(refused.index, 1);
        (refused.code, refused.message.into_owned())
    }

    #[test]
    fn event_is_stored_as_sent() {
        let body = format!(" [ {SAMPLE} ]\n");
        let batch = batch(&body);
        assert!(batch.rejected.is_empty());
        let event = &batch.events[0];
        assert_eq!(event.timestamp_millis, 1_800_000_000_000);
        assert_eq!((event.sequence, &*event.action), (4, "playback_buffering"));
        assert_eq!(event.device.as_deref(), Some("tv-1"));
        assert_eq!(*event.json, *SAMPLE.replace('\n', " ").as_bytes());
    }

    #[test]
    fn one_event_that_is_no_json_leaves_the_others() {
        for bad in [
            "{\"timestamp\":NaN}",
            "{\"a\":\"\n\"}",
            "{\"a\":01}",
            "x",
            "{\"a\" 1}",
        ] {
            let body = format!("[{SAMPLE},{bad},{SAMPLE},]");
            let batch = batch(&body);
            assert_eq!((batch.events.len(), batch.rejected.len()), (2, 1), "{bad}");
            assert_eq!(batch.rejected[0].index, 1);
        }
        // Where one event ends is not certain, or nothing can be used.
        for bad in [
            "[",
            "[{}",
            "[{]}",
            "[\"]",
            "{}",
            "[x]",
            "[{\"timestamp\":NaN}]",
        ] {
            assert!(Batch::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_and_milliseconds_are_distinguished_by_size() {
        for (sent, millis) in [
            ("1.795424651238E12", 1_795_424_651_238),
            ("1.7957E9", 1_795_700_000_000),
            ("1800000000.25", 1_800_000_000_000),
            ("0", 0),
            ("99999999999", 99_999_999_999_000),
            ("100000000000", 100_000_000_000),
            ("1800000000123", 1_800_000_000_123),
        ] {
            let text = format!(r#"[{{"timestamp":{sent},"action":"a","seqId":0}}]"#);
            assert_eq!(batch(&text).events[0].timestamp_millis, millis);
        }
    }

    #[test]
    fn malformed_event_does_not_reject_the_batch() {
        for (event, said) in [
            ("3", "must be an object"),
            ("null", "must be an object"),
            ("{}", "timestamp: is missing"),
            (r#"{"timestamp":1}"#, "action: is missing"),
            (r#"{"timestamp":1,"action":"a"}"#, "seqId: is missing"),
            (
                r#"{"timestamp":1,"action":"a","seqId":null}"#,
                "seqId: is missing",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":"1"}"#,
                "seqId: must be",
            ),
            (
                r#"{"timestamp":-0,"action":"a","seqId":1}"#,
                "timestamp: must",
            ),
            (r#"{"timestamp":-1,"action":"a","seqId":1}"#, "since 1970"),
            (
                r#"{"timestamp":9223372036854775807,"action":"a","seqId":1}"#,
                "since 1970",
            ),
            (
                r#"{"timestamp":18446744073709551616,"action":"a","seqId":1}"#,
                "timestamp:",
            ),
            (
                r#"{"timestamp":1,"action":"","seqId":1}"#,
                "action: must be",
            ),
            (
                r#"{"timestamp":1,"action":["a"],"seqId":1}"#,
                "action: must be",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":1,"source":1}"#,
                "source:",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":1,"component":{}}"#,
                "component:",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":1,"context":"x"}"#,
                "context:",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":1,"extra":[]}"#,
                "extra:",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":1,"seqId":2}"#,
                "each member once",
            ),
            (
                r#"{"timestamp":1,"action":"a","seqId":1,"x":1e999}"#,
                "number",
            ),
            (
                &format!("{}{}", "[".repeat(40), "]".repeat(40)),
                "less nesting",
            ),
        ] {
            let (code, message) = rejected(event);
            assert_eq!(code, "INVALID_EVENT");
            assert!(message.contains(said), "{event}: {message}");
        }
        let optional = r#"[{"timestamp":1,"action":"a","seqId":-1,"context":null,"extra":null}]"#;
        assert_eq!(batch(optional).events.len(), 1);
    }

    #[test]
    fn oversized_event_does_not_reject_the_batch() {
        let filled = |length: usize| {
            let head = r#"{"timestamp":1,"action":"a","seqId":1,"x":""#;
            let tail = r#""}"#;
            let filling = "y".repeat(length - head.len() - tail.len());
            format!("{head}{filling}{tail}")
        };
        let whole = filled(EVENT_BYTES_MAX);
        assert_eq!(batch(&format!("[{whole}]")).events.len(), 1);
        assert_eq!(rejected(&filled(EVENT_BYTES_MAX + 1)).0, "EVENT_TOO_LARGE");
    }

    #[test]
    fn body_that_is_not_an_array_is_rejected() {
        for body in [
            "",
            "{}",
            "null",
            "\"x\"",
            "[",
            "[{]",
            "[1,]",
            "[] []",
            "[]x",
            "[\"\\x\"]",
            "\u{feff}[]",
        ] {
            let error = Batch::read(body.as_bytes()).unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidRequest, "{body}");
        }
        assert!(Batch::read(b"[\"\xff\"]").is_err());
        assert!(batch("[]").events.is_empty());
    }

    #[test]
    fn first_500_events_of_a_batch_are_accepted() {
        let of = |event: &str, count: usize| format!("[{}]", vec![event; count].join(","));
        assert_eq!(batch(&of(SAMPLE, 500)).events.len(), 500);
        let body = of(SAMPLE, 502);
        let longer = batch(&body);
        assert_eq!(longer.events.len(), 500);
        let rejected: Vec<_> = longer.rejected.iter().map(|r| (r.index, r.code)).collect();
        assert_eq!(
            rejected,
            [(500, "TOO_MANY_EVENTS"), (501, "TOO_MANY_EVENTS")]
        );
        // An array that cannot consist of events is rejected as a whole.
        let error = Batch::read(of("1", ELEMENTS_MAX + 1).as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PayloadTooLarge);
        assert!(error.message().contains("halve it and retry"));
        // Invalid JSON is reported before the number of elements.
        let broken = format!("[{}", vec!["1"; 501].join(","));
        let error = Batch::read(broken.as_bytes()).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidRequest);
    }
}
