//! Lists and records as text for people, or as JSON for scripts.

use std::sync::OnceLock;

use chrono::DateTime;
use serde_json::Value;

use super::failure::Failure;
use super::members;
use super::stream::{json, line};
use playgate_types::text::reorders;
use playgate_types::{UnixSeconds, Zone};

/// Heading of a table column, and the member that it shows.
pub(crate) type Column = (&'static str, &'static str);

pub(crate) fn list(rows: &Value, columns: &[Column], as_json: bool) -> Result<(), Failure> {
    if as_json {
        return json(rows);
    }
    let mut cells: Vec<Vec<String>> =
        vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()];
    cells.extend(members::all(rows).iter().map(|row| {
        columns
            .iter()
            .map(|(_, member)| {
                // The member is a JSON pointer; its last part decides whether the value is a time.
                let name = member.rsplit('/').next().unwrap_or_default();
                cell(name, row.pointer(&format!("/{member}")))
            })
            .collect()
    }));
    crate::output::columns(&cells)
}

pub(crate) fn columns(lines: &[Vec<String>]) -> Result<(), Failure> {
    let count = lines.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..count)
        .map(|at| {
            // Characters and not bytes: titles have accents.
            let width = |row: &Vec<String>| row.get(at).map_or(0, |cell| cell.chars().count());
            lines.iter().map(width).max().unwrap_or(0)
        })
        .collect();
    for row in lines {
        let padded: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        line(padded.join("  ").trim_end())?;
    }
    Ok(())
}

/// Most entries of a list that are shown without `--all`.
const ENTRIES_SHOWN: usize = 12;

/// The entries of a list to show, and words for the others, such as `and 3 more (--all)`.
pub(crate) fn shortened<T>(items: &[T], all: bool) -> (&[T], Option<String>) {
    match items.split_at_checked(ENTRIES_SHOWN) {
        Some((shown, rest)) if !all && !rest.is_empty() => {
            (shown, Some(format!("and {} more (--all)", rest.len())))
        }
        _ => (items, None),
    }
}

/// Joins the entries of a list that a command with `--all` shows.
pub(crate) fn joined<T: AsRef<str>>(items: &[T], all: bool) -> String {
    let (shown, rest) = shortened(items, all);
    let shown: Vec<&str> = shown.iter().map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match rest {
        Some(rest) => format!("{shown} {rest}"),
        None => shown,
    }
}

/// Joins the first elements of a list and counts the rest, for commands that have no complete list.
pub(crate) fn first<T: AsRef<str>>(items: &[T], most: usize) -> String {
    let shown: Vec<&str> = items.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match items.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

pub(crate) fn record(value: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return json(value);
    }
    let Some(members) = value.as_object() else {
        return line(&cell("", Some(value)));
    };
    // Members of nested objects get a dotted name.
    let mut lines = Vec::new();
    for (name, value) in members {
        match value.as_object() {
            None => lines.push((name.clone(), cell(name, Some(value)))),
            Some(inner) => lines.extend(
                inner
                    .iter()
                    .map(|(under, value)| (format!("{name}.{under}"), cell(under, Some(value)))),
            ),
        }
    }
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines
        .iter()
        .try_for_each(|(name, value)| line(&format!("{name:width$}  {value}")))
}

pub(crate) fn text(value: &Value, member: &str) -> String {
    cell(member, value.get(member))
}

/// Members with times, which are shown as dates.
const TIME_MEMBERS: [&str; 17] = [
    "at",
    "createdAt",
    "createdTimestamp",
    "expires",
    "expiry",
    "lastAttempt",
    "lastSeen",
    "lastStart",
    "lastSuccess",
    "lastUsedTimestamp",
    "minute",
    "next",
    "now",
    "purchasedAt",
    "replacedAt",
    "since",
    "timestamp",
];

static ZONE: OnceLock<Zone> = OnceLock::new();

/// Shows times in this zone from now on. The first zone stays.
pub(crate) fn use_zone(zone: Zone) {
    // A command reads its configuration more than once.
    let _ = ZONE.set(zone);
}

/// The zone in which times are shown and typed: that of the configuration, once it is read.
pub(crate) fn zone() -> Zone {
    ZONE.get().copied().unwrap_or_else(Zone::utc)
}

/// Shows an instant as people of the zone do, such as `2026-11-22 10:04:05 CET`.
pub(crate) fn instant(seconds: i64) -> Option<String> {
    instant_in(zone(), seconds)
}

fn instant_in(zone: Zone, seconds: i64) -> Option<String> {
    let at = DateTime::from_timestamp(seconds, 0)?.with_timezone(&zone);
    let name = zone.abbreviation(UnixSeconds(seconds));
    Some(format!("{} {name}", at.format("%Y-%m-%d %H:%M:%S")))
}

/// Formats a value as one cell of a table: plain text, joined lists, times as dates, objects as JSON.
pub(crate) fn cell(member: &str, value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        // A title or a name may contain terminal control sequences: remove them.
        Some(Value::String(text)) => text
            .chars()
            .map(|c| {
                if c.is_control() || reorders(c) {
                    ' '
                } else {
                    c
                }
            })
            .collect(),
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| cell(member, Some(item))).collect();
            items.join(", ")
        }
        Some(Value::Number(number)) if TIME_MEMBERS.contains(&member) => number
            .as_i64()
            .and_then(instant)
            .unwrap_or_else(|| number.to_string()),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_is_one_line_without_control_characters() {
        assert_eq!(cell("", Some(&json!("a\u{1b}[31m\nb"))), "a [31m b");
        assert_eq!(cell("", Some(&json!("a\u{202e}b"))), "a b");
        assert_eq!(cell("", Some(&json!(["a", 1]))), "a, 1");
        assert_eq!(cell("", None), "-");
    }

    #[test]
    fn a_list_is_cut_after_the_first_ones() {
        assert_eq!(first(&["a", "b"], 2), "a, b");
        assert_eq!(first(&["a", "b", "c"], 1), "a and 2 more");
    }

    #[test]
    fn only_a_list_longer_than_what_is_shown_names_the_option_for_the_rest() {
        let items: Vec<String> = (1..=13).map(|n| n.to_string()).collect();
        let most = &items[..12];
        assert_eq!(shortened(most, false), (most, None));
        let rest = Some("and 1 more (--all)".to_owned());
        assert_eq!(shortened(&items, false), (most, rest));
        assert_eq!(shortened(&items, true), (&*items, None));
        assert_eq!(joined(&items[..2], false), "1, 2");
        assert!(joined(&items, false).ends_with(", 12 and 1 more (--all)"));
    }

    #[test]
    fn an_instant_is_a_date() {
        let at = json!(1_795_338_245);
        assert_eq!(cell("createdAt", Some(&at)), "2026-11-22 09:04:05 UTC");
        assert_eq!(cell("records", Some(&at)), "1795338245");
        let stockholm = "Europe/Stockholm".parse().unwrap();
        let shown = instant_in(stockholm, 1_795_338_245);
        assert_eq!(shown.as_deref(), Some("2026-11-22 10:04:05 CET"));
    }
}
