//! The name by which a mail greets its reader.

use playgate_types::PersonName;

const CHARS_MAX: usize = 32;
const WORDS_MAX: usize = 3;

/// Returns the name if it can only be a name; otherwise the mail greets without one.
///
/// Anybody can sign up with the address of another person, whom the mail reaches under the name of the service. So a name
/// may have no digits and no signs: no address, which mail programs make a link of, no telephone number, and no more words
/// than people have.
pub(super) fn greeting_name(name: &PersonName) -> Option<&str> {
    let text = name.as_str();
    let is_word = |word: &str| {
        // An initial ends with a dot; a dot inside is that of a host name.
        let letters = word.strip_suffix('.').unwrap_or(word);
        letters.starts_with(char::is_alphabetic)
            && letters
                .chars()
                .all(|c| c.is_alphabetic() || is_mark(c) || "'’-".contains(c))
    };
    let fits = text.chars().count() <= CHARS_MAX && text.split(' ').count() <= WORDS_MAX;
    (fits && text.split(' ').all(is_word)).then_some(text)
}

/// The signs that scripts such as Devanagari and decomposed Latin add to letters.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{900}'..='\u{d7f}' | '\u{e31}'..='\u{e4e}')
        && !c.is_numeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_a_name_is_greeted() {
        let greeted = |text: &str| {
            let name = PersonName::parse(text).unwrap();
            greeting_name(&name).map(str::to_owned)
        };
        for name in [
            "Ann",
            "Åsa Öberg",
            "J. R. Tolkien",
            "Seán O'Brien",
            "Jean-Luc d’Arc",
            "李小龍",
            "दीपिका",
            "Zoe\u{308}",
            "María de Souza",
        ] {
            assert_eq!(greeted(name).as_deref(), Some(name));
        }
        for other in [
            "",
            "evil.example",
            "https://evil.example",
            "www.evil.example Ann",
            "evil。example",
            "Ann <b>",
            "ann@example.org",
            "Call 555",
            "٠٧٠",
            "०७०",
            "You have won. Click",
            "Your account is closed",
            "Ann  Lee",
            "{pin}",
            "$100",
            "-",
            "Abcdefghijklmnopqrstuvwxyzabcdefg",
        ] {
            assert_eq!(greeted(other), None, "{other}");
        }
    }
}
