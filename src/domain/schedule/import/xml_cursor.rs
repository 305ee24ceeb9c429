//! The XML parser with its limits: one event at a time, with the line it begins on.

use std::io::Read;

use quick_xml::Reader;
use quick_xml::errors::{IllFormedError, SyntaxError};
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::bounded_lines::Lines;
use super::{DEPTH_MAX, EVENTS_MAX, GuideError};

/// The longest text of one element that is collected; fields are cut shorter later.
const TEXT_MAX: usize = 64 * 1024;

const TOO_MANY: GuideError =
    GuideError::TooLarge("it has over 64,000,000 elements, texts and references");

/// Reads elements one after the other.
pub struct Cursor<R> {
    reader: Reader<Lines<R>>,
    buffer: Vec<u8>,
    /// The line on which the last event began.
    line: u64,
    /// How many elements are open.
    depth: usize,
    /// How many more events may be read.
    left: u64,
}

impl<R: Read> Cursor<R> {
    /// At the beginning of a document.
    pub fn new(source: R) -> Self {
        let mut reader = Reader::from_reader(Lines::new(source));
        reader.config_mut().expand_empty_elements = true;
        Self {
            reader,
            buffer: Vec::with_capacity(4 * 1024),
            line: 1,
            depth: 0,
            left: EVENTS_MAX,
        }
    }

    /// The line on which the last event began.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The next event. The end of the file is one only where no element is open.
    pub fn next(&mut self) -> Result<Event<'_>, GuideError> {
        self.left = self.left.checked_sub(1).ok_or(TOO_MANY)?;
        self.buffer.clear();
        self.reader.get_mut().begin_piece();
        self.line = self.reader.get_ref().line();
        // Whether it failed is asked apart from what it gave: the event borrows the buffer, and
        // the error needs the reader.
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

    /// The next child of the open element, which is open then; `None` at the element's end.
    pub fn child(&mut self) -> Result<Option<BytesStart<'static>>, GuideError> {
        loop {
            match self.next()? {
                Event::Start(child) => return Ok(Some(child.into_owned())),
                Event::End(_) | Event::Eof => return Ok(None),
                _ => {}
            }
        }
    }

    /// Reads over the open element.
    pub fn skip(&mut self) -> Result<(), GuideError> {
        let outside = self.depth.saturating_sub(1);
        while self.depth > outside {
            self.next()?;
        }
        Ok(())
    }

    /// The text of the open element without that of its children, trimmed, and reads over it.
    pub fn text(&mut self) -> Result<String, GuideError> {
        let outside = self.depth.saturating_sub(1);
        let inside = self.depth;
        let mut text = String::new();
        while self.depth > outside {
            let at = self.depth;
            let event = self.next()?;
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

    /// Reads what may follow the root element.
    pub fn finish(&mut self) -> Result<(), GuideError> {
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

/// What a parser's error means for the guide.
fn failure<R: Read>(error: &quick_xml::Error, source: &Lines<R>, line: u64) -> GuideError {
    if let Some(limit) = source.exceeded() {
        return GuideError::TooLarge(limit);
    }
    match error {
        quick_xml::Error::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            GuideError::Truncated { line }
        }
        quick_xml::Error::Io(error) => GuideError::Unreadable(error.to_string()),
        // All but one of this parser's syntax errors mean markup that the end of the file cut off.
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

/// Appends what a reference stands for: a character or one of the five that XML itself names. Any
/// other is kept as it was written; see the head of [`super::xmltv`].
fn resolve(reference: &BytesRef<'_>, text: &mut String) {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        text.push(character);
    } else if let Some(known) = resolve_xml_entity(reference) {
        text.push_str(known);
    } else {
        text.push('&');
        text.push_str(reference);
        text.push(';');
    }
}

/// Removes control characters, which no client can show, and the white space around. A control
/// character that separates words becomes a line break or a space, so that the words stay apart.
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
            '\u{b}' | '\u{c}' | '\u{85}' => cleaned.push(' '),
            c if unwanted(c) => {}
            c => cleaned.push(c),
        }
    }
    cleaned
}

/// The value of an attribute, with references resolved; one that cannot be resolved makes the
/// attribute missing.
pub fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element
        .attributes()
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
            let mut cursor = Cursor::new(document.as_bytes());
            cursor.left = 1_000;
            cursor.next().unwrap();
            let read = cursor.skip();
            let expected = if fits { Ok(()) } else { Err(TOO_MANY) };
            assert_eq!(read, expected, "{}", &many[..5]);
        }
    }
}
