//! Exports telemetry events, as lines of NDJSON or as the last member of a JSON object.

use bytes::Bytes;

use crate::partner::telemetry::events::write_line;
use playgate_http::response::body::{BodyError, BodyPiece, PIECE_BYTES};
use playgate_records::telemetry::Events;

pub(crate) struct EventPieces {
    head: Option<Bytes>,
    events: Events,
    /// Whether the next event follows another one in the array; `None` for NDJSON.
    element: Option<bool>,
    end: Option<&'static [u8]>,
}

impl EventPieces {
    pub(crate) const fn lines(events: Events) -> Self {
        Self {
            head: None,
            events,
            element: None,
            end: None,
        }
    }

    /// Writes the events as the last member of an object that has members before it.
    pub(crate) fn last_member(name: &str, events: Events) -> Self {
        Self {
            head: Some(format!(",\"{name}\":[").into()),
            events,
            element: Some(false),
            end: Some(b"]}"),
        }
    }

    fn piece(&mut self) -> Result<Vec<u8>, BodyError> {
        // With room for the event that crosses the size of a piece.
        let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
        while out.len() < PIECE_BYTES
            && let Some(event) = self.events.next()
        {
            if self.element == Some(true) {
                out.push(b',');
            }
            self.element = self.element.map(|_| true);
            write_line(&event?, &mut out)?;
        }
        Ok(out)
    }
}

impl Iterator for EventPieces {
    type Item = BodyPiece;

    fn next(&mut self) -> Option<BodyPiece> {
        if let Some(head) = self.head.take() {
            return Some(Ok(head));
        }
        match self.piece() {
            // No event is left: the array is closed.
            Ok(piece) if piece.is_empty() => self.end.take().map(|end| Ok(end.into())),
            piece => Some(piece.map(Bytes::from)),
        }
    }
}
