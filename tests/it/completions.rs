//! Completions of the command line: types lines into bash, zsh and fish on a terminal and presses Tab.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::appliance::{Appliance, playgate, run_json};
use crate::support::external_tools::program;
use crate::support::process::InTime as _;
use crate::terminal::on_terminal;

/// A shell that finds completions below the folder `share`, where packages install them.
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    /// The path of its script below `share`.
    script: &'static str,
    /// Makes an interactive shell load the script.
    setup: &'static str,
}

const SHELLS: [Shell; 3] = [
    Shell {
        name: "bash",
        arguments: &["--norc", "--noprofile", "-i"],
        script: "bash-completion/completions/playgate",
        setup: "source share/bash-completion/completions/playgate",
    },
    Shell {
        name: "zsh",
        arguments: &["-f", "-i"],
        script: "zsh/vendor-completions/_playgate",
        setup: "fpath=($PWD/share/zsh/vendor-completions $fpath); autoload -Uz compinit; compinit -u -D",
    },
    Shell {
        name: "fish",
        arguments: &["-i"],
        script: "fish/vendor_completions.d/playgate.fish",
        setup: "true",
    },
];

impl Shell {
    fn install(&self, folder: &Path) {
        let path = folder.join("share").join(self.script);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let script = playgate(folder)
            .args(["completions", self.name])
            .output_in_time();
        assert!(script.status.success());
        fs::write(path, script.stdout).unwrap();
    }

    /// Returns the last word of each line after Tab, without quotes. Returns `None` if the shell is not installed.
    fn completed(&self, folder: &Path, lines: &[&str]) -> Option<Vec<String>> {
        let place = folder.to_str().unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_playgate")).parent().unwrap();
        let mut shell = Command::new("env");
        shell
            .arg(format!("--chdir={place}"))
            .arg(program(self.name)?)
            .args(self.arguments)
            .env("HOME", folder)
            .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
            .env("XDG_DATA_DIRS", format!("{place}/share:/usr/share"))
            .env("TERM", "dumb")
            .env("LC_ALL", "C.UTF-8");
        // Ctrl-A moves to the start of the line, where a command is inserted that prints the words.
        let typed = |line: &&str| format!("{line}\t\u{1}printf '<%s>\\n' '#' \n");
        let typed: String = lines.iter().map(typed).collect();
        let (_, shown) = on_terminal(&shell, &format!("{}\n{typed}exit\n", self.setup))?;
        let printed: Vec<String> = shown
            .split("<#>\r\n")
            .skip(1)
            .filter_map(|words| {
                let words = words.lines().take_while(|line| line.starts_with('<'));
                let last = words.last()?.strip_prefix('<')?;
                Some(last.strip_suffix('>')?.to_owned())
            })
            .collect();
        assert_eq!(printed.len(), lines.len(), "{}: {shown}", self.name);
        Some(printed)
    }
}

/// Typed lines and their last word after completion.
const LINES: [(&str, &str); 17] = [
    ("playgate partn", "partner"),
    ("playgate --data-dir data partner show A", "Acme TV"),
    ("playgate --data-dir data partner show Acme\\ ", "Acme TV"),
    ("playgate --data-dir data partner show \"Acme T", "Acme TV"),
    ("playgate --data-dir data partner show Beta", "Beta"),
    ("playgate --data-dir=data user show b", "ben@example.org"),
    (
        "playgate --data-dir 'data' user show ben@e",
        "ben@example.org",
    ),
    ("playgate --data-dir data user show ben@f", "ben@f"),
    (
        "playgate --data-dir data user grant ben@example.org f",
        "free",
    ),
    (
        "playgate --data-dir data user why ben@example.org n",
        "news",
    ),
    (
        "playgate --data-dir data rights change --livestream=n",
        "--livestream=news",
    ),
    ("playgate --data-dir data operator remove a", "ann"),
    ("playgate --data-dir data catalog import c", "catalog.toml"),
    // A file of this name would be a scenario too.
    ("playgate lab run blacko", "blackout"),
    ("playgate requests list --route heartb", "heartbeat"),
    ("playgate requests list --code NOT_ENT", "NOT_ENTITLED"),
    (
        "playgate --data-dir data backup verify nothing-of-it",
        "nothing-of-it",
    ),
];

#[test]
fn bash_zsh_and_fish_complete_commands_and_the_names_that_the_running_server_knows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let data = folder.join("data");
    let catalog = "[[livestream]]\nid = \"news\"\nplaylist = { dash = \"https://cdn.example.org/n.mpd\" }\n\
                   [[offer]]\nid = \"free\"\ntype = \"default\"\npack = \"all\"\n";
    let file = folder.join("catalog.toml");
    fs::write(&file, catalog).unwrap();
    run_json(playgate(&data).args(["partner", "add", "Acme TV", "--json"]));
    run_json(playgate(&data).args(["operator", "add", "ann", "--role", "admin", "--json"]));
    run_json(playgate(&data).args(["user", "add", "ben@example.org", "--json"]));
    run_json(
        playgate(&data)
            .args(["catalog", "import", "--json"])
            .arg(file),
    );
    for shell in &SHELLS {
        shell.install(folder);
        // Without a server no names are completed, and the store is not opened.
        let line = "playgate --data-dir data partner show A";
        if let Some(words) = shell.completed(folder, &[line]) {
            assert_eq!(words, ["A"], "{} without a server", shell.name);
        }
    }
    let _server = Appliance::start(&data);
    for shell in &SHELLS {
        let Some(words) = shell.completed(folder, &LINES.map(|(line, _)| line)) else {
            continue;
        };
        for (word, (line, expected)) in words.iter().zip(LINES) {
            assert_eq!(word, expected, "{}: {line}", shell.name);
        }
    }
}
