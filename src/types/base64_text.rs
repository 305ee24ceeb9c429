//! Base64 as license servers and players write it: either alphabet, with or without padding, with line breaks.

use data_encoding::BASE64_NOPAD;

/// `None` for text with any other character.
pub fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' | b'=' => {}
            b'-' => plain.push(b'+'),
            b'_' => plain.push(b'/'),
            other => plain.push(*other),
        }
    }
    // Some encoders leave bits in the last character that belong to no byte: other decoders drop them.
    match BASE64_NOPAD.decode(&plain) {
        Ok(decoded) => Some(decoded),
        Err(_) => lenient().decode(&plain).ok(),
    }
}

fn lenient() -> data_encoding::Encoding {
    let mut specification = BASE64_NOPAD.specification();
    specification.check_trailing_bits = false;
    specification.encoding().unwrap_or(BASE64_NOPAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_padding_line_breaks_and_stray_bits_are_read() {
        let bytes = [0xfb, 0xff, 0xfe, 1];
        for text in [
            "+//+AQ==",
            "-__-AQ==",
            "+//+AQ",
            " +/\r\n/+A\tQ==",
            "+//+AR==",
        ] {
            assert_eq!(decode(text.as_bytes()), Some(bytes.to_vec()), "{text}");
        }
        assert_eq!(decode(b"a?b"), None);
    }
}
