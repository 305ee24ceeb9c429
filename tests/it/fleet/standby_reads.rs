//! Requests at a standby: reads and heartbeats that it answers itself, and those that it forwards to the owner.

use std::fs;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stale_reads::User;
use super::trial::Fleet;
use super::viewer::Viewer;
use super::{playgate, send, send_within, until};
use crate::support::appliance::real_time;
use crate::support::synthetic_guide::SyntheticGuide;

/// Reads of a user who was renamed just before at another member.
const READS: usize = 60;

/// Starts a fleet with a standard partner, and returns it with the index of its owner. The partner of the sample data is
/// a lab partner, whose requests a standby always forwards.
fn start_with_standard_partner(settings: &[(&str, &str)]) -> Option<(Fleet, usize)> {
    let mut fleet = Fleet::with(settings)?;
    let config = &fleet.members[0].config;
    let added = playgate(config, &["partner", "add", "standard", "--json"]).unwrap();
    let added: Value = serde_json::from_str(&added).unwrap();
    fleet.partner = added["accessToken"].as_str().unwrap().to_owned();
    fleet.wait_until_equal();
    let owner = fleet.owner();
    Some((fleet, owner))
}

/// Requests that a member has answered as a standby, and those that it has forwarded.
fn counts(fleet: &Fleet, member: usize) -> (u64, u64) {
    let config = &fleet.members[0].config;
    let status = playgate(config, &["fleet", "status", "--json"]).unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let members = status["members"].as_array().unwrap();
    let name = &*fleet.members[member].name;
    let found = members.iter().find(|one| one["name"] == name).unwrap();
    let count = |what: &str| found[what].as_u64().unwrap();
    (count("answered"), count("forwarded"))
}

/// A member writes its counts every two seconds.
fn counts_after(fleet: &Fleet, member: usize, answered: u64) -> (u64, u64) {
    until("the counts of a member", || {
        let counts = counts(fleet, member);
        (counts.0 >= answered).then_some(counts)
    })
}

#[test]
fn a_standby_answers_reads_from_the_newest_state() {
    let Some((fleet, owner)) = start_with_standard_partner(&[]) else {
        return;
    };
    let standbys = [(owner + 1) % 3, (owner + 2) % 3];
    let at = |member: usize| fleet.members[member].address;
    let user = User::sign_up(&fleet, at(owner), "newest@example.com");
    // Until the counts include the requests above.
    park_timeout(Duration::from_secs(3));
    let before = standbys.map(|standby| counts(&fleet, standby));

    for round in 0..READS {
        let name = format!("name {round}");
        // The change goes to any member, and the read at once to a standby.
        assert_eq!(user.rename(at(round % 3), &name), Some(200));
        let (status, body) = user.read(at(standbys[round % 2])).unwrap();
        assert!(status == 200 && body.contains(&name), "{name}: {body}");
    }
    for (standby, before) in standbys.into_iter().zip(before) {
        let (reads, changes) = (READS as u64 / 2, READS as u64 / 3);
        let answered = until("the counts of all requests", || {
            let (answered, forwarded) = counts(&fleet, standby);
            let (answered, forwarded) = (answered - before.0, forwarded - before.1);
            (answered + forwarded >= reads + changes).then_some(answered)
        });
        // On a busy machine etcd may not answer in time, and the read is forwarded.
        assert!(answered > reads / 2 && answered <= reads, "{answered}");
    }

    // A refusal is the owner's, whose journal has it.
    let standby = standbys[0];
    let wrong = [
        ("Service-AccessToken", &*fleet.partner),
        ("Authorization", "Bearer user_wrong"),
    ];
    let (status, _) = send(at(standby), "GET", &user.target, &wrong, "").unwrap();
    assert_eq!(status, 401);
    let journaled = until("the refusal in the journal", || {
        let arguments = ["requests", "list", "--json"];
        let text = playgate(&fleet.members[standby].config, &arguments).unwrap();
        text.contains("USER_TOKEN_INVALID").then_some(text)
    });
    assert!(journaled.contains("read_user"), "{journaled}");
}

/// Catalogue and schedule are derived in the background, so a standby forwards their reads until then.
#[test]
fn a_standby_never_answers_with_an_old_catalogue_or_schedule() {
    let Some((fleet, owner)) = start_with_standard_partner(&[]) else {
        return;
    };
    let standby = (owner + 1) % 3;
    let (config, at) = (
        fleet.members[owner].config.clone(),
        fleet.members[standby].address,
    );
    let folder = tempfile::tempdir().unwrap();
    let headers = [("Service-AccessToken", &*fleet.partner)];
    let read = |target: &str| send(at, "GET", target, &headers, "").unwrap();
    let import = |arguments: &[&str], name: &str| {
        let file = folder.path().join(name);
        playgate(&config, &[arguments, &[file.to_str().unwrap()]].concat()).unwrap();
    };
    let before = counts(&fleet, standby);
    for word in ["First", "Second", "Third", "Fourth", "Fifth", "Sixth"] {
        let catalog = json!({ "livestream": [{ "id": word, "name": word }] });
        fs::write(folder.path().join("catalog.json"), catalog.to_string()).unwrap();
        import(&["catalog", "import", "--merge"], "catalog.json");
        let (status, body) = read("/api/catalog/v1/livestreams?limit=500");
        assert!(status == 200 && body.contains(word), "{word}: {body}");

        SyntheticGuide {
            // Many, so that their schedule is not derived at once.
            channels: 20,
            programmes: 100,
            shift: 0,
            word,
            first: real_time().0,
        }
        .write(&folder.path().join("guide.xml"));
        import(&["epg", "import", "--create-livestreams"], "guide.xml");
        let (status, body) = read("/api/schedule/v1/broadcasts/live?livestreams=channel-7");
        assert!(status == 200 && body.contains(word), "{word}: {body}");
    }
    until("reads that the standby answers", || {
        read("/api/schedule/v1/broadcasts/live?livestreams=channel-7");
        (counts(&fleet, standby).0 > before.0).then_some(())
    });
}

