//! Extracts key ids from license challenges. A challenge is a contract between player and license server:
//! what cannot be read here is passed on, and the license server decides.
//!
//! A client could hide a key id of another asset from this check but not from the license server. So the readers here
//! accept every form that a license server might accept, continue where a strict parser would give up, and have no
//! limit on the number of ids: the size of a challenge bounds them.

mod playready;
mod widevine;

use playgate_types::{Drm, Malformed, base64_text};

/// A key id, in the byte order of the catalogue.
pub(crate) type KeyId = [u8; 16];

/// Empty if none can be read. FairPlay challenges are encrypted for the license server, and so are
/// Widevine challenges in privacy mode.
pub fn key_ids(drm: Drm, challenge: &[u8]) -> Result<Vec<KeyId>, Malformed> {
    let mut kids = match drm {
        Drm::Widevine => widevine::key_ids(challenge),
        Drm::Playready => playready::key_ids(challenge)?,
        Drm::Fairplay | Drm::Clearkey | Drm::None => Vec::new(),
    };
    kids.sort_unstable();
    kids.dedup();
    Ok(kids)
}

/// Every stretch of base64 in a text that is long enough to hold a challenge or a key id, decoded.
fn base64_stretches(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    const SHORTEST: usize = 22;
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    text.split(move |byte| !is_base64(byte))
        .filter(|part| part.len() >= SHORTEST)
        .filter_map(base64_text::decode)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text: String) {
            let _ = key_ids(Drm::Widevine, &bytes);
            let _ = key_ids(Drm::Playready, &bytes);
            let _ = key_ids(Drm::Widevine, text.as_bytes());
            let _ = key_ids(Drm::Playready, text.as_bytes());
        }
    }
}
