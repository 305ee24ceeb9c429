//! State of one connection, shared by the service, the socket wrappers and the connection task. Only the
//! connection task enforces time-outs.
//!
//! Phases matter for HTTP/1 only, where all access happens within one task. The atomics allow sharing and order
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waiting for the rest of a request head, or for the first byte.
    Head,
    Busy,
    Idle,
}

#[derive(Debug)]
pub(crate) struct ConnectionState {
    phase: AtomicU8,
    turn: AtomicU32,
    read: AtomicBool,
    target_has_fragment: AtomicBool,
    /// Set for bytes that arrived during a request, which are its body unless the client pipelines.
    later_bytes_have_fragment: AtomicBool,
    blocked: AtomicBool,
    written: AtomicU32,
    lame_duck: AtomicBool,
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
            target_has_fragment: AtomicBool::new(false),
            later_bytes_have_fragment: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            written: AtomicU32::new(0),
            lame_duck: AtomicBool::new(false),
        }
    }
}

impl ConnectionState {
    fn enter(&self, phase: u8) {
        self.phase.store(phase, Relaxed);
        // A new number marks a new phase even if it equals the phase of the last poll: idle, busy and idle again is a
        // new idle time.
        self.turn.store(self.turn().wrapping_add(1), Relaxed);
    }

    /// Records the start of a request. Returns whether its target had a fragment, which the parser removes
    /// silently.
    pub(crate) fn begin(&self) -> bool {
        self.enter(BUSY);
        // Without a read since the previous request this one was pipelined. Otherwise the earlier bytes were a body:
        // behind a proxy, the body of one client must not refuse the request of another.
        let is_pipelined = !self.read.load(Relaxed);
        let later_bytes_have_fragment = self.later_bytes_have_fragment.load(Relaxed);
        let target_has_fragment =
            self.target_has_fragment.load(Relaxed) || later_bytes_have_fragment && is_pipelined;
        if target_has_fragment || later_bytes_have_fragment {
            self.target_has_fragment.store(false, Relaxed);
            self.later_bytes_have_fragment.store(false, Relaxed);
        }
        self.read.store(false, Relaxed);
        target_has_fragment
    }

    pub(crate) fn end(&self) {
        self.enter(IDLE);
        // Bytes that arrived during the request were its body; hyper parses a pipelined head from its buffer
        // immediately.
        self.read.store(false, Relaxed);
    }

    /// Returns the phase. Bytes received between requests start a new head.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            HEAD => Phase::Head,
            BUSY => Phase::Busy,
            _ if self.read.load(Relaxed) => {
                self.enter(HEAD);
                Phase::Head
            }
            _ => Phase::Idle,
        }
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.phase.load(Relaxed) == HEAD && !self.read.load(Relaxed) && self.turn() == 0
    }

    pub(crate) fn enter_lame_duck(&self) {
        self.lame_duck.store(true, Relaxed);
    }

    pub(crate) fn is_lame_duck(&self) -> bool {
        self.lame_duck.load(Relaxed)
    }

    pub(crate) fn turn(&self) -> u32 {
        self.turn.load(Relaxed)
    }

    pub(crate) fn on_read(&self, bytes: &[u8]) {
        self.read.store(true, Relaxed);
        // While a request is served, received bytes are its body, or a pipelined request after it.
        let is_busy = self.phase.load(Relaxed) == BUSY;
        if has_fragment(bytes, !is_busy) {
            let seen = if is_busy {
                &self.later_bytes_have_fragment
            } else {
                &self.target_has_fragment
            };
            seen.store(true, Relaxed);
        }
    }

    pub(crate) fn on_write(&self) {
        self.blocked.store(false, Relaxed);
        self.written.store(self.written().wrapping_add(1), Relaxed);
    }

    pub(crate) fn block(&self) {
        self.blocked.store(true, Relaxed);
    }

    pub(crate) fn blocked(&self) -> bool {
        self.blocked.load(Relaxed)
    }

    pub(crate) fn written(&self) -> u32 {
        self.written.load(Relaxed)
    }
}

