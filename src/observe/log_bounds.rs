//! Bounds of what is logged: the length of a line, and the rate.

use std::mem;
use std::time::Instant;

use playgate_config::limits::{LOG_BURST, LOG_LINE, LOG_RATE};
use playgate_types::text::for_terminal;

pub(super) struct Allowance {
    pub(super) budget: u64,
    filled: Instant,
    pub(super) left_out: u64,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            budget: LOG_BURST,
            filled: Instant::now(),
            left_out: 0,
        }
    }
}

impl Allowance {
    /// Returns the number of events that were dropped before this one, or `None` if this one has to be dropped.
    pub(super) fn admit(&mut self, bytes: usize) -> Option<u64> {
        let elapsed = self.filled.elapsed();
        // A token bucket: bursts pass, a flood of one error does not fill the disk.
        let more = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX) * LOG_RATE / 1_000;
        // The time is consumed only if it added something: shorter intervals would be rounded down to nothing.
        if more > 0 {
            self.budget = self.budget.saturating_add(more).min(LOG_BURST);
            self.filled = Instant::now();
        }
        let Some(rest) = self.budget.checked_sub(bytes as u64) else {
            // Reported before the next line that is written, so that a flood leaves a trace.
            self.left_out += 1;
            return None;
        };
        self.budget = rest;
        Some(mem::take(&mut self.left_out))
    }

    /// Counts events that were admitted and could not be written.
    pub(super) const fn leave_out(&mut self, events: u64) {
        self.left_out += events;
    }
}

pub(super) fn one_line(event: &[u8]) -> Vec<u8> {
    let body = event.strip_suffix(b"\n").unwrap_or(event);
    let line: Vec<u8> = body
        .iter()
        .take(LOG_LINE)
        // A control character could forge a line or control a terminal.
        .map(|b| if b.is_ascii_control() { b' ' } else { *b })
        .collect();
    let mut line = match String::from_utf8_lossy(&line) {
        text if text.is_ascii() => text.into_owned(),
        // Characters that reorder the line, and control characters beyond ASCII.
        text => for_terminal(&text).into_owned(),
    };
    line.push('\n');
    line.into_bytes()
}
