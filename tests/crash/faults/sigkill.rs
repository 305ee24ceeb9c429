//! SIGKILL: no acknowledged change is lost, incomplete or doubled, even if it is only in the log.

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
    let mut harness = Harness::in_folder("kills");
    for _ in 0..rounds(50, 1_000) {
        let phase = harness.pick(PHASES);
        harness.round(phase, Fault::Kill);
    }
    harness.tally.print("SIGKILLs");
    harness.tally.assert_clean();
}
