//! Extracts key ids from license challenges. A challenge is a contract between player and license server:
//! what cannot be parsed here is passed on, and the license server decides.

use data_encoding::BASE64;

use crate::types::Drm;

/// Far more than an asset has.
const KIDS_MAX: usize = 256;

/// Empty if none can be read. FairPlay challenges are encrypted for the license server, and so are
/// Widevine challenges in privacy mode.
#[must_use]
pub(crate) fn key_ids(drm: Drm, challenge: &[u8]) -> Vec<[u8; 16]> {
    let mut kids = match drm {
        Drm::Widevine => widevine(challenge).unwrap_or_default(),
        Drm::Playready => playready(challenge),
        Drm::Fairplay | Drm::Clearkey | Drm::None => Vec::new(),
    };
    kids.truncate(KIDS_MAX);
    kids
}

fn widevine(challenge: &[u8]) -> Option<Vec<[u8; 16]>> {
    let mut kids = Vec::new();
    // The message contains the request (2), its content id (2) the initialisation data (1) of the asset
    // (1), which lists key ids (2). A request for a service certificate has no content id.
    for request in bytes_of(challenge, 2)? {
        for content in bytes_of(request, 2)? {
            for source in bytes_of(content, 1)? {
                for data in bytes_of(source, 1)? {
                    let ids = bytes_of(data, 2)?;
                    kids.extend(
                        ids.into_iter()
                            .filter_map(|kid| <[u8; 16]>::try_from(kid).ok()),
                    );
                }
            }
        }
    }
    Some(kids)
}

fn bytes_of(mut message: &[u8], wanted: u64) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message)?;
        // Protocol Buffers encoding: the low three bits of a key are the wire type, the others the field number.
        match key & 7 {
            // Fields of other types are skipped by their length.
            0 => {
                varint(&mut message)?;
            }
            1 => message = message.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (value, rest) = message.split_at_checked(length)?;
                message = rest;
                if key >> 3 == wanted {
                    found.push(value);
                }
            }
            5 => message = message.get(4..)?,
            // Groups are not used by this message.
            _ => return None,
        }
    }
    Some(found)
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    // A varint has at most ten bytes.
    for shift in (0..64).step_by(7) {
        let (byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn playready(challenge: &[u8]) -> Vec<[u8; 16]> {
    let Ok(text) = std::str::from_utf8(challenge) else {
        return Vec::new();
    };
    // Searched as text: the challenge comes from the player, and a parser for it would be a larger
    // target.
    // XML with `KID` elements; the id is the text, or since header version 4.1 the attribute `VALUE`.
    let after_names = text.split("<KID").skip(1).take(KIDS_MAX);
    after_names.filter_map(playready_kid).collect()
}

fn playready_kid(after_name: &str) -> Option<[u8; 16]> {
    let (tag, content) = after_name.split_once('>')?;
    let encoded = match tag.split_once("VALUE=") {
        Some((_, value)) => value.split(['"', '\'']).nth(1)?,
        None => content.split('<').next()?,
    };
    let guid = BASE64.decode(encoded.trim().as_bytes()).ok()?;
    // The first three numbers of a GUID are little-endian.
    let [a, b, c, d, e, f, g, h, rest @ ..] = <[u8; 16]>::try_from(guid).ok()?;
    let [i, j, k, l, m, n, o, p] = rest;
    Some([d, c, b, a, f, e, h, g, i, j, k, l, m, n, o, p])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap();
        [&[number << 3 | 2, length], value].concat()
    }

    #[test]
    fn key_ids_of_a_widevine_challenge_are_read() {
        let data = [field(2, &[1; 16]), field(2, &[2; 16]), field(4, b"x")].concat();
        let content = field(1, &[field(1, &data), vec![0x10, 1]].concat());
        let request = [field(1, b"client"), field(2, &content)].concat();
        let challenge = [vec![0x08, 1], field(2, &request), field(3, b"signature")].concat();
        assert_eq!(key_ids(Drm::Widevine, &challenge), [[1; 16], [2; 16]]);
        // The request for a service certificate.
        assert!(key_ids(Drm::Widevine, &[0x08, 0x04]).is_empty());
        assert!(key_ids(Drm::Fairplay, &challenge).is_empty());
    }

    #[test]
    fn key_ids_of_a_playready_challenge_are_read() {
        let challenge = r#"<Challenge><WRMHEADER><DATA><KID>AQIDBAUGBwgJCgsMDQ4PEA==</KID>
            <KIDS><KID ALGID="AESCTR" VALUE="AQIDBAUGBwgJCgsMDQ4PEA=="></KID><KID>?</KID></KIDS>"#;
        let kid = [4, 3, 2, 1, 6, 5, 8, 7, 9, 10, 11, 12, 13, 14, 15, 16];
        assert_eq!(key_ids(Drm::Playready, challenge.as_bytes()), [kid, kid]);
        assert!(key_ids(Drm::Playready, b"<KID").is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text: String) {
            let _ = key_ids(Drm::Widevine, &bytes);
            let _ = key_ids(Drm::Playready, &bytes);
            let _ = key_ids(Drm::Playready, text.as_bytes());
        }
    }
}
