//! A fourth machine, whose member joins the fleet and leaves it again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use data_encoding::BASE64;

use super::machines::{FOURTH, Machines, Process};
use super::{alone, playgate, until};

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

    /// `others` are the members' configurations.
    pub fn join(&mut self, others: &[PathBuf]) {
        join(&self.config, NAME, others);
        let log = File::create(&self.log).unwrap();
        self.member = Some(Process::serve(&self.space, &self.config, log, None));
    }

    /// Follows to the end of the log, and leaves. Returns the emails of the users in its store.
    pub fn leave(&mut self, fleet: &Machines) -> Vec<String> {
        fleet.wait_until_so_many_are_equal(FOURTH + 1);
        self.member.take().unwrap().stop();
        playgate(&self.config, &["fleet", "leave"]).unwrap();
        let alone = alone(&self.config);
        playgate(&alone, &["store", "verify"]).unwrap();
        let export = playgate(&alone, &["store", "export", "-"]).unwrap();
        fs::remove_dir_all(&self.data).unwrap();
        let users = export.lines().filter(|line| line.starts_with("users\t"));
        users.map(email).collect()
    }
}

/// Does what the documentation says, also after an attempt that failed. `others` are the members' configurations.
pub fn join(config: &Path, name: &str, others: &[PathBuf]) {
    let ask = |arguments: &[&str]| {
        let mut others = others.iter();
        others.find_map(|config| playgate(config, arguments).ok())
    };
    let mut refused = String::new();
    let mut inviting = others.iter().cycle();
    until("a member that has joined", || {
        // Another one each time: one whose store is damaged invites, and is not there to answer.
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

/// What is before the domain in a line of an export, up to a byte that these emails do not have.
fn email(line: &str) -> String {
    const DOMAIN: &str = "@example.com";
    let value = line.split('\t').nth(2).unwrap();
    let value = BASE64.decode(value.as_bytes()).unwrap();
    let value = String::from_utf8_lossy(&value);
    let (before, _) = value.split_once(DOMAIN).unwrap();
    let parts = before.rsplit(|c: char| !c.is_ascii_alphanumeric());
    parts.take(1).collect::<String>() + DOMAIN
}
