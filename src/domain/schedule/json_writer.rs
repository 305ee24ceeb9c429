//! Minimal JSON writer for pre-rendered answers. Its output is byte for byte that of the service's JSON library.

use std::borrow::Cow;

const HEX: &[u8; 16] = b"0123456789abcdef";

fn escape(byte: u8) -> Option<[u8; 2]> {
    Some(match byte {
        b'"' => *b"\\\"",
        b'\\' => *b"\\\\",
        0x08 => *b"\\b",
        0x0c => *b"\\f",
        b'\n' => *b"\\n",
        b'\r' => *b"\\r",
        b'\t' => *b"\\t",
        // RFC 8259, section 7: control characters must be escaped.
        0..0x20 => *b"\\u",
        _ => return None,
    })
}

pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut written = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if let Some(escaped) = escape(*byte) {
            out.extend_from_slice(bytes.get(written..at).unwrap_or_default());
            out.extend_from_slice(&escaped);
            // Control characters without a short escape.
            if escaped == *b"\\u" {
                out.extend_from_slice(b"00");
                let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied();
                out.extend(digit(byte >> 4).into_iter().chain(digit(byte & 15)));
            }
            written = at + 1;
        }
    }
    out.extend_from_slice(bytes.get(written..).unwrap_or_default());
    out.push(b'"');
}

pub(super) fn number(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    // Hand-written for speed: a bulk lookup by id writes two numbers for each broadcast.
    let from = out.len();
    let mut rest = number.unsigned_abs();
    loop {
        // The remainder is one digit.
        out.push(b'0' + u8::try_from(rest % 10).unwrap_or(0));
        // Digits come from the lowest on and are reversed below.
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if let Some(digits) = out.get_mut(from..) {
        digits.reverse();
    }
}

pub(super) fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Decodes what [`text`] wrote, given the bytes between the quotes.
pub(super) fn read_text(escaped: &[u8]) -> Cow<'_, str> {
    // Most texts need no decoding and are borrowed.
    if !escaped.contains(&b'\\') {
        return String::from_utf8_lossy(escaped);
    }
    let mut out = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        out.push(match (byte, byte == &b'\\') {
            (byte, false) => *byte,
            (_, true) => match bytes.next() {
                Some(b'b') => 0x08,
                Some(b'f') => 0x0c,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'u') => {
                    let value = |digit: &u8| char::from(*digit).to_digit(16).unwrap_or(0);
                    let code = bytes.by_ref().take(4).fold(0, |n, d| n * 16 + value(d));
                    // `text` escapes only control characters this way, which fit into a byte.
                    u8::try_from(code).unwrap_or(b'?')
                }
                Some(other) => *other,
                None => b'\\',
            },
        });
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn texts_and_numbers_are_those_of_the_library(
            given in "[\u{0}-\u{22}\\\\/a\u{7f}-\u{a0}ä€\u{2028}\u{1f4fa}]{0,40}", count: i64
        ) {
            let mut out = Vec::new();
            text(&given, &mut out);
            prop_assert_eq!(&out, &serde_json::to_vec(&given).unwrap());
            prop_assert_eq!(read_text(&out[1..out.len() - 1]), given);
            out.clear();
            number(count, &mut out);
            prop_assert_eq!(&out, &serde_json::to_vec(&count).unwrap());
        }
    }
}
