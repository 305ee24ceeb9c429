//! Where a connection is between its requests, told by the service and the socket to the task that
//! drives the connection, which alone decides on time-outs; and whether it is to end, told the other way.
//! All of it happens in one task: the atomics are there to be shared, not to order anything.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has come yet, or a part of a head.
    Head,
    /// A request is being answered.
    Busy,
    /// Between requests.
    Idle,
}

/// The state of a connection.
#[derive(Debug)]
pub struct ConnectionState {
    phase: AtomicU8,
    /// Counts the changes of `phase`.
    turn: AtomicU32,
    /// Bytes came since the last request began.
    read: AtomicBool,
    /// A request line with a `#` came.
    fragment: AtomicBool,
    /// The last write could not go on.
    blocked: AtomicBool,
    /// Counts the writes that went on.
    written: AtomicU32,
    /// The next answer is the last one.
    parting: AtomicBool,
}

const HEAD: u8 = 0;
const BUSY: u8 = 1;
const IDLE: u8 = 2;

impl Default for ConnectionState {
    fn default() -> Self {
        Self {
            phase: AtomicU8::new(HEAD),
            turn: AtomicU32::new(0),
            read: AtomicBool::new(false),
            fragment: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            written: AtomicU32::new(0),
            parting: AtomicBool::new(false),
        }
    }
}

impl ConnectionState {
    fn turn_to(&self, phase: u8) {
        self.phase.store(phase, Relaxed);
        self.turn.store(self.turn().wrapping_add(1), Relaxed);
    }

    /// A request begins. Whether its target had a fragment, which the parser drops in silence.
    pub fn begin(&self) -> bool {
        self.turn_to(BUSY);
        self.read.store(false, Relaxed);
        let fragment = self.fragment.load(Relaxed);
        if fragment {
            self.fragment.store(false, Relaxed);
        }
        fragment
    }

    /// The answer is handed to the connection.
    pub fn end(&self) {
        self.turn_to(IDLE);
        self.read.store(false, Relaxed);
    }

    /// Where the connection is. Bytes between requests begin a head.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            HEAD => Phase::Head,
            BUSY => Phase::Busy,
            _ if self.read.load(Relaxed) => {
                self.turn_to(HEAD);
                Phase::Head
            }
            _ => Phase::Idle,
        }
    }

    /// Whether nothing has come at all.
    pub fn is_fresh(&self) -> bool {
        self.phase.load(Relaxed) == HEAD && !self.read.load(Relaxed) && self.turn() == 0
    }

    /// Makes the next answer the last one.
    pub fn enter_lame_duck(&self) {
        self.parting.store(true, Relaxed);
    }

    /// Whether an answer is the last one.
    pub fn is_lame_duck(&self) -> bool {
        self.parting.load(Relaxed)
    }

    /// Changes with the phase.
    pub fn turn(&self) -> u32 {
        self.turn.load(Relaxed)
    }

    /// Bytes came from the client.
    pub fn on_read(&self, bytes: &[u8]) {
        self.read.store(true, Relaxed);
        if self.phase.load(Relaxed) != BUSY && has_fragment(bytes) {
            self.fragment.store(true, Relaxed);
        }
    }

    /// Bytes went to the client.
    pub fn on_write(&self) {
        self.blocked.store(false, Relaxed);
        self.written.store(self.written().wrapping_add(1), Relaxed);
    }

    /// Bytes could not go to the client.
    pub fn block(&self) {
        self.blocked.store(true, Relaxed);
    }

    /// Whether bytes wait to go.
    pub fn blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    /// Changes when bytes go.
    pub fn written(&self) -> u32 {
        self.written.load(Relaxed)
    }
}

/// Whether a request line in these bytes has a `#`. The HTTP crate cuts a fragment off and goes on,
/// so that two spellings would reach one route; nobody may send one.
///
/// Within a head a piece of the line is enough, since it may come in two. After the head there may be
/// a further request, but also a body whose lines look like anything: only a whole request line counts.
fn has_fragment(bytes: &[u8]) -> bool {
    // Heads hardly ever have the character at all.
    if !bytes.contains(&b'#') {
        return false;
    }
    let mut in_head = true;
    bytes.split(|b| *b == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        in_head &= !line.is_empty();
        is_line_with_fragment(line, in_head)
    })
}

fn is_line_with_fragment(line: &[u8], piece_is_enough: bool) -> bool {
    let method = line.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let begins = method > 0 && line.get(method) == Some(&b' ');
    // A line that came in two pieces is known by its end.
    let ends = line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0");
    let is_line = if piece_is_enough {
        begins || ends
    } else {
        begins && ends
    };
    is_line && line.contains(&b'#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_service_and_socket() {
        let pulse = ConnectionState::default();
        assert_eq!(pulse.phase(), Phase::Head);
        pulse.on_read(b"GET / HTTP/1.1\r\n");
        assert!(!pulse.begin());
        assert_eq!(pulse.phase(), Phase::Busy);
        pulse.on_read(b"body");
        pulse.end();
        assert_eq!(pulse.phase(), Phase::Idle);
        let turn = pulse.turn();
        pulse.on_read(b"G");
        assert_eq!(pulse.phase(), Phase::Head);
        assert_ne!(pulse.turn(), turn);
    }

    #[test]
    fn fragments_are_seen_in_request_lines_only() {
        for line in [
            "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /a#",
            "#b HTTP/1.1\r\n",
            "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /a#b HTTP/1.1\r\n",
        ] {
            assert!(has_fragment(line.as_bytes()), "{line}");
        }
        for line in [
            "GET /a HTTP/1.1\r\nX: #1\r\n\r\n",
            "{\"a\":\"#\"}",
            "GET /a HTTP/1.1",
            "POST /a HTTP/1.1\r\nHost: x\r\n\r\nid = 5 # a comment\n",
        ] {
            assert!(!has_fragment(line.as_bytes()), "{line}");
        }
    }
}
