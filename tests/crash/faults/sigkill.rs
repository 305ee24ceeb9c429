//! SIGKILL: no confirmed change is lost, incomplete or doubled, also if it is only in the log.

use crate::harness::rng::rounds;
use crate::harness::{Fault, Harness, Phase};

const PHASES: &[Phase] = &[
    Phase::Load,
    Phase::Load,
    Phase::Import,
    Phase::Start,
    Phase::Stop,
    Phase::Backup,
    Phase::Compact,
];

#[test]
fn sigkill_loses_no_confirmed_change() {
    let mut rig = Harness::in_folder("kills");
    for _ in 0..rounds(50, 1_000) {
        let phase = rig.pick(PHASES);
        rig.round(phase, Fault::Kill);
    }
    rig.tally.print("SIGKILLs");
    rig.tally.assert_clean();
}