/// Returns whether the bytes contain a request line with `#`. The HTTP crate drops a fragment, which would
/// let two spellings reach one route; therefore clients must not send one.
///
/// `is_head` tells whether the bytes begin in a request head.
fn has_fragment(bytes: &[u8], is_head: bool) -> bool {
    // Almost no request head contains the character.
    if !bytes.contains(&b'#') {
        return false;
    }
    let mut in_head = is_head;
    bytes.split(|b| *b == b'\n').any(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        in_head &= !line.is_empty();
        // Before a request, a partial line counts, since it may arrive in two reads. Later bytes may be a pipelined
        // request, but also a body with arbitrary lines: then only a complete request line counts.
        is_line_with_fragment(line, in_head)
    })
}

fn is_line_with_fragment(line: &[u8], piece_is_enough: bool) -> bool {
    let method = line.iter().take_while(|b| b.is_ascii_alphabetic()).count();
    let begins = method > 0 && line.get(method) == Some(&b' ');
    // The end of a line that arrived in two pieces identifies it.
    let ends = line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0");
    let is_line = if piece_is_enough {
        begins || ends
    } else {
        begins && ends
    };
    is_line && line.contains(&b'#')
}

/// Marks the connection as busy until the stream of a response ends.
pub(crate) struct InFlightGuard(Arc<ConnectionState>);

impl InFlightGuard {
    pub(crate) const fn new(conn_state: Arc<ConnectionState>) -> Self {
        Self(conn_state)
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_service_and_socket() {
        let conn_state = ConnectionState::default();
        assert_eq!(conn_state.phase(), Phase::Head);
        conn_state.on_read(b"GET / HTTP/1.1\r\n");
        assert!(!conn_state.begin());
        assert_eq!(conn_state.phase(), Phase::Busy);
        conn_state.on_read(b"body");
        conn_state.end();
        assert_eq!(conn_state.phase(), Phase::Idle);
        let turn = conn_state.turn();
        conn_state.on_read(b"G");
        assert_eq!(conn_state.phase(), Phase::Head);
        assert_ne!(conn_state.turn(), turn);
    }

    #[test]
    fn a_fragment_of_a_pipelined_request_is_seen() {
        let conn_state = ConnectionState::default();
        conn_state.on_read(b"POST /a HTTP/1.1\r\n\r\n");
        assert!(!conn_state.begin());
        conn_state.on_read(b"id = 5 # a comment\nGET /b#c\n");
        conn_state.end();
        assert!(!conn_state.begin(), "a body");
        conn_state.on_read(b"bodyGET\n\r\nGET /a#b HTTP/1.1\r\nHost: x\r\n\r\n");
        conn_state.end();
        assert!(conn_state.begin());
    }

    #[test]
    fn a_request_line_in_a_body_is_no_fragment_of_the_next_request() {
        let conn_state = ConnectionState::default();
        conn_state.on_read(b"POST /a HTTP/1.1\r\n\r\n");
        assert!(!conn_state.begin());
        conn_state.on_read(b"{}\nGET /a#b HTTP/1.1\n");
        conn_state.end();
        conn_state.on_read(b"GET /a HTTP/1.1\r\n\r\n");
        assert!(!conn_state.begin());
        conn_state.end();
        // And of none that is pipelined after that.
        assert!(!conn_state.begin());
    }

    #[test]
    fn fragments_are_seen_in_request_lines_only() {
        for line in [
            "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET /a#",
            "#b HTTP/1.1\r\n",
            "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /a#b HTTP/1.1\r\n",
        ] {
            assert!(has_fragment(line.as_bytes(), true), "{line}");
        }
        for line in [
            "GET /a HTTP/1.1\r\nX: #1\r\n\r\n",
            "{\"a\":\"#\"}",
            "GET /a HTTP/1.1",
            "POST /a HTTP/1.1\r\nHost: x\r\n\r\nid = 5 # a comment\n",
        ] {
            assert!(!has_fragment(line.as_bytes(), true), "{line}");
        }
    }
}
