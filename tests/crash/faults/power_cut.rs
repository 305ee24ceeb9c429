//! Power cuts: the ext4 file system of the data directory is cut off without flushing its journal during any activity
//! of the server. Nothing acknowledged is lost, and every start is ready.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use crate::harness::disk::Disk;
use crate::harness::rng::{rounds, skip};
use crate::harness::{Fault, Harness, Phase};

/// What the server does when the power is cut. `Load` is repeated because a server spends most of its time in it.
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

/// Within this many cuts the control must lose data.
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
    // Also overwrites data in place, as the commit log does.
    file.write_all_at(b"in", 0).unwrap();
    drop(file);
    disk.power_cycle();
    assert_eq!(fs::read_to_string(&synced).unwrap(), "on the disk");
    assert!(!written.exists());
}

#[test]
fn power_cuts_lose_nothing() {
    let mut harness = match Harness::on_disk("cuts") {
        Ok(harness) => harness,
        Err(why) => return skip("power cuts", &why),
    };
    for _ in 0..rounds(100, 1_000) {
        let phase = harness.pick(PHASES);
        harness.round(phase, Fault::Cut);
    }
    harness.tally.print("Power cuts");
    harness.tally.assert_clean();
}

/// Control: without syncs the same cuts lose data.
#[test]
fn power_cuts_without_syncs_are_detected() {
    let mut harness = match Harness::on_disk("control") {
        Ok(harness) => harness.with("PLAYGATE_UNSAFE_NO_SYNC", "1"),
        Err(why) => return skip("power cuts without syncs", &why),
    };
    let mut warned = false;
    while harness.tally.rounds() < CONTROL && (harness.tally.losses() < 2 || !warned) {
        let phase = harness.pick(&[Phase::Load]);
        let first = phase == Phase::FirstStart;
        harness.round(phase, if first { Fault::Kill } else { Fault::Cut });
        warned |= harness.log_contains("PLAYGATE_UNSAFE_NO_SYNC");
    }
    harness
        .tally
        .print("Power cuts without syncs (the control)");
    assert!(harness.tally.losses() > 0, "no loss in {CONTROL} cuts");
    assert!(warned, "it does not warn that nothing is synced");
}
