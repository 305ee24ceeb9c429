//! The crash tests: the real binary is used over its interface while its power is cut, it is killed, its system calls
//! fail, its disk is full, or its files are damaged. A ledger of the responses is compared with the state after the
//! restart.
//!
//! | module | owns |
//! | --- | --- |
//! | `harness` | the process and its connections, file systems that can fail, the durability model, one round of a test |
//! | `workload` | actors that use the server and keep the ledger of its responses |
//! | `faults` | the tests, one module per kind of fault |
//! | `soak` | mixed load with a fast clock, without a fault |
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

mod faults;
mod harness;
mod soak;
mod workload;
