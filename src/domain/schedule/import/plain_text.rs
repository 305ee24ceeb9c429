//! Makes plain text of what guides write into texts: references of XML and HTML, markup, characters of Windows.
//!
//! Nothing expands: each reference of a fixed table gives one or two characters, and what a document type declares is
//! never looked up.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

pub(super) const TABLE: &str = include_str!("../../../../data/html-entities.txt");

/// Characters of the longest name in the table.
const NAME_MAX: usize = 31;

static ENTITIES: LazyLock<HashMap<&'static str, String>> = LazyLock::new(|| {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let entity = |line: &'static str| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let characters = words.map(|code| char::from_u32(u32::from_str_radix(code, 16).ok()?));
        Some((name, characters.collect::<Option<String>>()?))
    };
    rows.filter_map(entity).collect()
});

/// What 0x80 to 0x9f are in windows-1252. XML has control characters there, which nobody means.
const WINDOWS: [Option<char>; 32] = [
    Some('€'),
    None,
    Some('‚'),
    Some('ƒ'),
    Some('„'),
    Some('…'),
    Some('†'),
    Some('‡'),
    Some('ˆ'),
    Some('‰'),
    Some('Š'),
    Some('‹'),
    Some('Œ'),
    None,
    Some('Ž'),
    None,
    None,
    Some('‘'),
    Some('’'),
    Some('“'),
    Some('”'),
    Some('•'),
    Some('–'),
    Some('—'),
    Some('˜'),
    Some('™'),
    Some('š'),
    Some('›'),
    Some('œ'),
    None,
    Some('ž'),
    Some('Ÿ'),
];

/// Elements of HTML that are markup in a text. Others, such as `<Untitled>`, may be part of it.
const INLINE: [&str; 22] = [
    "a", "abbr", "b", "big", "center", "cite", "code", "del", "em", "font", "i", "img", "ins",
    "mark", "s", "small", "span", "strong", "sub", "sup", "tt", "u",
];
/// Those that begin a line.
const BLOCKS: [&str; 25] = [
    "blockquote",
    "body",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "hr",
    "html",
    "li",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "td",
    "tr",
    "ul",
];
/// Those whose content is no text.
const HIDDEN: [&str; 2] = ["script", "style"];

/// The text of a named reference, without `&` and `;`. A no-break space is a space, as viewers see it.
pub(super) fn named(name: &str) -> Option<&'static str> {
    match name {
        // Most references are one of these.
        "amp" => Some("&"),
        "lt" => Some("<"),
        "gt" => Some(">"),
        "quot" => Some("\""),
        "apos" => Some("'"),
        "nbsp" => Some(" "),
        _ if name.len() > NAME_MAX => None,
        _ => ENTITIES.get(name).map(String::as_str),
    }
}

/// The character of a reference such as `#8217` or `#x2019`.
pub(super) fn numbered(reference: &str) -> Option<char> {
    let digits = reference.strip_prefix('#')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    // A sign would be accepted by both.
    let plain = digits.starts_with(|c: char| c.is_ascii_alphanumeric());
    code.ok().filter(|_| plain).and_then(char::from_u32)
}

/// Replaces the references in a text. Returns how many `&` belong to none; they stay.
pub(super) fn unescape(text: &str, out: &mut String) -> u64 {
    let mut unescaped_ampersands = 0;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        rest = after;
        let end = after
            .bytes()
            .take(NAME_MAX + 1)
            .position(|byte| byte == b';');
        let found = end.and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?)));
        let known = found.and_then(|(name, after)| {
            let character = numbered(name);
            match character {
                Some(character) => out.push(character),
                None => out.push_str(named(name)?),
            }
            Some(after)
        });
        match known {
            Some(after) => rest = after,
            None => {
                out.push('&');
                unescaped_ampersands += 1;
            }
        }
    }
    out.push_str(rest);
    unescaped_ampersands
}

