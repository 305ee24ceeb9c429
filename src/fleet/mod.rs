//! A fleet: several Playgates over one log. One of them, the owner, serves. The others apply its commits and forward
//! connections to it, and one of them takes over when the owner fails.
//!
//! The protocol is in [`store::replication`](crate::store::replication). This module has the client of the system that
//! stores the log, the threads of a member, and the requests between members.

mod claim;
pub mod driver;
pub mod etcd;
mod fence;
pub mod health;
pub mod membership;
mod own_lease;
pub mod peer_server;
mod peer_tls;
pub mod peers;
mod promises;

pub use fence::Fence;
pub use peer_tls::public_key;
