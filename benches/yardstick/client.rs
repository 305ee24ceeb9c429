//! A minimal HTTP client: it prepares accounts and sessions, and detects where a response ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::server::Server;

pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the string value of a member anywhere in the body. Fails if there is none.
    pub fn member(&self, name: &str) -> String {
        let body = self.text();
        member(&body, name).unwrap_or_else(|| panic!("{name} expected in {} {body}", self.status))
    }
}

/// Parses the response at the start of `bytes`. Returns `None` until it is complete. A chunked body is kept in its
/// chunks.
pub fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let status = head.get(9..12)?.parse().expect("a status is a number");
    let rest = &bytes[end..];
    let header = |wanted: &str| {
        let mut lines = head.split("\r\n").filter_map(|line| line.split_once(": "));
        let found = lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value)
    };
    let body = if header("transfer-encoding").is_some() {
        rest.strip_suffix(b"0\r\n\r\n")?
    } else {
        let length = header("content-length").map_or(Ok(0), str::parse);
        rest.get(..length.expect("a length is a number"))?
    };
    let body = body.to_vec();
    Some(Answer { status, body })
}

/// Returns `host:port` of a server of either kind: the demo or the bare one.
pub fn address_of(server: &Server) -> String {
    member(&server.greeting, "baseUrl").map_or_else(
        || server.address(),
        |url| url.trim_start_matches("http://").to_owned(),
    )
}

pub fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if method != "GET" {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    format!("{head}\r\n{body}").into_bytes()
}

pub fn send(server: &Server, request: &[u8]) -> Answer {
    send_to(&address_of(server), request)
}

/// Sends one request on a new connection.
pub fn send_to(address: &str, request: &[u8]) -> Answer {
    let mut socket = TcpStream::connect(address).expect("the server accepts");
    socket.write_all(request).expect("the server reads");
    let mut bytes = Vec::new();
    let mut part = [0; 64 * 1024];
    loop {
        let read = socket.read(&mut part).expect("the server answers");
        assert!(read > 0, "the server closed the connection");
        bytes.extend_from_slice(&part[..read]);
        if let Some(answer) = parse(&bytes) {
            return answer;
        }
    }
}

/// Returns the string value of a member anywhere in a JSON text.
pub fn member(json: &str, name: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    find(&value, name)
}

fn find(value: &serde_json::Value, name: &str) -> Option<String> {
    let serde_json::Value::Object(members) = value else {
        return None;
    };
    if let Some(serde_json::Value::String(text)) = members.get(name) {
        return Some(text.clone());
    }
    members.values().find_map(|member| find(member, name))
}
