//! Colours of words on a terminal.

use std::io::{self, IsTerminal as _};

#[derive(Clone, Copy)]
pub(crate) enum Tone {
    Good,
    Doubtful,
    Bad,
}

/// The text in colour, if standard output is a terminal that shows it and `NO_COLOR` is not set.
pub(crate) fn tinted(text: &str, tone: Tone) -> String {
    let is = |name, wrong: fn(&str) -> bool| {
        std::env::var_os(name).is_some_and(|value| value.to_str().is_none_or(wrong))
    };
    let plain = is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb");
    // Escape sequences in a file or a pipe would be read as text.
    if plain || !io::stdout().is_terminal() {
        return text.to_owned();
    }
    let code = match tone {
        Tone::Good => 32,
        Tone::Doubtful => 33,
        Tone::Bad => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}
