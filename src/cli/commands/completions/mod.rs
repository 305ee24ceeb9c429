//! `playgate completions`: shell completions, generated from the command definitions.
//!
//! The script of a shell calls this program back with the line so far, so that it can complete names that
//! only the server knows.

mod names;

use std::ffi::OsString;

use clap::{Command, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{self, EnvCompleter};

use crate::output::{self, CommandResult, Failure};

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    /// GNU Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

pub(crate) fn run(shell: Shell) -> CommandResult {
    let script = match shell {
        // Not the script of clap, which treats the parts of an e-mail address as separate words.
        Shell::Bash => include_bytes!("playgate.bash").to_vec(),
        // Zsh loads the file from its function path at the first completion. The script of clap would then only
        // register itself, so this line also completes.
        Shell::Zsh => [
            registration(&env::Zsh)?,
            b"\n[[ $funcstack[1] != _playgate ]] || _clap_dynamic_completer_playgate \"$@\"\n"
                .to_vec(),
        ]
        .concat(),
        Shell::Fish => registration(&env::Fish)?,
    };
    output::bytes(&script)
}

/// Returns the completion script of clap, which calls this program for candidates.
fn registration(shell: &dyn EnvCompleter) -> Result<Vec<u8>, Failure> {
    let mut script = Vec::new();
    let [name, program, completer] = ["playgate"; 3];
    shell
        .write_registration(SHELL_VARIABLE, name, program, completer, &mut script)
        .map_err(|error| Failure::failed(error.to_string()))?;
    Ok(script)
}

/// The environment variable with the name of the shell that asks for completions.
const SHELL_VARIABLE: &str = "COMPLETE";

/// If the script of a shell started this process, prints completions for it and ends the process.
pub(crate) fn complete_for_shell(commands: fn() -> Command) {
    let line: Vec<OsString> = std::env::args_os().map(unquoted).collect();
    let commands = || names::complete(commands(), &line);
    let completed = CompleteEnv::with_factory(commands)
        .var(SHELL_VARIABLE)
        .try_complete(line.clone(), std::env::current_dir().ok().as_deref());
    match completed {
        Ok(true) => std::process::exit(0),
        Ok(false) => {}
        Err(error) => error.exit(),
    }
}

/// Removes the quotes and escapes that a word was typed with. The last quote may still be open.
fn unquoted(word: OsString) -> OsString {
    let Some(text) = word.to_str() else {
        return word;
    };
    let (mut plain, mut quote) = (String::new(), None);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if quote != Some('\'') => plain.extend(characters.next()),
            '"' | '\'' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            _ => plain.push(character),
        }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_lose_the_quotes_that_they_were_typed_with() {
        for (typed, plain) in [
            ("news", "news"),
            (r"Acme\ TV", "Acme TV"),
            ("\"Acme T", "Acme T"),
            ("'Acme TV'", "Acme TV"),
            ("--partner=\"Acme TV\"", "--partner=Acme TV"),
            (r"O\'Neil", "O'Neil"),
            (r#"'a\"b'"#, r#"a\"b"#),
            ("\\", ""),
        ] {
            assert_eq!(unquoted(typed.into()), plain, "{typed}");
        }
    }
}
