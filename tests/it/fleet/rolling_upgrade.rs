//! A fleet of an older version is upgraded as in "Upgrade" of `docs/fleet.md`: one machine after the other, the owner last.
//! It runs only with `PLAYGATE_OLD_BIN`, the binary of the older version.

use super::campaign::{Campaign, Phase, exports, repair};
use super::faults::{Fault, inject};
use super::machines::{MACHINES, Machines, NAMES};
use super::operations::as_json;
use super::{playgate, until};
use crate::support::external_tools::skip;

fn upgrade(fleet: &mut Machines, at: usize) {
    fleet.stop_member(at);
    fleet.upgrade(at);
    fleet.start_member(at, None);
    fleet.wait_until_following(at);
    assert!(!fleet.has_ended(at), "{}", fleet.log(at));
}

#[test]
fn a_fleet_of_an_older_version_is_upgraded_under_load_and_loses_nothing() {
    let Some(old) = std::env::var_os("PLAYGATE_OLD_BIN") else {
        println!("runs only with PLAYGATE_OLD_BIN");
        return;
    };
    let fleet = match Machines::start_with(Some(old.to_str().unwrap())) {
        None => return,
        Some(Err(why)) => return skip(&why),
        Some(Ok(fleet)) => fleet,
    };
    let versions = |fleet: &Machines| {
        let version = |at| playgate(fleet.config(at), &["--version"]).unwrap();
        let versions = (0..MACHINES).map(version);
        versions
            .map(|text| text.lines().next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    println!("{:?}", versions(&fleet));
    let mut campaign = Campaign::new(fleet);
    let done = |campaign: &mut Campaign, what: &str| {
        assert_eq!(repair(&mut campaign.fleet), 0, "{what}: a member has ended");
        assert_eq!(campaign.check(), Vec::<String>::new(), "{what}");
        campaign.report(what);
    };
    campaign.work(Phase::Load, |_| {});
    done(&mut campaign, "the old version");

    let mut is_new = [false; MACHINES];
    while let Some(next) = campaign.fleet.next_to_upgrade(is_new) {
        campaign.work(Phase::Load, |fleet| upgrade(fleet, next));
        is_new[next] = true;
        done(&mut campaign, &format!("the upgrade of {}", NAMES[next]));
        // While two are old, one of them takes over from the other: a standby may not know a table of a newer owner.
        let kills = match is_new.iter().filter(|is_new| **is_new).count() {
            1 => 2,
            2 => 0,
            _ => 1,
        };
        for _ in 0..kills {
            campaign.work(Phase::Load, |fleet| inject(fleet, Fault::KillOwner));
            done(&mut campaign, "a kill of the owner");
        }
    }
    println!("{:?}", versions(&campaign.fleet));
    until("a healthy fleet", || {
        let status = as_json(campaign.fleet.config(0), &["fleet", "status"]);
        let mut members = status["members"].as_array().unwrap().iter();
        members.all(|member| member["up"] == true).then_some(())
    });
    let exports = exports(&mut campaign.fleet);
    assert!(exports[0] == exports[1] && exports[0] == exports[2]);
}
