//! Decodes guides to UTF-8: what the first bytes or the XML declaration say, else UTF-8. Streams.
//!
//! A byte that means nothing in the encoding costs that character. It is counted, and the rest of the guide is read.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use encoding_rs::{DecoderResult, Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE};

use super::GuideError;

/// Bytes in which a declaration has to stand.
const HEAD_BYTES: u64 = 1_024;
const BLOCK_BYTES: usize = 32 * 1024;
const LABEL_MAX: usize = 40;

/// How many characters were replaced, shared with the report.
#[derive(Debug, Clone, Default)]
pub struct BadCharacters(Arc<AtomicU64>);

impl BadCharacters {
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A reader of the same text in UTF-8, without a byte order mark.
pub struct Utf8Reader<R> {
    source: R,
    decoder: encoding_rs::Decoder,
    bad: BadCharacters,
    block: Box<[u8]>,
    /// The part of the block that is not decoded yet.
    rest: std::ops::Range<usize>,
    ended: bool,
    /// Decoded text, of which `given` bytes were read.
    text: String,
    given: usize,
    finished: bool,
}

/// Finds the encoding of a guide by its first bytes.
pub fn to_utf8<'a>(
    mut source: Box<dyn Read + 'a>,
) -> Result<Utf8Reader<Box<dyn Read + 'a>>, GuideError> {
    let mut head = Vec::new();
    let read = source.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
    read.map_err(|error| GuideError::Unreadable(error.to_string()))?;
    let encoding = encoding_of(&head)?;
    Ok(Utf8Reader {
        source: Box::new(Cursor::new(head).chain(source)),
        decoder: encoding.new_decoder_with_bom_removal(),
        bad: BadCharacters::default(),
        block: vec![0; BLOCK_BYTES].into_boxed_slice(),
        rest: 0..0,
        ended: false,
        text: String::with_capacity(BLOCK_BYTES),
        given: 0,
        finished: false,
    })
}

fn encoding_of(head: &[u8]) -> Result<&'static Encoding, GuideError> {
    // Four bytes a character; no one but a test program writes it, and no decoder of the web reads it.
    if head.starts_with(&[0xff, 0xfe, 0, 0]) || head.starts_with(&[0, 0, 0xfe, 0xff]) {
        return Err(unknown("UTF-32"));
    }
    if let Some((encoding, _)) = Encoding::for_bom(head) {
        return Ok(encoding);
    }
    match head {
        // A `<` or `{` in two bytes.
        [0, b'<' | b'{', ..] => return Ok(UTF_16BE),
        [b'<' | b'{', 0, ..] => return Ok(UTF_16LE),
        _ => {}
    }
    let Some(label) = declared(head) else {
        return Ok(UTF_8);
    };
    let encoding = Encoding::for_label(label.as_bytes());
    let encoding = encoding.filter(|encoding| *encoding != REPLACEMENT);
    let encoding = encoding.ok_or_else(|| unknown(&label))?;
    // The declaration could be read, so that the text has one byte for a letter: programs that make a text in
    // memory declare UTF-16 and then write UTF-8.
    Ok(if encoding == UTF_16BE || encoding == UTF_16LE {
        UTF_8
    } else {
        encoding
    })
}

fn unknown(label: &str) -> GuideError {
    GuideError::NotAGuide(format!(
        "its encoding `{label}` is not known; save it as UTF-8"
    ))
}

/// The value of `encoding` in an XML declaration.
fn declared(head: &[u8]) -> Option<String> {
    let start = head.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let rest = head.get(start..)?.strip_prefix(b"<?xml")?;
    let end = rest.windows(2).position(|two| two == b"?>")?;
    let text = String::from_utf8_lossy(rest.get(..end)?).into_owned();
    let (_, after) = text.split_once("encoding")?;
    let after = after.trim_start().strip_prefix('=')?.trim_start();
    let quote = after.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let (label, _) = after.strip_prefix(quote)?.split_once(quote)?;
    Some(label.trim().chars().take(LABEL_MAX).collect())
}

