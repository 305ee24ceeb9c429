//! CMCD version 2 in event mode (CTA-5004-B): one report a line, each a dictionary of structured fields (RFC 9651).
//!
//! Keys that are unknown, or whose value is malformed or too long, are ignored: one text that cannot be used never costs
//! the others. A line without an event is skipped.

use std::sync::Arc;

use memchr::{memchr, memchr_iter};
use serde_json::{Map, Value, json};

use playgate_records::quality::{BITRATE_MAX, Labels, PlayerAction, PlayerEvent, Reported};
use playgate_records::telemetry::{EVENTS_MAX, NewEvent};
use playgate_types::decimal::whole_part;
use playgate_types::device_text::text_of;
use playgate_types::{AssetId, DeviceId, SessionId};

/// Longest value, in bytes. The values that are used, codes and tokens, are shorter.
const VALUE_MAX: usize = 256;
const LINE_MAX: usize = 8 * 1024;
/// Keys of a line. The specification has 47.
const KEYS_MAX: usize = 64;
/// Keys and values of a line that are parsed, with those of lists and parameters: more than twice those of a line with all
/// keys. A line of junk has thousands.
const STEPS_MAX: u32 = 256;
/// What a text without an end costs of them: without a bound, a line of such texts is searched to its end for each of them.
const UNCLOSED_STEPS: u32 = STEPS_MAX / 4;
/// Lines without a report after which the rest of a body is not read: a kilobyte of gzip has room for half a million.
const BAD_LINES_MAX: usize = 100;

#[derive(Clone, Copy, Debug)]
pub struct ReportedSession<'a> {
    pub id: SessionId,
    pub device: &'a DeviceId,
    pub asset: &'a AssetId,
}

#[derive(Debug, Default)]
pub struct CmcdBatch {
    pub events: Vec<NewEvent<'static>>,
    pub rejected: usize,
}

impl CmcdBatch {
    /// `now` in milliseconds is the time of a line without one.
    pub fn parse(body: &[u8], session: ReportedSession<'_>, now: i64) -> Self {
        let mut batch = Self::default();
        let mut rest = body.trim_ascii();
        while !rest.is_empty() {
            let is_full = batch.events.len() >= EVENTS_MAX || batch.rejected >= BAD_LINES_MAX;
            if is_full {
                batch.rejected += memchr_iter(b'\n', rest).count() + 1;
                break;
            }
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let (line, more) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            // A bad line rejects itself only, because players send the other lines only once.
            let fits = line.len() <= LINE_MAX;
            let line = text_of(line.trim_ascii_end());
            match fits.then(|| event(&line, session, now)).flatten() {
                Some(event) => batch.events.push(event),
                None => batch.rejected += 1,
            }
            rest = more.trim_ascii_start();
        }
        batch
    }
}

