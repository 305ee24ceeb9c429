//! The integration tests: a server on its own port, used over sockets. There is one module per resource or promise;
//! `support` has what several of them use.

#![allow(missing_docs, reason = "the name of a test says what it proves")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a failing helper must fail its test"
)]

mod accounts;
mod audit;
mod backup;
mod bodies;
mod body_budget;
mod canaries;
mod catalog;
mod cdn_signing;
mod certification;
mod cli;
mod cli_json_golden;
mod client_packages;
mod clock_jumps;
mod codes;
mod completions;
mod concurrent_limits;
mod conformance;
mod connections;
mod console;
mod cors_methods;
mod coverage;
mod doctor;
mod dst_changes;
mod epg_sources;
mod erasure;
mod export;
mod file_errors;
mod fleet;
mod framing;
mod geoip;
mod guide_cases;
mod guide_details;
mod hostile_data;
mod http2;
mod import_circles;
mod import_crash;
mod imports;
mod key_files;
mod lab;
mod lab_player;
mod license_servers;
mod license_vendors;
mod licenses;
mod loops;
mod machine;
mod maintenance;
mod malformed_guides;
mod metrics;
mod mutations;
mod openapi;
mod operators;
mod pages;
mod playback;
mod proxies;
mod quality;
mod quality_bad_input;
mod real_guides;
mod real_players;
mod reload;
mod request_pipeline;
mod request_search;
mod requests;
mod reset;
mod reset_page;
mod responses;
mod rights;
mod rights_at_position;
mod scenarios;
mod schedule;
mod shared_log;
mod slow_clients;
mod smtp;
mod store_formats;
mod support;
mod telemetry;
mod telemetry_flood;
mod telemetry_forwarding;
mod terminal;
mod tidy;
mod tls;
mod upgrade;
mod user;
mod user_export;
mod user_import;
