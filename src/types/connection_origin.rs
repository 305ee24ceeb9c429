//! Where a connection came in that another member of a fleet forwards.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListenerKind {
    Public,
    /// The partner interface over TLS, before the handshake.
    Secure,
    Ops,
    /// The administration socket.
    Local,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionOrigin {
    pub to: ListenerKind,
    pub from: IpAddr,
    /// Of the process at the other end of an administration socket.
    pub uid: Option<u32>,
}
