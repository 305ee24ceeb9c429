//! Several Playgates over one log: one of them, the owner, serves; the others apply what it commits, forward
//! connections to it, and one of them takes over when it is gone.
//!
//! The protocol is [`store::replication`](crate::store::replication). Here are the system that keeps the log, the threads of a
//! member, and what members ask each other.

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
