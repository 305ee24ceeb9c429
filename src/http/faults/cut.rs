//! Cuts a connection before or within an answer. On HTTP/2 only the stream of the request ends.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use crate::response::body::{BodyError, ConnectionCut, ResponseBody};
use playgate_domain::lab::{AppliedFault, CutAt, FaultAction};

/// Time for the first half to be written. An error drops what is not written yet.
const FLUSH_TIME: Duration = Duration::from_millis(100);

/// Cuts the answer if the fault says so.
///
/// # Errors
/// [`ConnectionCut`] if nothing is to be sent.
pub(crate) fn cut(
    fault: Option<&AppliedFault>,
    response: Response<ResponseBody>,
) -> Result<Response<ResponseBody>, ConnectionCut> {
    let Some(FaultAction::Cut(at)) = fault.map(|fault| &fault.action) else {
        return Ok(response);
    };
    // An answer without a body can only be cut as a whole.
    if *at == CutAt::Head || response.body().is_end_stream() {
        return Err(ConnectionCut);
    }
    Ok(response.map(|body| {
        let half = HalfBody {
            length: body.size_hint(),
            state: HalfState::Sending(body),
        };
        ResponseBody::Stream(Box::pin(half), None)
    }))
}

/// Sends the first half of the first piece of a body and then fails. Announces the length of the whole body.
struct HalfBody {
    length: SizeHint,
    state: HalfState,
}

enum HalfState {
    Sending(ResponseBody),
    Flushing(Pin<Box<Sleep>>),
}

impl Body for HalfBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        match &mut this.state {
            HalfState::Sending(body) => {
                let frame = ready!(Pin::new(body).poll_frame(cx));
                // Set before the frame is returned, so that the next poll waits until the half is written.
                this.state = HalfState::Flushing(Box::pin(sleep(FLUSH_TIME)));
                let Some(Ok(frame)) = frame else {
                    return Poll::Ready(Some(Err(ConnectionCut.into())));
                };
                Poll::Ready(Some(Ok(
                    frame.map_data(|bytes| bytes.slice(..bytes.len() / 2))
                )))
            }
            HalfState::Flushing(flushed) => {
                ready!(flushed.as_mut().poll(cx));
                Poll::Ready(Some(Err(ConnectionCut.into())))
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.length
    }
}
