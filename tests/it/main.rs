//! The integration tests: a server on a port of its own, driven over sockets. One module per
//! resource; `server` starts it, `raw_http` sends bytes to it.

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
mod cdn_signing;
mod cli;
mod cli_json_golden;
mod clock_jumps;
mod codes;
mod concurrent_limits;
mod connections;
mod console;
mod cors_methods;
mod coverage;
mod doctor;
mod dst_changes;
mod epg_sources;
mod erasure;
mod export;
mod external_tools;
mod framing;
mod gate_only;
mod geoip;
mod golden;
mod http2;
mod import_crash;
mod keys;
mod license_servers;
mod licenses;
mod loops;
mod maintenance;
mod malformed_guides;
mod metrics;
mod mutations;
mod openapi;
mod openapi_conformance;
mod operators;
mod playback;
mod playback_fixture;
mod positions;
mod proxies;
mod raw_http;
mod real_guides;
mod reload;
mod request_pipeline;
mod reset;
mod reset_page;
mod rights;
mod schedule;
mod server;
mod slow_clients;
mod smtp;
mod synthetic_guide;
mod telemetry;
mod telemetry_flood;
mod telemetry_forwarding;
mod terminal;
mod tidy;
mod tls;
mod user;
mod user_import;
