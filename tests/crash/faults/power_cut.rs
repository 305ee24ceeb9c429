//! Power cuts: ext4 in a loop-mounted file is cut off without flushing its journal, whatever the
//! appliance is doing; nothing acknowledged is lost, and every start is ready.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use crate::harness::disk::Disk;
use crate::harness::rng::{rounds, skip};
use crate::harness::{Fault, Harness, Phase};

/// What the appliance does when the power is cut; serving is the most of its life.
const PHASES: &[Phase] = &[
    Phase::Load,
    Phase::Load,
    Phase::Load,
    Phase::Import,
    Phase::Start,
    Phase::Stop,
    Phase::AfterKill,
    Phase::Backup,
    Phase::Compact,
];

/// How many cuts may pass without a loss where nothing is synced.
const CONTROL: u64 = 12;

#[test]
fn a_power_cut_drops_unsynced_data() {
    let mut disk = match Disk::ext4(16) {
        Ok(disk) => disk,
        Err(why) => return skip("a power cut", &why),
    };
    let [synced, written] = ["synced", "written"].map(|name| disk.path().join(name));
    fs::write(&synced, "on the disk").unwrap();
    let file = File::options().write(true).open(&synced).unwrap();
    file.sync_all().unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    fs::write(&written, "in the page cache").unwrap();
    // In place too, as the commit log is written.
    file.write_all_at(b"in", 0).unwrap();
    drop(file);
    disk.power_cycle();
    assert_eq!(fs::read_to_string(&synced).unwrap(), "on the disk");
    assert!(!written.exists());
}

#[test]
fn power_cuts_lose_nothing() {
    let mut rig = match Harness::on_disk("cuts") {
        Ok(rig) => rig,
        Err(why) => return skip("power cuts", &why),
    };
    for _ in 0..rounds(100, 1_000) {
        let phase = rig.pick(PHASES);
        rig.round(phase, Fault::Cut);
    }
    rig.tally.print("Power cuts");
    rig.tally.assert_clean();
}

/// Where nothing is synced the same cuts do lose data, or they would show nothing.
#[test]
fn power_cuts_without_syncs_are_detected() {
    let mut rig = match Harness::on_disk("control") {
        Ok(rig) => rig.with("PLAYGATE_UNSAFE_NO_SYNC", "1"),
        Err(why) => return skip("power cuts without syncs", &why),
    };
    let mut warned = false;
    while rig.tally.rounds() < CONTROL && (rig.tally.losses() < 2 || !warned) {
        let phase = rig.pick(&[Phase::Load]);
        let first = phase == Phase::FirstStart;
        rig.round(phase, if first { Fault::Kill } else { Fault::Cut });
        warned |= rig.has_said("PLAYGATE_UNSAFE_NO_SYNC");
    }
    rig.tally.print("Power cuts without syncs (the control)");
    assert!(rig.tally.losses() > 0, "no loss in {CONTROL} cuts");
    assert!(warned, "it does not warn that nothing is synced");
}
