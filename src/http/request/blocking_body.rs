//! Passes a request body to a blocking reader through a bounded channel of chunks.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use tokio::sync::mpsc;

use crate::errors::api_error::ApiError;
use crate::request::body::BodyStream;

/// Capacity of the channel, in chunks of up to about 64 KiB.
const CHUNKS_WAITING_MAX: usize = 8;

enum Piece {
    Bytes(Bytes),
    /// End of a complete body. A channel that closes without it means that the client disconnected; a partial
    /// file must not pass for a whole one.
    End,
}

pub struct BodyReader {
    pieces: mpsc::Receiver<Piece>,
    rest: Bytes,
    ended: bool,
}

pub struct BodyFeed(mpsc::Sender<Piece>);

pub fn pipe() -> (BodyFeed, BodyReader) {
    // Bounded: a client that sends faster than the disk writes is slowed down by TCP.
    let (sender, pieces) = mpsc::channel(CHUNKS_WAITING_MAX);
    let reader = BodyReader {
        pieces,
        rest: Bytes::new(),
        ended: false,
    };
    (BodyFeed(sender), reader)
}

impl BodyFeed {
    /// Sends the body to the reader. If the reader is dropped early, the rest of the body is drained.
    ///
    /// # Errors
    /// Those of [`BodyStream::chunk`]. The reader then fails with `UnexpectedEof`.
    pub async fn pass(self, mut body: BodyStream) -> Result<(), ApiError> {
        loop {
            let piece = match body.chunk().await? {
                Some(bytes) => Piece::Bytes(bytes),
                None => Piece::End,
            };
            let last = matches!(piece, Piece::End);
            let unread = self.0.send(piece).await.is_err();
            if last {
                return Ok(());
            }
            // The reader has failed. A reset of the connection would hide its error from a client that is still sending.
            if unread {
                body.drain().await;
                return Ok(());
            }
        }
    }
}

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() && !self.ended {
            match self.pieces.blocking_recv() {
                Some(Piece::Bytes(bytes)) => self.rest = bytes,
                Some(Piece::End) => self.ended = true,
                None => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the upload was cut off",
                    ));
                }
            }
        }
        let length = self.rest.len().min(buffer.len());
        self.rest
            .copy_to_slice(buffer.get_mut(..length).unwrap_or_default());
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_complete_body_is_read_to_its_end() {
        let content: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let (feed, mut reader) = pipe();
        let reading = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all).map(|_| all)
        });
        let body = BodyStream::ready(content.clone().into());
        feed.pass(body).await.unwrap();
        assert_eq!(reading.await.unwrap().unwrap(), content);
    }

    #[tokio::test]
    async fn an_interrupted_upload_is_an_error() {
        let (feed, mut reader) = pipe();
        let reading = tokio::task::spawn_blocking(move || {
            let mut all = Vec::new();
            reader.read_to_end(&mut all)
        });
        let half = Piece::Bytes(Bytes::from_static(b"half"));
        assert!(feed.0.send(half).await.is_ok());
        drop(feed);
        let error = reading.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
