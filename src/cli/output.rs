//! Output of commands: data on standard output, everything else on standard error. A closed standard output
//! (`| head`) is not an error.

use std::borrow::Cow;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use chrono::DateTime;
use serde_json::Value;

use super::exit::Failure;
use super::members;
use crate::types::text::{for_terminal, reorders};

/// Whether the reader of standard output still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Reader {
    Present,
    /// It has closed the pipe. A command that would run for ever has to end.
    Gone,
}

pub(super) fn line(text: &str) -> Result<(), Failure> {
    stream_line(text).map(|_| ())
}

pub(super) fn bytes(data: &[u8]) -> Result<(), Failure> {
    DataWriter::new().write(data).map(|_| ())
}

/// Writes a line of an output without end.
pub(super) fn stream_line(text: &str) -> Result<Reader, Failure> {
    let mut out = io::stdout().lock();
    let text = for_terminal(text);
    // Flushed here: an error at the end of the process would go unnoticed.
    reader(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Data of any length that arrives in parts. A file or another program gets it byte for byte, a terminal as text.
pub(super) struct DataWriter {
    to_terminal: bool,
    /// The beginning of a character whose rest comes with the next part.
    cut: Vec<u8>,
}

impl DataWriter {
    pub(super) fn new() -> Self {
        Self {
            to_terminal: io::stdout().is_terminal(),
            cut: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, data: &[u8]) -> Result<Reader, Failure> {
        let data = self.shown(data);
        let mut out = io::stdout().lock();
        reader(out.write_all(&data).and_then(|()| out.flush()))
    }

    fn shown<'a>(&mut self, data: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.to_terminal {
            return Cow::Borrowed(data);
        }
        let mut whole = std::mem::take(&mut self.cut);
        whole.extend_from_slice(data);
        let end = match std::str::from_utf8(&whole) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => whole.len(),
        };
        self.cut = whole.split_off(end);
        let text = String::from_utf8_lossy(&whole);
        Cow::Owned(for_terminal(&text).into_owned().into_bytes())
    }
}

fn reader(result: io::Result<()>) -> Result<Reader, Failure> {
    match result {
        Ok(()) => Ok(Reader::Present),
        // `playgate … | head` closes the pipe early, which is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::failed(format!("standard output: {error}"))),
    }
}

pub(super) fn json(value: &Value) -> Result<(), Failure> {
    line(&value.to_string())
}

/// Reports a change: a note for the user, or an object for a script.
pub(super) fn done(note: &str, report: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return json(report);
    }
    print_note(note);
    Ok(())
}

pub(super) fn result(text: &str, report: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json { json(report) } else { line(text) }
}

#[derive(Clone, Copy)]
pub(super) enum Tone {
    Good,
    Doubtful,
    Bad,
}

