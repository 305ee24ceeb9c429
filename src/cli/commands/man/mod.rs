//! `playgate man`: manual pages, generated from the command definitions.

pub(crate) mod examples;

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use clap::Command;
use clap::builder::Resettable;

use crate::output::{self, CommandResult, EXIT_CODES, Failure};
use playgate_config::{KeyInfo, keys};
use playgate_types::VERSION;

pub(crate) fn run(directory: Option<&Path>, commands: Command) -> CommandResult {
    let command = documented(commands);
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
fn documented(commands: Command) -> Command {
    let mut commands = commands.disable_help_subcommand(true);
    commands.build();
    commands
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    // The text after the help would get a meaningless heading.
    let without_after_help = command.clone().after_help(Resettable::Reset);
    clap_mangen::Man::new(without_after_help)
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
    let file_name = clap_mangen::Man::new(command.clone()).get_filename();
    // The page of the program itself must not refer to itself.
    let program = if file_name == "playgate.1" {
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

fn pages(command: &Command, directory: &Path) -> io::Result<()> {
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
    use crate::help;

    fn helps(command: &mut Command, name: &str, out: &mut String) {
        let help = command.render_long_help();
        let _ = writeln!(out, "==== {name} --help\n{help}");
        for sub in command.get_subcommands_mut() {
            let name = format!("{name} {}", sub.get_name());
            helps(sub, &name, out);
        }
    }

    fn manual(command: &Command, out: &mut Vec<u8>) {
        out.extend(page(command).unwrap());
        for sub in command.get_subcommands() {
            manual(sub, out);
        }
    }

    /// Makes changes to the command line visible in review. `PLAYGATE_RENEW=1 cargo test --lib commands::man`
    /// rewrites the file.
    fn assert_golden(name: &str, text: &str) {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .join(format!("tests/it/golden/{name}"));
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
        helps(
            &mut documented(help::command()).term_width(100),
            "playgate",
            &mut text,
        );
        assert_golden("help.txt", &text);
    }

    #[test]
    fn manual_pages_match_the_golden_file() {
        let mut text = Vec::new();
        manual(&documented(help::command()), &mut text);
        text.extend(config_page().into_bytes());
        let text = String::from_utf8(text).unwrap();
        assert_golden("man.roff", &text.replace(VERSION, "VERSION"));
    }

    #[test]
    fn every_command_has_a_manual_page() {
        fn count(command: &Command) -> usize {
            1 + command.get_subcommands().map(count).sum::<usize>()
        }
        let folder = tempfile::tempdir().unwrap();
        run(Some(folder.path()), help::command()).unwrap();
        let pages: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        assert_eq!(
            pages.len(),
            count(&documented(help::command())) + 1,
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
