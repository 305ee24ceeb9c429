//! The log: one event, one line, of bounded length and at a bounded rate. What goes into it is
//! chosen where it is logged: never a header's value, a query, a path with parameters, or a body.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{self, FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

use crate::config::limits::{LOG_BURST, LOG_LINE, LOG_RATE};

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Text,
    /// For collectors.
    Json,
    /// For systemd's journal.
    Journal,
}

/// A log that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The level is none.
    #[error("`{0}` is no log level")]
    Level(String),
    /// Another log is set up in this process.
    #[error("the log is set up already")]
    Twice,
}

/// Sets the log up, to standard error: data alone goes to standard output.
///
/// # Errors
/// [`LogError`].
pub fn init(format: Format, level: &str) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(level).map_err(|_| LogError::Level(level.to_owned()))?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Bounded::new(io::stderr()))
        .with_ansi(false);
    let done = match format {
        Format::Text => log.with_target(false).try_init(),
        Format::Json => log.json().flatten_event(true).with_target(false).try_init(),
        Format::Journal => log.event_format(Journal::default()).try_init(),
    };
    done.map_err(|_| LogError::Twice)?;
    // A panic is one line of the log like everything else; the service's barrier adds the request.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let thread = std::thread::current();
        tracing::error!(place, thread = thread.name(), "panic");
    }));
    Ok(())
}

/// Events for a journal that reads the level off the beginning of a line (`sd-daemon(3)`) and knows
/// the time itself.
struct Journal(fmt::format::Format<fmt::format::Full, ()>);

impl Default for Journal {
    fn default() -> Self {
        let plain = fmt::format().without_time().with_ansi(false);
        Self(plain.with_level(false).with_target(false))
    }
}

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        self.0.format_event(context, writer, event)
    }
}

struct State<W> {
    out: W,
    /// Bytes that may be written now.
    budget: u64,
    filled: Instant,
    dropped: u64,
}

/// Writes lines within the limits.
struct Bounded<W>(Arc<Mutex<State<W>>>);

impl<W> Clone for Bounded<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W> Bounded<W> {
    fn new(out: W) -> Self {
        Self(Arc::new(Mutex::new(State {
            out,
            budget: LOG_BURST,
            filled: Instant::now(),
            dropped: 0,
        })))
    }
}

impl<W: Write + 'static> MakeWriter<'_> for Bounded<W> {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

impl<W: Write> Write for Bounded<W> {
    /// One event, in one piece.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        let elapsed = state.filled.elapsed();
        let more = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX) * LOG_RATE / 1_000;
        if more > 0 {
            state.budget = state.budget.saturating_add(more).min(LOG_BURST);
            state.filled = Instant::now();
        }
        let line = one_line(event);
        let Some(rest) = state.budget.checked_sub(line.len() as u64) else {
            state.dropped += 1;
            return Ok(event.len());
        };
        state.budget = rest;
        if state.dropped > 0 {
            let note = format!("… {} log lines left out\n", state.dropped);
            state.dropped = 0;
            state.out.write_all(note.as_bytes())?;
        }
        state.out.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().out.flush()
    }
}

/// The event as one bounded line: a control character in it could forge a line or steer a terminal.
fn one_line(event: &[u8]) -> Vec<u8> {
    let body = event.strip_suffix(b"\n").unwrap_or(event);
    let mut line: Vec<u8> = body
        .iter()
        .take(LOG_LINE)
        .map(|b| if b.is_ascii_control() { b' ' } else { *b })
        .collect();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_gets_the_level_and_no_time() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let out = Shared(Arc::clone(&written));
        let log = tracing_subscriber::fmt()
            .event_format(Journal::default())
            .with_writer(Bounded::new(out))
            .finish();
        tracing::subscriber::with_default(log, || {
            tracing::info!(address = "here", "ready");
            tracing::error!("lost");
        });
        let text = String::from_utf8(written.lock().clone()).unwrap();
        assert_eq!(text, "<6>ready address=\"here\"\n<3>lost\n");
    }

    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(one_line(b"a\r\nforged\x1b[2J\n"), b"a  forged [2J\n");
        assert_eq!(one_line(&vec![b'x'; 100_000]).len(), LOG_LINE + 1);
        assert_eq!(one_line("ä\n".as_bytes()), "ä\n".as_bytes());
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
        assert!(state.dropped > 0);
        assert!(u64::try_from(state.out.len()).unwrap() < LOG_BURST * 2);
        state.budget = LOG_BURST;
        drop(state);
        log.write_all(b"again\n").unwrap();
        let text = String::from_utf8(log.0.lock().out.clone()).unwrap();
        assert!(text.ends_with("log lines left out\nagain\n"));
    }
}
