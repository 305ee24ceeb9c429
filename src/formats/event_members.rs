//! Finds the members of telemetry events without building a tree of them: a tree, with a map for each object and a copy
//! of each text, took a third of what an event of an upload cost.
//!
//! Most batches are read once, because this reader is certain that they are valid. For any other text `serde_json`
//! decides what is JSON, and [`strict`] what other parsers might read differently.

use std::borrow::Cow;

use memchr::memchr2;
use serde_json::Number;

use playgate_decode::strict_json::{JSON_DEPTH, strict};
use playgate_types::decimal::whole_part;

/// Number of members of an object up to which all names are compared with each other. The work grows with the square.
const COMPARED_MAX: usize = 64;
/// Longest number, in bytes, that is certainly in range.
const NUMBER_MAX: usize = 64;
/// Room for the members of most objects.
const MEMBERS_USUAL: usize = 16;

/// A JSON value as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonText<'a>(&'a str);

impl<'a> JsonText<'a> {
    pub fn is_string(self) -> bool {
        self.0.starts_with('"')
    }

    pub fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    fn is_number(self) -> bool {
        self.0
            .starts_with(|first: char| first == '-' || first.is_ascii_digit())
    }

    /// `None` for `1.0`, `1e2` and `-0` too, which `serde_json` reads as floating point.
    pub(crate) fn as_i64(self) -> Option<i64> {
        self.0.parse().ok().filter(|_| self.0 != "-0")
    }

    /// The whole part of a number. Some clients write integers as floating point: Kotlin prints `1.7957E9`.
    pub fn whole(self) -> Option<i64> {
        let number = self.is_number().then(|| whole_part(self.0).ok()).flatten();
        number.filter(|_| self.0 != "-0")
    }

    pub(crate) fn as_f64(self) -> Option<f64> {
        self.is_number().then(|| self.0.parse().ok()).flatten()
    }

    pub fn as_str(self) -> Option<Cow<'a, str>> {
        self.is_string().then(|| unescaped(self.0)).flatten()
    }

    /// Reads a string or a number as text: some players send numeric ids.
    pub fn text(self) -> Option<Cow<'a, str>> {
        if !self.is_number() {
            return self.as_str();
        }
        // An integer keeps its text; only other numbers have to be formatted.
        if self.as_i64().is_some() {
            return Some(Cow::Borrowed(self.0));
        }
        let number: Number = serde_json::from_str(self.0).ok()?;
        Some(Cow::Owned(number.to_string()))
    }
}

/// Reads a string with its quotes.
fn unescaped(quoted: &str) -> Option<Cow<'_, str>> {
    if quoted.contains('\\') {
        return serde_json::from_str(quoted).ok().map(Cow::Owned);
    }
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    Some(Cow::Borrowed(inner))
}

/// The members of an object, in a list: an event has about ten, its context as many.
#[derive(Debug, Default)]
pub struct JsonMembers<'a>(Vec<(Cow<'a, str>, JsonText<'a>)>);

impl<'a> JsonMembers<'a> {
    /// Many clients send an unset member as `null`, which counts as absent.
    pub fn get(&self, name: &str) -> Option<JsonText<'a>> {
        let found = self.0.iter().find(|(member, _)| member == name);
        found
            .map(|(_, value)| *value)
            .filter(|value| value.0 != "null")
    }
}

#[derive(Debug, Default)]
pub struct EventMembers<'a> {
    pub top: JsonMembers<'a>,
    pub context: JsonMembers<'a>,
}

impl<'a> EventMembers<'a> {
    /// Reads a text that `serde_json` has accepted. `None` if the event is no object.
    ///
    /// # Errors
    /// A sentence for the developer of the partner: other parsers may read the event differently.
    pub fn read(text: &'a str) -> Result<Option<Self>, String> {
        let mut walk = EventWalk::new(text);
        let mut members = Self::default();
        let is_object = walk.element(&mut members);
        // The walk is certain about plain text only. `strict` decides about the rest.
        if is_object.is_none() || walk.is_doubtful {
            strict(text.as_bytes())?;
        }
        // The walk fails only at what `strict` refuses.
        let is_object = is_object.ok_or_else(|| "is not valid JSON".to_owned())?;
        Ok(is_object.then_some(members))
    }
}

