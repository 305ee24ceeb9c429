//! A fleet: several Playgates over one log. One of them, the owner, makes every change. The others apply its commits, answer
//! reads and heartbeats, and forward other requests to it. One of them takes over when the owner fails.
//!
//! The protocol is in [`store::replication`](playgate_store::replication). This module has the client of the system that
//! stores the log, the threads of a member, and the requests between members.

// A test build has no callers from outside, so that every `pub` in it is unreachable.
#![cfg_attr(not(test), deny(unreachable_pub))]

mod beats;
pub mod candidacy;
mod catch_up;
mod claim;
pub mod driver;
pub mod etcd;
mod etcd_watch;
mod fence;
mod first_contact;
pub mod health;
mod joining;
pub mod last_commit;
mod lease_file;
pub mod local_state;
mod log_access;
mod log_upkeep;
pub mod membership;
mod peer_error;
pub mod peer_keys;
mod peer_places;
pub mod peer_server;
mod peer_tls;
pub mod peers;
mod process;
mod promise_given;
mod promises;
mod record_keeper;
pub mod recovery;
mod retention;
pub mod standing;
mod stuck_append;
mod watching;

pub use fence::Fence;
pub use peer_keys::public_key;