fn event(line: &str, session: ReportedSession<'_>, now: i64) -> Option<NewEvent<'static>> {
    let mut ignored_values = 0;
    let values = dictionary(line, &mut ignored_values)?;
    let kind = values.get("e").and_then(Value::as_str)?;
    // Some clients write integers as floating point.
    let integer = |name: &str| {
        let value = values.get(name).filter(|value| value.is_number())?;
        whole_part(&value.to_string()).ok()
    };
    let in_time = |at: &i64| (0..=253_402_300_799_999).contains(at);
    // CMCD does not require a time, but an event does. The time of receipt comes closest.
    let timestamp_millis = integer("ts").filter(in_time).unwrap_or(now);
    let sequence = integer("sn").unwrap_or(0);
    // In a report of a response, `br` is the bitrate of that object: audio, video or text.
    let rate = values.get("br").filter(|_| kind != "rr");
    let bitrate = rate.and_then(bitrate);
    let measured = values.get("msd");
    let startup = measured.and_then(|value| Reported::in_millis(value.as_f64()?));
    ignored_values += u32::from(rate.is_some() && bitrate.is_none())
        + u32::from(measured.is_some() && startup.is_none());
    let player = PlayerEvent {
        action: action(kind, &values),
        // From the signed address and not from `sid` and `cid`, which a player may set to anything.
        session: Some(Arc::from(session.id.to_string().as_str())),
        device: Some(Arc::from(session.device.as_str())),
        timestamp_millis,
        sequence,
        bitrate,
        startup,
        labels: Labels::default(),
    };
    let action = format!("cmcd_{kind}");
    let text = json!({
        "timestamp": timestamp_millis,
        "source": "CMCD",
        "action": &action,
        "seqId": sequence,
        "context": {
            "session_id": session.id.to_string(),
            "device_id": session.device.as_str(),
            "asset_id": session.asset.as_str(),
            "cmcd": values,
        },
    });
    Some(NewEvent {
        timestamp_millis,
        sequence,
        action: action.into(),
        // The session and not the device: another session of the device counts from 0 again.
        device: Some(session.id.to_string().into()),
        json: text.to_string().into_bytes().into(),
        player: Some(Box::new(player)),
        ignored_values,
    })
}

/// Derives the action of a report. The state that a report carries counts with every event, because the report of its
/// change may be lost.
fn action(kind: &str, values: &Map<String, Value>) -> PlayerAction {
    let state = values.get("sta").and_then(Value::as_str);
    let first = || values.get("sn").and_then(Value::as_u64) == Some(0);
    match (kind, state) {
        ("e", _) | ("ps" | "t", Some("f")) => PlayerAction::Failed(error_code(values)),
        // The minified Shaka Player 5.2 leaves the state out. It knows the delay once it has shown a frame.
        (_, None) if values.contains_key("msd") => PlayerAction::Shown,
        // A player sends its first report when it begins to load, before it has a state.
        ("t", None) if first() => PlayerAction::Waiting,
        ("ps" | "t", Some("s" | "r" | "w")) => PlayerAction::Waiting,
        ("ps" | "t", Some("p")) => PlayerAction::Started(None),
        ("ps" | "t", Some("a")) => PlayerAction::Paused,
        ("ps" | "t", Some("k")) => PlayerAction::Seeking,
        ("ps" | "t", Some("e" | "q")) => PlayerAction::Stopped,
        ("bc", _) => PlayerAction::BitrateChanged,
        _ => PlayerAction::Alive,
    }
}

/// Returns the error code: a text or a number, or the first of a list.
fn error_code(values: &Map<String, Value>) -> Option<Arc<str>> {
    let code = match values.get("ec")? {
        // A list begins with the code that the player shows.
        Value::Array(codes) => codes.first()?,
        code => code,
    };
    match code {
        Value::String(text) => Some(Arc::from(text.as_str())),
        Value::Number(number) => Some(Arc::from(number.to_string().as_str())),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `br` is in kbit/s: one number, or one for each kind of media.
fn bitrate(value: &Value) -> Option<u64> {
    let total: u64 = match value {
        Value::Array(parts) => parts
            .iter()
            .filter_map(Value::as_u64)
            // Video and audio are reported separately; the viewer gets their sum.
            .try_fold(0, u64::checked_add)?,
        one => one.as_u64()?,
    };
    let bits = total.checked_mul(1_000)?;
    // Beyond a gigabit a second the player has the wrong unit, and one such value would spoil a mean.
    (1..=BITRATE_MAX).contains(&bits).then_some(bits)
}

/// Parses a dictionary of structured fields. Skips parameters and malformed members, and adds the number of omitted values
/// to `ignored`. `None` if there is no member at all.
pub fn dictionary(line: &str, ignored: &mut u32) -> Option<Map<String, Value>> {
    let mut values = Map::new();
    let mut cursor = Cursor {
        rest: line,
        steps: STEPS_MAX,
    };
    loop {
        cursor.spaces();
        if cursor.rest.is_empty() {
            break;
        }
        if cursor.steps == 0 {
            // All that is left counts as one value.
            *ignored += 1;
            break;
        }
        let begin = cursor.rest;
        match cursor.whole_member() {
            // RFC 9651: of several members with one key, the last one counts.
            Some((key, Some(value))) if values.len() < KEYS_MAX => {
                values.insert(key.to_owned(), value);
            }
            Some(_) => *ignored += 1,
            None => {
                *ignored += 1;
                cursor.rest = begin;
                cursor.skip_member();
            }
        }
        cursor.take(',');
    }
    (!values.is_empty()).then_some(values)
}

struct Cursor<'a> {
    rest: &'a str,
    /// How many keys and values may still be parsed.
    steps: u32,
}

impl<'a> Cursor<'a> {
    fn spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn take(&mut self, expected: char) -> bool {
        match self.rest.strip_prefix(expected) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !fits(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    /// A member with what separates it from the next one, which is not taken.
    fn whole_member(&mut self) -> Option<(&'a str, Option<Value>)> {
        let key = self.key()?;
        let value = if self.take('=') {
            self.member()?
        } else {
            self.parameters()?;
            Some(Value::Bool(true))
        };
        self.spaces();
        (self.rest.is_empty() || self.rest.starts_with(',')).then_some((key, value))
    }

    /// Goes to the next comma outside of a text. A text without an end ends at the next comma.
    fn skip_member(&mut self) {
        let (mut in_text, mut is_escaped) = (false, false);
        let end = self.rest.find(|c| {
            match c {
                _ if is_escaped => is_escaped = false,
                '\\' if in_text => is_escaped = true,
                '"' => in_text = !in_text,
                ',' if !in_text => return true,
                _ => {}
            }
            false
        });
        let end = match in_text {
            true => {
                // The whole line was searched in vain.
                self.steps = self.steps.saturating_sub(UNCLOSED_STEPS);
                self.rest.find(',')
            }
            false => end,
        };
        self.rest = end.and_then(|end| self.rest.get(end..)).unwrap_or_default();
    }

    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    fn key(&mut self) -> Option<&'a str> {
        self.step()?;
        let in_key = |c: char| c.is_ascii_alphanumeric() || "_-.*".contains(c);
        let key = self.take_while(in_key);
        (!key.is_empty() && key.len() <= 64).then_some(key)
    }

    /// Parses a value. The outer `None` means that it is malformed, the inner one that it is too long.
    fn member(&mut self) -> Option<Option<Value>> {
        let value = if self.take('(') {
            let mut items = Vec::new();
            loop {
                self.spaces();
                if self.take(')') {
                    break;
                }
                items.extend(self.item()?);
                self.parameters()?;
                // RFC 9651: items of an inner list are separated by spaces.
                (self.rest.starts_with([' ', ')'])).then_some(())?;
            }
            // Checked after parsing, which `LINE_MAX` bounds. Of a long list, only the value is dropped.
            (items.len() <= KEYS_MAX).then_some(Value::Array(items))
        } else {
            self.item()?
        };
        self.parameters()?;
        Some(value)
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(';') {
            self.spaces();
            self.key()?;
            if self.take('=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn item(&mut self) -> Option<Option<Value>> {
        self.step()?;
        let value = match self.rest.chars().next()? {
            '"' => Value::String(self.string()?),
            '?' => {
                let flag = self.rest.get(1..2)?;
                self.rest = self.rest.get(2..)?;
                match flag {
                    "1" => Value::Bool(true),
                    "0" => Value::Bool(false),
                    _ => return None,
                }
            }
            // A text with other characters than ASCII (RFC 9651, 3.3.8).
            '%' => {
                self.take('%');
                Value::String(self.string()?)
            }
            // Bytes in base64, and a date (RFC 9651, 3.3.5 and 3.3.7).
            ':' => {
                self.take(':');
                let text = self.take_while(|c| c.is_ascii_alphanumeric() || "+/=".contains(c));
                self.take(':').then_some(())?;
                Value::String(text.to_owned())
            }
            '@' => {
                self.take('@');
                Value::from(
                    self.take_while(|c| c.is_ascii_digit() || c == '-')
                        .parse::<i64>()
                        .ok()?,
                )
            }
            '-' | '0'..='9' => {
                let text = self.take_while(|c| c.is_ascii_digit() || "-+.eE".contains(c));
                let integer = text.parse::<i64>().ok().map(Value::from);
                integer.or_else(|| text.parse::<f64>().ok().map(Value::from))?
            }
            first if first.is_ascii_alphabetic() || first == '*' => {
                let in_token = |c: char| c.is_ascii_graphic() && !"\",;()=\\{}[]<>@?".contains(c);
                Value::String(self.take_while(in_token).to_owned())
            }
            _ => return None,
        };
        let fits = value.as_str().is_none_or(|text| text.len() <= VALUE_MAX);
        Some(fits.then_some(value))
    }

    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut escaped = false;
        for (at, c) in self.rest.char_indices().skip(1) {
            // RFC 9651 allows ASCII. Players send names of titles and devices as they are.
            let c = if c.is_control() { ' ' } else { c };
            match c {
                _ if escaped => {
                    // RFC 9651 allows no other escapes: of others, both characters are kept.
                    if !['"', '\\'].contains(&c) {
                        text.push('\\');
                    }
                    text.push(c);
                    escaped = false;
                }
                '\\' => escaped = true,
                '"' => {
                    self.rest = self.rest.get(at + 1..)?;
                    return Some(text);
                }
                _ => text.push(c),
            }
        }
        // The quote is not closed.
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_real_players_are_read() {
        // As the minified dash.js 5.2.1 and Shaka Player 5.2.12, and Shaka's debug build, sent them.
        let waiting = PlayerAction::Waiting;
        let started = PlayerAction::Started(None);
        for (line, expected, bits) in [
            // dash.js. The `msd` of the first state is not the time to the first frame.
            ("e=t,sn=0,ts=1795424651238,v=2", &waiting, None),
            ("e=ps,msd=1,sn=1,sta=s,ts=1795424651242,v=2", &waiting, None),
            (
                "br=(41;v 35;a),e=ps,sn=3,sta=p,ts=1795424651529,v=2",
                &started,
                Some(76_000),
            ),
            // Shaka Player.
            (
                "br=(76),e=ps,msd=319,sn=4,sta=r,ts=1795424642142,v=2",
                &waiting,
                Some(76_000),
            ),
            (
                "br=(76),e=bc,sn=2,sta=r,ts=1795424633996,v=2",
                &PlayerAction::BitrateChanged,
                Some(76_000),
            ),
            // The minified Shaka Player, which sends no `sta`.
            (
                "br=(76),e=t,msd=443,sn=2,ts=1795424623860,v=2",
                &PlayerAction::Shown,
                Some(76_000),
            ),
            (
                "br=(76),e=t,sn=3,ts=1795424633860,v=2",
                &PlayerAction::Alive,
                Some(76_000),
            ),
        ] {
            let values = dictionary(line, &mut 0).unwrap();
            let kind = values["e"].as_str().unwrap();
            assert_eq!(action(kind, &values), *expected, "{line}");
            assert_eq!(values.get("br").and_then(bitrate), bits, "{line}");
        }
    }

    #[test]
    fn error_codes_are_texts_or_numbers() {
        for (line, code) in [
            ("e=e,ec=(\"3016\" \"x\")", Some("3016")),
            ("e=e,ec=25", Some("25")),
            ("e=e,ec=(25)", Some("25")),
            ("e=e,ec=x", Some("x")),
            ("e=e", None),
            ("e=e,ec", None),
            ("e=e,ec=()", None),
        ] {
            let values = dictionary(line, &mut 0).unwrap();
            let expected = PlayerAction::Failed(code.map(Arc::from));
            assert_eq!(action("e", &values), expected, "{line}");
        }
    }

    #[test]
    fn each_form_of_a_line_has_a_defined_result() {
        for (line, expected) in [
            ("e=t", Some(json!({"e": "t"}))),
            (
                "e=t , com.example-key=\"x\\\"y\"",
                Some(json!({"e": "t", "com.example-key": "x\"y"})),
            ),
            (
                "e=e,ec=(\"3016\" \"x\")",
                Some(json!({"e": "e", "ec": ["3016", "x"]})),
            ),
            ("e=t,e=ps", Some(json!({"e": "ps"}))),
            ("a=();x=1,b;y", Some(json!({"a": [], "b": true}))),
            (
                "d=%\"f%c3%bc\",b=:aGk=:,n=@17",
                Some(json!({"d": "f%c3%bc", "b": "aGk=", "n": 17})),
            ),
            (
                "ts=1.795424651238E12",
                Some(json!({"ts": 1_795_424_651_238.0})),
            ),
            // A text that is not in ASCII, or has other escapes.
            ("cid=\"Björn\",e=t", Some(json!({"cid": "Björn", "e": "t"}))),
            ("e=\"t\\n\"", Some(json!({"e": "t\\n"}))),
            ("e=t,", Some(json!({"e": "t"}))),
            // What is malformed costs itself only.
            ("a=,e=t", Some(json!({"e": "t"}))),
            ("=t,e=t", Some(json!({"e": "t"}))),
            ("cid=\"t,e=t", Some(json!({"e": "t"}))),
            ("br=(1 2,e=t", Some(json!({"e": "t"}))),
            ("br=(1\"2\"),e=t", Some(json!({"e": "t"}))),
            ("bs=?2,e=t", Some(json!({"e": "t"}))),
            ("sid=a b,e=t", Some(json!({"e": "t"}))),
            ("x=ä,e=t", Some(json!({"e": "t"}))),
            ("sn=1-2,e=t", Some(json!({"e": "t"}))),
            // No key has a value.
            ("", None),
            ("e=", None),
            ("=t", None),
            ("e=\"t", None),
            ("e=\"t\\", None),
            ("e=?ä", None),
            ("e=ä", None),
            ("{\"e\": \"t\"}", None),
        ] {
            assert_eq!(
                dictionary(line, &mut 0).map(Value::Object),
                expected,
                "{line}"
            );
        }
        let long = format!("e=t,url=\"{}\",sid=\"x\"", "u".repeat(VALUE_MAX + 1));
        let mut ignored = 0;
        let kept = dictionary(&long, &mut ignored).map(Value::Object);
        assert_eq!(kept, Some(json!({"e": "t", "sid": "x"})));
        assert_eq!(ignored, 1);
    }

    fn parse(body: &[u8]) -> CmcdBatch {
        let device = DeviceId::parse("tv").unwrap();
        let asset = AssetId::parse("film").unwrap();
        let session = ReportedSession {
            id: SessionId::from_bytes([1; 16]),
            device: &device,
            asset: &asset,
        };
        CmcdBatch::parse(body, session, 0)
    }

    #[test]
    fn after_a_hundred_bad_lines_the_rest_is_only_counted() {
        let good = "e=t,ts=1\n".repeat(3);
        let bad = "x\n".repeat(BAD_LINES_MAX);
        let batch = parse(format!("{good}\r\n\n{bad}{good}").as_bytes());
        assert_eq!((batch.events.len(), batch.rejected), (3, BAD_LINES_MAX + 3));
        // Control: one bad line less, and all others are read.
        let fewer = bad.replacen("x\n", "", 1);
        let batch = parse(format!("{good}{fewer}{good}").as_bytes());
        assert_eq!((batch.events.len(), batch.rejected), (6, BAD_LINES_MAX - 1));
        let many = parse("e=t\n".repeat(EVENTS_MAX + 10).as_bytes());
        assert_eq!((many.events.len(), many.rejected), (EVENTS_MAX, 10));
        let nothing = parse(b" \n\r\n\t\n");
        assert_eq!((nothing.events.len(), nothing.rejected), (0, 0));
    }

    #[test]
    fn a_line_of_junk_is_read_only_in_part() {
        let read = |junk: &str| {
            let mut cursor = Cursor {
                rest: junk,
                steps: STEPS_MAX,
            };
            let mut members = 0;
            while cursor.steps > 0 && !cursor.rest.is_empty() {
                let begin = cursor.rest;
                if cursor.whole_member().is_none() {
                    cursor.rest = begin;
                    cursor.skip_member();
                }
                cursor.take(',');
                members += 1;
            }
            members
        };
        let of = |unit: &str| read(&unit.repeat(LINE_MAX / unit.len()));
        assert_eq!(of("a,"), 256);
        assert_eq!(of("a=1,"), 128);
        // Of one list or one value with parameters, only the steps count.
        assert!(read(&format!("a=({})", "1 ".repeat(4_000))) <= 1);
        assert!(read(&format!("a=1{}", ";b".repeat(4_000))) <= 1);
        // A text that no quote ends, in a thousand members: each of them would be searched to the end of the line.
        assert_eq!(of("\\\","), 4);
        // All keys of the specification, with a list of four values each, are read.
        let full: Vec<_> = (0..47).map(|n| format!("k{n}=(1 2 3 4)")).collect();
        let values = dictionary(&full.join(","), &mut 0).unwrap();
        assert_eq!(values.len(), 47);
    }

    #[test]
    fn impossible_bitrates_do_not_count() {
        for (line, expected) in [
            ("br=(1000 200)", Some(1_200_000)),
            ("br=1000", Some(1_000_000)),
            ("br=0", None),
            ("br=-5", None),
            ("br=2000000", None),
            ("br=(999999999999999 999999999999999)", None),
            ("br=\"x\"", None),
        ] {
            let values = dictionary(line, &mut 0).unwrap();
            assert_eq!(bitrate(&values["br"]), expected, "{line}");
        }
    }

    /// The tables of CTA-5004-B: each key of requests, events and responses, in its type.
    const KEYS: [(&str, &str, &str); 52] = [
        ("ab", "(2000;v 128;a)", "[2000,128]"),
        ("bg", "", "true"),
        ("bl", "(21300;v 18000;a)", "[21300,18000]"),
        ("br", "(3200;v 128;a)", "[3200,128]"),
        ("bs", "?0", "false"),
        ("bsa", "(5400;v 300;a)", "[5400,300]"),
        ("bsd", "(200;v)", "[200]"),
        ("bsda", "(900;av)", "[900]"),
        ("cdn", "\"cdn-west\"", "\"cdn-west\""),
        ("cen", "\"zapped\"", "\"zapped\""),
        ("cid", "\"film-1\"", "\"film-1\""),
        (
            "cmsdd",
            "\"\\\"edge\\\";etp=96\"",
            "\"\\\"edge\\\";etp=96\"",
        ),
        ("cmsds", "\"ot=v,sf=d\"", "\"ot=v,sf=d\""),
        ("cs", "\"b2\"", "\"b2\""),
        ("d", "4004", "4004"),
        ("df", "12", "12"),
        ("dfa", "3", "3"),
        ("dl", "18500", "18500"),
        ("e", "rr", "\"rr\""),
        ("ec", "(\"3016\" \"E-1\")", "[\"3016\",\"E-1\"]"),
        ("h", "\"edge.example\"", "\"edge.example\""),
        ("lab", "(400;v)", "[400]"),
        ("lb", "(145;v 64;a)", "[145,64]"),
        ("ltc", "3500", "3500"),
        ("msd", "900", "900"),
        ("mtp", "(25400;v)", "[25400]"),
        (
            "nor",
            "(\"..%2Fseg-8.m4v\";r=\"0-99\" \"seg-9.m4v\")",
            "[\"..%2Fseg-8.m4v\",\"seg-9.m4v\"]",
        ),
        ("nr", "", "true"),
        ("ot", "v", "\"v\""),
        ("pb", "(2000;v)", "[2000]"),
        ("pr", "1.08", "1.08"),
        ("pt", "1795424651238", "1795424651238"),
        ("rc", "200", "200"),
        ("rtp", "12000", "12000"),
        ("sf", "d", "\"d\""),
        ("sid", "\"6e2fb550-c457-11e9\"", "\"6e2fb550-c457-11e9\""),
        ("smrt", "\"seg-7\"", "\"seg-7\""),
        ("sn", "7", "7"),
        ("st", "ll", "\"ll\""),
        ("sta", "p", "\"p\""),
        ("su", "", "true"),
        ("tab", "(4000;v)", "[4000]"),
        ("tb", "(6000;v 128;a)", "[6000,128]"),
        ("tbl", "(20000;v)", "[20000]"),
        ("tpb", "(4000;v)", "[4000]"),
        ("ts", "1795424651238", "1795424651238"),
        ("ttfb", "52", "52"),
        ("ttfbb", "55", "55"),
        ("ttlb", "210", "210"),
        (
            "url",
            "\"https://a.example/b?c=d\"",
            "\"https://a.example/b?c=d\"",
        ),
        ("v", "2", "2"),
        ("com.example-key", "(a b)", "[\"a\",\"b\"]"),
    ];

    #[test]
    fn every_key_of_version_2_is_kept_in_its_type() {
        let member = |(key, value, _): &(&str, &str, &str)| match value.is_empty() {
            true => (*key).to_owned(),
            false => format!("{key}={value}"),
        };
        let expected: Map<String, Value> = KEYS
            .iter()
            .map(|(key, _, json)| ((*key).to_owned(), serde_json::from_str(json).unwrap()))
            .collect();
        let members: Vec<String> = KEYS.iter().map(member).collect();
        // Each alone, and all in one line in either order: some players sort, others do not.
        for key in &KEYS {
            let mut ignored = 0;
            let read = dictionary(&member(key), &mut ignored).unwrap();
            assert_eq!(
                (read.get(key.0), ignored),
                (expected.get(key.0), 0),
                "{key:?}"
            );
        }
        let reversed: Vec<String> = members.iter().rev().cloned().collect();
        for line in [members.join(","), members.join(", "), reversed.join(",")] {
            let mut ignored = 0;
            assert_eq!(dictionary(&line, &mut ignored), Some(expected.clone()));
            assert_eq!(ignored, 0);
        }
        let session = SessionId::from_bytes([1; 16]);
        let about = ReportedSession {
            id: session,
            device: &DeviceId::parse("tv").unwrap(),
            asset: &AssetId::parse("film").unwrap(),
        };
        let batch = CmcdBatch::parse(members.join(",").as_bytes(), about, 0);
        let [event] = &batch.events[..] else {
            panic!("{batch:?}")
        };
        assert_eq!(
            (event.timestamp_millis, event.sequence, event.ignored_values),
            (1_795_424_651_238, 7, 0)
        );
        let stored: Value = serde_json::from_slice(&event.json).unwrap();
        assert_eq!(stored["context"]["cmcd"], Value::Object(expected));
        // The bitrate of a response is that of one object.
        assert_eq!(event.player.as_ref().unwrap().bitrate, None);
    }

    #[test]
    fn every_event_and_state_of_version_2_has_a_meaning() {
        use PlayerAction::{
            Alive, BitrateChanged, Failed, Paused, Seeking, Started, Stopped, Waiting,
        };
        let read = |line: &str| action(line_kind(line), &dictionary(line, &mut 0).unwrap());
        // What happens around playback changes nothing of it.
        for kind in [
            "abs", "abe", "ae", "as", "b", "c", "ce", "h", "m", "pc", "pe", "pr", "rr", "sk", "um",
        ] {
            for state in ["", ",sta=p", ",sta=r", ",sta=a"] {
                assert_eq!(read(&format!("e={kind}{state}")), Alive, "{kind}{state}");
            }
        }
        assert_eq!(read("e=bc,sta=p"), BitrateChanged);
        assert_eq!(read("e=e,sta=p,ec=(\"7\")"), Failed(Some(Arc::from("7"))));
        for (state, meaning) in [
            ("s", Waiting),
            ("p", Started(None)),
            ("k", Seeking),
            ("r", Waiting),
            ("a", Paused),
            ("w", Waiting),
            ("e", Stopped),
            ("f", Failed(None)),
            ("q", Stopped),
            // Nobody waits for what is loaded ahead.
            ("d", Alive),
        ] {
            // The report of the change may be lost, and a later one has the state.
            for kind in ["ps", "t"] {
                assert_eq!(
                    read(&format!("e={kind},sta={state}")),
                    meaning,
                    "{kind} {state}"
                );
            }
        }
    }

    fn line_kind(line: &str) -> &str {
        line[2..].split(',').next().unwrap()
    }
}
