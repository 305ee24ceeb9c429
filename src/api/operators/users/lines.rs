//! The lines of a user import: cuts a body into chunks of whole lines, of bounded size.

use playgate_config::limits::USER_LINE;
use playgate_http::{ApiError, BodyStream};

/// Bytes per chunk: about 500 users with password hashes.
const CHUNK_BYTES: usize = 128 * 1024;

pub(super) struct UserLines {
    pub(super) body: BodyStream,
    chunker: Chunker,
    /// The first bytes, until there are enough to know the encoding.
    begin: Option<Vec<u8>>,
    ended: bool,
}

impl UserLines {
    pub(super) fn new(body: BodyStream) -> Self {
        Self {
            body,
            chunker: Chunker::default(),
            begin: Some(Vec::new()),
            ended: false,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        while !self.ended {
            match self.body.chunk().await? {
                Some(bytes) => {
                    let bytes = match self.begin.take() {
                        None => bytes.to_vec(),
                        Some(mut begin) => {
                            begin.extend_from_slice(&bytes);
                            if begin.len() < BOM.len() {
                                self.begin = Some(begin);
                                continue;
                            }
                            without_mark(begin)?
                        }
                    };
                    if let Some(chunk) = self.chunker.add(&bytes) {
                        return Ok(Some(chunk));
                    }
                }
                None => {
                    self.ended = true;
                    // A body of one or two bytes.
                    let _ = self.chunker.add(&self.begin.take().unwrap_or_default());
                }
            }
        }
        Ok(self.chunker.finish())
    }
}

/// Drops a byte order mark, and names the encoding of a file that is not UTF-8.
fn without_mark(mut begin: Vec<u8>) -> Result<Vec<u8>, ApiError> {
    let is_utf16 = matches!(begin.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
        || begin.iter().take(2).any(|&byte| byte == 0);
    if is_utf16 {
        return Err(ApiError::malformed(
            "the file is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8",
        ));
    }
    if begin.starts_with(BOM) {
        begin.drain(..BOM.len());
    }
    Ok(begin)
}

/// A byte order mark in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

#[derive(Default)]
struct Chunker(Vec<u8>);

impl Chunker {
    /// Adds bytes and returns a chunk as soon as there is enough for one. An incomplete last line
    /// stays for the next chunk.
    ///
    /// Of an overlong line, only as many bytes are kept as prove that it is too long.
    fn add(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.0.extend_from_slice(bytes);
        if self.0.len() < CHUNK_BYTES {
            return None;
        }
        let Some(end) = self.0.iter().rposition(|&byte| byte == b'\n') else {
            // A line without end must not grow in memory. What is left proves that it is too long.
            self.0.truncate(USER_LINE + 1);
            return None;
        };
        let rest = self.0.split_off(end + 1);
        Some(std::mem::replace(&mut self.0, rest))
    }

    fn finish(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.0)).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the lengths of the lines, and the highest number of bytes held at a time.
    fn cut(chunks: &[&[u8]]) -> (Vec<usize>, usize) {
        let (mut chunker, mut found, mut most) = (Chunker::default(), Vec::new(), 0);
        for chunk in chunks {
            found.extend(chunker.add(chunk));
            most = most.max(chunker.0.len());
        }
        found.extend(chunker.finish());
        let lines = found.iter().flat_map(|chunk| {
            let text = chunk.strip_suffix(b"\n").unwrap_or(chunk);
            text.split(|&byte| byte == b'\n').map(<[u8]>::len)
        });
        (lines.collect(), most)
    }

    #[test]
    fn chunks_end_at_line_ends() {
        assert_eq!(cut(&[]).0, Vec::<usize>::new());
        assert_eq!(cut(&[b"ab\n\n", b"abc"]).0, [2, 0, 3]);
        let many = b"0123456789\n".repeat(CHUNK_BYTES);
        let chunks: Vec<&[u8]> = many.chunks(1_000).collect();
        let (lines, most) = cut(&chunks);
        assert_eq!(lines, vec![10; CHUNK_BYTES]);
        assert!(most < CHUNK_BYTES + 1_000);
    }

    #[test]
    fn overlong_line_is_not_buffered() {
        let long = vec![b'x'; 20 * CHUNK_BYTES];
        let mut chunks: Vec<&[u8]> = long.chunks(10_000).collect();
        chunks.push(b"\nab\n");
        let (lines, most) = cut(&chunks);
        assert!(lines[0] > USER_LINE, "{}", lines[0]);
        assert_eq!(lines[1..], [2]);
        assert!(most < CHUNK_BYTES + 10_000);
    }
}
