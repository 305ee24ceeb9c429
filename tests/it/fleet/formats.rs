//! A fleet moves to a new store format under faults, as described in `docs/fleet.md`: no member upgrades alone while
//! clients write, and each step of the procedure is interrupted. No acknowledged write is lost or doubled.

use std::fs::{self, File};
use std::path::Path;
use std::process::Stdio;
use std::thread::park_timeout;
use std::time::Duration;

use serde_json::Value;

use super::campaign::{Campaign, Phase, exports, long_form, machines, repair};
use super::faults::{DURING, Fault, inject};
use super::joiner;
use super::machines::{MACHINES, Machines, NAMES, Process};
use super::{format_file, installed, playgate, single_node_config, until};
use crate::support::appliance::binary;

const FAULTS: [Fault; 7] = [
    Fault::PowerOfOne,
    Fault::PowerOfAll,
    Fault::KillOwner,
    Fault::PauseOwner,
    Fault::MuteOwner,
    Fault::DeafOwner,
    Fault::KillOwnerAndEtcdLeader,
];

/// Short enough that the interrupted command or upgrade still runs.
const STEP_STARTED: Duration = Duration::from_millis(150);

/// The long form has one round per fault.
#[test]
fn fleet_moves_to_a_new_store_format_under_faults_and_loses_nothing() {
    let Some(fleet) = machines() else {
        return;
    };
    let mut campaign = Campaign::new(fleet);
    let rounds = long_form().unwrap_or(1);
    for (fault, to) in FAULTS.into_iter().take(rounds).zip(2..) {
        // Enough users that the upgrade needs more than one commit.
        campaign.work(Phase::Import, |_| {});
        campaign.work(Phase::Load, |fleet| {
            let standby = (fleet.owner() + 1) % MACHINES;
            assert_refused(fleet, standby, to);
            inject(fleet, fault);
            install(fleet.config(standby), to - 1);
            fleet.start_member(standby, None);
        });
        repair(&mut campaign.fleet);
        assert_eq!(campaign.check(), Vec::<String>::new(), "{fault:?}");
        let before = campaign.ledger.lock().unwrap().acknowledged.len();

        upgrade_fleet(&mut campaign.fleet, fault, to);
        assert_eq!(campaign.check(), Vec::<String>::new(), "{fault:?}");
        campaign.work(Phase::Load, |_| {});
        assert_eq!(campaign.check(), Vec::<String>::new(), "{fault:?}");
        let tagged = tagged(campaign.fleet.config(0), to);
        assert!(
            tagged >= before,
            "{fault:?}: {tagged} of {before} users have format {to}"
        );
        println!("format {to} under {fault:?}: {before} users");
    }
    let exports = exports(&mut campaign.fleet);
    assert!(exports[0] == exports[1] && exports[0] == exports[2]);
}

/// Control: the check of the format is bypassed by hand, and the comparison of the stores finds the difference.
#[test]
fn a_member_that_upgrades_alone_is_refused_and_differs() {
    let Some(mut fleet) = machines() else {
        return;
    };
    let standby = (fleet.owner() + 1) % MACHINES;
    let config = fleet.config(standby).to_owned();
    let (membership, away) = (
        fleet.data(standby).join("fleet"),
        fleet.data(standby).join("away"),
    );
    assert_refused(&mut fleet, standby, 2);
    fs::rename(&membership, &away).unwrap();
    finish_upgrade(&mut fleet, standby, &single_node_config(&config), 2);
    fs::rename(&away, &membership).unwrap();
    fleet.start_member(standby, None);
    until("the end of a member that has upgraded alone", || {
        fleet.has_ended(standby).then_some(())
    });
    let log = fleet.log(standby);
    assert!(log.contains("playgate fleet reseed"), "{log}");
    fleet.kill_member(standby);
    let exports = exports(&mut fleet);
    let other = (standby + 1) % MACHINES;
    assert!(
        exports[standby] != exports[other],
        "the stores do not differ"
    );
}

/// Makes the binary of a machine write this format.
fn install(config: &Path, format: u32) {
    fs::write(format_file(config), format.to_string()).unwrap();
}

/// Restarts a member with a newer format, as in a rolling upgrade. It must end with the reason.
fn assert_refused(fleet: &mut Machines, at: usize, to: u32) {
    fleet.stop_member(at);
    install(fleet.config(at), to);
    fleet.start_member(at, None);
    until("the end of a member with another format", || {
        fleet.has_ended(at).then_some(())
    });
    let log = fleet.log(at);
    let refused = format!("has format {}, and this version writes format {to}", to - 1);
    assert!(log.contains(&refused), "{log}");
    assert_eq!(format(&fleet.data(at)), (to - 1, to - 1));
    fleet.kill_member(at);
}

