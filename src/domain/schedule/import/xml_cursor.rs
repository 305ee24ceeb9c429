//! Pulls events from the XML parser, with limits and line numbers.

use std::io::Read;

use quick_xml::Reader;
use quick_xml::errors::{IllFormedError, SyntaxError};
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::bounded_lines::BoundedLines;
use super::{DEPTH_MAX, EVENTS_MAX, GuideError};

/// Bytes of a collected text. The limits of single fields are shorter.
const TEXT_MAX: usize = 64 * 1024;

const TOO_MANY: GuideError =
    GuideError::TooLarge("it has over 64,000,000 elements, texts and references");

pub(super) struct XmlCursor<R> {
    reader: Reader<BoundedLines<R>>,
    buffer: Vec<u8>,
    line: u64,
    depth: usize,
    left: u64,
}

impl<R: Read> XmlCursor<R> {
    pub(super) fn new(source: R) -> Self {
        let mut reader = Reader::from_reader(BoundedLines::new(source));
        // An empty element then yields a start and an end, as all others do.
        reader.config_mut().expand_empty_elements = true;
        Self {
            reader,
            buffer: Vec::with_capacity(4 * 1024),
            line: 1,
            depth: 0,
            left: EVENTS_MAX,
        }
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// The end of the file is an error while an element is open.
    pub(super) fn next(&mut self) -> Result<Event<'_>, GuideError> {
        self.left = self.left.checked_sub(1).ok_or(TOO_MANY)?;
        self.buffer.clear();
        // Each event gets the full limit again.
        self.reader.get_mut().begin_piece();
        self.line = self.reader.get_ref().line();
        // Check for failure first: the event borrows the buffer, and building the error needs the reader.
        let event = match self.reader.read_event_into(&mut self.buffer) {
            Ok(event) => event,
            Err(error) => return Err(failure(&error, self.reader.get_ref(), self.line)),
        };
        match &event {
            Event::Start(_) => self.depth += 1,
            Event::End(_) => self.depth = self.depth.saturating_sub(1),
            Event::Eof if self.depth > 0 => {
                return Err(GuideError::Truncated { line: self.line });
            }
            _ => {}
        }
        if self.depth > DEPTH_MAX {
            return Err(GuideError::TooLarge("elements are nested over 64 deep"));
        }
        Ok(event)
    }

    /// Opens the next child. `None` at the end of the open element.
    pub(super) fn child(&mut self) -> Result<Option<BytesStart<'static>>, GuideError> {
        loop {
            match self.next()? {
                Event::Start(child) => return Ok(Some(child.into_owned())),
                Event::End(_) | Event::Eof => return Ok(None),
                // Text between elements, and comments, have no meaning.
                _ => {}
            }
        }
    }

    pub(super) fn skip(&mut self) -> Result<(), GuideError> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            self.next()?;
        }
        Ok(())
    }

    /// Returns the trimmed text of the open element, without that of its children.
    pub(super) fn text(&mut self) -> Result<String, GuideError> {
        let outside = self.depth.saturating_sub(1);
        let inside = self.depth;
        let mut text = String::new();
        while self.depth > outside {
            let at = self.depth;
            let event = self.next()?;
            // The rest of an oversized text is read and dropped.
            if at != inside || text.len() > TEXT_MAX {
                continue;
            }
            match event {
                Event::Text(piece) => text.push_str(&piece.xml10_content()),
                Event::CData(piece) => text.push_str(&piece.xml10_content()),
                Event::GeneralRef(reference) => resolve(&reference, &mut text),
                _ => {}
            }
        }
        Ok(clean(&text))
    }

    pub(super) fn finish(&mut self) -> Result<(), GuideError> {
        loop {
            match self.next()? {
                Event::Eof => return Ok(()),
                Event::Comment(_) | Event::PI(_) => {}
                Event::Text(text) if text.trim().is_empty() => {}
                _ => {
                    return Err(GuideError::Broken {
                        line: self.line,
                        what: "something follows the root element".to_owned(),
                    });
                }
            }
        }
    }
}

fn failure<R: Read>(error: &quick_xml::Error, source: &BoundedLines<R>, line: u64) -> GuideError {
    // The parser reports our limits as I/O errors.
    if let Some(limit) = source.exceeded() {
        return GuideError::TooLarge(limit);
    }
    match error {
        quick_xml::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            GuideError::Truncated { line }
        }
        quick_xml::Error::Io(error) => GuideError::Unreadable(error.to_string()),
        // All but one of this parser's syntax errors mean that the file ends within markup.
        quick_xml::Error::Syntax(what) if *what != SyntaxError::InvalidBangMarkup => {
            GuideError::Truncated { line }
        }
        quick_xml::Error::Encoding(_) => GuideError::Broken {
            line,
            what: "its characters are not UTF-8".to_owned(),
        },
        quick_xml::Error::IllFormed(IllFormedError::MismatchedEndTag { expected, .. }) => {
            GuideError::Broken {
                line,
                what: format!("expected the end of `{expected}`"),
            }
        }
        _ => GuideError::Broken {
            line,
            what: "it is not well-formed XML".to_owned(),
        },
    }
}

/// Appends the character for a character reference or one of XML's five predefined entities.
fn resolve(reference: &BytesRef<'_>, text: &mut String) {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        text.push(character);
    } else if let Some(known) = resolve_xml_entity(reference) {
        text.push_str(known);
    } else {
        // Declared entities are never expanded, so the reference is kept as written.
        text.push('&');
        text.push_str(reference);
        text.push(';');
    }
}

/// Removes control characters, which clients cannot show. One that separates words becomes a line
/// break or a space.
fn clean(text: &str) -> String {
    let unwanted = |c: char| c.is_control() && c != '\n' && c != '\t';
    let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
    if !text.contains(unwanted) {
        return text.to_owned();
    }
    let mut cleaned = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => cleaned.push('\n'),
            // These separate words.
            '\u{b}' | '\u{c}' | '\u{85}' => cleaned.push(' '),
            c if unwanted(c) => {}
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// An attribute with an invalid reference counts as missing.
pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element
        .attributes()
        // Duplicate attributes do no harm, and checking for them is slow.
        .with_checks(false)
        .flatten()
        .find(|attribute| attribute.key.as_ref() == name)?;
    let value = unescape(&found.value).ok()?;
    Some(clean(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_and_references_count_towards_the_limit() {
        for (many, fits) in [
            ("<a/>".repeat(400), true),
            ("<a/>".repeat(600), false),
            ("&amp;".repeat(900), true),
            ("&amp;".repeat(1_100), false),
            ("<!-- -->".repeat(1_100), false),
        ] {
            let document = format!("<tv>{many}</tv>");
            let mut cursor = XmlCursor::new(document.as_bytes());
            cursor.left = 1_000;
            cursor.next().unwrap();
            let read = cursor.skip();
            let expected = if fits { Ok(()) } else { Err(TOO_MANY) };
            assert_eq!(read, expected, "{}", &many[..5]);
        }
    }
}
