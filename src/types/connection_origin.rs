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
    /// The member that forwards the connection can send HTTP/2 on it, so that one connection carries all requests that its
    /// client sends at the same time. Members of earlier versions do not know this field.
    #[serde(default)]
    pub is_multiplexed: bool,
}
