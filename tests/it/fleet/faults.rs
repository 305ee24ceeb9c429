//! The faults of the campaign, and what an operator or systemd does about each.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use serde_json::json;

use super::campaign::{Phase, long_form, take_copy};
use super::etcd_data::{copy_directory, is_compacted, let_a_month_pass, size};
use super::machines::{FOURTH, MACHINES, Machines, NAMES, Process};
use super::operations::as_json;
use super::{playgate, until};
use crate::support::external_tools::program;
use crate::support::process::InTime as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    KillOwner,
    /// The owner is started again after a second, as systemd does.
    RestartOwner,
    KillEtcdLeader,
    KillOwnerAndEtcdLeader,
    /// Two of three etcd.
    KillEtcdMajority,
    PauseOwner,
    KillStandby,
    /// The power of the owner's machine, of that and another one, and of all.
    PowerOfOne,
    PowerOfTwo,
    PowerOfAll,
    /// Nothing from the owner's machine arrives elsewhere.
    MuteOwner,
    /// Nothing arrives at the owner's machine.
    DeafOwner,
    /// The member that owns does not reach one of three etcd, which reach each other, or two.
    CutFromOneEtcd,
    CutFromTwoEtcd,
    /// The same in one direction: its requests do not arrive, or the answers.
    MuteToTwoEtcd,
    DeafToTwoEtcd,
    /// Owner and standbys do not reach each other, and all reach etcd.
    CutFromMembers,
    /// etcd has reached its quota.
    Quota,
    /// A flipped bit in the database of one etcd, or in the WAL of a standby.
    FlipEtcd,
    FlipLocal,
    /// First the clock of a standby and then that of the owner is a minute off.
    Clocks,
    /// The disk of a member has no space.
    FullDiskOfOwner,
    FullDiskOfStandby,
    /// A copy of a standby's data directory runs on another machine, while none of the members reaches etcd.
    CloneStandby,
    /// etcd is restored from a snapshot that lacks acknowledged changes, or all of its data are lost.
    RestoreEtcd,
    LoseEtcd,
    /// What an idle fleet writes to etcd in a month, at once.
    IdleMonth,
    /// Members are restarted in turn, half of them after a kill.
    Restarts,
    /// Silent connections to the port of the members.
    Strangers,
}

/// The first ones, which every change runs, cover a takeover, the disks, the network and a part of it.
pub const FAULTS: [Fault; 29] = [
    Fault::KillOwnerAndEtcdLeader,
    Fault::PowerOfAll,
    Fault::MuteOwner,
    Fault::CutFromTwoEtcd,
    Fault::KillOwner,
    Fault::CloneStandby,
    Fault::PauseOwner,
    Fault::FullDiskOfOwner,
    Fault::PowerOfOne,
    Fault::MuteToTwoEtcd,
    Fault::DeafOwner,
    Fault::RestoreEtcd,
    Fault::Quota,
    Fault::DeafToTwoEtcd,
    Fault::FlipEtcd,
    Fault::Strangers,
    Fault::FlipLocal,
    Fault::CutFromOneEtcd,
    Fault::Clocks,
    Fault::LoseEtcd,
    Fault::KillStandby,
    Fault::CutFromMembers,
    Fault::PowerOfTwo,
    Fault::IdleMonth,
    Fault::KillEtcdLeader,
    Fault::FullDiskOfStandby,
    Fault::KillEtcdMajority,
    Fault::Restarts,
    Fault::RestartOwner,
];

impl Fault {
    /// Returns what the fleet does in the round: `phase`, unless the fault rules it out.
    pub fn meets(self, phase: Phase) -> Phase {
        match (self, phase) {
            // The joined member would be of the fleet before, on the machine of the copy, or the owner meanwhile.
            (
                Self::RestoreEtcd
                | Self::LoseEtcd
                | Self::CloneStandby
                | Self::FullDiskOfOwner
                | Self::Restarts,
                Phase::Join,
            ) => Phase::Load,
            (Self::PowerOfAll | Self::PowerOfTwo, Phase::Reseed) => Phase::Load,
            _ => phase,
        }
    }
}

/// How long a fault lasts.
pub const DURING: Duration = Duration::from_secs(4);

/// `RestartSec` of the packaged unit.
const RESTART: Duration = Duration::from_secs(1);

/// The port of etcd for clients, and that of a member for members.
const ETCD: u16 = 2379;
const PEER: u16 = 7080;

