//! The data of a user profile: name, language, country, date of birth.

use std::fmt;

use chrono::NaiveDate;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::text::{check_visible, visible};
use super::{Malformed, TvDay};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Locale(Box<str>);

impl Locale {
    /// Maximum length in characters: the length that RFC 5646 asks implementations to support.
    pub const MAX: usize = 35;

    /// Parses `language[-subtag]…`. Underscores are accepted as hyphens, because many platforms write them.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be a language tag such as `sv` or `pt-BR`");
        if text.len() > Self::MAX {
            return Err(malformed);
        }
        let mut subtags = text.split(['-', '_']);
        // Only the form is checked: languages are added to the registry all the time.
        let language = subtags.next().is_some_and(|tag| {
            (2..=3).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphabetic())
        });
        let rest = subtags.all(|tag| {
            (1..=8).contains(&tag.len()) && tag.bytes().all(|b| b.is_ascii_alphanumeric())
        });
        if !(language && rest) {
            return Err(malformed);
        }
        Ok(Self(text.replace('_', "-").into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn language(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }
}

/// An ISO 3166-1 alpha-2 country code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Country([u8; 2]);

impl Country {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let malformed = Malformed("must be a country code of two letters");
        let mut letters: [u8; 2] = text.as_bytes().try_into().map_err(|_| malformed)?;
        // Stored in one case, so that two spellings of a code compare as equal.
        letters.make_ascii_uppercase();
        if letters.iter().all(u8::is_ascii_uppercase) {
            Ok(Self(letters))
        } else {
            Err(malformed)
        }
    }

    pub fn as_str(&self) -> &str {
        // Two ASCII letters by construction; a record with other bytes reads as no country.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Country({})", self.as_str())
    }
}

/// A display name: at most 256 visible characters. Personal data, so it has no `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonName(Box<str>);

impl PersonName {
    pub const MAX: usize = 256;

    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        // The byte length first: it bounds the count for oversized input.
        if text.len() > Self::MAX * 4 || text.chars().count() > Self::MAX {
            return Err(Malformed("has at most 256 characters"));
        }
        // Names are shown next to other text, which they must not reorder or hide.
        check_visible(text)?;
        Ok(Self(text.into()))
    }

    /// Returns the name without what cannot be shown and up to the longest length, and whether anything was left out.
    /// `None` if nothing is left.
    pub fn cleaned(text: &str) -> (Option<Self>, bool) {
        let parsed = Self::parse(text);
        let changed = parsed.is_err();
        let name = parsed.unwrap_or_else(|_| {
            let shown: String = visible(text).trim().chars().take(Self::MAX).collect();
            Self(shown.trim().into())
        });
        (Some(name).filter(|name| !name.as_str().is_empty()), changed)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BirthDate(NaiveDate);

impl BirthDate {
    /// Parses `YYYY-MM-DD`; the date must exist. Account rules check that it is in the past.
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        TvDay::parse(text).map(|day| Self(day.date()))
    }

    pub const fn date(self) -> NaiveDate {
        self.0
    }
}

impl fmt::Display for BirthDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TvDay::from_date(self.0).fmt(f)
    }
}

impl Serialize for BirthDate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BirthDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn language_tags_are_parsed_in_both_spellings() {
        for (text, tag, language) in [
            ("sv", "sv", "sv"),
            ("pt-BR", "pt-BR", "pt"),
            ("en_GB", "en-GB", "en"),
        ] {
            let locale = Locale::parse(text).unwrap();
            assert_eq!((locale.as_str(), locale.language()), (tag, language));
        }
        for bad in ["", "s", "svenska", "sv-", "sv SE", "../x", &"a-".repeat(20)] {
            assert!(Locale::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn countries_are_two_letters() {
        assert_eq!(Country::parse("se").unwrap().as_str(), "SE");
        for bad in ["", "S", "SWE", "1A", "ä"] {
            assert!(Country::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(PersonName::parse(" Ann ").unwrap().as_str(), "Ann");
        assert!(PersonName::parse(&"ä".repeat(256)).is_ok());
        assert!(PersonName::parse(&"ä".repeat(257)).is_err());
        assert!(PersonName::parse("a\nb").is_err());
        assert!(PersonName::parse("a\u{202e}b").is_err());
    }
}
