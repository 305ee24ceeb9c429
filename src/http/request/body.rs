//! Reads request bodies with limits on size, time and unpacked size. Draining the body of a refused request
//! is bounded too.

use std::io::Read;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use crate::errors::api_error::{ApiError, ErrorCode};
use crate::request::body_budget::BodyCharge;
use playgate_config::limits::{BODY_RATE, BODY_STALL, BODY_TELEMETRY, DRAIN_BYTES, DRAIN_TIME};

pub struct BodyStream {
    source: Option<Incoming>,
    ready: Bytes,
    left: usize,
    limit: usize,
    arrival: ArrivalRate,
}

/// The average rate of a body. Only the time in which the server waits for bytes counts: an upload that waits for a
/// worker pool is not a slow client.
#[derive(Default)]
struct ArrivalRate {
    received: u64,
    waited: Duration,
}

impl ArrivalRate {
    fn record(&mut self, bytes: usize, waited: Duration) {
        self.received += bytes as u64;
        self.waited += waited;
    }

    /// A byte every nine seconds never stalls: the average rate bounds such a client too.
    fn is_too_slow(&self) -> bool {
        self.waited > BODY_STALL && self.received < self.waited.as_secs() * BODY_RATE
    }
}

pub(super) fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        ErrorCode::PayloadTooLarge,
        match limit {
            // Players cannot distinguish this 413 from others by its status, so the message says what to do.
            BODY_TELEMETRY => format!("a batch has at most {limit} bytes: halve it and retry"),
            _ => format!("the body has at most {limit} bytes"),
        },
    )
}

fn stalled() -> ApiError {
    ApiError::new(ErrorCode::RequestTimeout, "the body did not arrive in time")
}

impl BodyStream {
    pub(crate) fn new(source: Incoming, limit: usize) -> Self {
        Self {
            source: Some(source),
            ready: Bytes::new(),
            left: limit,
            limit,
            arrival: ArrivalRate::default(),
        }
    }

    pub(crate) fn ready(bytes: Bytes) -> Self {
        Self {
            source: None,
            left: bytes.len(),
            limit: bytes.len(),
            ready: bytes,
            arrival: ArrivalRate::default(),
        }
    }

