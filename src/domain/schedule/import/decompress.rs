//! Unpacking: plain, gzip and xz, told by the first bytes and never by a name.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::GuideError;

/// What unpacking xz may take; the strongest usual setting needs 65 MiB.
const XZ_MEMORY: u64 = 80 * 1024 * 1024;

/// How often a guide may be packed: a packed file that a server packs once more.
const LAYERS: usize = 2;

/// Unpacks a guide as it is read. How much comes out is bounded by who reads it, see
/// [`super::lines`].
///
/// # Errors
/// [`GuideError::Unreadable`] where not even the first bytes can be read.
pub fn unpack<'a>(input: impl Read + 'a) -> Result<Box<dyn Read + 'a>, GuideError> {
    let mut input: Box<dyn Read + 'a> = Box::new(input);
    for _ in 0..LAYERS {
        let packed;
        (packed, input) =
            unpack_once(input).map_err(|error| GuideError::Unreadable(error.to_string()))?;
        if !packed {
            break;
        }
    }
    Ok(input)
}

/// Takes one packing off, if there is any; says whether there was.
fn unpack_once<'a>(mut input: Box<dyn Read + 'a>) -> io::Result<(bool, Box<dyn Read + 'a>)> {
    let mut first = Vec::with_capacity(6);
    input.by_ref().take(6).read_to_end(&mut first)?;
    let gzip = first.starts_with(&[0x1f, 0x8b]);
    let xz = first.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]);
    let whole = Cursor::new(first).chain(input);
    if gzip {
        return Ok((true, Box::new(MultiGzDecoder::new(whole))));
    }
    if xz {
        let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
        return Ok((true, Box::new(XzDecoder::new_stream(whole, stream))));
    }
    Ok((false, Box::new(whole)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    fn read(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        unpack(packed).unwrap().read_to_end(&mut out)?;
        Ok(out)
    }

    #[test]
    fn the_first_bytes_tell_the_packing() {
        let text = b"<tv></tv>".repeat(1_000);
        let mut xz = Vec::new();
        liblzma::read::XzEncoder::new(&text[..], 6)
            .read_to_end(&mut xz)
            .unwrap();
        for packed in [text.clone(), gzip(&text), xz] {
            assert_eq!(read(&packed).unwrap(), text);
        }
        for short in [&b""[..], b"<", b"\x1f"] {
            assert_eq!(read(short).unwrap(), short);
        }
    }

    #[test]
    fn a_packed_file_may_be_packed_once_more() {
        let text = b"<tv></tv>".repeat(100);
        assert_eq!(read(&gzip(&gzip(&text))).unwrap(), text);
        // More often is an attempt at something.
        let thrice = read(&gzip(&gzip(&gzip(&text)))).unwrap();
        assert!(thrice.starts_with(&[0x1f, 0x8b]));
    }

    #[test]
    fn members_follow_each_other() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(&two).unwrap(), b"one two");
    }

    #[test]
    fn a_cut_or_damaged_packing_is_an_error() {
        let packed = gzip(&b"<tv></tv>".repeat(1_000));
        assert!(read(&packed[..packed.len() - 1]).is_err());
        assert!(read(&packed[..packed.len() / 2]).is_err());
        let mut damaged = packed.clone();
        let last = damaged.len() - 6;
        damaged[last] ^= 1;
        assert!(read(&damaged).is_err());
    }
}
