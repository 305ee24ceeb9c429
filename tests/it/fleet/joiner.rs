//! A fourth machine, whose member joins the fleet and leaves it again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;

use super::machines::{FOURTH, Machines, Process};
use super::{playgate, single_node_config, until};

const NAME: &str = "east";

pub struct Joiner {
    config: PathBuf,
    data: PathBuf,
    log: PathBuf,
    space: String,
    member: Option<Process>,
}

impl Joiner {
    pub fn new(fleet: &Machines) -> Self {
        let folder = fleet.folder();
        let joiner = Self {
            config: folder.join("east.toml"),
            data: folder.join(NAME),
            log: folder.join("member3.log"),
            space: fleet.space(FOURTH),
            member: None,
        };
        fs::write(&joiner.config, fleet.configuration(FOURTH, &joiner.data)).unwrap();
        joiner
    }

    /// `others` are the configurations of the members.
    pub fn join(&mut self, others: &[PathBuf]) {
        join(&self.config, NAME, others);
        let log = File::create(&self.log).unwrap();
        self.member = Some(Process::serve(&self.space, &self.config, log, None));
    }

    /// Waits until the member has everything, and makes it leave. Returns the e-mail addresses in its store.
    pub fn leave(&mut self, fleet: &Machines) -> Vec<String> {
        fleet.wait_until_so_many_are_equal(FOURTH + 1);
        self.member.take().unwrap().stop();
        playgate(&self.config, &["fleet", "leave"]).unwrap();
        let single_node = single_node_config(&self.config);
        playgate(&single_node, &["store", "verify"]).unwrap();
        let export = playgate(&single_node, &["store", "export", "-"]).unwrap();
        fs::remove_dir_all(&self.data).unwrap();
        let users = export.lines().filter(|line| line.starts_with("users\t"));
        users.map(email).collect()
    }
}

/// Joins as documented, also after a failed attempt. `others` are the configurations of the members.
pub fn join(config: &Path, name: &str, others: &[PathBuf]) {
    let ask = |arguments: &[&str]| {
        let mut others = others.iter();
        others.find_map(|config| playgate(config, arguments).ok())
    };
    let mut refused = String::new();
    let mut inviting = others.iter().cycle();
    until("a member that has joined", || {
        // Asks another member each time: one with a damaged store can invite, but cannot serve the copy.
        let word = playgate(inviting.next().unwrap(), &["fleet", "invite"]).ok()?;
        let join = ["fleet", "join", word.trim(), "--name", name];
        let Err(error) = playgate(config, &join) else {
            return Some(());
        };
        if error.contains("the fleet has a member") {
            ask(&["fleet", "leave", "--name", name]);
        }
        if error != refused {
            println!("{name} does not join: {error}");
            refused = error;
        }
        None
    });
}

/// Returns the e-mail address in a line of an export.
fn email(line: &str) -> String {
    const DOMAIN: &str = "@example.com";
    let value = line.split('\t').nth(2).unwrap();
    let value = BASE64.decode(value.as_bytes()).unwrap();
    let value = String::from_utf8_lossy(&value);
    let (before, _) = value.split_once(DOMAIN).unwrap();
    let parts = before.rsplit(|c: char| !c.is_ascii_alphanumeric());
    parts.take(1).collect::<String>() + DOMAIN
}