    /// Returns the next chunk, or `None` at the end.
    ///
    /// # Errors
    /// `PAYLOAD_TOO_LARGE` over the limit, `REQUEST_TIMEOUT` if the client is too slow, `INVALID_REQUEST` if
    /// the framing is broken or the client disconnected.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ApiError> {
        if !self.ready.is_empty() {
            return Ok(Some(std::mem::take(&mut self.ready)));
        }
        loop {
            let Some(source) = &mut self.source else {
                return Ok(None);
            };
            let began = Instant::now();
            let frame = timeout(BODY_STALL, source.frame())
                .await
                .map_err(|_| stalled())?;
            let frame = match frame {
                None => {
                    self.source = None;
                    return Ok(None);
                }
                Some(Ok(frame)) => frame,
                // The parser rejected it: a broken chunk, or a body that ends early.
                Some(Err(error)) => {
                    return Err(ApiError::malformed("the body ended early or is malformed")
                        .with_cause(error));
                }
            };
            // Trailers are ignored.
            let Ok(data) = frame.into_data() else {
                continue;
            };
            self.left = self
                .left
                .checked_sub(data.len())
                .ok_or_else(|| too_large(self.limit))?;
            self.arrival.record(data.len(), began.elapsed());
            if self.arrival.is_too_slow() {
                return Err(stalled());
            }
            // RFC 9113, 6.1: an empty DATA frame is legal and not the end.
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the body into memory. `charge` counts its bytes as they arrive.
    ///
    /// # Errors
    /// Those of [`BodyStream::chunk`], and those of [`BodyCharge`].
    pub(crate) async fn whole(&mut self, charge: &mut BodyCharge) -> Result<Bytes, ApiError> {
        let Some(first) = self.chunk().await? else {
            return Ok(Bytes::new());
        };
        charge.resize(first.len())?;
        // Most bodies arrive in one chunk, which is returned without copying.
        if self.is_at_end() {
            return Ok(first);
        }
        charge.wait()?;
        let Some(second) = self.chunk().await? else {
            return Ok(first);
        };
        let mut all = Vec::new();
        let mut next = Some(second);
        self.append(&mut all, &first, charge)?;
        drop(first);
        while let Some(chunk) = next {
            self.append(&mut all, &chunk, charge)?;
            drop(chunk);
            next = self.chunk().await?;
        }
        Ok(all.into())
    }

    /// Counts the memory before it is taken. What the client declares as the length takes none.
    fn append(
        &self,
        all: &mut Vec<u8>,
        chunk: &[u8],
        charge: &mut BodyCharge,
    ) -> Result<(), ApiError> {
        let needed = all.len() + chunk.len();
        if needed > all.capacity() {
            // Twice as much, so that a body in many small chunks is not copied for each of them.
            let capacity = (needed * 2).min(self.limit.max(needed));
            charge.resize(capacity)?;
            all.reserve_exact(capacity - all.len());
        }
        all.extend_from_slice(chunk);
        Ok(())
    }

    fn is_at_end(&self) -> bool {
        let source = self.source.as_ref();
        self.ready.is_empty() && source.is_none_or(Incoming::is_end_stream)
    }

    /// Reads the body and drops it.
    ///
    /// # Errors
    /// Those of [`BodyStream::chunk`].
    pub(crate) async fn discard(&mut self) -> Result<(), ApiError> {
        while self.chunk().await?.is_some() {}
        Ok(())
    }

    pub async fn drain(self) {
        if let Some(mut source) = self.source {
            drain(&mut source).await;
        }
    }
}

/// Drains the body of a request that was refused before its body was read. Otherwise the client, still
/// sending, would see a reset instead of the response. Returns whether all of it was read.
pub(crate) async fn drain_refused(headers: &HeaderMap, mut body: Incoming) -> bool {
    // A client that sent `Expect: 100-continue` waits with its body; polling the body would ask for it.
    if !headers.contains_key(EXPECT) {
        drain(&mut body).await;
    }
    body.is_end_stream()
}

async fn drain(source: &mut Incoming) {
    let reading = async {
        // Closing a socket with unread input resets it, and the client may lose the response.
        let mut left = DRAIN_BYTES;
        while let Some(Ok(frame)) = source.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // After the time-out the connection is closed with the body unread.
    let _ = timeout(DRAIN_TIME, reading).await;
}

/// A complete body as it was sent.
pub struct SentBody {
    bytes: Bytes,
    packing: Option<Packing>,
}

/// Of a body in gzip.
struct Packing {
    unpacked_limit: usize,
    charge: BodyCharge,
}

impl SentBody {
    pub(crate) const fn plain(bytes: Bytes) -> Self {
        Self {
            bytes,
            packing: None,
        }
    }

    pub(crate) const fn gzip(bytes: Bytes, unpacked_limit: usize, charge: BodyCharge) -> Self {
        Self {
            bytes,
            packing: Some(Packing {
                unpacked_limit,
                charge,
            }),
        }
    }

    /// Takes up to milliseconds.
    ///
    /// # Errors
    /// Those of [`gunzip`].
    pub fn unpack(self) -> Result<Bytes, ApiError> {
        let Some(mut packing) = self.packing else {
            return Ok(self.bytes);
        };
        let unpacked = gunzip(&self.bytes, packing.unpacked_limit)?;
        // Counted and not refused: few threads unpack, and the work is done.
        packing.charge.add(unpacked.len());
        Ok(packing.charge.attach(unpacked))
    }
}

/// Unpacks gzip. The limit applies to the unpacked bytes, so a compression bomb costs no more than the limit.
///
/// # Errors
/// `PAYLOAD_TOO_LARGE` over the limit, `INVALID_REQUEST` if it is not gzip.
fn gunzip(packed: &[u8], limit: usize) -> Result<Bytes, ApiError> {
    let mut unpacked = Vec::new();
    // One byte over the limit tells a body of exactly the limit from a larger one.
    let most = limit as u64 + 1;
    // RFC 1952, 2.2: a gzip file may have several members.
    flate2::read::MultiGzDecoder::new(packed)
        .take(most)
        .read_to_end(&mut unpacked)
        .map_err(|_| ApiError::field("body", "is not valid gzip"))?;
    if unpacked.len() > limit {
        return Err(too_large(limit));
    }
    Ok(unpacked.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn only_the_time_spent_waiting_for_bytes_counts() {
        let mut rate = ArrivalRate::default();
        // However long the server leaves the rest unread in between, two frames that were there count as fast.
        rate.record(10, Duration::ZERO);
        rate.record(10, Duration::ZERO);
        assert!(!rate.is_too_slow());
        rate.record(1, BODY_STALL);
        assert!(!rate.is_too_slow(), "not longer than one stall");
        rate.record(1, Duration::from_secs(1));
        assert!(rate.is_too_slow());
        let enough = usize::try_from(rate.waited.as_secs() * BODY_RATE).unwrap();
        rate.record(enough, Duration::ZERO);
        assert!(!rate.is_too_slow());
    }

    #[test]
    fn a_bomb_is_stopped_at_the_unpacked_limit() {
        assert_eq!(gunzip(&gzip(b"[]"), 100).unwrap(), &b"[]"[..]);
        let bomb = gzip(&vec![b' '; 10_000_000]);
        assert!(bomb.len() < 20_000);
        let error = gunzip(&bomb, 1_000_000).unwrap_err();
        assert_eq!(error.code(), ErrorCode::PayloadTooLarge);
        assert_eq!(gunzip(&gzip(&[b' '; 1000]), 1000).unwrap().len(), 1000);
        assert!(gunzip(&gzip(&[b' '; 1001]), 1000).is_err());
        assert!(gunzip(b"[]", 100).is_err());
        assert!(gunzip(&gzip(b"[1,2,3]")[..12], 100).is_err());
    }
}
