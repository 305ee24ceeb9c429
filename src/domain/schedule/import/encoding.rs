//! Decodes guides to UTF-8: what the first bytes or the XML declaration say, else UTF-8. Streams.
//!
//! A byte that means nothing in the encoding costs that character. It is counted, and the rest of the guide is read. Many of
//! them in a guide that should be UTF-8 are windows-1252: programs wrote that for decades, and others pass it on under the wrong
//! name. Each character is read for itself then, so that a guide that was joined from both is read as well.

use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use encoding_rs::{DecoderResult, Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

use super::GuideError;

/// Bytes in which a declaration has to stand.
const HEAD_BYTES: u64 = 1_024;
/// Also the part in which characters of windows-1252 are counted.
const BLOCK_BYTES: usize = 256 * 1024;
/// Bytes that are decoded at a time.
const TEXT_BYTES: usize = 32 * 1024;
const LABEL_MAX: usize = 40;
/// Fewer single bytes that are no UTF-8 may be damage.
const FOREIGN_MIN: u64 = 3;
/// So many characters of UTF-8 to one other show that the others are damage, such as texts that were cut in a character.
const FOREIGN_SHARE: u64 = 4;

/// How many characters were replaced, shared with the report.
#[derive(Debug, Clone, Default)]
pub struct BadCharacters(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    bad: AtomicU64,
    foreign: AtomicU64,
}

impl BadCharacters {
    pub fn count(&self) -> u64 {
        self.0.bad.load(Relaxed)
    }

    /// Those that were read as windows-1252.
    pub fn foreign(&self) -> u64 {
        self.0.foreign.load(Relaxed)
    }
}

/// What is no UTF-8 so far, beside what is.
#[derive(Debug, Default)]
struct Evidence {
    utf8: u64,
    other: u64,
    /// Of the others, those behind another one. Texts of other alphabets consist of them.
    in_a_row: u64,
    /// Whether the current block is counted.
    is_counted: bool,
}

impl Evidence {
    fn count(&mut self, block: &[u8]) {
        for chunk in block.utf8_chunks() {
            let begins = chunk.valid().bytes().filter(|byte| *byte >= 0xc0);
            self.utf8 += u64::try_from(begins.count()).unwrap_or(0);
            if !chunk.invalid().is_empty() {
                self.in_a_row += u64::from(chunk.valid().is_empty());
                self.other += 1;
            }
        }
        self.is_counted = true;
    }

    fn is_windows_1252(&self) -> bool {
        self.other >= FOREIGN_MIN
            && self.utf8 <= self.other * FOREIGN_SHARE
            && self.in_a_row * 2 <= self.other
    }
}

/// A reader of the same text in UTF-8, without a byte order mark.
pub struct Utf8Reader<R> {
    source: R,
    decoder: encoding_rs::Decoder,
    bad: BadCharacters,
    evidence: Evidence,
    block: Box<[u8]>,
    /// Bytes that the block has.
    filled: usize,
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
        evidence: Evidence::default(),
        block: vec![0; BLOCK_BYTES].into_boxed_slice(),
        filled: 0,
        rest: 0..0,
        ended: false,
        text: String::with_capacity(TEXT_BYTES),
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
    pub fn bad_characters(&self) -> BadCharacters {
        self.bad.clone()
    }

    /// Decodes what is there until there is some text, or the end.
    fn decode(&mut self) -> io::Result<()> {
        self.text.clear();
        self.given = 0;
        while self.text.is_empty() && !self.finished {
            if self.rest.is_empty() && !self.ended {
                self.fill()?;
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
                DecoderResult::Malformed(length, after) => {
                    let end = self.rest.start.checked_sub(usize::from(after));
                    let start = end.and_then(|end| end.checked_sub(usize::from(length)));
                    // The begin of the sequence may have been in the block before.
                    let bytes = start.zip(end).map_or(0..0, |(start, end)| start..end);
                    self.replace(bytes);
                }
            }
        }
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        self.filled = 0;
        self.evidence.is_counted = false;
        // Sources give a little at a time, and the evidence is that of a whole block.
        while let Some(rest) = self.block.get_mut(self.filled..).filter(|r| !r.is_empty()) {
            match self.source.read(rest) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(got) => self.filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.rest = 0..self.filled;
        Ok(())
    }

    /// Writes what stands for bytes of the block that are no character.
    fn replace(&mut self, bytes: std::ops::Range<usize>) {
        let bytes = self.block.get(bytes).unwrap_or_default();
        let is_utf8 = self.decoder.encoding() == UTF_8;
        if is_utf8 && !self.evidence.is_counted {
            let block = self.block.get(..self.filled).unwrap_or_default();
            self.evidence.count(block);
        }
        if is_utf8 && !bytes.is_empty() && self.evidence.is_windows_1252() {
            let (text, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
            self.text.push_str(&text);
            self.bad.0.foreign.fetch_add(1, Relaxed);
        } else {
            self.text.push(char::REPLACEMENT_CHARACTER);
            self.bad.0.bad.fetch_add(1, Relaxed);
        }
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

    fn latin1(text: &str) -> Vec<u8> {
        text.chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect()
    }

    fn read_counted(bytes: &[u8]) -> (String, u64, u64) {
        let mut reader = to_utf8(Box::new(bytes)).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let bad = reader.bad_characters();
        (text, bad.count(), bad.foreign())
    }

    #[test]
    fn windows_1252_under_the_name_of_utf_8_is_read() {
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
        let text = format!(
            "{head}Café Åre söndag, «Élan» à 5 £ {}",
            "x".repeat(300_000)
        );
        assert_eq!(read_counted(&latin1(&text)), (text.clone(), 0, 8));
        // Punctuation of Windows, which Latin-1 does not have.
        let quotes = [head.as_bytes(), b"\x93Rosa\x92s\x94 \x96 \x80 5"].concat();
        let read = format!("{head}“Rosa’s” – € 5");
        assert_eq!(read_counted(&quotes), (read, 0, 5));
        // A guide that was joined from both.
        let joined = [
            &*latin1(&text),
            "Grüße, 日本".repeat(5).as_bytes(),
            &latin1(&text),
        ]
        .concat();
        let expected = format!("{text}{}{text}", "Grüße, 日本".repeat(5));
        assert_eq!(read_counted(&joined).0, expected);
    }

    #[test]
    fn damage_in_utf_8_is_not_taken_for_windows_1252() {
        // Texts that were cut within a character.
        let cut = ["Søndag på øen, ".repeat(3).as_bytes(), b"caf\xc3<"].concat();
        let (text, bad, foreign) = read_counted(&cut.repeat(100));
        assert_eq!((bad, foreign), (100, 0));
        assert!(text.contains("caf\u{fffd}<"));
        // One byte says nothing.
        assert_eq!(read_counted(b"<tv>caf\xe9</tv>").1, 1);
        // Cyrillic of windows-1251: letters in a row.
        let cyrillic = b"\xcf\xe5\xf0\xe2\xfb\xe9 \xea\xe0\xed\xe0\xeb ".repeat(100);
        assert_eq!(read_counted(&cyrillic).2, 0);
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
