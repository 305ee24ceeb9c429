//! Lists of tables, allowed in the file only.

use std::collections::HashSet;

use super::schema::Refusal;
use playgate_decode::{Decoder, Node, TableDecoder, Value};

/// Reads the tables of a key. Each needs a unique `name`. Returns the mistakes of all tables together.
pub(super) fn tables<T>(
    list: &Node,
    what: &str,
    read: impl FnMut(&TableDecoder<'_>) -> Option<T>,
) -> Result<Vec<T>, Refusal> {
    if matches!(list.value, Value::Loose(_)) {
        return Err("can be set only in the file".to_owned().into());
    }
    let decoder = Decoder::new(false);
    let nodes = list.elements().iter();
    let tables = nodes.filter_map(|node| TableDecoder::new(&decoder, what.to_owned(), node));
    let items = distinct(tables, "name", read);
    let mistakes = decoder.mistakes();
    if mistakes.is_empty() {
        Ok(items)
    } else {
        Err(Refusal::Members(mistakes))
    }
}

pub(super) fn distinct<'r, T>(
    tables: impl Iterator<Item = TableDecoder<'r>>,
    name: &str,
    mut read: impl FnMut(&TableDecoder<'r>) -> Option<T>,
) -> Vec<T> {
    let (mut items, mut names) = (Vec::new(), HashSet::new());
    for table in tables.map(|table| table.named(name)) {
        items.extend(read(&table));
        if table.has_any(&[name]) && !names.insert(table.what().to_owned()) {
            table.report(&format!("another table above has the same `{name}`"));
        }
        table.finish();
    }
    items
}
