//! Writes data to standard output and everything else to standard error. A closed standard output (`| head`) is not an error.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};

use serde_json::Value;

use super::failure::Failure;
use playgate_types::text::for_terminal;

/// Whether the reader of standard output still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Reader {
    Present,
    /// It has closed the pipe. A command that would run for ever has to end.
    Gone,
}

pub(crate) fn line(text: &str) -> Result<(), Failure> {
    stream_line(text).map(|_| ())
}

pub(crate) fn bytes(data: &[u8]) -> Result<(), Failure> {
    DataWriter::new().write(data).map(|_| ())
}

/// Writes a line of an output without end.
pub(crate) fn stream_line(text: &str) -> Result<Reader, Failure> {
    let mut out = io::stdout().lock();
    let text = for_terminal(text);
    // Flushed here: an error at the end of the process would go unnoticed.
    reader(writeln!(out, "{text}").and_then(|()| out.flush()))
}

/// Data of any length that arrives in parts. A file or another program gets it byte for byte, a terminal as text.
pub(crate) struct DataWriter {
    to_terminal: bool,
    /// The beginning of a character whose rest comes with the next part.
    cut: Vec<u8>,
}

impl DataWriter {
    pub(crate) fn new() -> Self {
        Self {
            to_terminal: io::stdout().is_terminal(),
            cut: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, data: &[u8]) -> Result<Reader, Failure> {
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

pub(crate) fn json(value: &Value) -> Result<(), Failure> {
    line(&value.to_string())
}

/// Reports a change: a note for the user, or an object for a script.
pub(crate) fn done(note: &str, report: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json {
        return json(report);
    }
    print_note(note);
    Ok(())
}

pub(crate) fn result(text: &str, report: &Value, as_json: bool) -> Result<(), Failure> {
    if as_json { json(report) } else { line(text) }
}

pub(crate) fn print_note(text: &str) {
    // Ignore the error: there is no other place to report it.
    let _ = writeln!(io::stderr(), "{}", for_terminal(text));
}

pub(crate) fn progress(text: &str) {
    // Return to the first column and clear the rest of the line.
    let _ = write!(io::stderr(), "\r\u{1b}[K{}", for_terminal(text));
}

pub(crate) fn watched() -> bool {
    io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
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
}
