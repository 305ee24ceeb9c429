//! Reads members of JSON that the server sent. A member that is absent or of another type is empty.

use serde_json::Value;

pub(crate) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    let text = value.get(member).and_then(Value::as_str);
    text.unwrap_or_default()
}

pub(crate) fn number(value: &Value, member: &str) -> u64 {
    let number = value.get(member).and_then(Value::as_u64);
    number.unwrap_or_default()
}

pub(crate) fn all(array: &Value) -> &[Value] {
    array.as_array().map_or(&[], Vec::as_slice)
}

pub(crate) fn elements<'a>(value: &'a Value, member: &str) -> &'a [Value] {
    value.get(member).map_or(&[], all)
}

pub(crate) fn texts<'a>(value: &'a Value, member: &str) -> impl Iterator<Item = &'a str> {
    elements(value, member).iter().filter_map(Value::as_str)
}
