//! Members of gzip and zip files, as they are downloaded: one after the other, without seeking.

use std::io::{self, BufRead as _, BufReader, Read};

use crc32fast::Hasher;
use flate2::bufread::{DeflateDecoder, GzDecoder};

use super::GuideError;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZIP_MEMBER: [u8; 4] = *b"PK\x03\x04";
const ZIP_DESCRIPTOR: [u8; 4] = *b"PK\x07\x08";
/// Bytes of the head of a zip member, after the signature.
const ZIP_HEAD: usize = 26;

/// All members of a gzip file, until something else follows. gzip and browsers ignore that too: tapes and some servers
/// pad files with zeros.
pub(super) struct GzipMembers<R: Read>(Option<GzDecoder<BufReader<R>>>);

impl<R: Read> GzipMembers<R> {
    pub(super) fn new(source: R) -> Self {
        Self(Some(GzDecoder::new(BufReader::new(source))))
    }
}

impl<R: Read> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let got = member.read(into)?;
            if got > 0 || into.is_empty() {
                return Ok(got);
            }
            let Some(ended) = self.0.take() else {
                break;
            };
            // The padding may be longer than a block.
            let mut rest = ended.into_inner();
            loop {
                let block = rest.fill_buf()?;
                let zeros = block.iter().take_while(|byte| **byte == 0).count();
                if zeros == 0 {
                    break;
                }
                rest.consume(zeros);
            }
            let block = rest.fill_buf()?;
            // One byte may be all that has arrived; a member that is cut there is missed by the XML's end.
            if block.first() == GZIP.first()
                && block.get(1).is_none_or(|byte| GZIP.get(1) == Some(byte))
            {
                self.0 = Some(GzDecoder::new(rest));
            }
        }
        Ok(0)
    }
}

/// The only file in a zip archive.
pub(super) struct ZipMember<R: Read> {
    body: Option<ZipBody<R>>,
    crc: Hasher,
    expected: Option<u32>,
}

enum ZipBody<R: Read> {
    Deflated(DeflateDecoder<BufReader<R>>),
    Stored(io::Take<BufReader<R>>),
}

impl<R: Read> ZipMember<R> {
    /// `source` begins with the signature of a member.
    pub(super) fn open(source: R) -> Result<Self, GuideError> {
        let mut source = BufReader::new(source);
        let broken = |error: io::Error| GuideError::Unreadable(error.to_string());
        let mut head = [0; ZIP_HEAD + ZIP_MEMBER.len()];
        source.read_exact(&mut head).map_err(broken)?;
        let number = |at: usize, length: usize| {
            let bytes = head.get(at..at + length).unwrap_or_default();
            bytes
                .iter()
                .rev()
                .fold(0_u32, |sum, byte| (sum << 8) | u32::from(*byte))
        };
        let (flags, method, crc, packed) =
            (number(6, 2), number(8, 2), number(14, 4), number(18, 4));
        let names = u64::from(number(26, 2)) + u64::from(number(28, 2));
        io::copy(&mut source.by_ref().take(names), &mut io::sink()).map_err(broken)?;
        let refused = |what: &str| {
            let what = format!("it is a zip archive {what}; send the guide as gzip or plain text");
            Err(GuideError::NotAGuide(what))
        };
        if flags & 1 != 0 {
            return refused("with a password");
        }
        // Checksum and length stand behind the data.
        let follows = flags & 8 != 0;
        let body = match method {
            8 => ZipBody::Deflated(DeflateDecoder::new(source)),
            0 if !follows && packed != u32::MAX => ZipBody::Stored(source.take(packed.into())),
            0 => return refused("without lengths"),
            _ => return refused("with a rare compression"),
        };
        Ok(Self {
            body: Some(body),
            crc: Hasher::new(),
            expected: (!follows).then_some(crc),
        })
    }

