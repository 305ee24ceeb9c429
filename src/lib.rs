//! Playgate: the partner interface of a video-streaming platform in one binary.
//!
//! # Code map
//!
//! | module | owns |
//! | --- | --- |
//! | [`types`] | the vocabulary: ids, instants, tokens, addresses; a value of such a type has been checked |
//! | [`process`] | bounded pools of threads, thread priority, file descriptors in reserve, files of the data directory |
//! | [`ports`] | clock, randomness, license and mail servers, the sink of telemetry, media files: traits with a real and a test implementation |
//! | [`decode`] | files that people write: values with positions, tables, all mistakes with their lines |
//! | [`media`] | media formats without a product rule: the generated streams of loop channels |
//! | [`store`] | typed tables over a commit log and an ordered key-value engine |
//! | [`segment_log`] | append-only segment files: frames, index of owners, compressed form |
//! | [`domain`] | what the service knows and decides, one module per resource, synchronous |
//! | [`records`] | what has happened: request journal, telemetry events, quality figures |
//! | [`catalog_file`] | the form of catalogue files, TOML or JSON, read and written |
//! | [`config`] | settings and limits, checked at start, all mistakes reported together |
//! | [`observe`] | log, metrics, readiness |
//! | [`services`] | the struct of the services and what they share: pools, clock, configuration |
//! | [`http`] | sockets, the route table, parsing, authentication, handlers, wire types |
//! | [`fleet`] | several Playgates over one log: its client, the threads of a member, what members ask each other |
//! | [`jobs`] | background tasks: sweeps, checkpoints, retention |
//! | [`app`] | opens the services at start and prepares the HTTP server on them |
//! | [`cli`] | the command line; every administrative command is a client of the operators' interface; `cli/mod.rs` lists its rooms |
//! | `fuzzing` | every parser under any bytes; built for tests and fuzzers alone |
//!
//! A resource has the same name in `http/api`, `http/wire` and `domain`, so that a path can be guessed.
//!
//! # Arrows
//!
//! ```text
//! main -> cli -> { app, jobs }
//!                  app -> http
//!                         { http, jobs } -> services -> records -> domain -> { store, decode, media -> ports } -> types
//! ```
//!
//! `fleet` uses store, ports and observe; `records` also uses segment_log.
//! `config` and `observe` may be used by cli, app, http, jobs and services, `process` by all but types. No two modules import
//! each other: a handler takes the [`Services`](services::Services), or the [`HttpState`](http::state::HttpState) that holds
//! them, and `app`, which only `cli` imports, fills both.
//! `domain` and `records` name no hyper, http, `serde_json`, tokio or sled; `http` never names `store`; only
//! `store/engine/sled_engine.rs` names sled. A single package cannot enforce that, so `tests/it/tidy.rs` reads the
//! source and does. No files import each other in a circle, which `tests/it/import_circles.rs` checks.
//!
//! # Invariants
//!
//! - A request is parsed into a value of its type before anything is done for it, in one order of
//!   checks; a handler that needs a partner, a user or an operator takes the proof as an argument.
//! - Hot reads never touch the engine. They are served by tables in memory, which are filled at start and changed by
//!   the commit that changes the store, before that commit is answered.
//! - A change is a write batch, made on the one writer thread. It is appended to the WAL, synced once per group,
//!   published to the tables in memory and then answered. The engine follows in the background. Snapshot and WAL are
//!   the durable state: they serve at every start until the engine is verified against them or rebuilt from them.
//! - An index entry is made by one pure function of its table and changed with its record;
//!   `store verify` compares both ways, `store rebuild` rebuilds them.
//! - Time and randomness are arguments. The clock is read once per request, at the edge.
//! - Blocking work (argon2, cold reads) runs in bounded worker pools; a full pool refuses at once.
//! - Tokens are stored as hashes and looked up, never compared; each kind is unknown in every other
//!   place. Secrets have neither `Debug` nor `Display`.
//! - Everything that grows has a limit, and every limit a reason (`config/limits.rs`).
//! - Error codes and their statuses stand in one table (`http/errors/code.rs`), their words for viewers in
//!   `data/messages`; what a lower layer said goes to the log, never into a body.
//! - A route is described or a test fails (`http/openapi`, `data/openapi`); what table and codes know is
//!   not said there again.
//! - The operators' interface is the one set of administrative verbs: the command line, the console
//!   (`http/console.rs`, `data/console`) and the demo are its clients.
//!
//! # To add an endpoint
//!
//! A row in `http/route_table.rs`, which names request type and handler; the request type with its parser in
//! `http/routing/endpoint`; a verb in `domain`; a handler of ten lines in `http/api`; its wire type in `http/wire`; its
//! description in `data/openapi`; a test in `tests/it`. The compiler or a test names each one that is missing, the
//! coverage test tries every wrong token on it, and every answer of a test is compared with the description.
//! `docs/contributing.md` has the steps.
//!
//! # Deliberately absent
//!
//! A web framework, an ORM, a second runtime, a message broker, JWTs, a plug-in system, sharding: one
//! machine of two cores serves the viewers of a whole platform, and what is not there cannot fail. A fleet adds
//! machines that stand by, and no second place where changes are planned.

#![forbid(unsafe_code)]
// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

pub mod api;
pub mod app;
pub mod cli;
pub mod config;
pub(crate) mod decode;
pub mod domain;
pub mod fleet;
pub(crate) mod formats;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod http;
pub mod jobs;
pub(crate) mod media;
pub mod observe;
pub mod ports;
pub mod process;
pub mod records;
pub(crate) mod segment_log;
pub mod services;
pub mod store;
pub mod types;
