//! Checks the characters of names. Names are shown next to other text in tables and mails, and must neither
//! reorder the text around them nor hide a part of themselves.

use std::borrow::Cow;

use super::Malformed;

/// Format characters (Unicode category Cf), line and paragraph separators (Zl, Zp). The zero-width joiner and
/// non-joiner are allowed: Persian, Hindi and many emoji need them.
const INVISIBLE: [(char, char); 20] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{200b}', '\u{200b}'),
    // Directional marks. The joiners are between these and the zero-width space.
    ('\u{200e}', '\u{200f}'),
    // Line and paragraph separators, bidirectional embeddings and overrides.
    ('\u{2028}', '\u{202e}'),
    // Invisible operators, bidirectional isolates.
    ('\u{2060}', '\u{206f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{fff9}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    // Tag characters: they can encode a whole invisible text.
    ('\u{e0000}', '\u{e007f}'),
];

pub fn is_invisible(c: char) -> bool {
    // Fast path: nearly every character of a name is below the first entry.
    c >= '\u{ad}'
        && INVISIBLE
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&c))
}

pub fn check_visible(text: &str) -> Result<(), Malformed> {
    // Fast path: nearly all texts are ASCII, and every heartbeat has four of them.
    let refused = if text.is_ascii() {
        text.bytes().any(|b| b.is_ascii_control())
    } else {
        text.chars().any(|c| c.is_control() || is_invisible(c))
    };
    if refused {
        return Err(Malformed(
            "has no control characters, line separators or invisible format characters",
        ));
    }
    Ok(())
}

/// Returns the text without what [`check_visible`] refuses. Line breaks become spaces.
pub fn visible(text: &str) -> String {
    let breaks = [
        '\n', '\r', '\t', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}',
    ];
    let words = text.split(breaks).map(|line| {
        let kept = line
            .chars()
            .filter(|c| !c.is_control() && !is_invisible(*c));
        kept.collect::<String>()
    });
    let words: Vec<String> = words.filter(|line| !line.trim().is_empty()).collect();
    words.join(" ")
}

/// The colours of the command line, which are left alone.
const COLOURS: [&str; 4] = ["\u{1b}[0m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

/// Returns the text as a terminal may get it. What reorders the text around it, and what controls the terminal, is written
/// out: names, which viewers and players choose, would make a line say something else than it does. In JSON the form is the
/// escape of the same character.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !reorders(c) && (!c.is_control() || matches!(c, '\n' | '\t'));
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let colour = COLOURS.into_iter().find(|code| rest.starts_with(code));
        let kept = colour.or_else(|| rest.starts_with("\r\n").then_some("\r\n"));
        let length = kept.map_or(c.len_utf8(), str::len);
        match kept {
            Some(kept) => shown.push_str(kept),
            None if harmless(c) => shown.push(c),
            None => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(shown)
}

/// Marks, embeddings, overrides and isolates.
pub const fn reorders(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_gets_no_character_that_reorders_or_controls_it() {
        for (text, shown) in [
            ("Åsa\t1\n", "Åsa\t1\n"),
            ("a\u{202e}b\u{2066}", "a\\u202eb\\u2066"),
            ("\u{61c}\u{200f}", "\\u061c\\u200f"),
            ("a\u{1b}[2Jb", "a\\u001b[2Jb"),
            ("a\u{9b}2Jb\u{7f}", "a\\u009b2Jb\\u007f"),
            ("paid\rfree\r\n", "paid\\u000dfree\r\n"),
            ("\u{1b}[31mred\u{1b}[0m", "\u{1b}[31mred\u{1b}[0m"),
        ] {
            assert_eq!(for_terminal(text), shown);
        }
    }

    #[test]
    fn joiners_and_emoji_are_visible_text() {
        for good in [
            "",
            "Ann",
            "Åsa Öberg",
            "نام\u{200c}ها",
            "क्\u{200d}ष",
            "👩\u{200d}👧",
            "❤\u{fe0f}",
            "日本",
        ] {
            assert_eq!(check_visible(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn characters_that_reorder_or_hide_text_are_rejected() {
        for c in [
            '\0',
            '\n',
            '\r',
            '\t',
            '\u{7f}',
            '\u{85}',
            '\u{ad}',
            '\u{61c}',
            '\u{180e}',
            '\u{200b}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{feff}',
            '\u{fffb}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
        ] {
            assert!(check_visible(&format!("a{c}b")).is_err(), "{c:?}");
        }
    }
}
