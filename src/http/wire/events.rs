//! Players' events as they are sent: on lines of their own, or as the last member of an object.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::task::JoinHandle;

use super::telemetry::write_line;
use crate::domain::telemetry::Events;
use crate::http::stream::BodyError;

/// Bytes of an export that are made at once.
const CHUNK: usize = 64 * 1024;

type Made = (Events, Result<Bytes, BodyError>);

/// An export as it is sent. Each chunk is made on the pool of blocking threads when the client has
/// taken the one before, so that a slow client holds no thread and no memory.
pub struct EventsBody {
    head: Option<Bytes>,
    /// Nothing while a chunk is made, and at the end.
    events: Option<Events>,
    making: Option<JoinHandle<Made>>,
    /// Whether the next event is an element that others precede; `None` for lines.
    element: Option<bool>,
}

impl EventsBody {
    /// The events as lines of JSON.
    #[must_use]
    pub const fn lines(events: Events) -> Self {
        Self {
            head: None,
            events: Some(events),
            making: None,
            element: None,
        }
    }

    /// A JSON object, which must have a member, with the events as one member more.
    ///
    /// # Errors
    /// That `object` is no such object: a defect.
    pub fn member(mut object: Vec<u8>, name: &str, events: Events) -> Result<Self, BodyError> {
        if object.len() < 3 || object.pop() != Some(b'}') {
            return Err("events are added to what is no object".into());
        }
        object.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        Ok(Self {
            head: Some(object.into()),
            events: Some(events),
            making: None,
            element: Some(false),
        })
    }
}

fn chunk(mut events: Events, mut element: Option<bool>) -> Made {
    let mut out = Vec::with_capacity(CHUNK + CHUNK / 8);
    while out.len() < CHUNK {
        match events.next() {
            None => break,
            Some(Err(error)) => return (events, Err(error.into())),
            Some(Ok(event)) => {
                if element == Some(true) {
                    out.push(b',');
                }
                element = element.map(|_| true);
                if let Err(error) = write_line(&event, &mut out) {
                    return (events, Err(error.into()));
                }
            }
        }
    }
    (events, Ok(out.into()))
}

impl Body for EventsBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(head) = this.head.take() {
            return Poll::Ready(Some(Ok(Frame::data(head))));
        }
        if let Some(events) = this.events.take() {
            let element = this.element;
            this.making = Some(tokio::task::spawn_blocking(move || chunk(events, element)));
        }
        let Some(making) = &mut this.making else {
            return Poll::Ready(None);
        };
        let made = ready!(Pin::new(making).poll(cx));
        this.making = None;
        let (events, bytes) = made?;
        let bytes = bytes?;
        if bytes.is_empty() {
            let end = this.element.map(|_| Bytes::from_static(b"]}"));
            return Poll::Ready(end.map(|end| Ok(Frame::data(end))));
        }
        this.element = this.element.map(|_| true);
        this.events = Some(events);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
