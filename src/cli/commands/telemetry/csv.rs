//! CSV on standard output, by the rules of the console's `data/console/csv.js`. `tests/csv_cells.json` has the cases that both are
//! tested with.
//!
//! Decision: without a byte order mark. Standard output is read by other programs, which would take the mark for a part of the first
//! heading; the console's files, which people open, have one.

use clap::ValueEnum;
use serde_json::Value;

use crate::output::{self, CommandResult};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Separator {
    #[default]
    Comma,
    Semicolon,
    Tab,
}

impl Separator {
    const fn character(self) -> char {
        match self {
            Self::Comma => ',',
            Self::Semicolon => ';',
            Self::Tab => '\t',
        }
    }
}

pub(crate) fn row(cells: impl IntoIterator<Item = Value>, separator: Separator) -> CommandResult {
    let separator = separator.character();
    let mut line = String::new();
    for (at, value) in cells.into_iter().enumerate() {
        if at > 0 {
            line.push(separator);
        }
        line.push_str(&cell(&value, separator));
    }
    output::line(&line)
}

fn cell(value: &Value, separator: char) -> String {
    match value {
        Value::Null => String::new(),
        // With a point a spreadsheet of such a language would read a date.
        Value::Number(number) if separator == ';' => number.to_string().replace('.', ","),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text_cell(text),
        other => text_cell(&other.to_string()),
    }
}

fn text_cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    // Whether a spreadsheet of some language begins a cell here.
    let mut begins = true;
    for c in text.chars() {
        if begins && is_sign(c) {
            safe.push('\'');
        }
        begins = matches!(c, ';' | ',' | '\t' | '\r' | '\n' | '|') || (begins && is_skipped(c));
        safe.push(c);
    }
    if safe.contains([',', ';', '\t', '"', '\n', '\r']) {
        return format!("\"{}\"", safe.replace('"', "\"\""));
    }
    safe
}

/// The signs that begin a formula, and the characters that Unicode counts as the same.
const fn is_sign(c: char) -> bool {
    matches!(
        c,
        '=' | '+' | '-' | '@' | '−' | '﹢' | '﹣' | '﹦' | '﹫' | '＝' | '＋' | '－' | '＠'
    )
}

/// What a spreadsheet may leave out at the beginning of a cell.
fn is_skipped(c: char) -> bool {
    // U+0085 is white space for Rust and not for JavaScript; both leave it alone.
    c.is_whitespace() && c != '\u{85}'
        || matches!(
            c,
            '"' | '\u{ad}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{202a}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_those_of_the_table_that_the_console_is_tested_with() {
        let cases = include_str!("../../../../tests/csv_cells.json");
        let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
        assert!(cases.len() > 40);
        for case in cases {
            let separator = case["separator"].as_str().unwrap_or(",");
            let separator = separator.chars().next().unwrap();
            assert_eq!(
                cell(&case["value"], separator),
                case["cell"].as_str().unwrap(),
                "{case}"
            );
        }
    }
}
