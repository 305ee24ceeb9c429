//! The origin of a connection that another member of a fleet has forwarded.

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
    /// User id of the process at the other end of an administration socket.
    pub uid: Option<u32>,
}
