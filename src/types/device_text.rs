//! Texts that devices send about themselves: their model, type and platform.

use std::borrow::Cow;

use super::ids::DEVICE_TEXT_MAX;
use super::text::check_visible;

/// What a device is called that says nothing about itself.
const UNKNOWN: &str = "unknown";

/// Text in UTF-8, or else in Latin-1: the `fetch` of browsers sends that.
pub fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(bytes.iter().copied().map(char::from).collect()),
    }
}

/// Text in UTF-8, in which other bytes are read as Latin-1: of a batch of events, one may have another encoding.
pub fn mended_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(bytes).is_ok() {
        return Cow::Borrowed(bytes);
    }
    let mut mended = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        mended.push_str(chunk.valid());
        mended.extend(chunk.invalid().iter().copied().map(char::from));
    }
    Cow::Owned(mended.into_bytes())
}

/// A label that can be shown, whatever the device sent: a label must never stop playback. Invisible characters are
/// dropped, and a long text is cut.
pub fn label_of(bytes: &[u8]) -> Cow<'_, str> {
    let text = text_of(bytes);
    // Every heartbeat has three labels, and nearly all are usable as they are.
    let fits = !text.is_empty() && text.len() <= DEVICE_TEXT_MAX && check_visible(&text).is_ok();
    if fits {
        return text;
    }
    let mut one = [0; 4];
    let visible = text
        .chars()
        .filter(|c| check_visible(c.encode_utf8(&mut one)).is_ok())
        .take(DEVICE_TEXT_MAX);
    let label: String = visible.collect();
    match label.trim() {
        "" => Cow::Borrowed(UNKNOWN),
        label => Cow::Owned(label.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_label_can_be_shown() {
        let long = "ö".repeat(DEVICE_TEXT_MAX + 1);
        for (sent, shown) in [
            ("Björns TV".as_bytes(), "Björns TV"),
            (b"Bj\xf6rns TV", "Björns TV"),
            (b"Bj%C3%B6rns TV", "Bj%C3%B6rns TV"),
            (b"\xa32 TV \xff", "£2 TV ÿ"),
            (b"", "unknown"),
            (b" \t ", "unknown"),
            ("\u{202e}\u{200b}".as_bytes(), "unknown"),
            ("a\u{202e}b\tc".as_bytes(), "abc"),
            (b"a\x85b", "ab"),
            (long.as_bytes(), &"ö".repeat(DEVICE_TEXT_MAX)),
        ] {
            assert_eq!(label_of(sent), shown);
        }
    }

    #[test]
    fn one_text_in_latin_1_leaves_the_others() {
        let mended = mended_text(b"[\"Bj\xf6rn\", \"Bj\xc3\xb6rn\"]");
        assert_eq!(*mended, *"[\"Björn\", \"Björn\"]".as_bytes());
    }
}
