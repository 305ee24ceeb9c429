//! Signed addresses of a session: of its playback reports, and of its licenses. Each authorizes this for that session and
//! nothing else, so that a player needs no headers, and a page that closes may use `sendBeacon`.

use data_encoding::BASE64URL_NOPAD;
use ring::hmac;

use playgate_types::{SessionId, UnixSeconds};

/// Session, expiry, and the full HMAC tag.
const TOKEN_BYTES: usize = 16 + 8 + 32;
const TOKEN_LENGTH: usize = (TOKEN_BYTES * 4).div_ceil(3);

pub(crate) struct SessionSigner(hmac::Key);

impl SessionSigner {
    pub(crate) fn for_reports(key: &[u8; 32]) -> Self {
        Self::new(key, b"playback reports")
    }

    pub(crate) fn for_licenses(key: &[u8; 32]) -> Self {
        Self::new(key, b"licenses")
    }

    fn new(key: &[u8; 32], purpose: &[u8]) -> Self {
        // `key` also signs media paths. A derived key keeps a tag of one purpose from being valid for another.
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), purpose);
        Self(hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref()))
    }

    pub(crate) fn sign(&self, session: &SessionId, expires: UnixSeconds) -> String {
        let message = [&session.as_bytes()[..], &expires.0.to_be_bytes()].concat();
        let tag = hmac::sign(&self.0, &message);
        BASE64URL_NOPAD.encode(&[&message, tag.as_ref()].concat())
    }

    /// `None` if the token was altered or has expired.
    pub(crate) fn session(&self, token: &str, now: UnixSeconds) -> Option<SessionId> {
        // Bounds the input of the decoder.
        (token.len() == TOKEN_LENGTH).then_some(())?;
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).ok()?;
        let (message, tag) = bytes.split_at_checked(24)?;
        // Verified in constant time.
        hmac::verify(&self.0, message, tag).ok()?;
        let (session, expires) = message.split_first_chunk::<16>()?;
        let expires = i64::from_be_bytes(*expires.first_chunk::<8>()?);
        (now.0 < expires).then(|| SessionId::from_bytes(*session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_names_its_session_until_it_expires_and_an_altered_one_none() {
        let signer = SessionSigner::for_reports(&[7; 32]);
        let session = SessionId::from_bytes([3; 16]);
        let token = signer.sign(&session, UnixSeconds(100));
        assert_eq!(signer.session(&token, UnixSeconds(99)), Some(session));
        assert_eq!(signer.session(&token, UnixSeconds(100)), None);
        let bytes = BASE64URL_NOPAD.decode(token.as_bytes()).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let changed = BASE64URL_NOPAD.encode(&changed);
            assert_eq!(signer.session(&changed, UnixSeconds(0)), None, "bit {bit}");
        }
        for bad in [
            "",
            "A",
            &token[1..],
            &"A".repeat(9_000),
            &"!".repeat(TOKEN_LENGTH),
        ] {
            assert_eq!(signer.session(bad, UnixSeconds(0)), None);
        }
        for other in [
            SessionSigner::for_reports(&[8; 32]),
            SessionSigner::for_licenses(&[7; 32]),
        ] {
            assert_eq!(other.session(&token, UnixSeconds(0)), None);
        }
    }
}
