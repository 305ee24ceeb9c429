//! SIGKILL: nothing that was answered is lost, torn or doubled, what is only logged included.

use crate::harness::{Fault, Harness, Phase};
use crate::rng::rounds;

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
fn kills_lose_nothing() {
    let mut rig = Harness::in_folder("kills");
    for _ in 0..rounds(50, 1_000) {
        let phase = rig.pick(PHASES);
        rig.round(phase, Fault::Kill);
    }
    rig.tally.print("SIGKILLs");
    rig.tally.assert_clean();
}
