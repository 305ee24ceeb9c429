//! Several Playgates over one log: the systems that can keep it.
//!
//! The protocol is [`store::replication`](crate::store::replication). Here are its backends; no
//! command starts them yet.

pub mod etcd;