/// Follows the documented steps; the fault comes in the middle of each.
fn upgrade_fleet(fleet: &mut Machines, fault: Fault, to: u32) {
    let kept = fleet.owner();
    let others = [(kept + 1) % MACHINES, (kept + 2) % MACHINES];
    for at in [others[0], others[1], kept] {
        fleet.stop_member(at);
    }
    let config = fleet.config(kept).to_owned();
    let mut command = binary();
    command.arg("--config").arg(&config);
    command
        .args(["fleet", "dissolve", "--yes"])
        .envs(installed(&config))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut dissolving = Process::from(command.spawn().unwrap());
    park_timeout(STEP_STARTED);
    interrupt(fleet, kept, fault, &mut dissolving);
    let mut refused = String::new();
    until("the end of the fleet", || {
        match playgate(&config, &["fleet", "dissolve", "--yes"]) {
            Ok(_) => Some(()),
            // The interrupted command has completed.
            Err(error) if error.contains("belongs to no fleet") => Some(()),
            Err(error) => {
                if error != refused {
                    println!("not dissolved: {error}");
                    refused = error;
                }
                None
            }
        }
    });

    install(&config, to);
    let single_node = single_node_config(&config);
    fleet.start_service(kept, &single_node);
    let data = fleet.data(kept);
    until("the middle of an upgrade", || {
        (format(&data) == (to, to - 1)).then_some(())
    });
    park_timeout(STEP_STARTED);
    let mut upgrading = fleet.take_service(kept);
    interrupt(fleet, kept, fault, &mut upgrading);
    drop(upgrading);
    if let Fault::PauseOwner | Fault::MuteOwner | Fault::DeafOwner = fault {
        assert_eq!(format(&data).0, to);
    } else {
        assert_eq!(
            format(&data),
            (to, to - 1),
            "the fault came after the upgrade"
        );
    }
    finish_upgrade(fleet, kept, &single_node, to);
    until("a new fleet", || {
        playgate(&config, &["fleet", "init", "--name", NAMES[kept]]).ok()
    });
    fleet.start_member(kept, None);
    let members = [config];
    for at in others {
        install(fleet.config(at), to);
        let data = fleet.data(at);
        fs::remove_dir_all(&data).unwrap();
        // Otherwise a power cut could restore the old directory.
        File::open(data.parent().unwrap())
            .unwrap()
            .sync_all()
            .unwrap();
        let new = fleet.config(at).to_owned();
        std::thread::scope(|scope| {
            let joining = scope.spawn(|| joiner::join(&new, NAMES[at], &members));
            // The second one joins a fleet of two, without a fault.
            if at == others[0] {
                park_timeout(STEP_STARTED);
                disturb_owner(fleet, kept, fault);
            }
            joining.join().unwrap();
        });
        fleet.start_member(at, None);
    }
}

/// Starts the service of a single node, and stops it after the upgrade.
fn finish_upgrade(fleet: &mut Machines, at: usize, single_node: &Path, to: u32) {
    fleet.start_service(at, single_node);
    let data = fleet.data(at);
    until("the end of an upgrade", || {
        (format(&data) == (to, to)).then_some(())
    });
    until("the upgraded service", || {
        playgate(single_node, &["user", "list"]).ok()
    });
    fleet.stop_member(at);
}

/// Applies the fault to a process that is in no fleet, or not yet.
fn interrupt(fleet: &mut Machines, at: usize, fault: Fault, process: &mut Process) {
    match fault {
        Fault::PauseOwner => {
            process.pause();
            park_timeout(DURING);
            process.resume();
        }
        Fault::MuteOwner | Fault::DeafOwner => {
            let outgoing = fault == Fault::MuteOwner;
            fleet.drop_packets_of(at, outgoing, true);
            park_timeout(DURING);
            fleet.drop_packets_of(at, outgoing, false);
        }
        Fault::PowerOfOne | Fault::PowerOfAll => {
            process.pause();
            let which: Vec<_> = match fault {
                Fault::PowerOfOne => vec![at],
                _ => (0..MACHINES).collect(),
            };
            fleet.cut_power(&which);
            process.kill();
            fleet.restore_power_without_members(&which);
        }
        _ => process.kill(),
    }
}

/// Applies the fault to the only member of a fleet.
fn disturb_owner(fleet: &mut Machines, at: usize, fault: Fault) {
    match fault {
        // The other machines have no member yet.
        Fault::PowerOfAll => {
            fleet.cut_power(&[0, 1, 2]);
            fleet.restore_power_without_members(&[0, 1, 2]);
            fleet.start_member(at, None);
        }
        _ => inject(fleet, fault),
    }
}

/// Returns the format of a store and the one that its upgrade has reached.
fn format(data: &Path) -> (u32, u32) {
    let identity = fs::read_to_string(data.join("store/identity")).unwrap();
    let value = |name: &str| {
        let line = identity.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim_start_matches(" = ").parse().unwrap()
    };
    (value("format"), value("reached"))
}

/// Returns how many users have the tag of a format's test upgrade.
fn tagged(config: &Path, format: u32) -> usize {
    let text = playgate(config, &["user", "list", "--json"]).unwrap();
    let users: Value = serde_json::from_str(&text).unwrap();
    let tag = Value::from(format!("format-{format}"));
    let users = users.as_array().unwrap().iter();
    let has_tag = |user: &&Value| {
        let tags = user["tags"].as_array();
        tags.is_some_and(|tags| tags.contains(&tag))
    };
    users.filter(has_tag).count()
}
