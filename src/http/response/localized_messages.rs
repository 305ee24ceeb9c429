//! Localized error messages for viewers. English, Swedish and German are built in. A file `xx.toml` in the
//! operator's directory adds a language or replaces messages of one.

use std::collections::HashMap;

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::headers::quality;
use playgate_decode::{TableDecoder, decode_toml};
use playgate_types::Locale;

const BUILT_IN: [(&str, &str); 3] = [
    ("en", include_str!("../../../data/messages/en.toml")),
    ("sv", include_str!("../../../data/messages/sv.toml")),
    ("de", include_str!("../../../data/messages/de.toml")),
];

/// Members that a viewer types, by JSON name, with the key of a message that explains how to correct them.
/// The general message of `INVALID_REQUEST` would give no hint.
const TYPED_MEMBERS: [(&str, &str); 11] = [
    ("identity", "EMAIL_INVALID"),
    ("email", "EMAIL_INVALID"),
    ("accessKey", "PASSWORD_MISSING"),
    ("password", "PASSWORD_MISSING"),
    ("currentPassword", "PASSWORD_MISSING"),
    ("newPassword", "PASSWORD_MISSING"),
    ("pinCode", "PIN_CODE_INVALID"),
    ("newPinCode", "PIN_CODE_INVALID"),
    ("name", "NAME_INVALID"),
    ("birthDate", "BIRTH_DATE_INVALID"),
    ("parentalControl.limit", "AGE_LIMIT_INVALID"),
];

/// At most this many language ranges of `Accept-Language` are read.
const RANGES_MAX: usize = 16;

#[derive(Debug, thiserror::Error)]
#[error("messages in `{language}`: {problem}")]
pub struct BadMessages {
    language: String,
    problem: String,
}

pub struct Messages {
    languages: HashMap<String, HashMap<String, String>>,
    default: String,
}

impl Messages {
    pub fn built_in(default: &str) -> Result<Self, BadMessages> {
        Self::with(default, std::iter::empty())
    }

    /// Loads the built-in languages and those of the operator, as pairs of language and TOML.
    ///
    /// # Errors
    /// [`BadMessages`] for the first language that cannot be used.
    pub fn with<'a>(
        default: &str,
        added: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, BadMessages> {
        let mut languages: HashMap<String, HashMap<String, String>> = HashMap::new();
        for (language, text) in BUILT_IN.into_iter().chain(added) {
            let bad = |problem: String| BadMessages {
                language: language.to_owned(),
                problem,
            };
            let texts = decode_toml(text, texts).map_err(bad)?;
            // Keys that an added language lacks keep the built-in text.
            languages
                .entry(language.to_ascii_lowercase())
                .or_default()
                .extend(texts);
        }
        if !languages.contains_key(default) {
            return Err(BadMessages {
                language: default.to_owned(),
                problem: "the default language has no messages".to_owned(),
            });
        }
        Ok(Self {
            languages,
            default: default.to_owned(),
        })
    }

    /// Returns the message in the best language: by `Accept-Language`, else the user's locale, else the
    /// default.
    pub fn pick(&self, code: ErrorCode, accept: Option<&str>, user: Option<&Locale>) -> &str {
        self.text(code.as_str(), self.language(accept, user))
    }

    /// Same as [`Messages::pick`]; if the viewer typed something wrong, the message is about the first such
    /// field.
    pub fn pick_for(&self, error: &ApiError, accept: Option<&str>, user: Option<&Locale>) -> &str {
        let typed = |field| TYPED_MEMBERS.iter().find(|(known, _)| *known == field);
        let key = match error.code() == ErrorCode::InvalidRequest {
            true => error.fields().find_map(typed).map(|(_, key)| *key),
            false => None,
        };
        let key = key.unwrap_or_else(|| error.code().as_str());
        self.text(key, self.language(accept, user))
    }

    fn text(&self, key: &str, language: &str) -> &str {
        // English is complete; a language of the operator may lack messages.
        [language, &self.default, "en"]
            .into_iter()
            .find_map(|language| self.languages.get(language)?.get(key))
            .map_or("", String::as_str)
    }

    pub fn language(&self, accept: Option<&str>, user: Option<&Locale>) -> &str {
        // The header before the user's setting: it is what this device shows now.
        let wanted = accept.and_then(|accept| self.accepted(accept));
        let users = user.and_then(|locale| self.known(locale.as_str()));
        wanted.or(users).unwrap_or(&self.default)
    }