impl<R: Read> Utf8Reader<R> {
    #[must_use]
    pub fn bad_characters(&self) -> BadCharacters {
        self.bad.clone()
    }

    /// Decodes what is there until there is some text, or the end.
    fn decode(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.is_empty() && !self.finished {
            if self.rest.is_empty() && !self.ended {
                let got = self.source.read(&mut self.block)?;
                self.rest = 0..got;
                self.ended = got == 0;
            }
            let input = self.block.get(self.rest.clone()).unwrap_or_default();
            let (result, used) = (self.decoder).decode_to_string_without_replacement(
                input,
                &mut self.text,
                self.ended,
            );
            self.rest.start += used;
            match result {
                DecoderResult::InputEmpty => self.finished = self.ended,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(_, _) => {
                    self.bad.0.fetch_add(1, Relaxed);
                    self.text.push(char::REPLACEMENT_CHARACTER);
                }
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf8Reader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.given == self.text.len() {
            self.decode()?;
        }
        let mut rest = self.text.as_bytes().get(self.given..).unwrap_or_default();
        let got = rest.read(into)?;
        self.given += got;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(String, u64), GuideError> {
        let mut reader = to_utf8(Box::new(bytes))?;
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        Ok((text, reader.bad_characters().count()))
    }

    fn utf16(text: &str, big: bool) -> Vec<u8> {
        let bytes = |unit: u16| {
            if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            }
        };
        text.encode_utf16().flat_map(bytes).collect()
    }

    #[test]
    fn the_declared_encoding_is_decoded() {
        for (label, bytes, text) in [
            ("ISO-8859-1", &b"caf\xe9"[..], "café"),
            ("iso-8859-15", b"\xa4", "€"),
            ("windows-1252", b"\x93q\x94", "“q”"),
            ("ISO-8859-2", b"\xb9\xe8", "šč"),
            ("windows-1251", b"\xcc\xe8\xf0", "Мир"),
            ("KOI8-R", b"\xed\xc9\xd2", "Мир"),
            ("Shift_JIS", b"\x93\xfa\x96\x7b", "日本"),
            ("GB2312", b"\xd6\xd0", "中"),
            ("UTF-8", "é".as_bytes(), "é"),
            // It was made as UTF-16 in memory, and then written as UTF-8.
            ("utf-16", "é".as_bytes(), "é"),
        ] {
            let head = format!("\n<?xml version='1.0' encoding = \"{label}\" ?>");
            let whole = [head.as_bytes(), bytes].concat();
            assert_eq!(read(&whole), Ok((head + text, 0)), "{label}");
        }
    }

    #[test]
    fn utf_16_is_decoded_with_and_without_a_mark() {
        let text = "<?xml version=\"1.0\" encoding=\"UTF-16\"?><tv>é日😀</tv>";
        for big in [false, true] {
            for mark in ["\u{feff}", ""] {
                let bytes = utf16(&format!("{mark}{text}"), big);
                assert_eq!(read(&bytes), Ok((text.to_owned(), 0)));
                // One byte short.
                let (_, bad) = read(&bytes[..bytes.len() - 1]).unwrap();
                assert_eq!(bad, 1);
            }
        }
        assert_eq!(read(b"\xef\xbb\xbf{}"), Ok(("{}".to_owned(), 0)));
    }

    #[test]
    fn a_bad_byte_costs_one_character() {
        let long = "é".repeat(100_000);
        let bytes = [long.as_bytes(), b"caf\xe9 <", long.as_bytes(), b"\xe2\x82"].concat();
        let expected = format!("{long}caf\u{fffd} <{long}\u{fffd}");
        assert_eq!(read(&bytes), Ok((expected, 2)));
    }

    #[test]
    fn an_unknown_encoding_is_named() {
        for label in ["EBCDIC-9", "iso-2022-kr", "UTF-7", ""] {
            let text = format!("<?xml version=\"1.0\" encoding=\"{label}\"?><tv/>");
            let error = read(text.as_bytes()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{label}` is not known; save")),
                "{error}"
            );
        }
        assert!(read(&[0xff, 0xfe, 0, 0, b'<', 0, 0, 0]).is_err());
    }
}
