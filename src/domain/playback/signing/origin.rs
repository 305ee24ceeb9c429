//! Signed URLs of the built-in origin.
//!
//! The token is a path segment before the file name, so that relative URLs in a manifest inherit it. It is
//! valid for the directory of the manifest and everything below it until it expires. The token of a session names it, so
//! that it ends with the session.

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;

use playgate_types::{MediaPath, SessionId, UnixSeconds};

pub(crate) struct OriginSigner(hmac::Key);

/// Version, depth, expiry, in version 2 a time, in version 3 a time and a session, and the full HMAC tag.
const TOKEN_BYTES: usize = 1 + 1 + 8 + 8 + 16 + 32;
const TOKEN_LENGTH: usize = TOKEN_BYTES.div_ceil(3) * 4;
const VERSION: u8 = 1;
/// Includes the time at which manifests stop changing. Only the lab makes these tokens.
const STALE_VERSION: u8 = 2;
/// Includes the session that it was made for, and when.
const SESSION_VERSION: u8 = 3;

/// What a valid token allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OriginAccess {
    /// If set, manifests are served as of this time.
    pub stale_since: Option<UnixSeconds>,
    /// The session that the token was made for, and when.
    pub session: Option<(SessionId, UnixSeconds)>,
}

impl OriginSigner {
    pub(crate) fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    pub(crate) fn sign(&self, path: &MediaPath, expires: UnixSeconds) -> String {
        // The depth lets the verifier find the directory in a longer path.
        let depth = path.depth();
        let directory = path.directory(depth).unwrap_or_default();
        // The depth fits: paths have a maximum depth.
        let head = head(u8::try_from(depth).unwrap_or(u8::MAX), expires);
        self.seal(&head, directory)
    }

    /// Signs the path for a session that began at `since`.
    pub(crate) fn sign_for(
        &self,
        path: &MediaPath,
        expires: UnixSeconds,
        session: &SessionId,
        since: UnixSeconds,
    ) -> String {
        let depth = path.depth();
        let directory = path.directory(depth).unwrap_or_default();
        let [_, rest @ ..] = head(u8::try_from(depth).unwrap_or(u8::MAX), expires);
        let since = since.0.to_be_bytes();
        let head = [&[SESSION_VERSION][..], &rest, &since, session.as_bytes()].concat();
        self.seal(&head, directory)
    }

    /// Signs the file of a valid token again, so that its manifest stays as it is at `since`.
    pub(crate) fn sign_stale(
        &self,
        token: &str,
        path: &MediaPath,
        at: UnixSeconds,
        since: UnixSeconds,
    ) -> Option<String> {
        self.access(token, path, at)?;
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).ok()?;
        let [_, depth, expiry @ ..] = bytes.first_chunk::<10>()?;
        let head = [&[STALE_VERSION, *depth][..], expiry, &since.0.to_be_bytes()].concat();
        Some(self.seal(&head, path.directory(usize::from(*depth))?))
    }

    fn seal(&self, head: &[u8], directory: &str) -> String {
        let tag = hmac::sign(&self.0, &message(head, directory));
        BASE64URL_NOPAD.encode(&[head, tag.as_ref()].concat())
    }

    /// `None` unless the token is genuine, covers a directory above the path, and has not expired.
    pub(crate) fn access(
        &self,
        token: &str,
        path: &MediaPath,
        now: UnixSeconds,
    ) -> Option<OriginAccess> {
        // Bounds the input of the decoder.
        if token.len() > TOKEN_LENGTH {
            return None;
        }
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).ok()?;
        let [version, depth, expiry @ ..] = bytes.first_chunk::<10>()?;
        let expires = i64::from_be_bytes(*expiry);
        let directory = path.directory(usize::from(*depth))?;
        let (head, stale_since, session) = match *version {
            VERSION => (bytes.get(..10)?, None, None),
            STALE_VERSION => {
                let since = bytes.get(10..18)?.first_chunk::<8>()?;
                let since = UnixSeconds(i64::from_be_bytes(*since));
                (bytes.get(..18)?, Some(since), None)
            }
            SESSION_VERSION => {
                let since = bytes.get(10..18)?.first_chunk::<8>()?;
                let since = UnixSeconds(i64::from_be_bytes(*since));
                let id = bytes.get(18..34)?.first_chunk::<16>()?;
                let session = (SessionId::from_bytes(*id), since);
                (bytes.get(..34)?, None, Some(session))
            }
            _ => return None,
        };
        let tag = bytes.get(head.len()..)?;
        // Verified in constant time.
        let genuine = hmac::verify(&self.0, &message(head, directory), tag).is_ok();
        (now.0 < expires && genuine).then_some(OriginAccess {
            stale_since,
            session,
        })
    }
}

fn head(depth: u8, expires: UnixSeconds) -> [u8; 10] {
    let [a, b, c, d, e, f, g, h] = expires.0.to_be_bytes();
    [VERSION, depth, a, b, c, d, e, f, g, h]
}

fn message(head: &[u8], directory: &str) -> Vec<u8> {
    [head, directory.as_bytes()].concat()
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
        let allows = |file: &str, now: i64| {
            signer
                .access(&token, &path(file), UnixSeconds(now))
                .is_some()
        };
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
        assert!(
            signer
                .access(&top, &path("1.m4s"), UnixSeconds(0))
                .is_some()
        );
        assert!(
            signer
                .access(&top, &path("film/1.m4s"), UnixSeconds(0))
                .is_none()
        );
    }

    #[test]
    fn a_modified_token_is_rejected() {
        let signer = OriginSigner::new(&[7; 32]);
        let file = path("film/manifest.mpd");
        let token = signer.sign(&file, UnixSeconds(100));
        let stale = signer.sign_stale(&token, &file, UnixSeconds(0), UnixSeconds(7));
        let stale = stale.unwrap();
        assert!(stale.len() <= TOKEN_LENGTH);
        let access = signer.access(&stale, &file, UnixSeconds(99)).unwrap();
        assert_eq!(access.stale_since, Some(UnixSeconds(7)));
        assert_eq!(signer.access(&stale, &file, UnixSeconds(100)), None);
        let session = SessionId::from_bytes([3; 16]);
        let named = signer.sign_for(&file, UnixSeconds(100), &session, UnixSeconds(5));
        assert!(named.len() <= TOKEN_LENGTH);
        let access = signer.access(&named, &file, UnixSeconds(99)).unwrap();
        assert_eq!(access.session, Some((session, UnixSeconds(5))));
        assert_eq!(signer.access(&named, &file, UnixSeconds(100)), None);
        for token in [token, stale, named] {
            check_bits(&signer, &token, &file);
        }
    }

    fn check_bits(signer: &OriginSigner, token: &str, file: &MediaPath) {
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = BASE64URL_NOPAD.encode(&changed);
            assert!(
                signer.access(&changed, file, UnixSeconds(0)).is_none(),
                "bit {bit}"
            );
        }
        for bad in ["", "A", "!", &token[..40], &"A".repeat(9_000)] {
            assert!(signer.access(bad, file, UnixSeconds(0)).is_none());
        }
        assert!(
            OriginSigner::new(&[8; 32])
                .access(token, file, UnixSeconds(0))
                .is_none()
        );
    }
}
