//! What `--help` adds to the definitions of the commands: groups, examples, and the values of arguments in synopses.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::builder::styling::Style;
use clap::{Arg, Command, CommandFactory as _};

use crate::arguments::Arguments;
use crate::commands::man::examples;

struct Group {
    name: &'static str,
    commands: &'static [&'static str],
    example: &'static str,
}

/// The groups of commands. An operator needs the first ones first.
const GROUPS: [Group; 7] = [
    Group {
        name: "Run",
        commands: &[
            "demo",
            "serve",
            "config",
            "doctor",
            "healthcheck",
            "upgrade",
        ],
        example: "playgate serve --config playgate.toml",
    },
    Group {
        name: "Users",
        commands: &["partner", "operator", "user", "mail"],
        example: "playgate user grant ann@example.com premium",
    },
    Group {
        name: "Content",
        commands: &["catalog", "epg", "rights", "rule"],
        example: "playgate catalog import catalog.toml --dry-run",
    },
    Group {
        name: "Find out",
        commands: &["requests", "audit", "telemetry"],
        example: "playgate requests list --status 4xx --from -15m",
    },
    Group {
        name: "Lab",
        commands: &["lab", "clock"],
        example: "playgate lab run blackout",
    },
    Group {
        name: "Store",
        commands: &["backup", "store"],
        example: "playgate backup create",
    },
    Group {
        name: "Fleet",
        commands: &["fleet"],
        example: "playgate fleet status",
    },
];
/// Commands for packages and shells, which are listed last.
const OTHERS: [&str; 2] = ["completions", "man"];

/// Characters of values that a synopsis names. Longer lists stay in the description of the argument.
const VALUES_MAX: usize = 48;

const HEADING: Style = Style::new().bold().underline();
const LITERAL: Style = Style::new().bold();

/// The whole command line.
pub(crate) fn command() -> Command {
    let command = described(Arguments::command(), "");
    let groups = listed(&command);
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{HEADING}Options:{HEADING:#}\n{{options}}{{after-help}}"
    );
    command.help_template(StyledStr::from(template))
}

/// Adds examples and values to a command and those below it.
fn described(command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    let command = names.into_iter().fold(command, |command, name| {
        let path = format!("{path} {name}");
        command.mut_subcommand(name, |sub| described(sub, path.trim_start()))
    });
    let command = command.mut_args(with_values);
    // The program itself has its exit codes there.
    match path {
        "" => command,
        path => {
            let shown = match command.has_subcommands() {
                true => examples::of_group(path),
                false => examples::of_command(path),
            };
            let mut text = format!("{HEADING}Examples:{HEADING:#}\n");
            for (purpose, line) in shown {
                let _ = writeln!(text, "  {purpose}:\n    {line}");
            }
            command.after_help(StyledStr::from(text.trim_end().to_owned()))
        }
    }
}

/// Names the values of an argument in its synopsis, in place of the name that it has by default.
fn with_values(argument: Arg) -> Arg {
    let id = argument.get_id().as_str().to_uppercase();
    let unnamed = matches!(argument.get_value_names(), Some([name]) if name.as_str() == id);
    if !unnamed || !argument.get_action().takes_values() {
        return argument;
    }
    let values = argument.get_possible_values();
    let values: Vec<&str> = values
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .collect();
    let values = values.join("|");
    match values.is_empty() || values.len() > VALUES_MAX {
        true => argument,
        // The definitions live as long as the process.
        false => argument.value_name(&*values.leak()),
    }
}

fn listed(command: &Command) -> String {
    let mut text = String::new();
    let mut list = |heading: &str, names: &[&str]| {
        let _ = writeln!(text, "{HEADING}{heading}:{HEADING:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {LITERAL}{name:<11}{LITERAL:#}  {about}");
        }
        text.push('\n');
    };
    for group in &GROUPS {
        list(group.name, group.commands);
    }
    list("Others", &OTHERS);
    let _ = writeln!(text, "{HEADING}Examples:{HEADING:#}");
    for group in &GROUPS {
        let _ = writeln!(text, "  {:<10}{}", group.name, group.example);
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = command();
        let grouped = GROUPS
            .iter()
            .flat_map(|group| group.commands)
            .chain(&OTHERS);
        let mut grouped: Vec<&str> = grouped.copied().collect();
        let mut all: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        grouped.sort_unstable();
        all.sort_unstable();
        assert_eq!(grouped, all);
    }

    #[test]
    fn examples_of_groups_are_accepted() {
        for group in &GROUPS {
            let words = group.example.split(' ');
            let parsed = command().try_get_matches_from(words);
            assert!(
                parsed.is_ok(),
                "{}: {}",
                group.example,
                parsed.err().unwrap()
            );
            let word = group.example.split(' ').nth(1).unwrap();
            assert!(group.commands.contains(&word), "{}", group.example);
        }
    }

    #[test]
    fn a_synopsis_names_its_values() {
        let mut command = command();
        command.build();
        let usage = |path: &[&str]| {
            let found = path
                .iter()
                .try_fold(&command, |at, name| at.find_subcommand(name));
            found.unwrap().clone().render_usage().to_string()
        };
        assert!(usage(&["completions"]).contains("<bash|zsh|fish>"));
        assert!(
            usage(&["mail", "preview"]).contains("<reset|password-changed|email-changed|pin|test>")
        );
    }
}
