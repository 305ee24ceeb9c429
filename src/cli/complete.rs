//! `playgate completions`: what a shell completes, made from the same definitions as the commands.

use clap::{CommandFactory as _, ValueEnum};

use super::exit::Outcome;
use super::{Arguments, output};

/// Shells that can be served.
#[derive(Clone, Copy, ValueEnum)]
pub enum Shell {
    /// GNU Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

/// Writes the completion script of a shell.
pub fn run(shell: Shell) -> Outcome {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "playgate", &mut script);
    output::bytes(&script)
}

/// Writes the man page.
pub fn man() -> Outcome {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command())
        .render(&mut page)
        .map_err(|error| super::exit::Failure::failed(error.to_string()))?;
    output::bytes(&page)
}
