//! The future of a response: ready without a box for most requests.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Response;

use crate::http::faults::ConnectionCut;
use crate::http::response::body::ResponseBody;

pub(crate) type Answered = Response<ResponseBody>;

pub(crate) enum ResponseFuture {
    Ready(Option<Answered>),
    Later(Pin<Box<dyn Future<Output = Result<Answered, ConnectionCut>> + Send>>),
}

impl Future for ResponseFuture {
    type Output = Result<Answered, ConnectionCut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(answer) => answer.take().map_or(Poll::Pending, |a| Poll::Ready(Ok(a))),
            Self::Later(future) => future.as_mut().poll(cx),
        }
    }
}