    /// Checks what follows the data, and that it is the last file.
    fn finish(&mut self, body: ZipBody<R>) -> io::Result<()> {
        let mut rest = match body {
            ZipBody::Deflated(decoder) => decoder.into_inner(),
            ZipBody::Stored(rest) if rest.limit() > 0 => {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            ZipBody::Stored(rest) => rest.into_inner(),
        };
        let mut word = || {
            let mut word = [0; 4];
            rest.read_exact(&mut word).map(|()| word)
        };
        let mut next = word()?;
        let mut expected = self.expected;
        if expected.is_none() {
            if next == ZIP_DESCRIPTOR {
                next = word()?;
            }
            expected = Some(u32::from_le_bytes(next));
            // Two lengths, of four bytes, or of eight in a large archive.
            word()?;
            word()?;
            next = word()?;
            if !next.starts_with(b"PK") {
                word()?;
                next = word()?;
            }
        }
        if next == ZIP_MEMBER {
            return Err(io::Error::other("the zip archive has several files"));
        }
        if expected != Some(self.crc.clone().finalize()) {
            return Err(io::Error::other("the checksum of the zip archive is wrong"));
        }
        Ok(())
    }
}

impl<R: Read> Read for ZipMember<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let got = match &mut self.body {
            None => return Ok(0),
            Some(ZipBody::Deflated(decoder)) => decoder.read(into)?,
            Some(ZipBody::Stored(rest)) => rest.read(into)?,
        };
        self.crc.update(into.get(..got).unwrap_or_default());
        if got == 0
            && !into.is_empty()
            && let Some(body) = self.body.take()
        {
            self.finish(body)?;
        }
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const TEXT: &[u8] = b"<tv><!-- zip --></tv>";

    struct Zip {
        flags: u8,
        method: u8,
        wide: bool,
        signed: bool,
    }

    fn archive(zip: &Zip, files: usize) -> Vec<u8> {
        let mut deflate =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        deflate.write_all(TEXT).unwrap();
        let packed = deflate.finish().unwrap();
        let data = if zip.method == 0 {
            TEXT.to_vec()
        } else {
            packed
        };
        let crc = crc32fast::hash(TEXT).to_le_bytes();
        let (length, all) = (
            u32::try_from(data.len()).unwrap().to_le_bytes(),
            u32::try_from(TEXT.len()).unwrap().to_le_bytes(),
        );
        let mut out = Vec::new();
        for _ in 0..files {
            out.extend(b"PK\x03\x04\x14\0");
            out.extend([zip.flags, 0, zip.method, 0, 0, 0, 0, 0]);
            let known = zip.flags & 8 == 0;
            for word in [crc, length, all] {
                out.extend(if known { word } else { [0; 4] });
            }
            out.extend([5, 0, 2, 0]);
            out.extend(b"a.xmlxx");
            out.extend(&data);
            if !known {
                out.extend_from_slice(if zip.signed { b"PK\x07\x08" } else { b"" });
                out.extend(crc);
                for word in [length, all] {
                    out.extend(word);
                    out.extend_from_slice(if zip.wide { &[0; 4] } else { &[] });
                }
            }
        }
        out.extend(b"PK\x01\x02 and the directory");
        out
    }

    fn read(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut member = ZipMember::open(bytes).map_err(|error| error.to_string())?;
        let mut out = Vec::new();
        member
            .read_to_end(&mut out)
            .map_err(|error| error.to_string())?;
        Ok(out)
    }

    #[test]
    fn the_file_of_a_zip_archive_is_read() {
        for (flags, method, wide, signed) in [
            (0, 8, false, false),
            (0, 0, false, false),
            (8, 8, false, true),
            (8, 8, false, false),
            (8, 8, true, true),
        ] {
            let zip = Zip {
                flags,
                method,
                wide,
                signed,
            };
            let bytes = archive(&zip, 1);
            assert_eq!(read(&bytes).as_deref(), Ok(TEXT), "{flags} {method} {wide}");
            for cut in 0..bytes.len() - 25 {
                assert!(read(&bytes[..cut]).is_err(), "{cut}");
            }
            let mut damaged = bytes.clone();
            damaged[42] ^= 1;
            assert!(read(&damaged).is_err());
            assert!(read(&archive(&zip, 2)).unwrap_err().contains("several"));
        }
        for (flags, method, what) in [(1, 8, "password"), (8, 0, "lengths"), (0, 12, "rare")] {
            let zip = Zip {
                flags,
                method,
                wide: false,
                signed: false,
            };
            assert!(
                read(&archive(&zip, 1)).unwrap_err().contains(what),
                "{what}"
            );
        }
    }
}
