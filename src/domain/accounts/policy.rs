//! Which passwords are taken: long enough, and none of those that are tried first.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::AccountsError;
use crate::types::{Email, Password, PersonName};

/// The list, one in lower case on each line.
static COMMON: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    include_str!("../../../data/common-passwords.txt")
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect()
});

/// The shortest name or part of an address that is looked for in a password; a shorter one would
/// refuse by accident.
const WORD_MIN: usize = 4;

/// Checks a new password against the length, the list, and what everybody knows of the user.
///
/// Decision: what is known of the user is refused as the whole password, also with digits and signs
/// around it: `ann.smith` and `Ann.Smith1!` are both the first guess for ann.smith@example.com.
pub(super) fn check(
    password: &Password,
    min: usize,
    email: &Email,
    name: Option<&PersonName>,
) -> Result<(), AccountsError> {
    if password.length() < min {
        return Err(AccountsError::PasswordTooShort { min });
    }
    let lower = password.reveal().to_lowercase();
    if COMMON.contains(lower.as_str()) || is_known_of_user(&lower, email, name) {
        return Err(AccountsError::PasswordTooCommon);
    }
    Ok(())
}

fn is_known_of_user(lower: &str, email: &Email, name: Option<&PersonName>) -> bool {
    let email = email.as_str();
    let (local, domain) = email.split_once('@').unwrap_or((email, ""));
    let name = name.map(|name| name.as_str().to_lowercase());
    [email, local, domain]
        .into_iter()
        .chain(name.as_deref())
        .flat_map(|word| [word, core(word)])
        .filter(|word| word.chars().count() >= WORD_MIN)
        .any(|word| lower == word || core(lower) == word)
}

/// A word without the digits and signs around it.
fn core(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(password: &str) -> Result<(), AccountsError> {
        check(
            &Password::new(password).unwrap(),
            8,
            &Email::parse("ann.smith@example.com").unwrap(),
            PersonName::parse("Ann-Marie Smith").ok().as_ref(),
        )
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
            "example.com",
        ] {
            assert_eq!(
                checked(text),
                Err(AccountsError::PasswordTooCommon),
                "{text}"
            );
        }
        for text in ["correct horse battery", "ann.smith likes tea", "        x"] {
            assert_eq!(checked(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn an_address_of_digits_refuses_itself_alone() {
        let check = |password: &str| {
            let email = Email::parse("55512345@x.example").unwrap();
            check(&Password::new(password).unwrap(), 8, &email, None)
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
