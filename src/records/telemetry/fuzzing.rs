//! Fuzzing entry points for segment files, plain and compressed, called by `src/fuzzing`.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};

use super::frame::{EventFrames, write};
use super::model::{EVENT_BYTES_MAX, Fingerprint, Sender, StoredEvent};
use playgate_segment_log::packed::unpacked_length;
use playgate_segment_log::{Packer, SegmentForm, SegmentReader};
use playgate_types::{PartnerId, UnixSeconds, UserId};

/// Reads arbitrary bytes as a segment, then the same bytes between two valid events: both events must be read back.
pub fn events(data: &[u8]) {
    let mut frames = EventFrames::new(data);
    let mut bytes = 0;
    while let Ok(Some(event)) = frames.next_frame() {
        bytes += event.json.len();
    }
    assert!(bytes <= data.len(), "more events than bytes");
    let (end, damaged) = (frames.sound_end(), frames.damaged());
    assert!(
        damaged <= end && end <= data.len() as u64,
        "damage beyond the end"
    );

    let event = |sequence| StoredEvent {
        sender: Sender {
            user: UserId::from_bytes([1; 16]),
            partner: PartnerId::from_bytes([2; 16]),
        },
        received: UnixSeconds(sequence),
        timestamp_millis: sequence,
        sequence,
        fingerprint: Fingerprint(3),
        json: data.iter().copied().take(EVENT_BYTES_MAX).collect(),
    };
    let (first, last) = (event(i64::MIN), event(i64::MAX));
    let mut file = Vec::new();
    write(&first, &mut file);
    file.extend_from_slice(data);
    write(&last, &mut file);
    let mut frames = EventFrames::new(file.as_slice());
    let mut read = Vec::new();
    while let Ok(Some(event)) = frames.next_frame() {
        read.push(event);
    }
    assert!(read.first() == Some(&first), "the event before is lost");
    // The bytes in between may begin a frame that includes the last event.
    let begins = |mark: &[u8]| mark == b"PGe\x01" || mark == b"PGe\x02";
    let swallowed = data.windows(4).any(begins);
    assert!(
        swallowed || read.get(1) == Some(&last),
        "the event behind is lost"
    );
}

/// Reads arbitrary bytes as a finished segment. Then compresses them in three members: every offset must be
/// readable, and a damaged byte may cost one member and must change no other byte.
///
/// # Panics
/// If a property does not hold, or no file descriptor is free.
pub fn packed(data: &[u8]) {
    let from = data.first().map_or(0, |byte| usize::from(*byte));
    let file = MemoryFile::new(data);
    let read = file.read(from);
    if matches!(SegmentForm::detect(&file.0), Ok(SegmentForm::Plain)) {
        let expected = data.get(from..).unwrap_or_default();
        assert!(read == expected, "a plain file is read unchanged");
        assert!(file.length() == data.len(), "a plain file has its length");
    }
    // Frames contain no gzip magic. With it, a stored block could contain a whole second file.
    let text = data
        .iter()
        .map(|byte| if *byte == 0x1f { b' ' } else { *byte });
    let text: Vec<u8> = text.collect();
    let third = text.len() / 3;
    if third == 0 {
        return;
    }
    let (first, rest) = text.split_at(third);
    let (second, last) = rest.split_at(third);
    let mut bytes = pack(&[first, second, last]).unwrap_or_default();
    let file = MemoryFile::new(&bytes);
    assert!(file.length() == text.len(), "the unpacked length");
    for from in [0, from, third, text.len()] {
        let expected = text.get(from..).unwrap_or_default();
        assert!(file.read(from) == expected, "the text from {from}");
    }
    let damaged = data
        .iter()
        .fold(0, |sum, byte| (sum * 31 + usize::from(*byte)) % bytes.len());
    if let Some(byte) = bytes.get_mut(damaged) {
        *byte ^= 0x55;
    }
    let read = MemoryFile::new(&bytes).read(0);
    let mut pairs = read.iter().zip(&text);
    assert!(pairs.all(|(is, was)| *is == 0 || is == was), "a wrong byte");
    let members = [0..third, third..2 * third, 2 * third..text.len()];
    let lost = members
        .into_iter()
        .filter(|member| read.get(member.clone()) != text.get(member.clone()));
    assert!(lost.count() <= 1, "byte {damaged} cost two members");
}

fn pack(members: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut packer = Packer::new(Vec::new());
    for member in members {
        packer.member(member)?;
    }
    packer.finish()
}

/// A file without a directory, which can be opened by its path.
struct MemoryFile(File);

impl MemoryFile {
    fn new(bytes: &[u8]) -> Self {
        let made = memfd_create("segment", MemfdFlags::CLOEXEC).map(File::from);
        let filled = made.map_err(io::Error::from).and_then(|mut file| {
            file.write_all(bytes)?;
            Ok(Self(file))
        });
        match filled {
            Ok(file) => file,
            Err(error) => panic!("no file in memory: {error}"),
        }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Reads unpacked bytes from an offset, up to a limit: a header can claim any offset, and the file reads as zeros
    /// up to it.
    fn read(&self, from: usize) -> Vec<u8> {
        const MOST: u64 = 8 * 1024 * 1024;
        let mut read = Vec::new();
        let reader = SegmentReader::open_at(&self.path(), from as u64);
        let done = reader.and_then(|reader| reader.take(MOST).read_to_end(&mut read));
        assert!(done.is_ok(), "damage is no failure of the disk: {done:?}");
        read
    }

    fn length(&self) -> usize {
        let length = unpacked_length(&self.path());
        length
            .ok()
            .and_then(|length| usize::try_from(length).ok())
            .unwrap_or(usize::MAX)
    }
}
