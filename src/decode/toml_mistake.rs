//! Translates TOML parser errors into messages that tell a user what to change.

/// Prefix of the parser's message, and the message for the user. The first match wins.
const WORDS: &[(&str, &str)] = &[
    ("duplicate key", "the key occurs twice in its table"),
    (
        "cannot extend value",
        "a key that has a value cannot be the name of a table too",
    ),
    (
        "key with no value",
        "a key has no value; expected `key = value`",
    ),
    (
        "missing assignment",
        "expected `=` between the key and its value",
    ),
    (
        "extra assignment",
        "expected the value, and not a further `=`",
    ),
    ("extra `=`", "expected the value, and not a further `=`"),
    ("unexpected `=` in array", "expected a value, and not `=`"),
    ("missing value", "expected a value after `=`"),
    (
        "string values must be quoted",
        "expected a value; a text needs quotation marks, as in `key = \"text\"`",
    ),
    ("missing escaped value", ESCAPE),
    ("too few unicode", ESCAPE),
    ("invalid escape", ESCAPE),
    ("invalid basic string", STRING),
    ("invalid literal string", STRING),
    ("invalid multi-line", STRING),
    ("missing opening quote", STRING),
    ("keys cannot be multi-line", "a key must be on one line"),
    (
        "unclosed array table",
        "expected `]]` after the name of the table",
    ),
    ("unclosed table", "expected `]` after the name of the table"),
    (
        "missing table open",
        "expected `[` before the name of the table",
    ),
    (
        "unclosed inline table",
        "expected `}` at the end of the table",
    ),
    ("missing inline table", "expected `{` before the table"),
    ("unclosed array", "expected `]` at the end of the list"),
    ("missing array opening", "expected `[` before the list"),
    (
        "missing comma between array",
        "expected a comma between two values of the list",
    ),
    (
        "missing comma between key",
        "expected a comma between two keys of the table",
    ),
    ("extra comma", "expected a value between two commas"),
    ("missing key", KEY),
    ("unquoted keys cannot be empty", KEY),
    ("invalid unquoted key", KEY),
    ("invalid key", KEY),
    ("invalid inline table element", KEY),
    ("unexpected key or value", "expected the end of the line"),
    ("unexpected content", "expected the end of the line"),
    ("recursion limit", "is nested too deep"),
    ("cannot recurse", "is nested too deep"),
    ("invalid comment", CONTROL),
    ("carriage return", CONTROL),
    ("invalid value", "expected a value"),
    ("invalid date", DATE),
    ("invalid time", DATE),
    (
        "invalid boolean",
        "expected `true` or `false`, in small letters",
    ),
    ("invalid", NUMBER),
    ("integers with a radix", NUMBER),
    ("radix must", NUMBER),
    ("unexpected leading zero", NUMBER),
    ("unexpected sign", NUMBER),
    ("redundant", NUMBER),
    ("`_` may only", NUMBER),
    ("value is out of range", NUMBER),
];

const KEY: &str = "expected a key of letters, digits, `_` and `-`; any other needs quotation marks";
const STRING: &str = "expected the end of a text: a quotation mark of the kind that it began with";
const ESCAPE: &str = "expected `\\\\`, `\\\"`, `\\n` or `\\u00e5` here; between single quotes `\\` stands for itself";
const CONTROL: &str = "expected no control characters";
const DATE: &str = "expected a date and time such as 2026-01-01T00:00:00Z";
const NUMBER: &str = "expected a number such as 10, -3 or 1.5";

pub(crate) fn explain(text: &str, at: usize, description: &str) -> String {
    let found = WORDS
        .iter()
        .find(|(begins, _)| description.trim_start().starts_with(begins));
    let words = found.map_or("is not TOML", |(_, words)| words);
    // The parser may stop inside a character of several bytes.
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    format!("column {}: {words}", line.chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    #[test]
    fn every_kind_of_mistake_has_its_message() {
        let mut wrong = Vec::new();
        for (text, expected) in [
            (
                "a = 1\na = 2",
                "column 1: the key occurs twice in its table",
            ),
            ("[a]\n[a]", "column 2: the key occurs twice in its table"),
            ("a = 1\n[a.b]", "column 2: a key that has a value"),
            ("a", "column 2: a key has no value"),
            ("a 1", "column 3: a key has no value"),
            (
                "a == 1",
                "column 4: expected the value, and not a further `=`",
            ),
            ("a = [=]", "column 6: expected a value, and not `=`"),
            ("a =", "column 4: expected a value"),
            (
                "a = b",
                "column 5: expected a value; a text needs quotation marks",
            ),
            ("a = \"b", "column 7: expected the end of a text"),
            ("a = 'b\nc = 1", "column 7: expected the end of a text"),
            ("a = \"\\x\"", "column 8: expected `\\\\`"),
            ("a = \"\\u1\"", "expected `\\\\`"),
            ("[a", "column 3: expected `]` after the name"),
            ("[[a]", "expected `]]` after the name"),
            ("a = {b = 1", "expected `}` at the end of the table"),
            ("a = [1", "expected `]` at the end of the list"),
            ("a = [1 2]", "column 6: expected a value"),
            ("a = [\"b\" \"c\"]", "expected a comma between two values"),
            ("a = {b = 1 c = 2}", "expected a comma between two keys"),
            ("a = [1,,2]", "expected a value between two commas"),
            ("= 1", "expected a key of letters"),
            ("\u{e5} = 1", "expected a key of letters"),
            ("a = 1 b = 2", "expected the end of the line"),
            ("a = 01", "expected a number"),
            ("a = 1__0", "expected a number"),
            ("a = 0X1", "expected a number"),
            ("a = 2026-13-45", "expected a date"),
            ("a = 1\rb = 2", "expected no control characters"),
            ("# \u{1}", "expected no control characters"),
            ("a = True", "expected"),
            ("\u{e5}\u{e5} = \"", "column 1: expected a key"),
        ] {
            let (_, errors) = DeTable::parse_recoverable(text);
            let descriptions: Vec<&str> = errors.iter().map(toml::de::Error::message).collect();
            let explained: Vec<String> = errors
                .iter()
                .map(|error| {
                    let at = error.span().map_or(0, |span| span.start);
                    explain(text, at, error.message())
                })
                .collect();
            let parsers = [
                "is not TOML",
                "literal",
                "basic string",
                "newline",
                "inline",
                "token",
            ];
            let ours = |explained: &String| !parsers.iter().any(|word| explained.contains(word));
            if !explained
                .iter()
                .any(|explained| explained.contains(expected))
                || !explained.iter().all(ours)
            {
                wrong.push(format!(
                    "{text:?}: {explained:?} of {descriptions:?}, not {expected:?}"
                ));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
