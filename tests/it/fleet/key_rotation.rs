//! The key of the members is replaced while they run.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::operations::doctor;
use super::stale_reads::User;
use super::trial::Fleet;
use super::{playgate, until};
use crate::support::appliance::{binary, err};
use crate::support::process::InTime as _;
use crate::support::stop_on_drop::StopOnDrop;

/// A longer lease than usual, so that a busy machine does not lose it: there are no answers without an owner. And a secret, which
/// members compare by a digest.
const SETTINGS: [(&str, &str); 5] = [
    ("PLAYGATE_FLEET_LEASE", "8s"),
    ("PLAYGATE_SMTP_HOST", "127.0.0.1"),
    ("PLAYGATE_SMTP_USERNAME", "mailer"),
    ("PLAYGATE_SMTP_PASSWORD", "the same everywhere"),
    ("PLAYGATE_MAIL_FROM", "playgate@example.org"),
];

fn data(config: &Path) -> PathBuf {
    config.with_extension("")
}

fn member_file(config: &Path) -> String {
    fs::read_to_string(data(config).join("fleet/member.json")).unwrap()
}

fn key(file: &str) -> String {
    let file: Value = serde_json::from_str(file).unwrap();
    file["key"].as_str().unwrap().to_owned()
}

fn keys(fleet: &Fleet) -> Vec<String> {
    let members = fleet.members.iter();
    members
        .map(|member| key(&member_file(&member.config)))
        .collect()
}

#[test]
fn members_get_a_new_key_while_they_serve_and_the_old_one_is_worth_nothing() {
    let Some(mut fleet) = Fleet::with(&SETTINGS) else {
        return;
    };
    let owner = fleet.owner();
    let (standby, other) = ((owner + 1) % 3, (owner + 2) % 3);
    let config_of = |fleet: &Fleet, at: usize| fleet.members[at].config.clone();
    let config = config_of(&fleet, standby);
    let word = playgate(&config, &["fleet", "invite"]).unwrap();
    let stolen = member_file(&config);
    let before = keys(&fleet);
    assert!(before.iter().all(|key| *key == before[0]));

    // One member does not run: nothing changes anywhere.
    fleet.members[other].process.stop();
    let refused = playgate(&config, &["fleet", "rotate-key"]).unwrap_err();
    assert!(refused.contains(&fleet.members[other].name), "{refused}");
    assert_eq!(keys(&fleet), before);
    for member in &fleet.members {
        assert!(!data(&member.config).join("fleet/next-key.json").exists());
    }
    let its_config = config_of(&fleet, other);
    fleet.members[other].process.start(&its_config, &SETTINGS);
    fleet.wait_until_equal();

    // Changes and reads at a standby go to the owner, or ask it, over connections with the key.
    let address = fleet.members[standby].address;
    let user = User::sign_up(&fleet, address, "rotation@example.com");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        scope.spawn(|| {
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let name = format!("name {number}");
                assert_eq!(user.rename(address, &name), Some(200));
                let (status, body) = user.read(address).unwrap();
                assert!(status == 200 && body.contains(&name), "{status} {body}");
            }
        });
        let rotated = playgate(&config, &["fleet", "rotate-key", "--json"]).unwrap();
        let rotated: Value = serde_json::from_str(&rotated).unwrap();
        assert_eq!(rotated["members"], 3);
    });
    let after = keys(&fleet);
    assert!(
        after
            .iter()
            .all(|key| *key == after[0] && *key != before[0])
    );

    // Who has the old key is no member, and an invitation with it admits nobody.
    let place = tempfile::tempdir().unwrap();
    let thief = place.path().join("thief.toml");
    let text = fs::read_to_string(&config).unwrap();
    let own_data = data(&config);
    let text = text.replace(
        &format!("data_dir = \"{}\"", own_data.display()),
        &format!("data_dir = \"{}\"", data(&thief).display()),
    );
    fs::write(&thief, &text).unwrap();
    let join = |word: &str| playgate(&thief, &["fleet", "join", word.trim(), "--name", "fourth"]);
    let refused = join(&word).unwrap_err();
    assert!(refused.contains("has another key"), "{refused}");
    fs::create_dir_all(data(&thief).join("fleet")).unwrap();
    fs::write(data(&thief).join("fleet/member.json"), stolen).unwrap();
    let refused = playgate(&thief, &["fleet", "reseed"]).unwrap_err();
    assert!(refused.contains("has another key"), "{refused}");

    // A member that starts again, and one that joins, have the new key.
    fs::remove_dir_all(data(&thief)).unwrap();
    fleet.members[standby].process.stop();
    fleet.members[standby].process.start(&config, &SETTINGS);
    fleet.wait_until_equal();
    assert_eq!(differing(&config), Vec::<Value>::new());
    let word = playgate(&config_of(&fleet, owner), &["fleet", "invite"]).unwrap();
    join_by_standard_input(&thief, &word);
    assert_eq!(key(&member_file(&thief)), after[0]);
    playgate(&config, &["fleet", "leave", "--name", "fourth"]).unwrap();
    fleet.wait_until_equal();

    // Control.
    let mut settings = SETTINGS;
    settings[3].1 = "another";
    fleet.members[standby].process.stop();
    fleet.members[standby].process.start(&config, &settings);
    until("the secret that differs", || differing(&config).pop());
}

/// As `fleet invite | ssh fourth fleet join -`, so that no list of processes shows the invitation.
fn join_by_standard_input(config: &Path, word: &str) {
    let mut command = binary();
    let arguments = ["fleet", "join", "-", "--name", "fourth"];
    command.arg("--config").arg(config).args(arguments);
    command.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut joining = command.spawn().unwrap();
    let mut input = joining.stdin.take().unwrap();
    input.write_all(word.as_bytes()).unwrap();
    drop(input);
    let joined = joining.output_in_time();
    assert!(joined.status.success(), "{}", err(&joined));
}

/// What says that the secret of [`SETTINGS`] differs between members.
fn differing(config: &Path) -> Vec<Value> {
    let mut found = doctor(config);
    let differs = |text: &str| text.contains("`smtp.password` differs");
    found.retain(|found| differs(found["finding"].as_str().unwrap()));
    found
}
