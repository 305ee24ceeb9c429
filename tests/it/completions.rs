//! Completions of the command line: lines typed into bash, zsh and fish on a terminal, with the Tab key at their ends.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::appliance::{Appliance, playgate, told};
use crate::support::external_tools::program;
use crate::support::process::InTime as _;
use crate::terminal::on_terminal;

/// A shell that finds the completions where packages install them, below the folder `share`.
struct Shell {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Where its script is installed, below `share`.
    script: &'static str,
    /// What makes an interactive shell of Debian find it.
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

    /// The last words of lines after the Tab key, without quotes; `None` without this shell.
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
        // Ctrl-A goes to the beginning of the line, where a command that prints the words is put.
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

/// Lines, and what their last words become.
const LINES: [(&str, &str); 13] = [
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
        "playgate --data-dir data rights set --livestream=n",
        "--livestream=news",
    ),
    ("playgate --data-dir data operator revoke a", "ann"),
    ("playgate --data-dir data catalog import c", "catalog.toml"),
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
    told(playgate(&data).args(["partner", "add", "Acme TV", "--json"]));
    told(playgate(&data).args(["operator", "add", "ann", "--role", "admin", "--json"]));
    told(playgate(&data).args(["user", "add", "ben@example.org", "--json"]));
    told(
        playgate(&data)
            .args(["catalog", "import", "--json"])
            .arg(file),
    );
    for shell in &SHELLS {
        shell.install(folder);
        // Without a server there are no names, and no store is opened.
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
