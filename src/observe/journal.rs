//! Logs to systemd's journal in its native protocol. Each event becomes an entry. Its message is the line that other
//! formats log, and its fields can be queried (`journalctl PLAYGATE_REQUEST_ID=…`).

use std::fmt::{Debug, Write as _};
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::log_bounds::{Allowance, one_line};

pub(super) const SOCKET: &str = "/run/systemd/journal/socket";

/// Sends entries to the journal. Those that a slow journal does not take are counted; if it cannot be reached, entries go
/// to standard error with a level prefix for the service manager (`sd-daemon(3)`).
pub(super) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    allowance: Mutex<Allowance>,
}

impl Journal {
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        // A request must not wait for a slow journal.
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            path: path.to_owned(),
            allowance: Mutex::default(),
        })
    }

    /// Returns false if a slow journal does not take the entry.
    fn send(&self, level: Level, content: &FieldContent) -> bool {
        // Severities of syslog(3).
        let priority = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        let line = one_line(format!("{}{}", content.message, content.rest).as_bytes());
        let mut entry = b"SYSLOG_IDENTIFIER=playgate\nMESSAGE=".to_vec();
        entry.extend(&line);
        entry.extend(format!("PRIORITY={priority}\n").as_bytes());
        for (name, value) in &content.fields {
            // `one_line` also protects the protocol: a newline would begin a forged field.
            entry.extend(format!("PLAYGATE_{name}=").as_bytes());
            entry.extend(one_line(value.as_bytes()));
        }
        let Err(error) = self.socket.send_to(&entry, &self.path) else {
            return true;
        };
        // Standard error of a service leads to the same slow journal, and a write to it blocks.
        let is_slow = error.kind() == io::ErrorKind::WouldBlock;
        if !is_slow {
            let line = [format!("<{priority}>").as_bytes(), &line].concat();
            // If standard error fails too, the entry is lost.
            let _ = io::stderr().lock().write_all(&line);
        }
        !is_slow
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut content = FieldContent::default();
        event.record(&mut content);
        // The fields are sent twice: in the message and by name.
        let length = content.message.len() + 2 * content.rest.len();
        let Some(left_out) = self.allowance.lock().admit(length) else {
            return;
        };
        if left_out > 0 {
            let message = format!("… {left_out} log lines left out");
            let note = FieldContent {
                message,
                ..FieldContent::default()
            };
            if !self.send(Level::WARN, &note) {
                self.allowance.lock().leave_out(left_out);
            }
        }
        if !self.send(*event.metadata().level(), &content) {
            self.allowance.lock().leave_out(1);
        }
    }
}

#[derive(Default)]
struct FieldContent {
    message: String,
    rest: String,
    /// The fields, under names that the journal accepts.
    fields: Vec<(String, String)>,
}

impl FieldContent {
    fn field(&mut self, field: &Field, shown: &str, value: String) {
        // Writing to a string cannot fail.
        let _ = write!(self.rest, " {}={shown}", field.name());
        let name = field.name().to_ascii_uppercase();
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        self.fields.push((name, value));
    }
}

impl Visit for FieldContent {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            _ => self.field(field, &format!("{value:?}"), value.to_owned()),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = format!("{value:?}");
        match field.name() {
            "message" => self.message.push_str(&value),
            _ => self.field(field, &value.clone(), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn entries_that_a_slow_journal_does_not_take_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let reader = UnixDatagram::bind(&path).unwrap();
        reader.set_nonblocking(true).unwrap();
        let log = tracing_subscriber::registry().with(Journal::at(&path).unwrap());
        let mut entries = Vec::new();
        let mut read = || {
            let mut entry = [0; 1024];
            while let Ok(length) = reader.recv(&mut entry) {
                entries.push(String::from_utf8(entry[..length].to_vec()).unwrap());
            }
        };
        tracing::subscriber::with_default(log, || {
            // More than the queue of a socket holds.
            (0..5_000).for_each(|_| tracing::info!("x"));
            read();
            tracing::info!("last");
            read();
        });
        let [.., note, last] = &entries[..] else {
            panic!("{entries:?}")
        };
        assert!(last.contains("MESSAGE=last\n"), "{last}");
        let left_out = 5_001 - (entries.len() - 1);
        assert!(
            note.contains(&format!("MESSAGE=… {left_out} log lines left out\n")),
            "{note}"
        );
    }

    #[test]
    fn an_event_is_an_entry_with_its_fields() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let log = tracing_subscriber::registry().with(Journal::at(&path).unwrap());
        tracing::subscriber::with_default(log, || {
            tracing::info!(request_id = "r1", tries = 2, "two\nPRIORITY=0");
            tracing::error!(error = %"forged\nPRIORITY=0", "lost");
        });
        let entry = || {
            let mut entry = [0; 1024];
            let length = journal.recv(&mut entry).unwrap();
            String::from_utf8(entry[..length].to_vec()).unwrap()
        };
        assert_eq!(
            entry(),
            "SYSLOG_IDENTIFIER=playgate\n\
             MESSAGE=two PRIORITY=0 request_id=\"r1\" tries=2\n\
             PRIORITY=6\n\
             PLAYGATE_REQUEST_ID=r1\n\
             PLAYGATE_TRIES=2\n"
        );
        assert_eq!(
            entry(),
            "SYSLOG_IDENTIFIER=playgate\n\
             MESSAGE=lost error=forged PRIORITY=0\n\
             PRIORITY=3\n\
             PLAYGATE_ERROR=forged PRIORITY=0\n"
        );
    }
}