#[test]
fn reads_and_heartbeats_at_a_standby_do_not_wait_for_the_next_owner() {
    /// Longer than the reads below take.
    const LEASE: Duration = Duration::from_secs(10);
    /// Far below what a takeover takes.
    const SOON: Duration = Duration::from_secs(2);
    let Some((fleet, owner)) = start_with_standard_partner(&[("PLAYGATE_FLEET_LEASE", "10s")])
    else {
        return;
    };
    let at = fleet.members[(owner + 1) % 3].address;
    let user = User::sign_up(&fleet, at, "lives-on@example.com");
    assert_eq!(user.rename(at, "known"), Some(200));
    let viewer = Viewer::start(&fleet.partner, at).unwrap();
    // The owner answers the first heartbeat, which is a change for the journal, and the standby the next ones.
    for _ in 0..3 {
        assert_eq!(viewer.beat(at), Some(200));
        park_timeout(Duration::from_millis(700));
    }

    fleet.members[owner].process.kill();
    let killed = Instant::now();
    // Control: a change waits for the next owner.
    let body = json!({ "name": "changed" }).to_string();
    let changed = send_within(SOON, at, "PUT", &user.target, &user.headers(), &body);
    assert_eq!(changed, None);
    let (mut reads, mut beats) = (0, 0);
    // The lease was renewed at most a quarter of its time ago.
    while killed.elapsed() < LEASE * 6 / 10 {
        let read = send_within(SOON, at, "GET", &user.target, &user.headers(), "");
        // On a busy machine etcd may not answer in time; the read is then forwarded, and waits for the next owner.
        if let Some((status, body)) = read {
            assert!(status == 200 && body.contains("known"), "{status}: {body}");
            reads += 1;
        }
        beats += u32::from(viewer.beat(at) == Some(200));
        park_timeout(Duration::from_millis(700));
    }
    assert!(
        reads >= 2 && beats >= 2,
        "{reads} reads, {beats} heartbeats"
    );
    until("a change at the next owner", || {
        (user.rename(at, "changed") == Some(200)).then_some(())
    });
    assert_eq!(viewer.beat(at), Some(200));
}

#[test]
fn the_owner_knows_of_heartbeats_that_a_standby_has_answered() {
    let Some((fleet, owner)) = start_with_standard_partner(&[]) else {
        return;
    };
    let standby = (owner + 1) % 3;
    let at = fleet.members[standby].address;
    let viewer = Viewer::start(&fleet.partner, at).unwrap();
    assert_eq!(viewer.beat(at), Some(200));
    // Until the counts include the requests above.
    park_timeout(Duration::from_secs(3));
    let before = counts(&fleet, standby);
    let session = || viewer.session(fleet.members[owner].address).unwrap();
    let first = session();
    for _ in 0..8 {
        park_timeout(Duration::from_millis(700));
        assert_eq!(viewer.beat_with(at, "1700000"), Some(200));
    }
    // The owner answers the first one that the standby knows the session of, because the journal keeps it.
    let (answered, forwarded) = counts_after(&fleet, standby, before.0 + 7);
    assert!(forwarded - before.1 <= 1, "{answered}, {forwarded}");
    let later = until("the last heartbeats at the owner", || {
        Some(session()).filter(|found| found["bitrate"] == 1_700_000)
    });
    let seen = |session: &Value| session["lastSeen"].as_i64().unwrap();
    assert!(seen(&later) > seen(&first), "{later}");
}

/// Each member makes the figures of its own time as the owner, and copies those of the others once a minute.
#[test]
fn a_report_has_the_views_of_the_owner_before() {
    let Some((mut fleet, owner)) = start_with_standard_partner(&[]) else {
        return;
    };
    let at = fleet.members[owner].address;
    let viewer = Viewer::start(&fleet.partner, at).unwrap();
    assert_eq!(viewer.beat(at), Some(200));
    assert_eq!(viewer.stop(at), Some(204));
    let config = fleet.members[owner].config.clone();
    let attempts = || {
        let text = playgate(&config, &["telemetry", "report", "--json"]).ok()?;
        let report: Value = serde_json::from_str(&text).unwrap();
        Some(report["total"]["attempts"].as_u64().unwrap_or(0))
    };
    until("the figures of the view", || {
        attempts().filter(|attempts| *attempts == 1)
    });
    fleet.members[owner].process.stop();
    until("the next owner", || (fleet.owner() != owner).then_some(()));
    let before = &mut fleet.members[owner];
    before.process.start(&before.config, &[]);
    // Control: the next owner has not seen the view.
    until("figures of the next owner", || {
        attempts().filter(|attempts| *attempts == 0)
    });
    until("the figures of the view", || {
        let attempts = attempts()?;
        assert!(attempts <= 1, "the view is counted twice");
        (attempts == 1).then_some(())
    });
}
