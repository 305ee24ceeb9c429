//! Parses TOML to values with positions.

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::value::{Datetime, Offset};

use super::value::{Member, Node, Parsed, SyntaxError, Value};
use crate::types::toml_mistake::explain;

/// Parses a file; continues after a syntax error to find further ones. The parser limits the nesting.
pub(super) fn parse(text: &str) -> Parsed {
    let (root, errors) = DeTable::parse_recoverable(text);
    let errors = errors.into_iter().map(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let message = explain(text, at, error.message());
        SyntaxError { at, message }
    });
    Parsed {
        root: members(root.get_ref()),
        errors: errors.collect(),
    }
}

// Sorted by position: the parser returns members by name.
fn members(table: &DeTable<'_>) -> Vec<Member> {
    let mut members: Vec<Member> = table
        .iter()
        .map(|(name, value)| Member {
            name: name.get_ref().to_string(),
            name_span: name.span(),
            node: node(value),
        })
        .collect();
    members.sort_by_key(|member| member.name_span.start);
    members
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let span = value.span();
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or(Value::Other("an integer out of range"), Value::Integer),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Boolean(value) => Value::Boolean(*value),
        DeValue::Datetime(time) => instant(time),
        DeValue::Array(values) => Value::List(values.iter().map(node).collect()),
        DeValue::Table(table) => Value::Table(members(table)),
    };
    Node { span, value }
}

fn instant(time: &Datetime) -> Value {
    let (Some(date), Some(clock), Some(offset)) = (time.date, time.time, time.offset) else {
        return Value::Other("a date or time without its offset from UTC (`Z` or `+01:00`)");
    };
    let minutes = match offset {
        Offset::Z => 0,
        Offset::Custom { minutes } => minutes,
    };
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    Value::Time(format!(
        "{date}T{:02}:{:02}:{:02}{sign}{:02}:{:02}",
        clock.hour,
        clock.minute,
        clock.second.unwrap_or(0),
        minutes / 60,
        minutes % 60
    ))
}
