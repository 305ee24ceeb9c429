//! The connections of one worker, and the responses that it got.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::raw_http::{Answer, Wire, request};

/// How long an answer may take; far above what any takes, also under strace on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The process is gone.
    Gone,
    /// It holds the connection and says nothing.
    Hung,
    /// What it says breaks off.
    Broken(std::io::ErrorKind),
}

pub type Heard = Result<Answer, Silence>;

/// Where an appliance listens.
#[derive(Clone)]
pub struct Address {
    pub public: SocketAddr,
    /// The socket of the operations listener.
    pub ops: PathBuf,
}

pub struct Connection {
    address: Address,
    public: Option<Wire>,
    ops: Option<Wire<UnixStream>>,
}

impl Connection {
    pub fn to(address: &Address) -> Self {
        Self {
            address: address.clone(),
            public: None,
            ops: None,
        }
    }

    /// `/readyz`, of a server that may not be there.
    pub fn probe(ops: &Path) -> Option<Answer> {
        let stream = UnixStream::connect(ops).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut wire = Wire::over(stream);
        wire.send(request("GET", "/readyz", &[], ""))
            .heard("GET")
            .ok()?
    }

    /// A request to the partner interface.
    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Heard {
        if self.public.is_none() {
            let stream = TcpStream::connect(self.address.public).map_err(|_| Silence::Gone)?;
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            self.public = Some(Wire::over(stream));
        }
        say(&mut self.public, method, target, headers, body)
    }

    /// A request to the operators' interface and the probes.
    pub fn operate(&mut self, token: &str, method: &str, target: &str, body: &Value) -> Heard {
        if self.ops.is_none() {
            let stream = UnixStream::connect(&self.address.ops).map_err(|_| Silence::Gone)?;
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            self.ops = Some(Wire::over(stream));
        }
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        say(&mut self.ops, method, target, &headers, body)
    }
}

fn say<S: Read + Write>(
    place: &mut Option<Wire<S>>,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Heard {
    let text = match body {
        Value::Null => String::new(),
        // A file, which is sent as it is.
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let mut wire = place.take().expect("a connection");
    let heard = wire.send(request(method, target, headers, &text));
    match heard.heard(method) {
        Ok(Some(answer)) => {
            if answer.header("connection") != Some("close") {
                *place = Some(wire);
            }
            Ok(answer)
        }
        Ok(None) => Err(Silence::Gone),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(Silence::Hung),
        Err(error) => Err(Silence::Broken(error.kind())),
    }
}
