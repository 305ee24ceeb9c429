//! Two of three machines are gone for good, and with them the majority of etcd.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::operations::{by_email, sign_up};
use super::stale_reads::User;
use super::trial::Fleet;
use super::{playgate, send, until};
use crate::support::process::{KilledOnDrop, signal};

/// Starts an etcd with these arguments, and waits until it answers.
fn start_again(url: &str, arguments: &[String], more: &[&str]) -> KilledOnDrop {
    let start = || {
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).args(more);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null());
        KilledOnDrop(command.stderr(Stdio::null()).spawn().unwrap())
    };
    let address = url["http://".len()..].parse().unwrap();
    let mut etcd = start();
    until("etcd", || {
        // The killed one may still have the ports.
        if etcd.try_wait().unwrap().is_some() {
            etcd = start();
        }
        let (_, body) = send(address, "GET", "/health", &[], "")?;
        body.contains("true").then_some(())
    });
    etcd
}

fn arguments(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
    let words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8(word.to_vec()).unwrap())
        .collect()
}

/// The procedure of the page.
#[test]
fn a_fleet_continues_on_the_one_machine_that_is_left() {
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    assert_eq!(sign_up(&fleet, "before@example.com"), Some(200));
    fleet.wait_until_equal();
    // The commands of the other tests run on the first member too.
    let left = 0;
    for lost in [1, 2] {
        fleet.members[lost].process.kill();
        assert!(signal(fleet.etcd_pid(lost), Signal::KILL));
    }
    let member = &mut fleet.members[left];
    member.process.stop();
    let etcd = arguments(fleet.etcd_pid(left));
    assert!(signal(fleet.etcd_pid(left), Signal::KILL));

    let url = fleet.etcd[left].clone();
    drop(start_again(&url, &etcd, &["--force-new-cluster"]));
    let _etcd = start_again(&url, &etcd, &[]);
    let member = &mut fleet.members[left];
    member.process.start(&member.config, &[]);
    assert_eq!(fleet.owner(), left);
    for lost in [1, 2] {
        let leave = ["fleet", "leave", "--name", &fleet.members[lost].name];
        playgate(&fleet.members[left].config, &leave).unwrap();
    }
    assert_eq!(fleet.status().len(), 1);
    let address = fleet.members[left].address;
    until("the user of before", || {
        by_email(&fleet, left, "POST", "before@example.com").filter(|status| *status == 200)
    });
    User::sign_up(&fleet, address, "after@example.com");
    // Others join as at first.
    playgate(&fleet.members[left].config, &["fleet", "invite"]).unwrap();
}
