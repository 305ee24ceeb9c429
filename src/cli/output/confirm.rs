//! Asks the user before a command goes on.

use std::io::{self, BufRead as _, IsTerminal as _};

use super::failure::Failure;
use super::stream::{progress, watched};

/// Asks for confirmation on a terminal. Without a terminal, as in a script, the answer is yes.
pub(crate) fn confirmed(question: &str) -> bool {
    // A script cannot answer, and has chosen its command on purpose.
    if !can_ask() {
        return true;
    }
    progress(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    // Any other answer means no, and so does the end of the input.
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_ascii_lowercase().as_str())
}

/// Asks before data is removed permanently. `what` says what the command does, such as "removes ann".
pub(crate) fn confirm_removal(yes: bool, what: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    // A script with a wrong id must not remove anything unless it passes `--yes`.
    if !can_ask() {
        let why = format!("this {what}; no terminal to confirm on");
        return Err(Failure::usage(why).hint("add `--yes` to confirm"));
    }
    if confirmed(&format!("This {what}. Continue?")) {
        return Ok(());
    }
    Err(Failure::failed("cancelled: nothing was removed"))
}

pub(crate) fn can_ask() -> bool {
    watched() && io::stdin().is_terminal()
}
