//! Checks the characters of names. Names are shown next to other text in tables and mails, and must neither
//! reorder the text around them nor hide a part of themselves.

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

fn is_invisible(c: char) -> bool {
    // Fast path: nearly every character of a name is below the first entry.
    c >= '\u{ad}'
        && INVISIBLE
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&c))
}

pub(crate) fn check_visible(text: &str) -> Result<(), Malformed> {
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
pub(crate) fn visible(text: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
