//! The log: one line per event, of bounded length and at a bounded rate. Header values, queries, paths with
//! parameters and bodies must never be logged.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::journal::{self, Journal};
use super::log_bounds::{Allowance, one_line};

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Text,
    Json,
    Journal,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("logging was set up twice in this process")]
    Twice,
    #[error("failed to open the journald socket: {0}")]
    Socket(#[from] io::Error),
}

pub fn init(format: Format, level: LevelFilter) -> Result<(), LogError> {
    let lines = tracing_subscriber::fmt::layer()
        // Standard output is for data only.
        .with_writer(Bounded::new(io::stderr()))
        // Escape sequences would be stored by log collectors.
        .with_ansi(false)
        .with_target(false);
    let log = tracing_subscriber::registry().with(level);
    let done = match format {
        Format::Text => log.with(lines).try_init(),
        Format::Json => log.with(lines.json().flatten_event(true)).try_init(),
        Format::Journal => log
            .with(Journal::at(Path::new(journal::SOCKET))?)
            .try_init(),
    };
    done.map_err(|_| LogError::Twice)?;
    // A panic is logged as one line; the HTTP service adds the request.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        tracing::error!(place, thread = thread.name(), "panic");
    }));
    Ok(())
}

struct Bounded<W>(Arc<Mutex<(W, Allowance)>>);

impl<W> Clone for Bounded<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W> Bounded<W> {
    fn new(out: W) -> Self {
        Self(Arc::new(Mutex::new((out, Allowance::default()))))
    }
}

impl<W: Write + 'static> MakeWriter<'_> for Bounded<W> {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        // The formatter writes each event in one call, so a line is never cut in two by another thread.
        let (out, allowance) = &mut *self.0.lock();
        let line = one_line(event);
        if let Some(left_out) = allowance.admit(line.len()) {
            if left_out > 0 {
                out.write_all(format!("… {left_out} log lines left out\n").as_bytes())?;
            }
            out.write_all(&line)?;
        }
        // Dropped events count as written: logging must never fail a request.
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use playgate_config::limits::{LOG_BURST, LOG_LINE};

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(one_line(b"a\r\nforged\x1b[2J\n"), b"a  forged [2J\n");
        assert_eq!(one_line(&vec![b'x'; 100_000]).len(), LOG_LINE + 1);
        assert_eq!(one_line("ä\n".as_bytes()), "ä\n".as_bytes());
        assert_eq!(
            one_line("a\u{202e}b\u{9b}".as_bytes()),
            b"a\\u202eb\\u009b\n"
        );
    }

    #[test]
    fn lines_beyond_the_rate_are_counted_instead() {
        let mut log = Bounded::new(Vec::new());
        let line = vec![b'x'; 1_000];
        let written = LOG_BURST / 1_001;
        for _ in 0..written + 5_000 {
            log.write_all(&line).unwrap();
        }
        let mut state = log.0.lock();
        assert!(state.1.left_out > 0);
        assert!(u64::try_from(state.0.len()).unwrap() < LOG_BURST * 2);
        state.1.budget = LOG_BURST;
        drop(state);
        log.write_all(b"again\n").unwrap();
        let text = String::from_utf8(log.0.lock().0.clone()).unwrap();
        assert!(text.ends_with("log lines left out\nagain\n"));
    }
}