/// Calls `each` with the text and the members of each event of a batch, in one pass. Returns `None`, after any number
/// of calls, if `each` does, or if the batch may be anything else than a list of objects that `serde_json` and
/// [`strict`] accept.
pub fn read_plain_batch<'a>(
    body: &'a [u8],
    mut each: impl FnMut(&'a str, &EventMembers<'a>) -> Option<()>,
) -> Option<()> {
    // Without a branch, so that the compiler vectorizes it.
    let has_controls = body.iter().fold(false, |any, byte| any | (*byte < b' '));
    // Controls are allowed between tokens and forbidden in strings: one look at every byte saves that distinction.
    if has_controls {
        return None;
    }
    let mut walk = EventWalk::new(str::from_utf8(body).ok()?);
    let mut members = EventMembers::default();
    walk.space();
    walk.sequence(b'[', b']', |walk| {
        let begin = walk.at;
        // The lists keep their memory from event to event.
        members.top.0.clear();
        members.context.0.clear();
        let is_sure = walk.object_of_event(&mut members).is_some() && !walk.is_doubtful;
        is_sure.then_some(())?;
        each(walk.since(begin).0, &members)
    })?;
    walk.space();
    // Text behind the array is refused by the strict reader, which names the mistake.
    (walk.at == body.len()).then_some(())
}

/// Walks over a text without control characters, or over one that `serde_json` has accepted. It stops at what is not JSON.
struct EventWalk<'a> {
    text: &'a str,
    at: usize,
    /// Whether the text contains what `serde_json` or [`strict`] may refuse.
    is_doubtful: bool,
}

impl<'a> EventWalk<'a> {
    const fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            is_doubtful: false,
        }
    }

    /// Walks over a single value. Returns whether it is an object.
    fn element(&mut self, members: &mut EventMembers<'a>) -> Option<bool> {
        self.space();
        let is_object = self.peek() == Some(b'{');
        if is_object {
            self.object_of_event(members)?;
        } else {
            self.value(0)?;
        }
        Some(is_object)
    }

    fn object_of_event(&mut self, members: &mut EventMembers<'a>) -> Option<()> {
        let EventMembers { top, context } = members;
        self.object(0, top, &mut |walk, name| {
            if name != "context" || walk.peek() != Some(b'{') {
                return walk.value(1);
            }
            let begin = walk.at;
            // Two contexts are refused by `strict` later. Until then, members of the first must not be found in the
            // second.
            context.0.clear();
            walk.object(1, context, &mut |walk, _| walk.value(2))?;
            Some(walk.since(begin))
        })
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    /// Skips the next byte if it is `byte`. Returns whether it was.
    fn is_next(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn since(&self, begin: usize) -> JsonText<'a> {
        JsonText(self.text.get(begin..self.at).unwrap_or_default())
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    /// Walks over a value in a list or an object at this depth.
    fn value(&mut self, depth: usize) -> Option<JsonText<'a>> {
        let begin = self.at;
        match self.peek()? {
            b'"' => drop(self.string()?),
            b'{' => {
                let mut members = JsonMembers(Vec::with_capacity(MEMBERS_USUAL));
                self.object(depth, &mut members, &mut |walk, _| walk.value(depth + 1))?;
            }
            b'[' => {
                check_depth(depth)?;
                self.sequence(b'[', b']', |walk| walk.value(depth + 1).map(drop))?;
            }
            _ => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
                let rest = self.rest();
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                let word = self.since(begin).0;
                (!word.is_empty()).then_some(())?;
                let is_plain = matches!(word, "true" | "false" | "null") || is_plain_number(word);
                self.is_doubtful |= !is_plain;
            }
        }
        Some(self.since(begin))
    }

    /// Returns the content of the string, unless it has escapes.
    fn string(&mut self) -> Option<Option<&'a str>> {
        self.at += 1;
        let begin = self.at;
        let mut is_plain = true;
        loop {
            // Most of a batch is string content, which `memchr2` skips with vector instructions.
            self.at += memchr2(b'"', b'\\', self.rest())?;
            if self.peek() == Some(b'"') {
                break;
            }
            is_plain = false;
            self.at += 1;
            // `\u` may be half of a surrogate pair.
            let known = matches!(
                self.peek()?,
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't'
            );
            self.is_doubtful |= !known;
            self.at += 1;
        }
        let inner = self.since(begin).0;
        self.at += 1;
        Some(is_plain.then_some(inner))
    }

    /// Calls `item` at each item of a list or an object.
    fn sequence(
        &mut self,
        open: u8,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.is_next(open).then_some(())?;
        self.space();
        if self.is_next(close) {
            return Some(());
        }
        loop {
            item(self)?;
            self.space();
            if self.is_next(close) {
                return Some(());
            }
            self.is_next(b',').then_some(())?;
            self.space();
        }
    }

    /// Calls `value` at each value.
    fn object(
        &mut self,
        depth: usize,
        members: &mut JsonMembers<'a>,
        value: &mut dyn FnMut(&mut Self, &str) -> Option<JsonText<'a>>,
    ) -> Option<()> {
        check_depth(depth)?;
        self.sequence(b'{', b'}', |walk| {
            let begin = walk.at;
            (walk.peek()? == b'"').then_some(())?;
            let name = match walk.string()? {
                Some(plain) => Cow::Borrowed(plain),
                None => unescaped(walk.since(begin).0)?,
            };
            walk.space();
            walk.is_next(b':').then_some(())?;
            walk.space();
            let found = value(walk, &name)?;
            // Compared with a bounded number: an object of thousands of members would otherwise cost their square.
            let known = members.0.get(..COMPARED_MAX).unwrap_or(&members.0);
            let occurs = known.iter().any(|(other, _)| *other == name);
            walk.is_doubtful |= occurs || members.0.len() >= COMPARED_MAX;
            members.0.push((name, found));
            Some(())
        })
    }
}

