//! A license server of a vendor, and players that ask for its licenses.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::playback_fixture::{PlaybackFixture, Player, player};
use crate::support::raw_http::{Answer, ask, request};

/// What the server does on the next connection after it has read the request.
pub enum Reply {
    /// Sends these bytes and closes.
    Send(Vec<u8>),
    /// Keeps the connection open without a response.
    Hang,
}

/// A received request: its head, sorted and without `Host`, and its body.
pub struct ReceivedRequest {
    pub head: Vec<String>,
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.head.iter().find_map(|line| line.strip_prefix(&prefix))
    }
}

/// A license server of a vendor.
pub struct Server {
    pub url: String,
    replies: Sender<Reply>,
    pub received: Receiver<ReceivedRequest>,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Server {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/l?tenant=a", listener.local_addr().unwrap());
        let (replies, queue) = channel();
        let (sender, received) = channel();
        let held = Arc::new(Mutex::new(Vec::new()));
        let holding = Arc::clone(&held);
        // The thread ends when the test drops the queue.
        thread::spawn(move || {
            for reply in queue {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = sender.send(read(&mut stream));
                match reply {
                    // Playgate may close the connection before it has everything.
                    Reply::Send(bytes) => drop(stream.write_all(&bytes)),
                    Reply::Hang => holding.lock().unwrap().push(stream),
                }
            }
        });
        Self {
            url,
            replies,
            received,
            held,
        }
    }

    /// Closes the connections that [`Reply::Hang`] keeps open.
    pub fn release(&self) {
        self.held.lock().unwrap().clear();
    }

    pub fn next(&self, reply: Reply) {
        self.replies.send(reply).unwrap();
    }

    pub fn received(&self) -> ReceivedRequest {
        self.received.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

fn read(stream: &mut TcpStream) -> ReceivedRequest {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16_384];
    loop {
        let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap().parse().unwrap();
            if bytes.len() == end + 4 + length {
                let mut head: Vec<String> = head.lines().map(str::to_owned).collect();
                head.retain(|line| !line.starts_with("host: "));
                head[1..].sort_unstable();
                let body = bytes[end + 4..].to_vec();
                return ReceivedRequest { head, body };
            }
        }
        let length = stream.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "a request that breaks off");
        bytes.extend_from_slice(&buffer[..length]);
    }
}

pub fn response(status: &str, media: &str, body: &[u8]) -> Reply {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nSet-Cookie: theirs=1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    Reply::Send([head.as_bytes(), body].concat())
}

/// Starts a session with a DRM system.
pub fn playing(fixture: &PlaybackFixture, asset: &str, system: &str, protocol: &str) -> Player {
    let token = fixture.token(&fixture.ann, asset);
    let wanted = [("DRM", system), ("Protocol", protocol)];
    let started = fixture.preflight(&fixture.ann, asset, &token, &wanted);
    assert_eq!(started.status, 200, "{}", started.json());
    player(&fixture.ann, "tv", &started)
}

/// Requests a license with an arbitrary challenge.
pub fn license(
    fixture: &PlaybackFixture,
    player: &Player,
    system: &str,
    more: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let bearer = format!("Bearer {}", player.viewer.token);
    let length = body.len().to_string();
    let mut headers = vec![
        ("Service-AccessToken", fixture.server.partner.as_str()),
        ("Authorization", bearer.as_str()),
        ("Service-Play-Session", player.session.as_str()),
        ("Service-Play-EntitlementId", player.entitlement.as_str()),
        ("Cookie", "ours=1"),
        ("Content-Length", length.as_str()),
    ];
    headers.extend_from_slice(more);
    let target = format!("/api/playback/v1/{system}/license");
    let head = request("POST", &target, &headers, "");
    ask(fixture.server.public, [head.as_bytes(), body].concat())
}
