//! Decompresses guides: plain, gzip, xz or zip, detected by the first bytes and not by file name.

use std::io::{self, Cursor, Read};

use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};

use super::GuideError;
use super::archives::{GzipMembers, ZipMember};

const XZ_MEMORY: u64 = 80 * 1024 * 1024;

/// A compressed file with an additional HTTP content encoding.
const LAYERS_MAX: usize = 2;

/// The reader must bound the output, see [`super::bounded_lines`].
pub fn unpack<'a>(input: impl Read + 'a) -> Result<Box<dyn Read + 'a>, GuideError> {
    let mut input: Box<dyn Read + 'a> = Box::new(input);
    for _ in 0..LAYERS_MAX {
        let packed;
        (packed, input) = unpack_once(input)?;
        if !packed {
            break;
        }
    }
    Ok(input)
}

/// Formats that are not read, by their first bytes.
const FOREIGN: [(&[u8], &str); 6] = [
    (b"BZh", "a bzip2 file"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "a zstd file"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"Rar!", "a rar archive"),
    (b"PK\x05\x06", "an empty zip archive"),
    (b"%PDF", "a PDF"),
];

fn unpack_once<'a>(
    mut input: Box<dyn Read + 'a>,
) -> Result<(bool, Box<dyn Read + 'a>), GuideError> {
    let broken = |error: io::Error| GuideError::Unreadable(error.to_string());
    let mut first = Vec::with_capacity(6);
    let read = input.by_ref().take(6).read_to_end(&mut first);
    read.map_err(broken)?;
    // The content decides and not the name: servers label compressed guides in every way.
    if let Some((_, what)) = FOREIGN.iter().find(|(magic, _)| first.starts_with(magic)) {
        return Err(GuideError::NotAGuide(format!(
            "it is {what}; send it as plain text, gzip, xz or zip"
        )));
    }
    let gzip = first.starts_with(&[0x1f, 0x8b]);
    let xz = first.starts_with(&[0xfd, b'7', b'z', b'X', b'Z', 0]);
    let zip = first.starts_with(b"PK\x03\x04");
    let whole = Cursor::new(first).chain(input);
    if gzip {
        return Ok((true, Box::new(GzipMembers::new(whole))));
    }
    if zip {
        return Ok((true, Box::new(ZipMember::open(whole)?)));
    }
    if xz {
        // The limit keeps a crafted header from allocating gigabytes.
        let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED);
        let stream = stream.map_err(|error| broken(error.into()))?;
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
    fn the_format_is_detected_by_the_first_bytes() {
        let text = b"<tv></tv>".repeat(1_000);
        let mut xz = Vec::new();
        liblzma::read::XzEncoder::new(&text[..], 6)
            .read_to_end(&mut xz)
            .unwrap();
        for packed in [text.clone(), gzip(&text), xz] {
            assert_eq!(read(&packed).unwrap(), text);
        }
        for short in [&b""[..], b"<"] {
            assert_eq!(read(short).unwrap(), short);
        }
    }

    #[test]
    fn two_layers_of_compression_are_accepted() {
        let text = b"<tv></tv>".repeat(100);
        assert_eq!(read(&gzip(&gzip(&text))).unwrap(), text);
        // More layers than a server would add are an attack.
        let thrice = read(&gzip(&gzip(&gzip(&text)))).unwrap();
        assert!(thrice.starts_with(&[0x1f, 0x8b]));
    }

    #[test]
    fn concatenated_members_are_read() {
        let two = [gzip(b"one "), gzip(b"two")].concat();
        assert_eq!(read(&two).unwrap(), b"one two");
    }

    #[test]
    fn what_follows_the_last_gzip_member_is_ignored() {
        for padding in [&[0; 512][..], &[0; 100_000], b"\0\0\0x", b"garbage"] {
            let packed = [&gzip(b"<tv/>"), padding].concat();
            assert_eq!(read(&packed).unwrap(), b"<tv/>", "{padding:?}");
        }
        let two = [&gzip(b"one "), &[0; 700][..], &gzip(b"two")].concat();
        assert_eq!(read(&two).unwrap(), b"one two");
    }

    #[test]
    fn other_formats_are_named() {
        for (bytes, name) in [(&b"BZh91AY&SY"[..], "bzip2"), (b"7z\xbc\xaf\x27\x1c", "7z")] {
            let error = unpack(bytes).err().unwrap().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn truncated_or_damaged_compression_is_an_error() {
        let packed = gzip(&b"<tv></tv>".repeat(1_000));
        assert!(read(&packed[..packed.len() - 1]).is_err());
        assert!(read(&packed[..packed.len() / 2]).is_err());
        let mut damaged = packed.clone();
        let last = damaged.len() - 6;
        damaged[last] ^= 1;
        assert!(read(&damaged).is_err());
    }
}
