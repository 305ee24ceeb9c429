//! Pulls events from the XML parser, with limits and line numbers.

use std::io::Read;

use quick_xml::Reader;
use quick_xml::errors::{IllFormedError, SyntaxError};
use quick_xml::events::{BytesStart, Event};

use super::bounded_lines::BoundedLines;
use super::plain_text::{
    begins_line, clean, named, numbered, tidy_lines, unescape, without_markup,
};
use super::repairs::{Repair, Repairs};
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
    pub(super) repairs: Repairs,
}

impl<R: Read> XmlCursor<R> {
    pub(super) fn new(source: R) -> Self {
        let mut reader = Reader::from_reader(BoundedLines::new(source));
        // An empty element then yields a start and an end, as all others do.
        reader.config_mut().expand_empty_elements = true;
        // The most frequent fault of guides: an `&` in a title.
        reader.config_mut().allow_dangling_amp = true;
        Self {
            reader,
            buffer: Vec::with_capacity(4 * 1024),
            line: 1,
            depth: 0,
            left: EVENTS_MAX,
            repairs: Repairs::default(),
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

    /// Returns the trimmed text of the open element with that of its children, which are markup, as plain text.
    pub(super) fn text(&mut self) -> Result<String, GuideError> {
        self.text_without(&[])
    }

    /// The same without what is in some children.
    pub(super) fn text_without(&mut self, hidden: &[&str]) -> Result<String, GuideError> {
        let outside = self.depth.saturating_sub(1);
        let (line, mut unescaped_ampersands) = (self.line, 0_u64);
        let mut text = String::new();
        let mut is_plain = true;
        while self.depth > outside {
            let mut is_hidden = false;
            let event = self.next()?;
            // The rest of an oversized text is read and dropped.
            if text.len() > TEXT_MAX {
                continue;
            }
            match event {
                Event::Text(piece) => {
                    let piece = piece.xml10_content();
                    // The parser passes on an `&` without a reference.
                    unescaped_ampersands += u64::from(piece.starts_with('&'));
                    text.push_str(&piece);
                }
                Event::CData(piece) => text.push_str(&piece.xml10_content()),
                Event::GeneralRef(reference) => {
                    let known = numbered(&reference).map(|character| text.push(character));
                    if known.is_none() {
                        match named(&reference) {
                            Some(known) => text.push_str(known),
                            // Declared entities are never expanded, so the reference is kept as written.
                            None => {
                                unescaped_ampersands +=
                                    u64::from(!reference.chars().all(char::is_alphanumeric));
                                for part in ["&", &*reference, ";"] {
                                    text.push_str(part);
                                }
                            }
                        }
                    }
                }
                Event::Start(child) if hidden.contains(&child.name().as_ref()) => is_hidden = true,
                Event::Start(child) => {
                    is_plain = false;
                    if begins_line(child.name().as_ref()) {
                        text.push('\n');
                    }
                }
                Event::End(child) if begins_line(child.name().as_ref()) => text.push('\n'),
                _ => {}
            }
            if is_hidden {
                self.skip()?;
            }
        }
        self.repairs
            .add_many(Repair::BareAmpersand, line, unescaped_ampersands);
        let plain = without_markup(&text);
        if is_plain && plain.is_none() {
            return Ok(clean(&text));
        }
        // A reference that no table has is kept, and is no markup.
        self.repairs.add(Repair::Markup, line);
        Ok(clean(&tidy_lines(&plain.unwrap_or(text))))
    }

    /// An attribute is read as browsers do: without quotes, and with an `&` that begins no reference.
    pub(super) fn attribute(&mut self, element: &BytesStart<'_>, name: &str) -> Option<String> {
        let found = element
            .html_attributes()
            // Duplicate attributes do no harm, and checking for them is slow.
            .with_checks(false)
            .flatten()
            .find(|attribute| attribute.key.as_ref() == name)?;
        let value: &str = &found.value;
        if !value.contains('&') {
            return Some(clean(value));
        }
        let mut text = String::with_capacity(value.len());
        let unescaped_ampersands = unescape(value, &mut text);
        self.repairs
            .add_many(Repair::BareAmpersand, self.line, unescaped_ampersands);
        Some(clean(&text))
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
        _ => GuideError::Broken {
            line,
            what: fault(error),
        },
    }
}

/// What is wrong, and what to write instead.
fn fault(error: &quick_xml::Error) -> String {
    let is_name = |name: &str| name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    match error {
        quick_xml::Error::IllFormed(IllFormedError::MismatchedEndTag { expected, found }) => {
            let (expected, found) = (cut(expected), cut(found));
            if is_name(&expected) {
                format!(
                    "expected the end of `{expected}` and found that of `{found}`; if a `<` stands in a text, write `&lt;`"
                )
            } else {
                format!("a `<` stands in a text, before `{expected}`; write `&lt;`")
            }
        }
        quick_xml::Error::IllFormed(IllFormedError::UnmatchedEndTag(found)) => {
            format!(
                "`</{}>` ends an element that is not open; remove it",
                cut(found)
            )
        }
        quick_xml::Error::Syntax(_) => {
            "`<!` begins neither a comment nor CDATA; in a text write `&lt;!`".to_owned()
        }
        other => format!("it is not well-formed XML: {}", cut(&other.to_string())),
    }
}

/// Returns the start of a text for a message.
fn cut(text: &str) -> String {
    text.chars().take(40).collect()
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
