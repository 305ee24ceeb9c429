//! Which passwords are taken: long enough, and none of those that are tried first.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::AccountsError;
use crate::types::Password;

/// The list, one in lower case on each line.
static COMMON: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("../../../data/common-passwords.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect()
});

/// The shortest word that is looked for in a password; a shorter one would refuse by accident.
const WORD_MIN: usize = 4;

/// What everybody knows of the user and of the service, reduced to letters and digits.
#[derive(Default)]
pub(super) struct Known(HashSet<String>);

impl Known {
    /// Adds a name or an address: the whole, and its words.
    pub(super) fn add(&mut self, text: &str) {
        let lower = text.to_lowercase();
        let words = lower.split(|c: char| !c.is_alphanumeric() && c != '.');
        let parts = lower.split(|c: char| !c.is_alphanumeric());
        let all = words.chain(parts).chain([lower.as_str()]);
        for word in all.flat_map(|word| [word, core(word)]) {
            let word = squeezed(word);
            if word.chars().count() >= WORD_MIN {
                self.0.insert(word);
            }
        }
    }

    fn contains(&self, lower: &str) -> bool {
        [lower, core(lower)]
            .iter()
            .any(|text| self.0.contains(&squeezed(text)))
    }
}

/// Checks a new password against the length, the list, and what everybody knows.
///
/// Decision: what is known is refused as the whole password, also with digits and signs in it or
/// around it: `ann.smith`, `Ann-Smith1!` and `smith1988` are all first guesses for
/// ann.smith@example.com. A sentence that has it among other words is not.
///
/// Decision: every character counts as one, control characters and spaces too: nothing here ends
/// or shortens a password, and whoever can type it may have it.
pub(super) fn check(password: &Password, min: usize, known: &Known) -> Result<(), AccountsError> {
    if password.length() < min {
        return Err(AccountsError::PasswordTooShort { min });
    }
    let lower = password.reveal().to_lowercase();
    if COMMON.contains(lower.as_str()) || known.contains(&lower) {
        return Err(AccountsError::PasswordTooCommon);
    }
    Ok(())
}

/// A word without the digits and signs around it.
fn core(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphabetic())
}

/// A word without the signs and spaces in it.
fn squeezed(word: &str) -> String {
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
    fn length_is_counted_in_characters() {
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
    fn what_is_tried_first_is_refused() {
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
    fn an_address_of_digits_refuses_itself_alone() {
        let check = |password: &str| {
            let known = known(&["55512345@x.example"]);
            check(&Password::new(password).unwrap(), 8, &known)
        };
        assert_eq!(check("55512345"), Err(AccountsError::PasswordTooCommon));
        assert_eq!(check("83920475"), Ok(()));
    }

    #[test]
    fn the_list_is_as_the_check_looks_it_up() {
        assert!(COMMON.len() >= 10_000);
        for word in COMMON.iter() {
            assert_eq!(*word, word.trim().to_lowercase());
            assert!(!word.is_empty());
        }
    }
}
