//! The connections of one actor to the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::harness::raw_http::{Answer, Wire, request};

/// Far more than any response takes, even under strace on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoResponse {
    /// The process has ended.
    Gone,
    /// The connection is open, but no response came in time.
    Hung,
    /// The response was cut off.
    Broken(std::io::ErrorKind),
}

pub type Response = Result<Answer, NoResponse>;

#[derive(Clone)]
pub struct Address {
    pub public: SocketAddr,
    /// The path of the operations socket.
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

    /// Requests `/readyz` of a server that may not be running.
    pub fn probe(ops: &Path) -> Option<Answer> {
        let stream = UnixStream::connect(ops).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut wire = Wire::over(stream);
        wire.send(request("GET", "/readyz", &[], ""))
            .try_answer_to("GET")
            .ok()?
    }

    /// Sends a request to the partner interface.
    pub fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Response {
        if self.public.is_none() {
            let stream = TcpStream::connect(self.address.public).map_err(|_| NoResponse::Gone)?;
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            stream.set_nodelay(true).unwrap();
            self.public = Some(Wire::over(stream));
        }
        send(&mut self.public, method, target, headers, body)
    }

    /// Sends a request to the operators' interface or a probe.
    pub fn operate(&mut self, token: &str, method: &str, target: &str, body: &Value) -> Response {
        if self.ops.is_none() {
            let stream = UnixStream::connect(&self.address.ops).map_err(|_| NoResponse::Gone)?;
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            self.ops = Some(Wire::over(stream));
        }
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str())];
        send(&mut self.ops, method, target, &headers, body)
    }
}

fn send<S: Read + Write>(
    connection: &mut Option<Wire<S>>,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Response {
    let text = match body {
        Value::Null => String::new(),
        // A file is sent as it is.
        Value::String(text) => text.clone(),
        body => body.to_string(),
    };
    let mut wire = connection.take().expect("a connection");
    let response = wire.send(request(method, target, headers, &text));
    match response.try_answer_to(method) {
        Ok(Some(answer)) => {
            if answer.header("connection") != Some("close") {
                *connection = Some(wire);
            }
            Ok(answer)
        }
        Ok(None) => Err(NoResponse::Gone),
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(NoResponse::Hung),
        Err(error) => Err(NoResponse::Broken(error.kind())),
    }
}