/// The text in colour, if standard output is a terminal that shows it and `NO_COLOR` is not set.
#[must_use]
pub(super) fn tinted(text: &str, tone: Tone) -> String {
    let is = |name, wrong: fn(&str) -> bool| {
        std::env::var_os(name).is_some_and(|value| value.to_str().is_none_or(wrong))
    };
    let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    // Escape sequences in a file or a pipe would be read as text.
    if plain || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    let code = match tone {
        Tone::Good => 32,
        Tone::Doubtful => 33,
        Tone::Bad => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

pub(super) fn print_note(text: &str) {
    // Ignore the error: there is no other place to report it.
    let _ = writeln!(io::stderr(), "{}", for_terminal(text));
}

pub(super) fn progress(text: &str) {
    // Return to the first column and clear the rest of the line.
    let _ = write!(io::stderr(), "\r\u{1b}[K{}", for_terminal(text));
}

/// Asks for confirmation on a terminal. Without a terminal, as in a script, the answer is yes.
#[must_use]
pub(super) fn confirmed(question: &str) -> bool {
    // A script cannot answer, and has chosen its command on purpose.
    if !can_ask() {
        return true;
    }
    progress(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    // Any other answer means no, and so does the end of the input.
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// Asks before data is removed permanently. `what` says what the command does, such as "removes ann".
pub(super) fn confirm_removal(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    // A script with a wrong id must not remove anything unless it passes `--yes`.
    if !can_ask() {
        let why = format!("this {what}; no terminal to confirm on");
        return Err(Failure::usage(why).hint("add `--yes` to confirm"));
    }
    if confirmed(&format!("This {what}. Continue?")) {
        return Ok(());
    }
    Err(Failure::failed("cancelled: nothing was removed"))
}

#[must_use]
pub(super) fn can_ask() -> bool {
    watched() && io::stdin().is_terminal()
}

#[must_use]
pub(super) fn watched() -> bool {
    io::stderr().is_terminal()
}

/// Heading of a table column, and the member that it shows.
pub(super) type Column = (&'static str, &'static str);

pub(super) fn list(rows: &Value, columns: &[Column], as_json: bool) -> Result<(), Failure> {
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
    self::columns(&cells)
}

pub(super) fn columns(lines: &[Vec<String>]) -> Result<(), Failure> {
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
#[must_use]
pub(super) fn shortened<T>(items: &[T], all: bool) -> (&[T], Option<String>) {
    match items.split_at_checked(ENTRIES_SHOWN) {
        Some((shown, rest)) if !all && !rest.is_empty() => {
            (shown, Some(format!("and {} more (--all)", rest.len())))
        }
        _ => (items, None),
    }
}

/// Joins the entries of a list that a command with `--all` shows.
#[must_use]
pub(super) fn joined<T: AsRef<str>>(items: &[T], all: bool) -> String {
    let (shown, rest) = shortened(items, all);
    let shown: Vec<&str> = shown.iter().map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match rest {
        Some(rest) => format!("{shown} {rest}"),
        None => shown,
    }
}

/// Joins the first elements of a list and counts the rest, for commands that have no complete list.
#[must_use]
pub(super) fn first<T: AsRef<str>>(items: &[T], most: usize) -> String {
    let shown: Vec<&str> = items.iter().take(most).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
    match items.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

pub(super) fn record(value: &Value, as_json: bool) -> Result<(), Failure> {
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

#[must_use]
pub(super) fn text(value: &Value, member: &str) -> String {
    cell(member, value.get(member))
}

/// Members with times, which are shown as dates.
const TIME_MEMBERS: [&str; 13] = [
    "at",
    "createdAt",
    "createdTimestamp",
    "expires",
    "expiry",
    "lastAttempt",
    "lastSuccess",
    "lastUsedTimestamp",
    "minute",
    "next",
    "purchasedAt",
    "replacedAt",
    "timestamp",
];

fn instant(seconds: i64) -> Option<String> {
    let at = DateTime::from_timestamp(seconds, 0)?;
    Some(at.format("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// Formats a value as one cell of a table: plain text, joined lists, times as dates, objects as JSON.
pub(super) fn cell(member: &str, value: Option<&Value>) -> String {
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
    fn a_reader_that_is_gone_is_reported_and_no_failure() {
        let written = |kind: io::ErrorKind| reader(Err(kind.into()));
        assert!(matches!(reader(Ok(())), Ok(Reader::Present)));
        assert!(matches!(
            written(io::ErrorKind::BrokenPipe),
            Ok(Reader::Gone)
        ));
        assert!(written(io::ErrorKind::StorageFull).is_err());
    }

    #[test]
    fn a_cell_is_one_line_without_control_characters() {
        assert_eq!(cell("", Some(&json!("a\u{1b}[31m\nb"))), "a [31m b");
        assert_eq!(cell("", Some(&json!("a\u{202e}b"))), "a b");
        assert_eq!(cell("", Some(&json!(["a", 1]))), "a, 1");
        assert_eq!(cell("", None), "-");
    }

    #[test]
    fn data_for_a_terminal_is_text_and_other_data_stays() {
        let data = "{\"name\":\"\u{202e}Åsa\u{1b}\"}".as_bytes();
        for (to_terminal, expected) in [
            (true, r#"{"name":"\u202eÅsa\u001b"}"#.as_bytes()),
            (false, data),
        ] {
            let cut = Vec::new();
            let mut out = DataWriter { to_terminal, cut };
            // Each byte is a part.
            let parts = data.chunks(1).flat_map(|part| out.shown(part).into_owned());
            assert_eq!(parts.collect::<Vec<u8>>(), expected);
        }
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
        assert_eq!(cell("createdAt", Some(&at)), "2026-11-22 09:04:05Z");
        assert_eq!(cell("records", Some(&at)), "1795338245");
    }
}
