//! The crash tests: the real binary, driven over its interface, whose power is cut, which is killed,
//! whose calls fail, whose disk is full and whose files are damaged; and a ledger of what it had
//! answered, which it must still know afterwards.
//!
//! | module | owns |
//! | --- | --- |
//! | `harness` | one appliance, its place and its ledger; a round of work, a blow, and what is there after it |
//! | `summary` | the outcomes of rounds, as a table |
//! | `workload` | who works on the appliance, and keeps the ledger of what was answered |
//! | `durability_model` | what a thing may be after a blow, given what was answered when |
//! | `appliance`, `client` | the process; the connections to it |
//! | `disk` | file systems of our own, to be cut off, filled up, and made read-only |
//! | `background_command` | a command that is given meanwhile |
//! | `tracer` | strace on a process that runs, to fail or delay its calls |
//! | `template` | a data directory and its ledger, to be copied and harmed |
//! | `rng` | the seed, how many rounds, and how a test is skipped |
//! | the others | one kind of blow each: the tests |
//!
//! `PLAYGATE_CRASH_ROUNDS=1000` runs the long form, and prints its tables with `--nocapture`;
//! `PLAYGATE_CRASH_SEED` repeats a run as far as the scheduler lets it.

#![allow(missing_docs, reason = "tests name what they show")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod appliance;
mod background_command;
mod client;
mod corruption;
mod disk;
mod disk_full;
mod durability_model;
mod eio;
mod errno;
mod harness;
mod power_cut;
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../it/raw_http.rs"]
mod raw_http;
mod rng;
mod rollback;
mod sessions;
mod shedding_order;
mod sigkill;
mod slow;
mod soak;
mod summary;
mod tail_damage;
mod template;
mod tracer;
mod workload;