/// The walk recurses; the limit protects the stack.
fn check_depth(depth: usize) -> Option<()> {
    (depth < JSON_DEPTH).then_some(())
}

/// Whether every parser reads the number alike. `1e999` is valid JSON, but out of range for all of them.
fn is_plain_number(word: &str) -> bool {
    let unsigned = word.strip_prefix('-').unwrap_or(word).as_bytes();
    let is_digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    word.len() <= NUMBER_MAX
        && unsigned.splitn(2, |byte| *byte == b'.').all(is_digits)
        && !matches!(unsigned, [b'0', b'0'..=b'9', ..])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;

    /// Reads a text as a batch does and compares each member with the tree of [`strict`].
    fn compare(text: &str) {
        compare_plain(text);
        let Ok(accepted) = serde_json::from_str::<&RawValue>(text) else {
            return;
        };
        let text = accepted.get();
        let read = EventMembers::read(text);
        let tree = match strict(text.as_bytes()) {
            Ok(tree) => tree,
            Err(why) => {
                assert_eq!(read.err(), Some(why), "{text}");
                return;
            }
        };
        let (read, Value::Object(top)) = (read.unwrap(), &tree) else {
            assert!(
                !tree.is_object() && EventMembers::read(text).unwrap().is_none(),
                "{text}"
            );
            return;
        };
        let read = read.unwrap();
        let objects = [
            (&read.top, Some(top)),
            (&read.context, top.get("context").and_then(Value::as_object)),
        ];
        for (members, object) in objects {
            assert_eq!(
                members.0.len(),
                object.map_or(0, serde_json::Map::len),
                "{text}"
            );
            for (name, value) in object.into_iter().flatten() {
                let Some(member) = members.get(name) else {
                    assert!(value.is_null(), "{name} of {text}");
                    continue;
                };
                let parsed: Value = serde_json::from_str(member.0).unwrap();
                assert_eq!(parsed, *value, "{name} of {text}");
                assert_eq!(member.as_i64(), value.as_i64(), "{name} of {text}");
                assert_eq!(
                    member.as_f64().is_some(),
                    value.is_number(),
                    "{name} of {text}"
                );
                assert_eq!(
                    member.as_str().as_deref(),
                    value.as_str(),
                    "{name} of {text}"
                );
                let number = value.is_number().then(|| value.to_string());
                assert_eq!(
                    member.text().as_deref(),
                    value.as_str().or(number.as_deref()),
                    "{name} of {text}"
                );
            }
        }
    }

    /// Whether texts around the event are read in one pass. If so, `serde_json` and [`strict`] accept them and find the
    /// same events in them.
    fn compare_plain(event: &str) -> bool {
        let batches = [
            format!("[{event}]"),
            format!(" [ {event} ,{event}] "),
            format!("[{event}"),
            format!("[{event},]"),
            format!("[{event}]]"),
            format!("[{event} {event}]"),
        ];
        let mut read_any = false;
        for body in batches {
            let mut found = Vec::new();
            let read = read_plain_batch(body.as_bytes(), |text, members| {
                let again = EventMembers::read(text).unwrap().unwrap();
                assert_eq!(members.top.0, again.top.0, "{body}");
                assert_eq!(members.context.0, again.context.0, "{body}");
                strict(text.as_bytes()).expect(&body);
                found.push(text);
                Some(())
            });
            if read.is_some() {
                read_any = true;
                let texts: Vec<&RawValue> = serde_json::from_str(&body).expect(&body);
                let texts: Vec<&str> = texts.into_iter().map(RawValue::get).collect();
                assert_eq!(found, texts, "{body}");
            }
        }
        read_any
    }

    #[test]
    fn usual_events_are_read_in_one_pass_and_doubtful_ones_are_not() {
        for text in [
            "{}",
            r#"{"timestamp":1800000000123,"seqId":-1,"action":"a","context":{"b":2.5,"c":null},"d":[1,{"e":true}]}"#,
            r#"{ "a" : "\"\\\/\b\f\n\r\t" , "b" : [ ] , "\n" : "" }"#,
            "{\"a\":\"\u{e4}\"}",
        ] {
            assert!(compare_plain(text), "{text}");
        }
        for text in [
            "3",
            "null",
            "[]",
            "{",
            "{}}",
            "{,}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a" 1}"#,
            r#"{a:1}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":.5}"#,
            r#"{"a":-}"#,
            r#"{"a":+1}"#,
            r#"{"a":1e5}"#,
            r#"{"a":True}"#,
            r#"{"a":nul}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u00e4"}"#,
            r#"{"a":"\"}"#,
            r#"{"a":"}"#,
            "{\"a\":\"\n\"}",
            "{\"a\":\n1}",
            r#"{"a":[1,]}"#,
            r#"{"a":[1 2]}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
        ] {
            assert!(!compare_plain(text), "{text}");
        }
        assert!(read_plain_batch(b"[{\"a\":\"\xff\"}]", |_, _| Some(())).is_none());
        assert!(read_plain_batch(b"[{}]", |_, _| None).is_none());
        assert!(read_plain_batch(b"", |_, _| Some(())).is_none());
        assert!(read_plain_batch(b"[]", |_, _| None).is_some());
    }

    #[test]
    fn members_are_those_of_the_tree() {
        let nest = |n: usize| format!("{{\"x\":{}{}}}", "[".repeat(n), "]".repeat(n));
        let many = |n: usize, more: &str| {
            let members: Vec<String> = (0..n).map(|at| format!("\"m{at}\":{at}")).collect();
            format!("{{{}{more}}}", members.join(","))
        };
        for text in [
            "{}",
            " { } ",
            "[]",
            "3",
            "null",
            r#""x""#,
            r#"{"a":1,"context":{"b":"c","d":[1,{"e":null}],"n":null},"f":true}"#,
            r#"{ "a" : -1.5e3 , "context" : { "b" : [ ] , "c" : { } } }"#,
            r#"{"a":-0,"b":0,"c":18446744073709551616,"d":9223372036854775808,"e":1.50,"f":1E2}"#,
            r#"{"a":"\/\"\\\u00e4\ud83d\ude00","\u0061ction":"x","context":{"\n":"}"}}"#,
            r#"{"a":"\ud83d"}"#,
            r#"{"\ud83d":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":1,"b":{"c":1,"c":2}}"#,
            r#"{"a":1,"b":[{"c":1,"c":2}]}"#,
            r#"{"context":{"a":1},"context":{"a":1}}"#,
            r#"{"context":{"a":1,"a":1}}"#,
            r#"{"context":"x","x":{"context":{"a":1}}}"#,
            r#"{"a":1e999}"#,
            &format!("{{\"a\":1{}}}", "0".repeat(400)),
            &nest(31),
            &nest(32),
            &nest(10_000),
            &many(COMPARED_MAX + 1, ""),
            &many(COMPARED_MAX + 9, r#","m70":1"#),
            &many(COMPARED_MAX, r#","m0":1"#),
        ] {
            compare(text);
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let text = || "\"[a-c\\[\\]{}:, \u{e4}]{0,4}\"";
        let escaped =
            prop::sample::select(vec![r#""\u0061""#, r#""\"""#, r#""\\""#, r#""\ud800""#]);
        let name = prop_oneof![9 => text().boxed(), 1 => Just("\"context\"".to_owned()).boxed(),
            1 => escaped.clone().prop_map(str::to_owned).boxed()];
        let leaf = prop_oneof![
            text().boxed(),
            "-?(0|[1-9][0-9]{0,18})(\\.[0-9]{1,3})?(e[+-]?[0-9]{1,3})?".boxed(),
            escaped.prop_map(str::to_owned).boxed(),
            prop::sample::select(vec!["true", "false", "null"])
                .prop_map(str::to_owned)
                .boxed(),
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            let member = (name.clone(), " ?", inner.clone(), "\n?");
            let member = member.prop_map(|(name, before, value, after)| {
                format!("{name}{before}:{before}{value}{after}")
            });
            prop_oneof![
                prop::collection::vec(inner, 0..5)
                    .prop_map(|values| format!("[{}]", values.join(" ,"))),
                prop::collection::vec(member, 0..6)
                    .prop_map(|members| format!("{{{}}}", members.join(", "))),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_event_is_read_as_the_tree_is(text in json()) {
            compare(&text);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[\\[\\]{}:,\"\\\\u0-9eE.+ a-c-]{0,40}") {
            compare(&text);
        }
    }
}
