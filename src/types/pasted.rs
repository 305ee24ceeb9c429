//! Texts as people paste them: with the marks that mail programs, word processors, telephones and web pages put around and into
//! them. Only what has one sensible reading is understood.

use std::borrow::Cow;

use super::text::is_invisible;

/// Pairs that enclose a pasted text.
const PAIRS: [(char, char); 12] = [
    ('<', '>'),
    ('"', '"'),
    ('\'', '\''),
    ('`', '`'),
    ('“', '”'),
    ('„', '“'),
    ('„', '”'),
    ('‘', '’'),
    ('‚', '‘'),
    ('«', '»'),
    ('»', '«'),
    ('‹', '›'),
];

/// The zeros of scripts whose digits people type.
const ZEROS: [char; 18] = [
    '\u{660}', '\u{6f0}', '\u{7c0}', '\u{966}', '\u{9e6}', '\u{a66}', '\u{ae6}', '\u{b66}',
    '\u{be6}', '\u{c66}', '\u{ce6}', '\u{d66}', '\u{e50}', '\u{ed0}', '\u{f20}', '\u{1040}',
    '\u{17e0}', '\u{ff10}',
];

/// Returns the text without invisible characters, and without spaces, quotes and angle brackets around it. Letters stay what they
/// are: one that only looks like another would name another account.
pub fn unwrapped(text: &str) -> Cow<'_, str> {
    let plain = if text.is_ascii() {
        Cow::Borrowed(text)
    } else {
        let kept: String = text.chars().filter(|c| !is_invisible(*c)).collect();
        // Other scripts need joiners, also in names of domains.
        let joins_nothing = kept.chars().all(|c| c.is_ascii() || is_joiner(c));
        Cow::Owned(match joins_nothing {
            true => kept.chars().filter(|c| !is_joiner(*c)).collect(),
            false => kept,
        })
    };
    match plain {
        Cow::Borrowed(text) => Cow::Borrowed(without_marks(text)),
        Cow::Owned(text) => Cow::Owned(without_marks(&text).to_owned()),
    }
}

fn without_marks(text: &str) -> &str {
    let mut text = text.trim();
    while let Some(inner) = PAIRS.iter().find_map(|(open, close)| {
        let inner = text.strip_prefix(*open)?.strip_suffix(*close)?;
        Some(inner.trim())
    }) {
        text = inner;
    }
    text
}

const fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// The digits of a number in any script, without spaces and hyphens between them.
pub(crate) fn digits(text: &str) -> Option<String> {
    let text = unwrapped(text);
    let separates = |c: &char| c.is_whitespace() || matches!(c, '-' | '‐' | '‑' | '–');
    let inner = text.chars().filter(|c| !separates(c));
    // A sign is no separator: -123 is another number.
    let led = text.starts_with(|c: char| separates(&c));
    inner.map(digit).collect::<Option<_>>().filter(|_| !led)
}

fn digit(c: char) -> Option<char> {
    if c.is_ascii_digit() {
        return Some(c);
    }
    let value = |zero: &char| {
        u32::from(c)
            .checked_sub(u32::from(*zero))
            .filter(|n| *n < 10)
    };
    char::from_digit(ZEROS.iter().find_map(value)?, 10)
}

/// Finds a token of this prefix and number of characters in a pasted text: alone, in quotes, with the line breaks of a mail, or in
/// the whole link.
pub(crate) fn token(text: &str, prefix: &str, length: usize) -> Option<String> {
    // Enough for a link with some line breaks, and a bound of the work.
    const PASTED_MAX: usize = 2_048;
    if text.len() > PASTED_MAX {
        return None;
    }
    let kept = |c: &char| !c.is_whitespace() && !is_invisible(*c);
    // Mails break long lines with a `=` at their end.
    let joined = text.replace("=\r\n", "").replace("=\n", "");
    let joined: String = joined.chars().filter(kept).collect();
    let in_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let (_, rest) = joined.split_once(prefix)?;
    let end = rest.find(|c| !in_token(c)).unwrap_or(rest.len());
    let (run, behind) = rest.split_at_checked(end)?;
    // Filters of mail put the whole link between underscores, which a token may also have.
    let run = match behind.starts_with(";!!") {
        true => run.strip_suffix("__").unwrap_or(run),
        false => run,
    };
    let found = format!("{prefix}{run}");
    // A longer run is another text: its end must not be guessed.
    (found.len() == length).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_around_a_text_are_left_out() {
        for (pasted, text) in [
            ("tv", "tv"),
            (" tv\r\n", "tv"),
            ("\u{a0}tv\u{3000}", "tv"),
            ("<tv>", "tv"),
            ("“tv”", "tv"),
            ("\u{feff}\"tv\"", "tv"),
            ("„tv“", "tv"),
            ("«\u{a0}tv\u{a0}»", "tv"),
            ("t\u{200b}v\u{ad}", "tv"),
            ("ｔｖ", "ｔｖ"),
            ("\"tv", "\"tv"),
            ("\"", "\""),
            ("", ""),
        ] {
            assert_eq!(unwrapped(pasted), text, "{pasted:?}");
        }
    }

    #[test]
    fn digits_of_every_script_are_digits() {
        for pasted in [
            "1234",
            " 1234\n",
            "12 34",
            "12-34",
            "１２３４",
            "١٢٣٤",
            "۱۲۳۴",
            "१२३४",
            "1\u{200b}234",
            "“1234”",
            "12\u{a0}34",
            "12‑34",
        ] {
            assert_eq!(digits(pasted).as_deref(), Some("1234"), "{pasted:?}");
        }
        for other in ["-1234", "12a4", "12.34", "+1234", "½123", "—1234"] {
            assert_eq!(digits(other), None, "{other:?}");
        }
    }

    #[test]
    fn token_is_found_in_what_surrounds_it() {
        let token = |text: &str| super::token(text, "pgr_", 12);
        for pasted in [
            "pgr_AbC-_123",
            " pgr_AbC-_123\r\n",
            "“pgr_AbC-_123”",
            "<pgr_AbC-_123>.",
            "pgr_AbC\r\n-_123",
            "pgr_AbC=\r\n-_123",
            "token=3Dpgr_AbC-_123",
            "https://tv.example/reset?token=pgr_AbC-_123&utm=x",
            "pgr_AbC\u{200b}-_123",
            "https://filter.example/v3/__https://tv.example/reset?token=pgr_AbC-_123__;!!AbC!x$",
            "https://filter.example/?url=https%3A%2F%2Ftv.example%2Freset%3Ftoken%3Dpgr_AbC-_123%26utm%3Dx&data=y",
            "pgr_ AbC- _123",
        ] {
            assert_eq!(token(pasted).as_deref(), Some("pgr_AbC-_123"), "{pasted:?}");
        }
        let long = format!("{}pgr_AbC-_123", " ".repeat(3_000));
        for other in [
            "",
            "pgr_",
            "pgr_AbC-_12",
            "pgr_AbC-_1234",
            "pgu_AbC-_123",
            "PGR_AbC-_123",
            &long,
        ] {
            assert_eq!(token(other), None, "{other:?}");
        }
    }
}
