//! Signed URLs of the built-in origin.
//!
//! The token is a path segment before the file name, so that relative URLs in a manifest inherit it. It is
//! valid for the directory of the manifest and everything below it until it expires. It contains no user: as
//! with any CDN, anyone who has the URL may fetch until then.

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;

use crate::types::{MediaPath, UnixSeconds};

pub(crate) struct OriginSigner(hmac::Key);

/// Version, depth, expiry, and the full HMAC tag.
const TOKEN_BYTES: usize = 1 + 1 + 8 + 32;
const TOKEN_LENGTH: usize = TOKEN_BYTES.div_ceil(3) * 4;
const VERSION: u8 = 1;

impl OriginSigner {
    #[must_use]
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    #[must_use]
    pub(crate) fn sign(&self, path: &MediaPath, expires: UnixSeconds) -> String {
        // The depth lets the verifier find the directory in a longer path.
        let depth = path.depth();
        let directory = path.directory(depth).unwrap_or_default();
        // The depth fits: paths have a maximum depth.
        let head = head(u8::try_from(depth).unwrap_or(u8::MAX), expires);
        let mut token = head.to_vec();
        token.extend_from_slice(hmac::sign(&self.0, &message(&head, directory)).as_ref());
        BASE64URL_NOPAD.encode(&token)
    }

    /// The token is genuine, covers a directory above the path, and has not expired.
    #[must_use]
    pub(crate) fn allows(&self, token: &str, path: &MediaPath, now: UnixSeconds) -> bool {
        // Bounds the input of the decoder.
        if token.len() > TOKEN_LENGTH {
            return false;
        }
        let Ok(bytes) = BASE64URL_NOPAD.decode(token.as_bytes()) else {
            return false;
        };
        let Some((head, tag)) = bytes.split_first_chunk::<10>() else {
            return false;
        };
        let [version, depth, expiry @ ..] = head;
        let expires = i64::from_be_bytes(*expiry);
        let Some(directory) = path.directory(usize::from(*depth)) else {
            return false;
        };
        *version == VERSION
            && now.0 < expires
            // Verified in constant time.
            && hmac::verify(&self.0, &message(head, directory), tag).is_ok()
    }
}

fn head(depth: u8, expires: UnixSeconds) -> [u8; 10] {
    let [a, b, c, d, e, f, g, h] = expires.0.to_be_bytes();
    [VERSION, depth, a, b, c, d, e, f, g, h]
}

fn message(head: &[u8; 10], directory: &str) -> Vec<u8> {
    [&head[..], directory.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> MediaPath {
        MediaPath::parse(text).unwrap()
    }

    #[test]
    fn a_token_is_valid_for_its_directory_until_it_expires() {
        let signer = OriginSigner::new(&[7; 32]);
        let token = signer.sign(&path("film/hd/manifest.mpd"), UnixSeconds(100));
        let allows = |file: &str, now: i64| signer.allows(&token, &path(file), UnixSeconds(now));
        assert!(allows("film/hd/manifest.mpd", 99));
        assert!(allows("film/hd/1.m4s", 0));
        assert!(allows("film/hd/audio/1.m4s", 0));
        assert!(!allows("film/hd/1.m4s", 100));
        for outside in [
            "film/hd",
            "film/1.m4s",
            "film/sd/1.m4s",
            "other/hd/1.m4s",
            "x",
        ] {
            assert!(!allows(outside, 0), "{outside}");
        }
        let top = signer.sign(&path("manifest.mpd"), UnixSeconds(100));
        assert!(signer.allows(&top, &path("1.m4s"), UnixSeconds(0)));
        assert!(!signer.allows(&top, &path("film/1.m4s"), UnixSeconds(0)));
    }

    #[test]
    fn a_modified_token_is_rejected() {
        let signer = OriginSigner::new(&[7; 32]);
        let file = path("film/manifest.mpd");
        let token = signer.sign(&file, UnixSeconds(100));
        assert_eq!(token.len(), TOKEN_LENGTH);
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = BASE64URL_NOPAD.encode(&changed);
            assert!(!signer.allows(&changed, &file, UnixSeconds(0)), "bit {bit}");
        }
        for bad in ["", "A", "!", &token[..40], &"A".repeat(9_000)] {
            assert!(!signer.allows(bad, &file, UnixSeconds(0)));
        }
        assert!(!OriginSigner::new(&[8; 32]).allows(&token, &file, UnixSeconds(0)));
    }
}
