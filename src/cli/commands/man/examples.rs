//! The examples of the manual pages: for each command what a user wants, and the line that does it.

pub(crate) type Example = (&'static str, &'static str);

/// Two lines for each example, the command line indented.
const TEXT: &str = include_str!("../../../../data/examples.txt");

/// Maximum number of examples shown for a group of commands.
const OF_GROUP: usize = 4;

fn all() -> impl Iterator<Item = Example> {
    let purposes = TEXT.lines().step_by(2);
    purposes.zip(TEXT.lines().skip(1).step_by(2).map(str::trim_start))
}

/// Returns the part of a line after the words of a command; `None` for another command.
fn rest<'a>(line: &'a str, command: &str) -> Option<&'a str> {
    let after = line.strip_prefix("playgate")?.trim_start();
    let after = after.strip_prefix(command)?;
    let is_whole = command.is_empty() || after.is_empty() || after.starts_with(' ');
    is_whole.then(|| after.trim_start())
}

pub(crate) fn of_command(command: &str) -> Vec<Example> {
    let matching = all().filter(|(_, line)| rest(line, command).is_some());
    matching.collect()
}

pub(crate) fn of_group(group: &str) -> Vec<Example> {
    let first_word = |line| rest(line, group).and_then(|rest| rest.split(' ').next());
    let mut shown: Vec<Example> = Vec::new();
    for (purpose, line) in of_command(group) {
        if shown.len() < OF_GROUP
            && !shown
                .iter()
                .any(|(_, other)| first_word(other) == first_word(line))
        {
            shown.push((purpose, line));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;
    use crate::tests::command_names;

    /// The words of a line up to a redirection or a pipe, as a shell passes them.
    fn words(line: &str) -> Vec<String> {
        let line = line.split(['>', '|']).next().unwrap_or(line);
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect()
    }

    #[test]
    fn every_command_has_an_example_that_the_command_line_accepts() {
        let commands = command_names(&|_| true);
        for command in &commands {
            assert!(!of_command(command).is_empty(), "{command}");
        }
        for (purpose, line) in all() {
            assert!(!purpose.starts_with(' '), "{purpose}");
            assert!(
                commands.iter().any(|name| rest(line, name).is_some()),
                "{line}"
            );
            let parsed = Arguments::try_parse_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
        }
        assert!(Arguments::try_parse_from(words("playgate backup creat")).is_err());
    }

    #[test]
    fn a_group_shows_one_example_of_each_of_its_first_commands() {
        let shown = of_group("backup");
        let second: Vec<_> = shown
            .iter()
            .filter_map(|(_, line)| line.split(' ').nth(2))
            .collect();
        assert_eq!(second, ["create", "list", "verify", "restore"]);
    }
}
