//! Request bodies of the administration client: small JSON, a streamed file, or a streamed URL.

use std::error::Error;
use std::io::{self, Read as _};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use tokio::sync::mpsc;

use crate::output::Failure;
use playgate_ports::named_file;

/// Bytes read from a file at a time. An upload needs `CHUNK_BYTES * CHUNKS_WAITING_MAX` bytes of memory.
const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks that may wait to be sent.
const CHUNKS_WAITING_MAX: usize = 4;

pub(crate) type RequestBodyError = Box<dyn Error + Send + Sync>;
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, RequestBodyError>;

pub(crate) fn nothing() -> RequestBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

pub(crate) fn whole(bytes: impl Into<Bytes>) -> RequestBody {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

#[derive(Clone, Default)]
pub(crate) struct Sent(Arc<BodyCounts>);

#[derive(Default)]
struct BodyCounts {
    bytes: AtomicU64,
    lines: AtomicU64,
    /// 0 if unknown.
    total: AtomicU64,
}

impl Sent {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn lines(&self) -> u64 {
        self.0.lines.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> String {
        match self.total() {
            Some(total) if self.bytes() >= total => "sent; the server is processing".to_owned(),
            Some(total) => format!(
                "sent {} of {} KiB, {} %",
                self.bytes() / 1024,
                total / 1024,
                self.bytes() * 100 / total.max(1)
            ),
            None => format!("sent {} KiB", self.bytes() / 1024),
        }
    }

    pub(crate) fn total(&self) -> Option<u64> {
        Some(self.0.total.load(Ordering::Relaxed)).filter(|total| *total > 0)
    }

    fn add(&self, data: &[u8]) {
        let bytes = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.0.lines.fetch_add(line_ends(data), Ordering::Relaxed);
    }
}

pub(crate) fn line_ends(bytes: &[u8]) -> u64 {
    let ends = bytes.iter().filter(|&&byte| byte == b'\n').count();
    u64::try_from(ends).unwrap_or(u64::MAX)
}

pub(crate) fn counted<B>(body: B, sent: &Sent) -> RequestBody
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<RequestBodyError>,
{
    let total = body.size_hint().exact().unwrap_or(0);
    sent.0.total.store(total, Ordering::Relaxed);
    let sent = sent.clone();
    body.map_frame(move |frame| {
        sent.add(frame.data_ref().map_or(&[], |data| data));
        frame
    })
    .map_err(Into::into)
    .boxed_unsync()
}

pub(crate) fn file(path: &Path) -> Result<FileBody, Failure> {
    if path.as_os_str() == "-" {
        return FileBody::start(io::stdin(), None).map_err(|error| Failure::file(path, &error));
    }
    // Not the server: it runs as another user, which may not be allowed to open the file.
    let open = || {
        let file = named_file::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        // A pipe has no length; it is sent in chunks.
        let length = metadata.is_file().then_some(metadata.len());
        FileBody::start(file, length)
    };
    open().map_err(|error| Failure::file(path, &error))
}

pub(crate) fn bytes(content: Vec<u8>) -> Result<FileBody, Failure> {
    let length = u64::try_from(content.len()).ok();
    let body = FileBody::start(io::Cursor::new(content), length);
    body.map_err(|error| Failure::failed(error.to_string()))
}

/// A body that a thread reads from a file, a few chunks ahead.
pub(crate) struct FileBody {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    /// Remaining bytes, if known.
    left: Option<u64>,
}

impl FileBody {
    fn start(source: impl io::Read + Send + 'static, length: Option<u64>) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(CHUNKS_WAITING_MAX);
        thread::Builder::new()
            .name("upload".to_owned())
            .spawn(move || read_chunks(source, length, &sender))?;
        Ok(Self {
            chunks,
            left: length,
        })
    }
}

fn read_chunks(
    source: impl io::Read,
    length: Option<u64>,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) {
    // A file that grows during the upload must not exceed the announced length.
    let mut source = source.take(length.unwrap_or(u64::MAX));
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let limit = u64::try_from(CHUNK_BYTES).unwrap_or(u64::MAX);
        let read = source.by_ref().take(limit).read_to_end(&mut chunk);
        let message = match read {
            Ok(0) => return,
            Ok(_) => Ok(Bytes::from(chunk)),
            Err(error) => Err(error),
        };
        let over = message.is_err();
        // The receiver is gone if the server has already responded.
        if sender.blocking_send(message).is_err() || over {
            return;
        }
    }
}

impl Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.chunks.poll_recv(context).map(|chunk| {
            let bytes = chunk?;
            if let (Ok(bytes), Some(left)) = (&bytes, &mut self.left) {
                *left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
            }
            Some(bytes.map(Frame::data))
        })
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
