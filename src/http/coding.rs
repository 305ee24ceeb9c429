//! Content codings and entity tags.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use http_body::{Body, Frame};
use tokio::task::JoinHandle;

use super::headers::Heads;
use super::quality::quality;
use super::stream::{BodyError, ReplyStream};

/// Packs fast rather than small.
pub(super) fn pack(bytes: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::fast());
    encoder.write_all(bytes).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

type Packer = GzEncoder<Vec<u8>>;

/// A stream, packed piece by piece on the pool of blocking threads.
pub(super) struct PackedBody {
    plain: ReplyStream,
    /// Away while it packs; gone when the end has been packed.
    packer: Option<Packer>,
    packing: Option<JoinHandle<io::Result<(Option<Packer>, Bytes)>>>,
}

impl PackedBody {
    pub(super) fn new(plain: ReplyStream) -> Self {
        Self {
            plain,
            packer: Some(GzEncoder::new(Vec::new(), Compression::fast())),
            packing: None,
        }
    }
}

/// Packs one more piece, or the end; gives what has come out by then.
fn pack_piece(mut packer: Packer, piece: Option<&Bytes>) -> io::Result<(Option<Packer>, Bytes)> {
    let Some(piece) = piece else {
        return Ok((None, packer.finish()?.into()));
    };
    packer.write_all(piece)?;
    let out = std::mem::take(packer.get_mut());
    Ok((Some(packer), out.into()))
}

impl Body for PackedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        loop {
            if let Some(packing) = &mut this.packing {
                let packed = ready!(Pin::new(packing).poll(cx));
                this.packing = None;
                let (packer, out) = packed??;
                this.packer = packer;
                if !out.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(out))));
                }
            }
            if this.packer.is_none() {
                return Poll::Ready(None);
            }
            let piece = match ready!(this.plain.as_mut().poll_frame(cx)) {
                // Trailers would be the only other kind; we send none.
                Some(frame) => Some(frame?.into_data().unwrap_or_default()),
                None => None,
            };
            if let Some(packer) = this.packer.take() {
                let pack = move || pack_piece(packer, piece.as_ref());
                this.packing = Some(tokio::task::spawn_blocking(pack));
            }
        }
    }
}

/// Whether an `Accept-Encoding` takes gzip.
pub(super) fn accepts_gzip(accept: &str) -> bool {
    let mut any = false;
    for range in accept.split(',') {
        let mut parts = range.split(';');
        let coding = parts.next().unwrap_or_default().trim();
        let refused = quality(parts) == 0;
        if coding.eq_ignore_ascii_case("gzip") {
            return !refused;
        }
        any |= coding == "*" && !refused;
    }
    any
}

/// A strong tag; it differs by content coding.
pub(super) fn tag(number: u64, packed: bool) -> HeaderValue {
    let mut text = *b"\"0000000000000000-gz\"";
    for (digit, at) in text.iter_mut().skip(1).take(16).zip((0..16).rev()) {
        let nibble = u32::try_from((number >> (4 * at)) & 0xf).unwrap_or(0);
        *digit = char::from_digit(nibble, 16).map_or(b'0', |c| u8::try_from(c).unwrap_or(b'0'));
    }
    let value = if packed {
        HeaderValue::from_bytes(&text)
    } else {
        let mut plain = [b'"'; 18];
        for (to, from) in plain.iter_mut().zip(text).take(17) {
            *to = from;
        }
        HeaderValue::from_bytes(&plain)
    };
    value.unwrap_or_else(|_| HeaderValue::from_static("\"0\""))
}

/// Whether `If-None-Match` names the tag.
pub(super) fn is_known(heads: &Heads<'_>, tag: &HeaderValue) -> bool {
    let (Some(known), Ok(tag)) = (heads.if_none_match.ascii(), tag.to_str()) else {
        return false;
    };
    known.trim() == "*"
        || known
            .split(',')
            .any(|one| one.trim().trim_start_matches("W/") == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_encoding_is_read_with_weights() {
        for yes in [
            "gzip",
            "GZIP",
            "br, gzip",
            "*",
            "gzip;q=0.1",
            "*;q=0.5, gzip;q=1.0",
        ] {
            assert!(accepts_gzip(yes), "{yes}");
        }
        for no in [
            "",
            "br",
            "gzip;q=0",
            "gzip; q=0.000",
            "*, gzip;q=0",
            "identity",
            "*;q=0",
        ] {
            assert!(!accepts_gzip(no), "{no}");
        }
    }
}
