//! An etcd that takes no change, because its database has reached the quota.

use std::process::Command;

use serde_json::{Value, json};

use super::etcd_data::{ask, encode};
use super::operations::{doctor, sign_up};
use super::trial::Fleet;
use super::until;
use crate::support::appliance::err;
use crate::support::external_tools::program;
use crate::support::process::InTime as _;

/// What an operator reads at night.
const PAGE: &str = include_str!("../../../docs/fleet.md");

/// The commands of the page, on the etcd of a fleet.
fn remedy(endpoints: &str) -> String {
    let (_, part) = PAGE.split_once("**etcd is full:**").unwrap();
    let (_, block) = part.split_once("```console\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().map(str::trim);
    let commands = lines.filter_map(|line| line.strip_prefix("$ "));
    // This etcd has no login. `set_up_page` runs the commands on one that has.
    let commands = commands.filter(|line| !line.contains("ETCDCTL_USER"));
    let commands = commands.map(|line| match line.split_once("ETCDCTL_ENDPOINTS=") {
        Some((before, _)) => format!("{before}ETCDCTL_ENDPOINTS={endpoints}"),
        None => line.to_owned(),
    });
    commands.collect::<Vec<_>>().join("\n")
}

/// Lets another user of this etcd rewrite one key until the quota is reached.
fn fill(endpoint: &str) {
    let value = encode(&"x".repeat(256 * 1024));
    until("the quota", || {
        let put = json!({ "key": encode("other/user"), "value": value });
        let answer = ask(endpoint, "/v3/kv/put", &put);
        is_full(&answer).then_some(())
    });
}

fn is_full(answer: &Value) -> bool {
    let refused = answer["error"].as_str();
    refused.is_some_and(|why| why.contains("database space exceeded"))
}

#[test]
fn the_commands_of_the_page_mend_a_full_etcd() {
    if program("etcdctl").is_none() {
        return;
    }
    let quota = (16 << 20).to_string();
    let Some(fleet) = Fleet::with(&[("ETCD_QUOTA_BACKEND_BYTES", &quota)]) else {
        return;
    };
    assert_eq!(sign_up(&fleet, "before@example.com"), Some(200));
    fill(&fleet.etcd[0]);
    let mut number = 0;
    until("a refusal", || {
        number += 1;
        (sign_up(&fleet, &format!("full-{number}@example.com")) == Some(503)).then_some(())
    });
    let found = doctor(&fleet.members[0].config);
    let names_it = |finding: &Value| finding.to_string().contains("NOSPACE");
    assert!(found.iter().any(names_it), "{found:?}");

    let mut shell = Command::new("sh");
    let mended = shell
        .args(["-ec", &remedy(&fleet.etcd.join(","))])
        .output_in_time();
    assert!(mended.status.success(), "{}", err(&mended));
    until("a sign-up", || {
        (sign_up(&fleet, "room@example.com") == Some(200)).then_some(())
    });
    // Not only for as long as the alarm takes to come back.
    let value = "x".repeat(100);
    for at in 0..200 {
        let put = json!({ "key": encode("other/user"), "value": encode(&value) });
        let answer = ask(&fleet.etcd[0], "/v3/kv/put", &put);
        assert!(!is_full(&answer), "{at}: {answer}");
    }
    until("another sign-up", || {
        (sign_up(&fleet, "after@example.com") == Some(200)).then_some(())
    });
}