pub fn inject(fleet: &mut Machines, fault: Fault) {
    let owner = fleet.owner();
    let [standby, other] = [1, 2].map(|next| (owner + next) % MACHINES);
    match fault {
        Fault::KillOwner => kill(fleet, owner, DURING),
        Fault::RestartOwner => kill(fleet, owner, RESTART),
        Fault::KillStandby => kill(fleet, standby, DURING),
        Fault::KillEtcdLeader => {
            let leader = fleet.etcd_leader();
            without_etcd(fleet, &[leader]);
        }
        Fault::KillOwnerAndEtcdLeader => {
            let leader = fleet.etcd_leader();
            fleet.kill_member(owner);
            without_etcd(fleet, &[leader]);
            fleet.start_member(owner, None);
        }
        Fault::KillEtcdMajority => {
            let leader = fleet.etcd_leader();
            without_etcd(fleet, &[leader, (leader + 1) % MACHINES]);
        }
        Fault::PauseOwner => {
            fleet.pause_member(owner);
            park_timeout(DURING);
            fleet.resume_member(owner);
        }
        Fault::PowerOfOne => cut_and_restore_power(fleet, &[owner]),
        Fault::PowerOfTwo => cut_and_restore_power(fleet, &[owner, standby]),
        Fault::PowerOfAll => cut_and_restore_power(fleet, &[0, 1, 2]),
        Fault::MuteOwner | Fault::DeafOwner => {
            let outgoing = fault == Fault::MuteOwner;
            fleet.drop_packets_of(owner, outgoing, true);
            park_timeout(DURING);
            fleet.drop_packets_of(owner, outgoing, false);
        }
        Fault::CutFromOneEtcd => cut_from_etcd(fleet, owner, &[standby], BOTH),
        Fault::CutFromTwoEtcd => cut_from_etcd(fleet, owner, &[standby, other], BOTH),
        Fault::MuteToTwoEtcd => cut_from_etcd(fleet, owner, &[owner, standby], REQUESTS),
        Fault::DeafToTwoEtcd => cut_from_etcd(fleet, owner, &[standby, other], ANSWERS),
        Fault::CutFromMembers => cut_from_members(fleet, owner, [standby, other]),
        Fault::Quota => {
            fill_quota(fleet, true);
            park_timeout(DURING);
            fill_quota(fleet, false);
        }
        Fault::FlipEtcd => flip_etcd(fleet, standby),
        Fault::FlipLocal => flip_log(fleet, standby),
        Fault::Clocks => {
            restart_with_clock(fleet, standby, 60);
            restart_with_clock(fleet, owner, -60);
        }
        Fault::FullDiskOfOwner => fill_disk(fleet, owner, |fleet| fleet.owner() != owner),
        Fault::FullDiskOfStandby => fill_disk(fleet, standby, |_| false),
        Fault::CloneStandby => clone_member(fleet, standby),
        Fault::RestoreEtcd => restore_etcd(fleet),
        Fault::LoseEtcd => {
            without_data_of_etcd(fleet, |_, _| ());
            recover(fleet);
        }
        Fault::IdleMonth => pass_a_month(fleet),
        Fault::Restarts => restart_in_turn(fleet),
        Fault::Strangers => besiege(fleet, owner),
    }
}

/// Kills a member, which is started again after a time.
fn kill(fleet: &mut Machines, at: usize, away: Duration) {
    fleet.kill_member(at);
    park_timeout(away);
    fleet.start_member(at, None);
}

fn flip_etcd(fleet: &mut Machines, at: usize) {
    fleet.kill_etcd(at);
    // In the value of a key of the shared log.
    let files = fleet.data_of_etcd(at).join("member/snap");
    let is_damaged = Machines::flip_bit(&files, b"/log/", 70);
    assert!(is_damaged, "no key of the shared log in the files of etcd");
    fleet.start_etcd(at);
    park_timeout(DURING);
    fleet.replace_etcd(at);
}

fn flip_log(fleet: &mut Machines, at: usize) {
    fleet.kill_member(at);
    let files = fleet.data(at).join("store/log");
    let is_damaged = Machines::flip_bit(&files, b"@example.com", 1);
    assert!(is_damaged, "no user in the WAL");
    fleet.start_member(at, None);
    park_timeout(DURING);
}

/// Restarts a member with another clock, and again with the right one.
fn restart_with_clock(fleet: &mut Machines, at: usize, ahead: i64) {
    fleet.kill_member(at);
    fleet.start_member(at, Some(ahead));
    park_timeout(DURING / 2);
    fleet.kill_member(at);
    fleet.start_member(at, None);
}

