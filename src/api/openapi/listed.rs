//! An operation of the document as the page lists it.

use serde_json::Value;

pub(super) struct Listed<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub operation: &'a Value,
}

impl Listed<'_> {
    pub(super) fn label(&self) -> &str {
        text(self.operation, "operationId")
    }

    pub(super) fn is_of(&self, tag: &str) -> bool {
        self.operation.pointer("/tags/0").and_then(Value::as_str) == Some(tag)
    }
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value
        .get(name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}
