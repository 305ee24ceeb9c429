//! Plain-text passwords and PINs. They are neither printed nor compared, only hashed.

use unicode_normalization::UnicodeNormalization;

use super::Malformed;
use super::pasted::digits;

/// A password as the user typed it, normalised to Unicode NFC so that different keyboards give the same
/// bytes. It has no `Debug` and no `Display`. Only the maximum length is checked here, because it bounds the
/// normalisation; account rules check the rest.
#[derive(Clone)]
pub struct Password {
    normal: String,
    /// What the client sent, if that differs.
    typed: Option<String>,
}

impl Password {
    pub const MAX: usize = 256;

    pub fn new(text: &str) -> Result<Self, Malformed> {
        let too_long = Malformed("a password has at most 256 characters");
        // 4 bytes per character, and NFC can shrink a text to a third.
        if text.len() > Self::MAX * 12 {
            return Err(too_long);
        }
        // Keyboards differ in how they compose `ä`. Without this a password would work on one device only.
        let normal: String = text.nfc().collect();
        if normal.chars().count() > Self::MAX {
            return Err(too_long);
        }
        let typed = (normal != text).then(|| text.to_owned());
        Ok(Self { normal, typed })
    }

    pub fn length(&self) -> usize {
        self.normal.chars().count()
    }

    pub fn reveal(&self) -> &str {
        &self.normal
    }

    /// The bytes from which another service may have made its hash: as they came, then the normal forms.
    pub fn spellings(&self) -> Vec<String> {
        let mut spellings: Vec<String> = self.typed.iter().cloned().collect();
        spellings.push(self.normal.clone());
        if !self.normal.is_ascii() {
            for other in [self.normal.nfkc().collect(), self.normal.nfd().collect()] {
                if !spellings.contains(&other) {
                    spellings.push(other);
                }
            }
        }
        spellings
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        self.normal == other.normal
    }
}

/// A PIN of four to six digits. It has no `Debug` and no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        digits(text)
            .filter(|digits| (4..=6).contains(&digits.len()))
            .map(Self)
            .ok_or(Malformed("a PIN has four to six digits"))
    }

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
        // Of one person at two keyboards.
        for typed in ["１２３４", "١٢٣٤", " 1234 ", "12 34"] {
            assert!(Pin::parse(typed) == Pin::parse("1234"), "{typed:?}");
        }
        for bad in ["", "123", "1234567", "12a4", "-123", "½123"] {
            assert!(Pin::parse(bad).is_err(), "{bad:?}");
        }
    }
}
