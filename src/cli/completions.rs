//! `playgate completions` and `playgate man`: shell completions and manual pages, generated from the
//! command definitions.
//!
//! The script of a shell calls this program back with the line so far, so that it can complete names that
//! only the server knows.

mod names;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::builder::Resettable;
use clap::{CommandFactory as _, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::{self, EnvCompleter};

use super::examples;
use super::exit::{CommandResult, Failure};
use super::{Arguments, EXIT_CODES, output};
use crate::config::{KeyInfo, keys};
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
    let script = match shell {
        // Not the script of clap, which treats the parts of an e-mail address as separate words.
        Shell::Bash => include_bytes!("completions/playgate.bash").to_vec(),
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
pub(super) fn complete_for_shell() {
    let line: Vec<OsString> = std::env::args_os().map(unquoted).collect();
    let commands = || names::complete(Arguments::command(), &line);
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

pub(super) fn man(directory: Option<&Path>) -> CommandResult {
    let command = documented();
    match directory {
        None => {
            let page = page(&command).map_err(|error| Failure::failed(error.to_string()))?;
            output::bytes(&page)
        }
        Some(directory) => fs::create_dir_all(directory)
            .and_then(|()| pages(&command, directory))
            .and_then(|()| fs::write(directory.join(CONFIG_PAGE), config_page()))
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
    let name = command.get_bin_name().unwrap_or_default();
    let name = name.strip_prefix("playgate").unwrap_or_default().trim();
    writeln!(page, ".SH EXAMPLES")?;
    let shown = match command.has_subcommands() {
        true => examples::of_group(name),
        false => examples::of_command(name),
    };
    for (purpose, line) in shown {
        writeln!(
            page,
            ".PP\n{}:\n.PP\n.RS\n.B {}\n.RE",
            roff(purpose),
            roff(line)
        )?;
    }
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
        ".SH \"SEE ALSO\"\n{program}.BR playgate.toml (5),\n.I /usr/share/doc/playgate/docs"
    )?;
    Ok(page)
}

/// Escapes the text of a line of a manual page: a hyphen stays one when it is copied, and a leading dot or quote does
/// not begin a request.
fn roff(text: &str) -> String {
    let escaped = text.replace('\\', "\\e").replace('-', "\\-");
    // A macro takes quotes for itself.
    let escaped = escaped.replace('"', "\\(dq");
    if escaped.starts_with(['.', '\'']) {
        format!("\\&{escaped}")
    } else {
        escaped
    }
}

const CONFIG_PAGE: &str = "playgate.toml.5";

fn config_page() -> String {
    let head = format!(
        ".TH playgate.toml 5 \" \" \"Playgate {VERSION}\" Playgate\n\
         .SH NAME\nplaygate.toml \\- configuration of Playgate\n\
         .SH SYNOPSIS\n.I /etc/playgate/playgate.toml\n\
         .SH DESCRIPTION\nA TOML file. An environment variable overrides a key of the file, and a flag both. \
         A secret may be the path of a file in KEY_file, or a systemd credential with the key's name.\n\
         .B playgate config check\nlists all mistakes with their lines.\n\
         .SH EXAMPLES\n.PP\nServe clients at a public address behind a proxy:\n.PP\n.RS\n.nf\n\
         public_url = \"https://tv.example\"\nlisten = [\"127.0.0.1:8080\"]\n.fi\n.RE\n\
         .SH KEYS\n"
    );
    let tail =
        ".SH \"SEE ALSO\"\n.BR playgate (1),\n.I /usr/share/doc/playgate/docs/operating.md\n";
    let keys: String = keys().map(|key| config_entry(&key)).collect();
    format!("{head}{keys}{tail}")
}

fn config_entry(key: &KeyInfo) -> String {
    let default = match key.default {
        Some(default) => format!("Default: {}. ", roff(default)),
        None => String::new(),
    };
    let secret = if key.secret { " A secret." } else { "" };
    format!(
        ".TP\n.B {}\n{}{secret} {default}Environment: {}.\n",
        roff(&key.key),
        roff(key.doc),
        key.variable
    )
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

    fn helps(command: &mut clap::Command, name: &str, out: &mut String) {
        let help = command.render_long_help();
        let _ = writeln!(out, "==== {name} --help\n{help}");
        for sub in command.get_subcommands_mut() {
            let name = format!("{name} {}", sub.get_name());
            helps(sub, &name, out);
        }
    }

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
        text.extend(config_page().into_bytes());
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
        assert_eq!(
            pages.len(),
            count(&documented()) + 1,
            "and the one of the file"
        );
        for page in &pages {
            let text = fs::read_to_string(page).unwrap();
            assert!(text.contains("\"Playgate 0."), "{text}");
            for section in [
                ".SH NAME",
                ".SH SYNOPSIS",
                ".SH DESCRIPTION",
                ".SH EXAMPLES\n.PP",
            ] {
                assert!(text.contains(section), "{section} in {}", page.display());
            }
        }
        let leaf = fs::read_to_string(folder.path().join("playgate-backup-restore.1")).unwrap();
        assert!(leaf.contains("\\-\\-adopt"), "{leaf}");
    }
}
