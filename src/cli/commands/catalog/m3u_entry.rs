//! The attributes and the title of an `#EXTINF` line, as programs and people write them: values in quotes, in single ones or without;
//! quotes inside values; commas between attributes; a title without a comma before it.

use std::collections::BTreeMap;

const OPEN_QUOTE: &str = "a quote is not closed; add a `\"` behind the value";

pub(super) type Attributes = BTreeMap<String, String>;

/// Reads what follows `#EXTINF:`, which is `duration name="value" …,title`, or what follows `#EXTM3U`. Names are in lower case.
pub(super) fn read(text: &str) -> Result<(Attributes, &str), &'static str> {
    let mut attributes = Attributes::new();
    // A title that has no comma before it.
    let mut words: Option<&str> = None;
    let mut rest = text.trim_start_matches(|c: char| c.is_ascii_digit() || " \t+-.".contains(c));
    loop {
        rest = rest.trim_start();
        if let Some((name, after)) = named(rest) {
            let (value, more) = value(after)?;
            attributes.insert(name.to_ascii_lowercase(), value);
            (words, rest) = (None, more);
        } else if let Some(after) = rest.strip_prefix(',') {
            // A title that looks like an attribute has no quote behind its `=`.
            match named(after.trim_start()) {
                Some((_, value)) if value.starts_with(['"', '\'']) => rest = after,
                _ => return Ok((attributes, after.trim())),
            }
        } else if rest.is_empty() {
            return Ok((attributes, words.unwrap_or_default().trim()));
        } else {
            words = words.or(Some(rest));
            rest = rest.trim_start_matches(|c: char| !c.is_whitespace() && c != ',');
        }
    }
}

/// The name of an attribute, and what follows its `=`.
fn named(text: &str) -> Option<(&str, &str)> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let after = text.trim_start_matches(is_of_name);
    let name = text.strip_suffix(after).filter(|name| !name.is_empty())?;
    let value = after.trim_start().strip_prefix('=')?;
    let trimmed = value.trim_start();
    // A space before a bare value would be one behind an empty value.
    let is_quoted = trimmed.starts_with(['"', '\'', '“']);
    Some((name, if is_quoted { trimmed } else { value }))
}

/// A value, and what follows it.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    for (open, close) in [('"', '"'), ('\'', '\''), ('“', '”')] {
        if let Some(inside) = text.strip_prefix(open) {
            let (value, rest) = quoted(inside, close).ok_or(OPEN_QUOTE)?;
            let value = value
                .trim()
                .replace(&format!("\\{close}"), &close.to_string());
            return Ok((value, rest));
        }
    }
    Ok(unquoted(text))
}

fn quoted(inside: &str, close: char) -> Option<(&str, &str)> {
    let parts = |(at, quote): (usize, &str)| {
        let (value, rest) = inside.split_at_checked(at)?;
        Some((value, rest.strip_prefix(quote)?))
    };
    let mut ends = inside.match_indices(close).filter_map(parts);
    // A quote inside the value is followed by more of the value.
    let end = ends.find(|(value, rest)| {
        let next = rest.trim_start();
        !value.ends_with('\\')
            && (next.is_empty() || next.starts_with(',') || named(next).is_some())
    });
    // Another attribute is no part of a value. Without a comma before the title every quote may be the last one.
    let attribute = format!("={close}");
    let end = end.filter(|(value, _)| !value.contains(&attribute));
    let (value, rest) = end.or_else(|| inside.split_once(close))?;
    // It ends where the next attribute's value begins: its own quote lacks.
    (!value.ends_with('=')).then_some((value, rest))
}

/// A value without quotes ends at a comma or before the next attribute.
fn unquoted(text: &str) -> (String, &str) {
    let is_end = |(at, c): &(usize, char)| {
        let rest = text.split_at_checked(*at).map_or("", |(_, rest)| rest);
        *c == ',' || (c.is_whitespace() && named(rest.trim_start()).is_some())
    };
    let at = text
        .char_indices()
        .find(is_end)
        .map_or(text.len(), |(at, _)| at);
    let (value, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    (value.trim().to_owned(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_write_attributes_is_read() {
        for (line, attributes, title) in [
            ("-1,Title", "", "Title"),
            (
                "-1 tvg-id=\"a\" x=\"News, sport\",One, \"two\"",
                "tvg-id=a|x=News, sport",
                "One, \"two\"",
            ),
            (
                "-1 tvg-id=one tvg-logo=http://x/1.png?a=b,One",
                "tvg-id=one|tvg-logo=http://x/1.png?a=b",
                "One",
            ),
            (
                "0 group-title=News and sport tvg-id=,One",
                "group-title=News and sport|tvg-id=",
                "One",
            ),
            ("-1 tvg-id= tvg-name=\"b\",One", "tvg-id=|tvg-name=b", "One"),
            (
                "-1 tvg-id='one' tvg-name='L'Équipe',One",
                "tvg-id=one|tvg-name=L'Équipe",
                "One",
            ),
            ("-1 TVG-ID = \"one\",One", "tvg-id=one", "One"),
            ("-1 tvg-id=“one”,One", "tvg-id=one", "One"),
            (
                "-1 tvg-id=\"a\",tvg-name=\"b\",One",
                "tvg-id=a|tvg-name=b",
                "One",
            ),
            (
                "-1 tvg-name=\"This is \"a test\"\" x=\"1\",One",
                "tvg-name=This is \"a test\"|x=1",
                "One",
            ),
            (
                "-1 tvg-name=\"Say \"hi\" now\" x=\"1\",One",
                "tvg-name=Say \"hi\" now|x=1",
                "One",
            ),
            (
                "-1 tvg-name=\"Say \\\"hi\\\"\",One",
                "tvg-name=Say \"hi\"",
                "One",
            ),
            (
                "-1 tvg-id=\"a\"tvg-name=\"b\",One",
                "tvg-id=a|tvg-name=b",
                "One",
            ),
            ("-1 tvg-id=\"a\" Channel One", "tvg-id=a", "Channel One"),
            ("10.5 Channel One", "", "Channel One"),
            ("-1 tvg-id=\"a\" HD x=\"1\",One", "tvg-id=a|x=1", "One"),
            ("-1 tvg-id=\"a\",2+2=4", "tvg-id=a", "2+2=4"),
            ("-1,Formula=1", "", "Formula=1"),
            ("-1", "", ""),
        ] {
            let (read, name) = read(line).unwrap();
            let read: Vec<String> = read
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            assert_eq!(
                (read.join("|").as_str(), name),
                (attributes, title),
                "{line}"
            );
        }
    }

    #[test]
    fn an_open_quote_is_an_error_wherever_it_stands() {
        for line in [
            "-1 tvg-name=\"One,One",
            "-1 tvg-name=\"One tvg-id=\"x\",One",
            "-1 a=\"1\" b='2,One",
        ] {
            assert_eq!(read(line).unwrap_err(), OPEN_QUOTE, "{line}");
        }
    }
}
