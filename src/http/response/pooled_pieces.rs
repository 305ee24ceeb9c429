//! A body whose pieces are made in the pool of exports.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::response::body::{BodyError, BodyPiece};
use playgate_process::worker_pool::export_slots::ExportSlot;
use playgate_process::{JobError, Turn, WorkerPool};

/// Delay before another attempt when the queue of the pool is full.
const RETRY: Duration = Duration::from_millis(200);

type Making<P> = Pin<Box<dyn Future<Output = Result<(P, Option<BodyPiece>), BodyError>> + Send>>;

/// Each piece is made after the client has taken the previous one, and none after the client has gone.
pub struct PooledPieces<P> {
    /// `None` at the end.
    making: Option<Making<P>>,
    turn: Turn,
    slot: ExportSlot,
}

impl<P: Iterator<Item = BodyPiece> + Send + 'static> PooledPieces<P> {
    pub fn new(maker: P, turn: Turn, slot: ExportSlot) -> Self {
        Self {
            making: Some(Box::pin(make(slot.pool(), turn, maker))),
            turn,
            slot,
        }
    }
}

async fn make<P: Iterator<Item = BodyPiece> + Send + 'static>(
    pool: Arc<WorkerPool<()>>,
    turn: Turn,
    maker: P,
) -> Result<(P, Option<BodyPiece>), BodyError> {
    // Shared with the job: a job that the queue sheds must not take the maker with it.
    let waiting = Arc::new(Mutex::new(Some(maker)));
    loop {
        let job = Arc::clone(&waiting);
        let queued = pool.run_for(turn, move |()| {
            let mut maker = job.lock().take()?;
            let piece = maker.next();
            Some((maker, piece))
        });
        let made = match queued {
            Ok(queued) => queued.await,
            Err(_full) => Err(JobError::Shed),
        };
        match made {
            Ok(Some(made)) => return Ok(made),
            Err(JobError::Shed) => sleep(RETRY).await,
            Ok(None) | Err(JobError::Failed) => return Err("the export failed".into()),
        }
    }
}

impl<P: Iterator<Item = BodyPiece> + Send + Unpin + 'static> Body for PooledPieces<P> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(making) = &mut this.making else {
            return Poll::Ready(None);
        };
        let made = ready!(making.as_mut().poll(cx));
        this.making = None;
        let (maker, Some(piece)) = made? else {
            return Poll::Ready(None);
        };
        let piece = piece?;
        this.making = Some(Box::pin(make(this.slot.pool(), this.turn, maker)));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }
}