fn cut_from_members(fleet: &Machines, owner: usize, standbys: [usize; 2]) {
    let set = |is_dropped| {
        for standby in standbys {
            fleet.drop_calls(owner, standby, PEER, BOTH, is_dropped);
            fleet.drop_calls(standby, owner, PEER, BOTH, is_dropped);
        }
    };
    set(true);
    park_timeout(DURING);
    set(false);
}

fn without_etcd(fleet: &mut Machines, which: &[usize]) {
    for at in which {
        fleet.kill_etcd(*at);
    }
    park_timeout(DURING);
    for at in which {
        fleet.start_etcd(*at);
    }
}

fn cut_and_restore_power(fleet: &mut Machines, which: &[usize]) {
    fleet.cut_power(which);
    park_timeout(DURING);
    fleet.restore_power(which);
}

/// Raises or clears the alarm of a full quota: etcd refuses changes until an operator has made room.
fn fill_quota(fleet: &Machines, is_full: bool) {
    let action = if is_full { "ACTIVATE" } else { "DEACTIVATE" };
    for at in 0..MACHINES {
        until("a change of the alarm", || {
            let status = fleet.ask_etcd(at, "/v3/maintenance/status", &json!({}))?;
            let member = status["header"]["member_id"].as_str()?;
            let alarm = json!({ "action": action, "memberID": member, "alarm": "NOSPACE" });
            fleet.ask_etcd(at, "/v3/maintenance/alarm", &alarm)
        });
    }
}

/// Which packets of a call are dropped: those with requests, and those with answers.
pub type Direction = (bool, bool);
const BOTH: Direction = (true, true);
const REQUESTS: Direction = (true, false);
const ANSWERS: Direction = (false, true);

fn cut_from_etcd(fleet: &Machines, member: usize, etcd: &[usize], direction: Direction) {
    for is_dropped in [true, false] {
        for at in etcd {
            fleet.drop_calls(member, *at, ETCD, direction, is_dropped);
        }
        if is_dropped {
            park_timeout(DURING);
        }
    }
}

/// The longest time that a full disk is kept full.
const FULL: Duration = Duration::from_secs(20);

/// Takes all space of a member's disk, also what the member frees, for [`DURING`] at least, and until `is_over`.
fn fill_disk(fleet: &Machines, at: usize, is_over: impl Fn(&Machines) -> bool) {
    let folder = fleet.disk_of_data(at);
    let began = Instant::now();
    let mut fillers = Vec::new();
    while began.elapsed() < DURING || (began.elapsed() < FULL && !is_over(fleet)) {
        let path = folder.join(format!("filler{}", fillers.len()));
        let file = File::create(&path).unwrap();
        fillers.push(path);
        let (mut end, mut more) = (0, 256 << 20);
        while more >= 4096 {
            match fallocate(&file, FallocateFlags::empty(), end, more) {
                Ok(()) => end += more,
                Err(_) => more /= 2,
            }
        }
        park_timeout(Duration::from_millis(100));
    }
    println!(
        "the disk of member {at} was full for {:.1} s; the owner is {}",
        began.elapsed().as_secs_f64(),
        fleet.owner()
    );
    for path in fillers {
        fs::remove_file(path).unwrap();
    }
}

fn clone_member(fleet: &mut Machines, at: usize) {
    let data = fleet.folder().join("clone");
    let _ = fs::remove_dir_all(&data);
    fleet.stop_member(at);
    copy_directory(&fleet.data(at), &data);
    fleet.start_member(at, None);
    fleet.wait_until_following(at);
    let config = fleet.folder().join("clone.toml");
    fs::write(&config, fleet.configuration(FOURTH, &data)).unwrap();
    let log = fleet.folder().join("clone.log");
    let cut = |is_dropped| {
        for member in 0..MACHINES {
            for etcd in 0..MACHINES {
                fleet.drop_calls(member, etcd, ETCD, REQUESTS, is_dropped);
            }
        }
    };
    cut(true);
    let output = File::create(&log).unwrap();
    let mut clone = Process::serve(&fleet.space(FOURTH), &config, output, None);
    park_timeout(DURING);
    cut(false);
    // Whichever of the two sees the other first.
    until("the end of a member or of its copy", || {
        (clone.has_ended() || fleet.has_ended(at)).then_some(())
    });
    clone.kill();
    if fleet.has_ended(at) {
        fleet.kill_member(at);
        fleet.start_member(at, None);
    }
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("became the owner"), "{log}");
}

