//! Parses TOML to values with positions.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Time};

use super::value::{Lines, Span};
use super::{Mistake, Node, ObjectMember, Parsed, Value};

/// Parses a file; continues after a syntax error to find further ones. The parser limits the nesting.
pub fn parse(text: &str) -> Parsed {
    let lines = Lines::new(text);
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut errors: Vec<Mistake> = errors
        .into_iter()
        .map(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Mistake {
                line: lines.line(at),
                message: format!("column {}: {}", column(text, at), error.message()),
            }
        })
        .collect();
    // A second error in a line is a consequence of the first.
    errors.dedup_by_key(|error| error.line);
    Parsed {
        root: members(&lines, root.get_ref()),
        errors,
    }
}

/// In characters, counted from 1.
fn column(text: &str, at: usize) -> usize {
    // The parser may stop inside a character of several bytes.
    let before = text.get(..at).unwrap_or(text);
    before
        .rsplit('\n')
        .next()
        .map_or(0, |line| line.chars().count())
        + 1
}

fn members(lines: &Lines, table: &DeTable<'_>) -> Vec<ObjectMember> {
    let mut members: Vec<ObjectMember> = table
        .iter()
        .map(|(name, value)| ObjectMember {
            name: name.get_ref().to_string(),
            name_span: span(lines, name),
            node: node(lines, value),
        })
        .collect();
    // The parser returns the members by name; mistakes are reported in the order of the file.
    members.sort_by_key(|member| member.name_span.start);
    members
}

fn span<T>(lines: &Lines, of: &Spanned<T>) -> Span {
    let std::ops::Range { start, end } = of.span();
    let line = lines.line(start);
    Span { start, end, line }
}

fn node(lines: &Lines, value: &Spanned<DeValue<'_>>) -> Node {
    let span = span(lines, value);
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        // The parser keeps the digits: a number may not fit 64 bits.
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("an integer out of range"), Value::Integer),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(time) => Value::Time(with_seconds(*time).to_string()),
        DeValue::Array(values) => Value::List(values.iter().map(|v| node(lines, v)).collect()),
        DeValue::Table(table) => Value::Table(members(lines, table)),
    };
    Node { span, value }
}

/// TOML may omit the seconds; RFC 3339 may not.
fn with_seconds(time: Datetime) -> Datetime {
    let clock = time.time.map(|clock| Time {
        second: clock.second.or(Some(0)),
        ..clock
    });
    Datetime {
        time: clock,
        ..time
    }
}
