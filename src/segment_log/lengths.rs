//! Stores the length of a segment in a small file next to it. The recorded length distinguishes a torn end, which is
//! normal after a kill, from truncation and damage.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{append_checksum, open, without_checksum};

use playgate_process::data_file;

const FILE_BYTES: usize = 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Bytes written when this was stored. After a power cut the segment may be shorter.
    pub written: u64,
    /// Bytes synced. A shorter segment is damaged.
    pub synced: u64,
}

impl Lengths {
    pub const fn from_synced(length: u64) -> Self {
        Self {
            written: length,
            synced: length,
        }
    }

    /// Returns the default for an unreadable file, so that nothing is compared.
    pub fn read(path: &Path) -> Self {
        let bytes = data_file::read(path).unwrap_or_default();
        match without_checksum(&bytes)
            .unwrap_or_default()
            .as_chunks::<8>()
        {
            ([written, synced], []) => Self {
                written: u64::from_le_bytes(*written),
                synced: u64::from_le_bytes(*synced),
            },
            _ => Self::default(),
        }
    }

    fn missing(self, sound_end: u64) -> Option<Missing> {
        // Synced bytes cannot be lost by a power cut, so their absence is damage.
        match (self.synced.checked_sub(sound_end), self.written) {
            (Some(bytes @ 1..), _) => Some(Missing::Synced(bytes)),
            (_, written) if written > sound_end => Some(Missing::Unsynced(written - sound_end)),
            _ => None,
        }
    }

    pub fn compare(self, path: &Path, sound_end: u64) {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        match self.missing(sound_end) {
            Some(Missing::Synced(bytes)) => {
                tracing::error!(%file, bytes, "a segment is damaged: its end is missing");
            }
            Some(Missing::Unsynced(bytes)) => {
                tracing::warn!(%file, bytes, "lost the contents of a segment that were not synced before the restart");
            }
            None => {}
        }
    }

    pub fn write(self, path: &Path) -> io::Result<()> {
        LengthFile::open(path)?.write(self)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Missing {
    /// Lost in a power cut, before they were synced.
    Unsynced(u64),
    Synced(u64),
}

pub struct LengthFile(File);

impl LengthFile {
    pub fn open(path: &Path) -> io::Result<Self> {
        open(path, false).map(Self)
    }

    pub fn write(&self, lengths: Lengths) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(FILE_BYTES);
        bytes.extend(lengths.written.to_le_bytes());
        bytes.extend(lengths.synced.to_le_bytes());
        append_checksum(&mut bytes);
        // Overwritten in place: the checksum rejects a torn write.
        self.0.write_all_at(&bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn missing_synced_and_unsynced_bytes_are_distinguished() {
        let lengths = Lengths {
            written: 300,
            synced: 200,
        };
        assert_eq!(lengths.missing(199), Some(Missing::Synced(1)));
        assert_eq!(lengths.missing(200), Some(Missing::Unsynced(100)));
        assert_eq!(lengths.missing(300), None);
        // The file is longer than its recorded length.
        assert_eq!(lengths.missing(400), None);
        assert_eq!(Lengths::default().missing(0), None);
    }

    #[test]
    fn lengths_are_read_back_and_damaged_ones_are_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.length");
        assert_eq!(Lengths::read(&path), Lengths::default());
        let lengths = Lengths {
            written: 300,
            synced: 200,
        };
        lengths.write(&path).unwrap();
        assert_eq!(Lengths::read(&path), lengths);
        let sound = fs::read(&path).unwrap();
        assert_eq!(sound.len(), FILE_BYTES);
        for bit in 0..FILE_BYTES * 8 {
            let mut damaged = sound.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &damaged).unwrap();
            assert_eq!(Lengths::read(&path), Lengths::default(), "bit {bit}");
        }
    }
}
