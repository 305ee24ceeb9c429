//! Commands that ask for confirmation at a terminal before they remove anything.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::appliance::{playgate, run_json};
use crate::support::external_tools::program;
use crate::support::process::InTime as _;

/// Runs a command on its own terminal with this input. Returns its exit code and the terminal's content. `None` if
/// `script`, which opens the terminal, is not installed.
pub fn on_terminal(command: &Command, input: &str) -> Option<(i32, String)> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<String> = words
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mut script = Command::new(program("script")?);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let mut script = script
        .args([
            "--quiet",
            "--return",
            "--command",
            &words.join(" "),
            "/dev/null",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    script
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = script.output_in_time();
    let screen = String::from_utf8(output.stdout).unwrap();
    Some((output.status.code().unwrap(), screen))
}

/// Returns the number of livestreams in the catalogue.
fn livestreams(data: &Path) -> usize {
    let output = playgate(data).args(["catalog", "export"]).output_in_time();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.matches("[[livestream]]").count()
}

#[test]
fn a_held_import_asks_for_confirmation_at_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = |name: &str, count: usize| {
        let entries = (0..count).map(|n| format!("[[livestream]]\nid = \"l{n}\"\nname = \"L\"\n"));
        let path = folder.path().join(name);
        fs::write(&path, entries.collect::<String>()).unwrap();
        path
    };
    let (all, less) = (file("all.toml", 10), file("less.toml", 2));
    let import = |file: &Path| {
        let mut command = playgate(&data);
        command.args(["catalog", "import"]).arg(file);
        command
    };
    assert!(import(&all).output_in_time().status.success());
    for refusal in ["n\n", "\n", "yess\n", ""] {
        let Some((code, screen)) = on_terminal(&import(&less), refusal) else {
            return;
        };
        assert_ne!(code, 0, "{refusal:?}: {screen}");
        assert!(
            screen.contains("it removes 8 of 10 livestreams"),
            "{screen}"
        );
        assert!(screen.contains("Import anyway? [y/N]"), "{screen}");
        assert!(
            screen.contains("--accept") && screen.contains("--merge"),
            "{screen}"
        );
        assert_eq!(livestreams(&data), 10, "{refusal:?}");
    }
    // With `--json` the command does not ask.
    let mut as_json = import(&less);
    as_json.arg("--json");
    let (code, screen) = on_terminal(&as_json, "y\n").unwrap();
    assert!(code != 0 && !screen.contains("[y/N]"), "{screen}");
    assert_eq!(livestreams(&data), 10);
    // Without a terminal it does not ask either.
    let output = import(&less).output_in_time();
    assert!(!output.status.success());
    assert!(!String::from_utf8_lossy(&output.stderr).contains("[y/N]"));
    assert_eq!(livestreams(&data), 10);

    let (code, screen) = on_terminal(&import(&less), "y\n").unwrap();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("8 removed"), "{screen}");
    assert_eq!(livestreams(&data), 2);
}

#[test]
fn removing_a_user_asks_for_confirmation_at_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = |arguments: &[&str]| run_json(playgate(&data).args(arguments));
    run(&["partner", "add", "Acme", "--json"]);
    run(&["user", "add", "ann@example.com", "--json"]);
    let mut partner = playgate(&data);
    partner.args(["partner", "remove", "Acme"]);
    if let Some((code, screen)) = on_terminal(&partner, "n\n") {
        assert!(code != 0 && screen.contains("its users (1)"), "{screen}");
    }
    let mut remove = playgate(&data);
    remove.args(["user", "remove", "ann@example.com"]);
    let users = || {
        run(&["user", "list", "--json"])[0]
            .as_array()
            .unwrap()
            .len()
    };
    let Some((code, screen)) = on_terminal(&remove, "n\n") else {
        return;
    };
    assert!(code != 0 && screen.contains("[y/N]"), "{screen}");
    assert_eq!(users(), 1);
    let (code, screen) = on_terminal(&remove, "yes\n").unwrap();
    assert_eq!(code, 0, "{screen}");
    assert_eq!(users(), 0);
}
