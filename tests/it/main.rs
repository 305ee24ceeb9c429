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
mod answers;
mod appliance;
mod attackers;
mod audience;
mod audit;
mod backup;
mod bodies;
mod canaries;
mod catalog;
mod cli;
mod clock_jumps;
mod codes;
mod connections;
mod console;
mod coverage;
mod defects;
mod delivery;
mod described;
mod doctor;
mod erasure;
mod export;
mod figures;
mod forms;
mod forwarding;
mod framing;
mod front;
mod golden;
mod guessing;
mod guide_maker;
mod guides;
mod house;
mod http2;
mod imports;
mod keys;
mod kill_import;
mod lab;
mod license_servers;
mod licenses;
mod loops;
mod maintenance;
mod matrix;
mod mutations;
mod nights;
mod openapi;
mod operators;
mod page;
mod places;
mod playback;
mod positions;
mod programs;
mod proxies;
mod reload;
mod reset;
mod rights;
mod schedule;
mod siege;
mod smtp;
mod sources;
mod stage;
mod telemetry;
mod telemetry_flood;
mod terminal;
mod tidy;
mod tls;
mod user;
mod wire;
