//! The integration tests: a server on a port of its own, driven over sockets. One module per
//! resource; `lab` starts the server, `wire` speaks to it.

#![allow(missing_docs, reason = "tests name what they show")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a helper of a test that cannot go on fails the test"
)]

mod accounts;
mod bodies;
mod catalog;
mod cli;
mod codes;
mod connections;
mod coverage;
mod defects;
mod framing;
mod front;
mod guide_maker;
mod guides;
mod house;
mod kill;
mod kill_import;
mod lab;
mod licenses;
mod playback;
mod reset;
mod schedule;
mod sources;
mod stage;
mod telemetry;
mod tidy;
mod user;
mod wire;
