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
mod appliance;
mod backup;
mod bodies;
mod catalog;
mod cli;
mod codes;
mod connections;
mod coverage;
mod framing;
mod front;
mod guides;
mod house;
mod lab;
mod licenses;
mod page;
mod playback;
mod reset;
mod schedule;
mod smtp;
mod stage;
mod telemetry;
mod tidy;
mod user;
mod wire;
