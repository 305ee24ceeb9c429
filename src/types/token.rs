//! Bearer tokens. The service stores their SHA-256 and looks that up; it never compares tokens.

use std::fmt;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::digest;
use serde::{Deserialize, Serialize};

use super::{UnixSeconds, pasted};

/// The purpose of a token. The kind is its prefix and part of the hashed text, so a token of one kind is
/// unknown everywhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    User,
    Entitlement,
    Reset,
    Operator,
}

impl TokenKind {
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::User => "pgu_",
            Self::Entitlement => "pge_",
            Self::Reset => "pgr_",
            Self::Operator => "pgo_",
        }
    }
}

const TOKEN_LENGTH: usize = 4 + 43; // a prefix and 256 bits in base64url
pub const PARTNER_TOKEN_LENGTH: usize = 36; // a UUID

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub fn hash_presented(kind: TokenKind, text: &str) -> Option<Self> {
        // Bounds the hashing, and keeps a token of one kind unknown in every other place.
        let form = text.len() == TOKEN_LENGTH && text.starts_with(kind.prefix());
        form.then(|| Self::digest(text.as_bytes()))
    }

    /// Finds a token in what a person pasted, and returns it with its hash.
    pub fn find_pasted(kind: TokenKind, text: &str) -> Option<(String, Self)> {
        let text = pasted::token(text, kind.prefix(), TOKEN_LENGTH)?;
        let hash = Self::hash_presented(kind, &text)?;
        Some((text, hash))
    }

    pub fn hash_partner_token(text: &str) -> Option<Self> {
        is_partner_token(text).then(|| Self::digest(text.as_bytes()))
    }

    fn digest(bytes: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
        Self(hash)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn handle(&self) -> String {
        // 48 bits of the hash name a token among a partner's few. The token cannot be derived from them.
        HEXLOWER.encode(self.0.first_chunk::<6>().unwrap_or(&[0; 6]))
    }
}

/// Whether a text has the form of a partner token.
pub fn is_partner_token(text: &str) -> bool {
    // Tokens are issued in lower case, and only that spelling is accepted: so a token has one hash.
    const FORM: &[u8; PARTNER_TOKEN_LENGTH] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    // A fold, because `all` branches at each byte: 600 of the 28,000 instructions of a schedule read.
    text.len() == PARTNER_TOKEN_LENGTH
        && text.bytes().zip(FORM).fold(true, |form, (byte, place)| {
            let known = matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-');
            form & known & ((byte == b'-') == (*place == b'-'))
        })
}

/// The part of a partner's or operator's token that may be shown after its creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    pub handle: String,
    pub created: UnixSeconds,
    /// Name given by the operator; may be empty.
    pub label: String,
    /// Last use, to the minute. `None` if it was never used.
    pub used: Option<UnixSeconds>,
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// A newly issued token, before it is sent to its owner. It has no `Debug` and no `Display`.
#[derive(Clone)]
pub struct Token {
    text: String,
    hash: TokenHash,
}

impl Token {
    pub fn new(kind: TokenKind, random: [u8; 32]) -> Self {
        let mut text = String::with_capacity(TOKEN_LENGTH);
        text.push_str(kind.prefix());
        BASE64URL_NOPAD.encode_append(&random, &mut text);
        let hash = TokenHash::digest(text.as_bytes());
        Self { text, hash }
    }

    pub fn new_partner(random: [u8; 16]) -> Self {
        // A UUID of version 4, because deployed clients expect one: six bits are fixed, 122 are random.
        let bits = u128::from_be_bytes(random);
        let versioned = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{versioned:032x}");
        let mut text = String::with_capacity(36);
        for (at, digit) in hex.chars().enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(digit);
        }
        let hash = TokenHash::digest(text.as_bytes());
        Self { text, hash }
    }

    pub fn reveal(&self) -> &str {
        &self.text
    }

    pub const fn hash(&self) -> TokenHash {
        self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_valid_for_its_own_purpose_only() {
        let token = Token::new(TokenKind::User, [9; 32]);
        assert_eq!(
            TokenHash::hash_presented(TokenKind::User, token.reveal()),
            Some(token.hash())
        );
        for other in [
            TokenKind::Entitlement,
            TokenKind::Reset,
            TokenKind::Operator,
        ] {
            assert_eq!(TokenHash::hash_presented(other, token.reveal()), None);
        }
        assert_eq!(TokenHash::hash_partner_token(token.reveal()), None);
        assert_eq!(
            TokenHash::hash_presented(TokenKind::User, &"pgu_".repeat(2000)),
            None
        );
    }

    #[test]
    fn a_partner_token_is_a_uuid() {
        let token = Token::new_partner([0xff; 16]);
        assert_eq!(token.reveal(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(
            TokenHash::hash_partner_token(token.reveal()),
            Some(token.hash())
        );
        for bad in [
            "",
            "x",
            "ffffffff-ffff-4fff-bfff-fffffffffffg",
            "ffffffffffff4fffbfffffffffffffffffff",
            "FFFFFFFF-FFFF-4FFF-BFFF-FFFFFFFFFFFF",
        ] {
            assert_eq!(TokenHash::hash_partner_token(bad), None);
        }
    }
}
