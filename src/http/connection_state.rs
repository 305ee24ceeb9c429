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

    pub(crate) fn begin(&self) {
        self.enter(BUSY);
        self.read.store(false, Relaxed);
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

    pub(crate) fn on_read(&self) {
        self.read.store(true, Relaxed);
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
        conn_state.on_read();
        conn_state.begin();
        assert_eq!(conn_state.phase(), Phase::Busy);
        conn_state.on_read();
        conn_state.end();
        assert_eq!(conn_state.phase(), Phase::Idle);
        let turn = conn_state.turn();
        conn_state.on_read();
        assert_eq!(conn_state.phase(), Phase::Head);
        assert_ne!(conn_state.turn(), turn);
    }
}
