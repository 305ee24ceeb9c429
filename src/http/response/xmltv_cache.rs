//! Cache of the XMLTV export of the whole schedule, built and compressed once for each generation.
//!
//! Building it reads every broadcast from the store and costs a hundred times more than sending it. Of
//! concurrent requests, one builds it in a worker pool and the others wait.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::errors::api_error::ApiError;
use crate::response::body::{BodyError, BodyPiece, PIECE_BYTES};
use crate::response::prepared::Kept;

/// Longest export that is kept uncompressed as well: about 40,000 programmes. A longer one is decompressed
/// while it is sent, so a large guide needs a tenth of its size in memory.
const IDENTITY_BYTES: usize = 32 * 1024 * 1024;

/// A compressed export, with its uncompressed form if that is short.
#[derive(Clone, Debug)]
pub struct GzipExport {
    gzip: Bytes,
    identity: Option<Bytes>,
    tag: u64,
}

impl GzipExport {
    /// Compresses an export while its pieces are produced.
    ///
    /// # Errors
    /// The first piece that failed.
    pub fn from_pieces(pieces: impl Iterator<Item = BodyPiece>) -> Result<Self, BodyError> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        // Most clients accept gzip; the plain form is kept as well while it is small.
        let mut identity = Some(Vec::new());
        for piece in pieces {
            let piece = piece?;
            gzip.write_all(&piece)?;
            // The plain form of a long export is dropped as soon as it exceeds the limit.
            identity = identity.filter(|kept| kept.len() + piece.len() <= IDENTITY_BYTES);
            if let Some(kept) = &mut identity {
                kept.extend_from_slice(&piece);
            }
        }
        let gzip = gzip.finish()?;
        Ok(Self {
            tag: Kept::tag_of(&gzip),
            gzip: gzip.into(),
            identity: identity.map(Bytes::from),
        })
    }

    /// Equal exports have equal tags at every member of a fleet, and after a restart.
    pub const fn tag(&self) -> u64 {
        self.tag
    }

    pub const fn gzip(&self) -> &Bytes {
        &self.gzip
    }

    pub const fn identity(&self) -> Option<&Bytes> {
        self.identity.as_ref()
    }

    pub fn inflated(&self) -> impl Iterator<Item = BodyPiece> + Send + Unpin + use<> {
        let mut decoder = GzDecoder::new(io::Cursor::new(self.gzip.clone()));
        std::iter::from_fn(move || {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            let read = decoder
                .by_ref()
                .take(u64::try_from(PIECE_BYTES).unwrap_or(u64::MAX))
                .read_to_end(&mut piece);
            match read {
                Ok(0) => None,
                Ok(_) => Some(Ok(piece.into())),
                Err(error) => Some(Err(error.into())),
            }
        })
    }
}

type ExportCell = Arc<OnceCell<GzipExport>>;

/// Parts of the schedule that are kept beside the whole. One more pushes them out.
const PARTS_MAX: usize = 16;

/// The exports of the newest generation, by what they hold.
#[derive(Default)]
struct Newest {
    generation: u64,
    cells: HashMap<String, ExportCell>,
}

#[derive(Default)]
pub struct XmltvCache {
    newest: Mutex<Newest>,
}

impl XmltvCache {
    /// Returns the export of a generation, building it with `make` if needed.
    ///
    /// # Errors
    /// The error of `make`; the next request tries again.
    pub async fn get_or_make<F>(
        &self,
        generation: u64,
        part: String,
        make: impl FnOnce() -> F + Send + 'static,
    ) -> Result<GzipExport, ApiError>
    where
        F: Future<Output = Result<GzipExport, ApiError>> + Send + 'static,
    {
        // The lock is released before the export is built.
        let cell = self.cell(generation, part);
        if let Some(export) = cell.get() {
            return Ok(export.clone());
        }
        // In a task, which outlives the request: an export that takes longer than the deadline of a request would be
        // begun again by each request and never be complete.
        let made = tokio::spawn(async move { cell.get_or_try_init(make).await.cloned() });
        made.await.map_err(ApiError::internal)?
    }

    fn cell(&self, generation: u64, part: String) -> ExportCell {
        let mut newest = self.newest.lock();
        // An outdated request gets a separate cell, so that it does not push out the newest export.
        if newest.generation > generation {
            return ExportCell::default();
        }
        if newest.generation < generation {
            *newest = Newest {
                generation,
                cells: HashMap::new(),
            };
        }
        // The whole schedule is always kept. A client that asks for ever new parts fills no memory.
        if newest.cells.len() > PARTS_MAX && !part.is_empty() && !newest.cells.contains_key(&part) {
            newest.cells.retain(|part, _| part.is_empty());
        }
        // All requests of a generation share the cell: the first builds the export, the others wait for it.
        Arc::clone(newest.cells.entry(part).or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn export(pieces: &[&'static [u8]]) -> GzipExport {
        let pieces = pieces.iter().map(|piece| Ok(Bytes::from_static(piece)));
        GzipExport::from_pieces(pieces).unwrap()
    }

    #[test]
    fn an_export_inflates_to_its_pieces() {
        let export = export(&[b"<tv>", b"</tv>"]);
        assert_eq!(export.identity().unwrap(), &b"<tv></tv>"[..]);
        let inflated: Result<Vec<_>, _> = export.inflated().collect();
        assert_eq!(inflated.unwrap().concat(), b"<tv></tv>");
    }

    #[test]
    fn a_long_export_is_kept_compressed_only() {
        let piece = Bytes::from(vec![b'x'; 1024 * 1024]);
        let pieces = std::iter::repeat_n(piece, IDENTITY_BYTES / (1024 * 1024) + 1);
        let export = GzipExport::from_pieces(pieces.map(Ok)).unwrap();
        assert!(export.identity().is_none());
        let length: usize = export.inflated().map(|piece| piece.unwrap().len()).sum();
        assert_eq!(length, IDENTITY_BYTES + 1024 * 1024);
    }

    #[tokio::test]
    async fn a_generation_is_built_once_and_retried_after_a_failure() {
        let cache = XmltvCache::default();
        let made = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&made);
        let make = move || {
            let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
            async move {
                if first {
                    return Err(ApiError::overloaded());
                }
                Ok(export(&[b"x"]))
            }
        };
        let make = || make.clone();
        assert!(cache.get_or_make(3, String::new(), make()).await.is_err());
        let (one, two) = tokio::join!(
            cache.get_or_make(3, String::new(), make()),
            cache.get_or_make(3, String::new(), make())
        );
        assert_eq!(one.unwrap().gzip(), two.unwrap().gzip());
        assert_eq!(made.load(Ordering::Relaxed), 2);
        cache.get_or_make(4, String::new(), make()).await.unwrap();
        // A late request of the previous generation must not replace the newer export.
        cache.get_or_make(3, String::new(), make()).await.unwrap();
        cache.get_or_make(4, String::new(), make()).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn an_export_is_completed_after_its_request_has_gone() {
        let cache = XmltvCache::default();
        let (release, wait) = tokio::sync::oneshot::channel::<()>();
        let slow = || async {
            let _ = wait.await;
            Ok(export(&[b"slow"]))
        };
        let mut request = Box::pin(cache.get_or_make(1, String::new(), slow));
        tokio::select! {
            biased;
            _ = &mut request => panic!("the export is not complete"),
            () = tokio::task::yield_now() => {}
        }
        drop(request);
        release.send(()).unwrap();
        let never = || async { Err(ApiError::overloaded()) };
        let made = cache.get_or_make(1, String::new(), never).await.unwrap();
        assert_eq!(made.identity().unwrap(), &b"slow"[..]);
    }
}