/// Removes the markup of HTML and decodes what was escaped twice. `None` if the text has neither.
pub(super) fn without_markup(text: &str) -> Option<String> {
    if !text.contains(['<', '&']) {
        return None;
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    let mut closed: Option<HashSet<String>> = None;
    while let Some((before, after)) = rest.split_once('<') {
        plain.push_str(before);
        let closed = closed.get_or_insert_with(|| closed_elements(text));
        match tag(after, closed) {
            Some((separator, after)) => {
                plain.push_str(separator);
                rest = after;
            }
            None => {
                plain.push('<');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    let mut decoded = String::with_capacity(plain.len());
    unescape(&plain, &mut decoded);
    (decoded != text).then_some(decoded)
}

/// Reads the tag or comment after a `<`. Returns what it means for the text, and the text after it.
fn tag<'a>(text: &'a str, closed: &HashSet<String>) -> Option<(&'static str, &'a str)> {
    if let Some(comment) = text.strip_prefix("!--") {
        // Without an end it hides the rest, as in a browser: looking for one again and again would take long.
        return Some(("", comment.split_once("-->").map_or("", |(_, after)| after)));
    }
    // Another `<` before the end: this one is no tag.
    let end = text
        .find(['<', '>'])
        .filter(|end| text.get(*end..).is_some_and(|t| t.starts_with('>')))?;
    let (inside, after) = (text.get(..end)?, text.get(end + 1..)?);
    let name = inside.trim_start_matches('/');
    let name = name.split(|c: char| c.is_whitespace() || c == '/').next()?;
    let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_one_of(&HIDDEN) {
        if inside.starts_with('/') {
            return Some(("", after));
        }
        let closes = |at: &usize| {
            let tag = after.get(at + 2..at + 2 + name.len());
            tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name))
        };
        let end = after.match_indices("</").map(|(at, _)| at).find(closes);
        return Some(("", end.and_then(|at| after.get(at..)).unwrap_or_default()));
    }
    if is_one_of(&BLOCKS) {
        return Some(("\n", after));
    }
    // `Plan <b>` is a title, and no bold text.
    let is_closed = || closed.contains(&name.to_ascii_lowercase());
    (is_one_of(&INLINE) && (name.eq_ignore_ascii_case("img") || is_closed())).then_some(("", after))
}

/// Names of the elements that a text closes.
fn closed_elements(text: &str) -> HashSet<String> {
    let name = |(at, _): (usize, &str)| {
        let rest = text.get(at + 2..)?;
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric())?;
        rest.get(..end)
            .filter(|name| name.len() <= 10)
            .map(str::to_ascii_lowercase)
    };
    text.match_indices("</").filter_map(name).collect()
}

/// Whether an element of XML inside of a text begins a line of it.
pub(super) fn begins_line(element: &str) -> bool {
    BLOCKS
        .iter()
        .any(|known| known.eq_ignore_ascii_case(element))
}

/// Removes control characters, which clients cannot show. One that separates words becomes a line
/// break or a space.
pub(super) fn clean(text: &str) -> String {
    let unwanted = |c: char| c.is_control() && c != '\n' && c != '\t';
    let edge = |c: char| c.is_whitespace() || c.is_ascii_control();
    let text = text.trim_matches(edge);
    if !text.contains(unwanted) {
        return text.to_owned();
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => cleaned.push('\n'),
            // These separate words.
            '\u{b}' | '\u{c}' => cleaned.push(' '),
            '\u{80}'..='\u{9f}' => {
                let at = usize::try_from(u32::from(c) - 0x80).unwrap_or(usize::MAX);
                cleaned.extend(WINDOWS.get(at).copied().flatten());
            }
            c if unwanted(c) => {}
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// Joins the lines that markup leaves behind.
pub(super) fn tidy_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_html_is_complete() {
        assert_eq!(ENTITIES.len(), 2_125);
        assert!(ENTITIES.keys().all(|name| name.len() <= NAME_MAX));
        for (name, text) in [
            ("eacute", "é"),
            ("ndash", "–"),
            ("hellip", "…"),
            ("zcaron", "ž"),
            ("nbsp", " "),
        ] {
            assert_eq!(named(name), Some(text), "{name}");
        }
        assert_eq!(named("zzz"), None);
    }

    #[test]
    fn references_are_replaced_and_other_ampersands_stay() {
        for (text, expected, unescaped_ampersands) in [
            ("R&B", "R&B", 1),
            ("R&amp;B &eacute;&#233;&#xE9;", "R&B ééé", 0),
            ("a & b && c;", "a & b && c;", 3),
            (
                "&unknown; &#xD800; &#+65; &;",
                "&unknown; &#xD800; &#+65; &;",
                4,
            ),
            ("?a=1&copy=2", "?a=1&copy=2", 1),
            ("&", "&", 1),
            ("é&é;", "é&é;", 1),
        ] {
            let mut out = String::new();
            assert_eq!(unescape(text, &mut out), unescaped_ampersands, "{text}");
            assert_eq!(out, expected);
        }
    }

    #[test]
    fn markup_becomes_text() {
        for (text, expected) in [
            ("<p>One</p><p>Two</p>", "One\nTwo"),
            ("a<br/>b<BR>c", "a\nb\nc"),
            ("<b class=\"x\">bold</b> &amp; more", "bold & more"),
            ("x<!-- no -->y<script>bad()</script>z", "xyz"),
            ("&amp;lt;b&amp;gt;", "&lt;b&gt;"),
            ("Caf&eacute; &ndash; Live", "Café – Live"),
        ] {
            let plain = without_markup(text).unwrap();
            assert_eq!(tidy_lines(&plain), expected, "{text}");
        }
        for same in [
            "5 < 6 > 3",
            "Plan <b>",
            "<Untitled>",
            "I <3 you",
            "a & b",
            "< b>",
            "<<",
            "plain",
        ] {
            assert_eq!(without_markup(same), None, "{same}");
        }
    }

    #[test]
    fn control_characters_are_those_of_windows() {
        assert_eq!(
            clean("\u{91}Rosa\u{92}s\u{85} \u{93}q\u{94}\u{81}\u{1}"),
            "‘Rosa’s… “q”"
        );
        assert_eq!(clean(" \u{0}a\r\nb\u{c}c\rd\u{7f} "), "a\nb c\nd");
    }
}
