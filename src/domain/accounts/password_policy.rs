//! Password policy: minimum length, no common passwords, no known names.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::AccountsError;
use playgate_types::Password;

/// The file has one password per line, in lower case.
static COMMON: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("../../../data/common-passwords.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect()
});

/// In characters. Shorter words would reject passwords by accident.
const WORD_MIN: usize = 4;

/// Public knowledge about the user and the service, reduced to letters and digits.
#[derive(Default)]
pub(super) struct Known(HashSet<String>);

impl Known {
    pub(super) fn add(&mut self, text: &str) {
        let lower = text.to_lowercase();
        // Words may contain dots, as the local part of `ann.smith@example.com`.
        let words = lower.split(|c: char| !c.is_alphanumeric() && c != '.');
        let parts = lower.split(|c: char| !c.is_alphanumeric());
        let all = words.chain(parts).chain([lower.as_str()]);
        // `core` makes `karl` of `karl1990`, so that `karl1991` is rejected as well.
        for word in all.flat_map(|word| [word, core(word)]) {
            let word = alphanumeric(word);
            if word.chars().count() >= WORD_MIN {
                self.0.insert(word);
            }
        }
    }

    fn contains(&self, lower: &str) -> bool {
        [lower, core(lower)]
            .iter()
            .any(|text| self.0.contains(&alphanumeric(text)))
    }
}

pub(super) fn check(password: &Password, min: usize, known: &Known) -> Result<(), AccountsError> {
    // Every character counts, including control characters and spaces: nothing truncates a password.
    if password.length() < min {
        return Err(AccountsError::PasswordTooShort { min });
    }
    let lower = password.reveal().to_lowercase();
    // A known word is rejected as the whole password, also with digits and punctuation in or around it:
    // `ann.smith`, `Ann-Smith1!` and `smith1988` are first guesses for ann.smith@example.com. A
    // sentence that contains it is accepted.
    if COMMON.contains(lower.as_str()) || known.contains(&lower) {
        return Err(AccountsError::PasswordTooCommon);
    }
    Ok(())
}

/// Strips digits and punctuation from both ends.
fn core(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphabetic())
}

fn alphanumeric(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(texts: &[&str]) -> Known {
        let mut known = Known::default();
        for text in texts {
            known.add(text);
        }
        known
    }

    fn checked(password: &str) -> Result<(), AccountsError> {
        let texts = [
            "ann.smith@example.com",
            "karl1990@example.com",
            "Ann-Marie Smith",
            "Acme TV",
            "Storsjön",
        ];
        check(&Password::new(password).unwrap(), 8, &known(&texts))
    }

    #[test]
    fn minimum_length_counts_characters() {
        let short = Err(AccountsError::PasswordTooShort { min: 8 });
        for text in [
            "",
            "1234567",
            "äöüåéèç",
            "\u{1f600}\u{1f600}",
            "e\u{301}".repeat(7).as_str(),
        ] {
            assert_eq!(checked(text), short, "{text}");
        }
        for text in ["tr0ub4d0", "\u{1f600}".repeat(8).as_str(), "k\0r\0s\0p\0"] {
            assert_eq!(checked(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn common_and_personal_passwords_are_rejected() {
        for text in [
            "password",
            "PASSWORD",
            "12345678",
            "password1",
            "qwertyuiop",
            "Iloveyou1",
            "lösenord",
            "passwort",
            "ann.smith@example.com",
            "Ann.Smith",
            "ann.smith1!",
            "ann-marie smith",
            "annmariesmith",
            "smith1988",
            "karl1991",
            "..SMITH..!",
            "marie123",
            "example.com",
            "acme tv 2024",
            "AcmeTV!!",
            "storsjön",
        ] {
            assert_eq!(
                checked(text),
                Err(AccountsError::PasswordTooCommon),
                "{text}"
            );
        }
        for text in [
            "correct horse battery",
            "ann.smith likes tea",
            "smithereens",
            "        x",
            "        ",
        ] {
            assert_eq!(checked(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn address_of_digits_rejects_only_itself() {
        let check = |password: &str| {
            let known = known(&["55512345@x.example"]);
            check(&Password::new(password).unwrap(), 8, &known)
        };
        assert_eq!(check("55512345"), Err(AccountsError::PasswordTooCommon));
        assert_eq!(check("83920475"), Ok(()));
    }

    #[test]
    fn list_entries_are_normalized_for_lookup() {
        assert!(COMMON.len() >= 10_000);
        for word in COMMON.iter() {
            assert_eq!(*word, word.trim().to_lowercase());
            assert!(!word.is_empty());
        }
    }
}
