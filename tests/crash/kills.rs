//! SIGKILL: nothing that was answered is lost, torn or doubled, what is only logged included.

use crate::dice::rounds;
use crate::rig::{Blow, Phase, Rig};

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
    let mut rig = Rig::in_folder("kills");
    for _ in 0..rounds(50, 1_000) {
        let phase = rig.pick(PHASES);
        rig.round(phase, Blow::Kill);
    }
    rig.tally.print("SIGKILLs");
    rig.tally.assert_clean();
}
