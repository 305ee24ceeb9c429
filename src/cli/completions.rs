//! `playgate completions` and `playgate man`: shell completions and manual pages, generated from the
//! command definitions.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::builder::Resettable;
use clap::{CommandFactory as _, ValueEnum};

use super::exit::{CommandResult, Failure};
use super::{Arguments, EXIT_CODES, output};
use crate::types::VERSION;

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Shell {
    /// GNU Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}

pub(super) fn run(shell: Shell) -> CommandResult {
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "playgate", &mut script);
    output::bytes(&script)
}

/// Writes the manual page, or one page per command into a directory.
pub(super) fn man(directory: Option<&Path>) -> CommandResult {
    let command = documented();
    match directory {
        None => {
            let page = page(&command).map_err(|error| Failure::failed(error.to_string()))?;
            output::bytes(&page)
        }
        Some(directory) => fs::create_dir_all(directory)
            .and_then(|()| pages(&command, directory))
            .map_err(|error| Failure::failed(format!("{}: {error}", directory.display()))),
    }
}

/// The commands as the manual shows them, without the redundant `help` sub-commands.
fn documented() -> clap::Command {
    let mut commands = Arguments::command().disable_help_subcommand(true);
    commands.build();
    commands
}

fn page(command: &clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // The text after the help would get a meaningless heading.
    let own = command.clone().after_help(Resettable::Reset);
    clap_mangen::Man::new(own)
        // The same source for all pages instead of each command's name. An empty date would be dropped,
        // and the next field would take its place.
        .date(" ")
        .source(format!("Playgate {VERSION}"))
        .manual("Playgate")
        .render(&mut page)?;
    let (_, codes) = EXIT_CODES.split_once(": ").unwrap_or_default();
    writeln!(page, ".SH \"EXIT STATUS\"\n{codes}")?;
    writeln!(
        page,
        ".SH FILES\n.I /etc/playgate/playgate.toml\n.br\n.I /var/lib/playgate"
    )?;
    let own = clap_mangen::Man::new(command.clone()).get_filename();
    // The page of the program itself must not refer to itself.
    let program = if own == "playgate.1" {
        ""
    } else {
        ".BR playgate (1),\n"
    };
    writeln!(
        page,
        ".SH \"SEE ALSO\"\n{program}.I /usr/share/doc/playgate/docs"
    )?;
    Ok(page)
}

fn pages(command: &clap::Command, directory: &Path) -> io::Result<()> {
    let name = clap_mangen::Man::new(command.clone()).get_filename();
    fs::write(directory.join(name), page(command)?)?;
    command
        .get_subcommands()
        .try_for_each(|sub| pages(sub, directory))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Concatenates the help texts of all commands.
    fn helps(command: &mut clap::Command, name: &str, out: &mut String) {
        let help = command.render_long_help();
        let _ = writeln!(out, "==== {name} --help\n{help}");
        for sub in command.get_subcommands_mut() {
            let name = format!("{name} {}", sub.get_name());
            helps(sub, &name, out);
        }
    }

    /// Concatenates the manual pages of all commands.
    fn manual(command: &clap::Command, out: &mut Vec<u8>) {
        out.extend(page(command).unwrap());
        for sub in command.get_subcommands() {
            manual(sub, out);
        }
    }

    /// Makes changes to the command line visible in review. `PLAYGATE_RENEW=1 cargo test --lib completions`
    /// rewrites the file.
    fn assert_golden(name: &str, text: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/golden/{name}"));
        if std::env::var_os("PLAYGATE_RENEW").is_some() {
            fs::write(&path, text).unwrap();
        }
        let golden = fs::read_to_string(&path).unwrap_or_default();
        let differs = golden.lines().zip(text.lines()).position(|(a, b)| a != b);
        assert!(
            golden == text,
            "{name} differs, first at line {:?}: {:?} is now {:?}",
            differs.map(|at| at + 1),
            differs.and_then(|at| golden.lines().nth(at)),
            differs.and_then(|at| text.lines().nth(at)),
        );
    }

    #[test]
    fn help_texts_match_the_golden_file() {
        let mut text = String::new();
        helps(&mut documented().term_width(100), "playgate", &mut text);
        assert_golden("help.txt", &text);
    }

    #[test]
    fn manual_pages_match_the_golden_file() {
        let mut text = Vec::new();
        manual(&documented(), &mut text);
        let text = String::from_utf8(text).unwrap();
        assert_golden("man.roff", &text.replace(VERSION, "VERSION"));
    }

    #[test]
    fn every_command_has_a_manual_page() {
        fn count(command: &clap::Command) -> usize {
            1 + command.get_subcommands().map(count).sum::<usize>()
        }
        let folder = tempfile::tempdir().unwrap();
        man(Some(folder.path())).unwrap();
        let pages: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(pages.len(), count(&documented()));
        for page in &pages {
            let text = fs::read_to_string(page).unwrap();
            assert!(text.contains("\"Playgate 0."), "{text}");
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
                assert!(text.contains(section), "{section} in {}", page.display());
            }
        }
        let leaf = fs::read_to_string(folder.path().join("playgate-backup-restore.1")).unwrap();
        assert!(leaf.contains("\\-\\-adopt"), "{leaf}");
    }
}
