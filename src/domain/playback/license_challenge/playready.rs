//! Key ids of a PlayReady challenge: XML with `KID` elements. The id is the text, or since header version 4.1 the
//! attribute `VALUE`.
//!
//! The scanner is no XML parser: a strict one would stop at a mistake that a license server tolerates.

use super::{KeyId, base64_stretches};
use playgate_types::{Malformed, base64_text};

/// Documents inside documents: SOAP in a key message of Encrypted Media Extensions, and a header in SOAP.
const DEPTH_MAX: u8 = 3;
/// The encodings that a challenge may declare, in lower case. In another one, such as UTF-7, this scanner would not
/// see what a license server sees.
const ENCODINGS: [&str; 8] = [
    "utf-8",
    "utf8",
    "utf-16",
    "utf-16le",
    "utf-16be",
    "us-ascii",
    "iso-8859-1",
    "windows-1252",
];

pub(super) fn key_ids(challenge: &[u8]) -> Result<Vec<KeyId>, Malformed> {
    let mut kids = Vec::new();
    scan(&decoded(challenge), DEPTH_MAX, &mut kids)?;
    Ok(kids)
}

/// The text, in whichever encoding: the byte order mark says it, or the zero bytes around the first `<`.
fn decoded(bytes: &[u8]) -> String {
    let units = |order: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2);
        let units = units.filter_map(|pair| Some(order(pair.try_into().ok()?)));
        char::decode_utf16(units)
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    let points = |order: fn([u8; 4]) -> u32| {
        let points = bytes.chunks_exact(4);
        let points = points.filter_map(|four| Some(order(four.try_into().ok()?)));
        points
            .map(|point| char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    match bytes {
        [0xff, 0xfe, 0, 0, ..] | [b'<' | b' ' | b'\r' | b'\n', 0, 0, 0, ..] => {
            points(u32::from_le_bytes)
        }
        [0, 0, 0xfe, 0xff, ..] | [0, 0, 0, b'<' | b' ' | b'\r' | b'\n', ..] => {
            points(u32::from_be_bytes)
        }
        [0xff, 0xfe, ..] | [_, 0, ..] => units(u16::from_le_bytes),
        [0xfe, 0xff, ..] | [0, _, ..] => units(u16::from_be_bytes),
        // Names and base64 are ASCII: whatever bytes stand elsewhere, they hide nothing.
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn scan(text: &str, depth: u8, kids: &mut Vec<KeyId>) -> Result<(), Malformed> {
    let mut rest = text;
    // The text since the last start of a `KID` or of any other element.
    let (mut id, mut content) = (None::<String>, String::new());
    while let Some((before, markup)) = rest.split_once('<') {
        let mut add = |part: &str| {
            content.push_str(part);
            if let Some(id) = &mut id {
                id.push_str(part);
            }
        };
        add(&unescaped(before));
        if let Some(comment) = markup.strip_prefix("!--") {
            rest = after(comment, "-->");
            continue;
        }
        if let Some(data) = markup.strip_prefix("![CDATA[") {
            add(data.split("]]>").next().unwrap_or_default());
            rest = after(data, "]]>");
            continue;
        }
        if let Some(instruction) = markup.strip_prefix('?') {
            check_encoding(instruction)?;
            rest = after(instruction, "?>");
            continue;
        }
        if markup.starts_with("!DOCTYPE") || markup.starts_with("!ENTITY") {
            // Entities could spell an id that is not there. SOAP forbids the declaration.
            return Err(Malformed("must not have a document type declaration"));
        }
        let (tag, following) = split_tag(markup);
        rest = following;
        nested(&content, depth, kids)?;
        content.clear();
        match tag.strip_prefix('/') {
            Some(name) => {
                if is_named(name, "KID") {
                    kids.extend(id.take().as_deref().and_then(key_id));
                }
            }
            None => start(tag, &mut id, kids),
        }
    }
    let tail = unescaped(rest);
    content.push_str(&tail);
    kids.extend(id.and_then(|id| key_id(&(id + &tail))));
    nested(&content, depth, kids)
}

fn start(tag: &str, id: &mut Option<String>, kids: &mut Vec<KeyId>) {
    let name_end = tag.find(|c: char| c.is_ascii_whitespace() || c == '/');
    let (name, attributes) = tag.split_at(name_end.unwrap_or(tag.len()));
    let is_kid = is_named(name, "KID");
    for (attribute, value) in Attributes(attributes) {
        if is_kid && is_named(attribute, "VALUE") || is_named(attribute, "KID") {
            kids.extend(key_id(&unescaped(value)));
        }
    }
    if is_kid && !tag.ends_with('/') {
        // An id that has begun ends here: elements of this name are not nested.
        let unfinished = id.replace(String::new());
        kids.extend(unfinished.as_deref().and_then(key_id));
    }
}

/// A text can be a document itself, escaped or as base64.
fn nested(content: &str, depth: u8, kids: &mut Vec<KeyId>) -> Result<(), Malformed> {
    let Some(depth) = depth.checked_sub(1) else {
        return Ok(());
    };
    if content.contains('<') {
        scan(content, depth, kids)?;
    }
    let joined: Vec<u8> = content
        .bytes()
        .filter(|b| !b.is_ascii_whitespace())
        .collect();
    for bytes in base64_stretches(&joined) {
        // A PlayReady object has a head of ten bytes before the header.
        let at = bytes.iter().position(|byte| *byte == b'<');
        let Some(document) = at.and_then(|at| bytes.get(at..)) else {
            continue;
        };
        let text = decoded(document);
        if text.contains("KID") {
            scan(&text, depth, kids)?;
        }
    }
    Ok(())
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// Splits behind the `>` that ends a tag, which may also stand in a value.
fn split_tag(markup: &str) -> (&str, &str) {
    let mut quote = None;
    for (at, character) in markup.char_indices() {
        match (quote, character) {
            (None, '>') => {
                let (tag, rest) = markup.split_at(at);
                return (tag, rest.strip_prefix('>').unwrap_or_default());
            }
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    (markup, "")
}

/// Compares a name without its prefix. XML has cases; license servers need not.
fn is_named(name: &str, wanted: &str) -> bool {
    let local = name.rsplit(':').next().unwrap_or(name);
    local.trim().eq_ignore_ascii_case(wanted)
}

struct Attributes<'a>(&'a str);

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = self.0.split_once('=')?;
        let rest = rest.trim_start();
        let quote = rest
            .chars()
            .next()
            .filter(|first| matches!(first, '"' | '\''))?;
        let (value, rest) = rest.strip_prefix(quote)?.split_once(quote)?;
        self.0 = rest;
        Some((name.trim(), value))
    }
}

fn check_encoding(instruction: &str) -> Result<(), Malformed> {
    let Some(attributes) = instruction.strip_prefix("xml") else {
        return Ok(());
    };
    let declared = attributes.split("?>").next().unwrap_or_default();
    let known = Attributes(declared)
        .filter(|(name, _)| *name == "encoding")
        .all(|(_, value)| ENCODINGS.contains(&value.to_ascii_lowercase().as_str()));
    match known {
        true => Ok(()),
        false => Err(Malformed("must be XML in UTF-8 or UTF-16")),
    }
}

/// Resolves references to characters. Others than these stay: without a document type they mean nothing.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once('&') {
        out.push_str(before);
        match reference
            .split_once(';')
            .and_then(|(name, after)| Some((referred(name)?, after)))
        {
            Some((character, after)) => {
                out.push(character);
                rest = after;
            }
            None => {
                out.push('&');
                rest = reference;
            }
        }
    }
    out.push_str(rest);
    out
}

fn referred(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

fn key_id(text: &str) -> Option<KeyId> {
    let guid = base64_text::decode(text.as_bytes())?;
    // The first three numbers of a GUID are little-endian.
    let [a, b, c, d, e, f, g, h, rest @ ..] = KeyId::try_from(guid).ok()?;
    let [i, j, k, l, m, n, o, p] = rest;
    Some([d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p])
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;

    use super::*;

    const ID: &str = "AQIDBAUGBwgJCgsMDQ4PEA==";
    const KID: KeyId = [4, 3, 2, 1, 6, 5, 8, 7, 9, 10, 11, 12, 13, 14, 15, 16];

    fn utf16(text: &str, order: fn(u16) -> [u8; 2]) -> Vec<u8> {
        text.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn key_ids_of_both_header_versions_are_read() {
        let challenge = format!(
            r#"<Challenge><WRMHEADER><DATA><KID>{ID}</KID>
            <KIDS><KID ALGID="AESCTR" VALUE="{ID}"></KID><KID VALUE='{ID}'/><KID>?</KID></KIDS>"#
        );
        assert_eq!(key_ids(challenge.as_bytes()).unwrap(), [KID; 3]);
        assert!(key_ids(b"<KID").unwrap().is_empty());
        assert!(key_ids(b"challenge").unwrap().is_empty());
    }

    #[test]
    fn no_spelling_of_xml_hides_a_key_id() {
        let (left, right) = ID.split_at(9);
        for body in [
            format!("<a:KID>{ID}</a:KID>"),
            format!("<KID\n>{ID}</KID\n>"),
            format!("<KID> {left}\n {right} </KID>"),
            format!("<KID>{left}<!-- > -->{right}</KID>"),
            format!("<KID><![CDATA[{left}]]>{right}</KID>"),
            format!("<KID>{left}<?x ?>{right}</KID>"),
            format!("<KID>{left}<x/>{right}</KID>"),
            format!("<KID>&#65;{}</KID>", &ID[1..]),
            format!("<KID>&#x41;{}</KID>", &ID[1..]),
            format!("<KID>{}</KID>", ID.trim_end_matches('=')),
            format!("<KID>{ID}<KID></KID></KID>"),
            format!("<b:KID b:VALUE = \"{ID}\" />"),
            format!("<KID CHECKSUM='>' VALUE='&#65;{}'/>", &ID[1..]),
            format!("<H>&lt;KID&gt;{ID}&lt;/KID&gt;</H>"),
            format!("<KID>{ID}"),
        ] {
            assert_eq!(key_ids(body.as_bytes()).unwrap(), [KID], "{body}");
        }
    }

    #[test]
    fn no_encoding_hides_a_key_id() {
        let xml = format!("<?xml version='1.0'?><A>Björn</A><KID>{ID}</KID>");
        let plain = xml.clone().into_bytes();
        let latin: Vec<u8> = xml
            .chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect();
        let marked = |text: &str| format!("\u{feff}{text}");
        let utf32: Vec<u8> = xml
            .chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect();
        let utf32_be: Vec<u8> = marked(&xml)
            .chars()
            .flat_map(|c| u32::from(c).to_be_bytes())
            .collect();
        for bytes in [
            plain.clone(),
            [b"\xef\xbb\xbf", &plain[..]].concat(),
            latin,
            utf16(&xml, u16::to_le_bytes),
            utf16(&xml, u16::to_be_bytes),
            utf16(&marked(&xml), u16::to_le_bytes),
            utf16(&marked(&xml), u16::to_be_bytes),
            utf32,
            utf32_be,
        ] {
            assert_eq!(key_ids(&bytes).unwrap(), [KID]);
        }
        for refused in [
            format!("<?xml version='1.0' encoding=\"UTF-7\"?><KID>{ID}</KID>"),
            format!("<!DOCTYPE a [<!ENTITY k '{ID}'>]><KID>&k;</KID>"),
        ] {
            assert!(key_ids(refused.as_bytes()).is_err());
            assert!(key_ids(&utf16(&refused, u16::to_le_bytes)).is_err());
        }
    }

    /// What Encrypted Media Extensions give a page that does not unwrap it, and a header in its object.
    #[test]
    fn key_ids_of_wrapped_challenges_are_read() {
        let soap = format!("<soap:Envelope><KID>{ID}</KID></soap:Envelope>");
        let message = format!(
            "<PlayReadyKeyMessage><LicenseAcquisition><Challenge encoding=\"base64encoded\">{}</Challenge>",
            BASE64.encode(soap.as_bytes())
        );
        assert_eq!(key_ids(&utf16(&message, u16::to_le_bytes)).unwrap(), [KID]);
        let header = utf16(
            &format!("<WRMHEADER><KID>{ID}</KID></WRMHEADER>"),
            u16::to_le_bytes,
        );
        let object = [&[9; 10], &header[..]].concat();
        let challenge = format!("<ContentHeader>{}</ContentHeader>", BASE64.encode(&object));
        assert_eq!(key_ids(challenge.as_bytes()).unwrap(), [KID]);
    }
}