/// Replaces the data of all etcd by what `put` leaves there, for a while.
fn without_data_of_etcd(fleet: &mut Machines, put: impl Fn(&Machines, usize)) {
    for at in 0..MACHINES {
        fleet.kill_etcd(at);
    }
    for at in 0..MACHINES {
        let _ = fs::remove_dir_all(fleet.data_of_etcd(at));
        put(fleet, at);
        fleet.start_etcd(at);
    }
    park_timeout(DURING);
}

fn restore_etcd(fleet: &mut Machines) {
    let etcdctl = program("etcdctl").expect("etcdctl comes with etcd");
    let snapshot = fleet.folder().join("snapshot.db");
    let _ = fs::remove_file(&snapshot);
    let run = |command: &mut Command| {
        let output = command.env("ETCDCTL_API", "3").output_in_time();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
    };
    let mut save = Command::new(&etcdctl);
    save.args(["--endpoints", &fleet.etcd_url(0), "snapshot", "save"]);
    run(save.arg(&snapshot));
    // Changes that only the members have.
    park_timeout(DURING / 2);
    without_data_of_etcd(fleet, |fleet, at| {
        let mut restore = Command::new(&etcdctl);
        restore.args(["snapshot", "restore"]).arg(&snapshot);
        restore.args(["--name", NAMES[at], "--initial-cluster"]);
        restore.arg(fleet.etcd_cluster());
        restore.args(["--initial-advertise-peer-urls", &fleet.etcd_peer_url(at)]);
        run(restore.arg("--data-dir").arg(fleet.data_of_etcd(at)));
    });
    recover(fleet);
}

/// "The data of etcd are lost, or older than those of the members" of `docs/fleet.md`.
fn recover(fleet: &mut Machines) {
    for at in 0..MACHINES {
        fleet.stop_member(at);
    }
    let commits: Vec<_> = (0..MACHINES)
        .map(|at| {
            let status = as_json(fleet.config(at), &["fleet", "status"]);
            let mut members = status["members"].as_array().unwrap().iter();
            let this_member = members.find(|member| member["name"] == NAMES[at]);
            this_member.unwrap()["commit"].as_u64().unwrap()
        })
        .collect();
    println!("the members have the commits {commits:?}");
    let newest = (0..MACHINES).max_by_key(|at| commits[*at]).unwrap();
    playgate(fleet.config(newest), &["fleet", "recover", "--yes"]).unwrap();
    fleet.start_member(newest, None);
    for at in (0..MACHINES).filter(|at| *at != newest) {
        take_copy(fleet, at);
        fleet.start_member(at, None);
    }
}

fn pass_a_month(fleet: &Machines) {
    let url = fleet.etcd_url(0);
    let before = size(&url, "dbSize");
    let month = let_a_month_pass(&url);
    until("the compaction on a timer", || {
        is_compacted(&url, month).then_some(())
    });
    println!(
        "etcd's database: {} MiB, then {} MiB with {} MiB in use",
        before >> 20,
        size(&url, "dbSize") >> 20,
        size(&url, "dbSizeInUse") >> 20,
    );
}

fn restart_in_turn(fleet: &mut Machines) {
    let count = if long_form().is_some() { 100 } else { 6 };
    for number in 0..count {
        let at = number % MACHINES;
        if number % 2 == 0 {
            fleet.kill_member(at);
        } else {
            fleet.stop_member(at);
        }
        fleet.start_member(at, None);
        let address = fleet.addresses()[at];
        until("a listener", || TcpStream::connect(address).ok());
        fleet.owner();
    }
}

/// Holds more connections than the port of the owner has places, and some at the others.
fn besiege(fleet: &Machines, owner: usize) {
    const AT_OWNER: usize = 320;
    const AT_STANDBY: usize = 64;
    let ports = fleet.addresses().into_iter().enumerate();
    let ports: Vec<_> = ports
        .flat_map(|(at, address)| {
            let count = if at == owner { AT_OWNER } else { AT_STANDBY };
            std::iter::repeat_n(SocketAddr::new(address.ip(), PEER), count)
        })
        .collect();
    let began = Instant::now();
    while began.elapsed() < DURING {
        let connect = |port| TcpStream::connect_timeout(port, RESTART);
        let held: Vec<_> = ports.iter().map(connect).collect();
        park_timeout(Duration::from_millis(500));
        drop(held);
    }
}