    fn accepted(&self, accept: &str) -> Option<&str> {
        let mut best: Option<(u16, &str)> = None;
        for range in accept.split(',').take(RANGES_MAX) {
            let mut parts = range.split(';');
            let tag = parts.next().unwrap_or_default().trim();
            let weight = quality(parts);
            let Some(language) = self.known(tag) else {
                continue;
            };
            // On equal weights the first range wins.
            if weight > 0 && best.is_none_or(|(most, _)| weight > most) {
                best = Some((weight, language));
            }
        }
        best.map(|(_, language)| language)
    }

    fn known(&self, tag: &str) -> Option<&str> {
        let tag = tag.to_ascii_lowercase();
        let primary = tag.split(['-', '_']).next().unwrap_or_default();
        // `sv-SE` finds `sv`, but a file for the full tag comes first.
        [tag.as_str(), primary]
            .into_iter()
            .find_map(|name| self.languages.get_key_value(name))
            .map(|(name, _)| name.as_str())
    }
}

fn keys() -> impl Iterator<Item = &'static str> {
    let codes = ErrorCode::ALL.iter().map(|code| code.as_str());
    codes.chain(TYPED_MEMBERS.iter().map(|(_, key)| *key))
}

fn texts(root: &TableDecoder<'_>) -> HashMap<String, String> {
    keys()
        .filter_map(|key| Some((key.to_owned(), root.text(key)?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_a_message_in_every_built_in_language() {
        for (language, text) in BUILT_IN {
            let texts = decode_toml(text, texts).unwrap();
            for key in keys() {
                let message = texts.get(key);
                assert!(
                    message.is_some_and(|m| !m.trim().is_empty()),
                    "{language} lacks {key}"
                );
            }
        }
    }

    #[test]
    fn the_request_decides_then_the_user_then_the_default() {
        let messages = Messages::built_in("en").unwrap();
        let code = ErrorCode::PinCodeRequired;
        let of = |accept: Option<&str>, user: Option<&str>| {
            let user = user.map(|tag| Locale::parse(tag).unwrap());
            messages.pick(code, accept, user.as_ref()).to_owned()
        };
        let (english, swedish, german) =
            (of(None, None), of(Some("sv"), None), of(Some("de"), None));
        assert!(english != swedish && swedish != german);
        assert_eq!(of(Some("de-AT, sv;q=0.5"), Some("sv")), german);
        assert_eq!(of(Some("de;q=0.3, sv;q=0.5"), None), swedish);
        assert_eq!(of(Some("fr"), Some("sv-FI")), swedish);
        assert_eq!(of(Some("de;q=0, fr"), None), english);
        assert_eq!(of(Some(";;;,,q=,\u{1f600}"), None), english);
        assert_eq!(of(Some("*"), None), english);
    }

    #[test]
    fn a_typing_error_has_its_own_text_and_other_fields_have_none() {
        let messages = Messages::built_in("en").unwrap();
        let of = |error: &ApiError| messages.pick_for(error, Some("sv"), None).to_owned();
        let general = of(&ApiError::field("offset", "must be an integer"));
        assert_eq!(
            general,
            messages.pick(ErrorCode::InvalidRequest, Some("sv"), None)
        );
        let header = ApiError::field("Service-Play-DRM", "is missing");
        let email = of(&header.and(ApiError::field("identity", "is missing")));
        assert_ne!(email, general);
        let short = ApiError::new(ErrorCode::PasswordTooShort, "too short");
        let short = of(&short.for_member("accessKey", ErrorCode::BAD_PASSWORD));
        assert_eq!(
            short,
            messages.pick(ErrorCode::PasswordTooShort, Some("sv"), None)
        );
    }

    #[test]
    fn a_dropped_in_language_is_used_and_falls_back() {
        let added = [("fr", "PIN_CODE_REQUIRED = \"Code parental\"")];
        let messages = Messages::with("en", added.into_iter()).unwrap();
        assert_eq!(
            messages.pick(ErrorCode::PinCodeRequired, Some("fr"), None),
            "Code parental"
        );
        assert_eq!(
            messages.pick(ErrorCode::GeoBlocked, Some("fr"), None),
            messages.pick(ErrorCode::GeoBlocked, None, None)
        );
        assert!(Messages::with("en", [("fr", "NOT_A_CODE = \"\"")].into_iter()).is_err());
        assert!(Messages::built_in("xx").is_err());
    }
}
