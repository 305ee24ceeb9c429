//! Passwords and PINs while they are in our hands: neither printed nor compared, only hashed.

use unicode_normalization::UnicodeNormalization;

use super::Malformed;

/// A password as the user typed it, after Unicode NFC, so that two keyboards give the same bytes.
/// It has no `Debug` and no `Display`. Whether it is long and uncommon enough is for the account
/// rules to say; only the bound on its size stands here, since it guards the normalisation.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// The longest password, in characters.
    pub const MAX: usize = 256;

    /// Normalises the text.
    ///
    /// # Errors
    /// [`Malformed`] if it has over [`Password::MAX`] characters.
    pub fn new(text: &str) -> Result<Self, Malformed> {
        let too_long = Malformed("a password has at most 256 characters");
        // 4 bytes a character, and NFC can shrink a text to a third.
        if text.len() > Self::MAX * 12 {
            return Err(too_long);
        }
        let normal: String = text.nfc().collect();
        if normal.chars().count() > Self::MAX {
            return Err(too_long);
        }
        Ok(Self(normal))
    }

    /// The number of characters.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.chars().count()
    }

    /// The text, for hashing and for the list of common passwords.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A PIN of four to six digits. It has no `Debug` and no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    /// Takes four to six ASCII digits.
    ///
    /// # Errors
    /// [`Malformed`] for anything else.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        if (4..=6).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Malformed("a PIN has four to six digits"))
        }
    }

    /// The digits, for hashing and for the mail that brings them.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_normal_forms_are_one_password() {
        assert!(Password::new("caf\u{e9}") == Password::new("cafe\u{301}"));
        assert_eq!(
            Password::new(&"\u{1f600}".repeat(256)).map(|p| p.length()),
            Ok(256)
        );
        assert!(Password::new(&"x".repeat(257)).is_err());
    }

    #[test]
    fn a_pin_is_digits() {
        for good in ["0000", "12345", "999999"] {
            assert!(Pin::parse(good).is_ok());
        }
        for bad in ["", "123", "1234567", "12a4", "１２３４", "-123"] {
            assert!(Pin::parse(bad).is_err(), "{bad:?}");
        }
    }
}
