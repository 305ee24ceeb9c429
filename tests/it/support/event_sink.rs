//! A sink of telemetry events that a test scripts.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What the sink does after it has read a request.
#[derive(Clone)]
pub enum SinkAction {
    /// Accepts it.
    Accept,
    /// Sends this and closes.
    Respond(&'static str),
    /// Keeps the connection open without an answer.
    Hang,
}

/// A received request.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub head: Vec<String>,
    pub body: Vec<u8>,
    pub taken: bool,
}

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> &str {
        let prefix = format!("{name}: ");
        let found = self.head.iter().find_map(|line| line.strip_prefix(&prefix));
        found.unwrap()
    }

    pub fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub fn lines(&self) -> usize {
        self.text().lines().count()
    }
}

pub type Decide = fn(&[u8]) -> SinkAction;

/// A sink on its own port. It follows the queued actions, and otherwise decides by the body.
pub struct Sink {
    pub url: String,
    queued: Arc<Mutex<VecDeque<SinkAction>>>,
    requests: Receiver<ReceivedRequest>,
}

impl Sink {
    pub fn start() -> Self {
        Self::deciding(|_| SinkAction::Accept)
    }

    pub fn deciding(decide: Decide) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/in?table=events", listener.local_addr().unwrap());
        let queued = Arc::<Mutex<VecDeque<SinkAction>>>::default();
        let queued_actions = Arc::clone(&queued);
        let (sender, requests) = channel();
        thread::spawn(move || {
            let mut held = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                // A killed process sends nothing or only a part.
                let Some((head, body)) = read(&mut stream) else {
                    continue;
                };
                let queued_action = queued_actions.lock().unwrap().pop_front();
                let action = queued_action.unwrap_or_else(|| decide(&body));
                let taken = matches!(action, SinkAction::Accept);
                let response = match action {
                    SinkAction::Accept => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                    SinkAction::Respond(words) => words,
                    SinkAction::Hang => {
                        held.push(stream.try_clone().unwrap());
                        ""
                    }
                };
                // Recorded before the answer: a test that waits for an effect of the answer finds this request.
                if sender.send(ReceivedRequest { head, body, taken }).is_err() {
                    return;
                }
                // A killed process does not read.
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Self {
            url,
            queued,
            requests,
        }
    }

    pub fn enqueue(&self, action: SinkAction) {
        self.queued.lock().unwrap().push_back(action);
    }

    /// Waits for the next request.
    pub fn next_request(&self) -> ReceivedRequest {
        self.requests.recv_timeout(Duration::from_secs(60)).unwrap()
    }

    /// Returns the requests since the last call.
    pub fn received(&self) -> Vec<ReceivedRequest> {
        self.requests.try_iter().collect()
    }
}

fn read(stream: &mut TcpStream) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head: Vec<String> = String::from_utf8(head)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}
