//! The commit log: what was promised, in order. It is the truth from which the engine is brought
//! forward after a crash.
//!
//! A segment file begins with a magic word and is preallocated with zeros, so that an append
//! changes no file size and one `fdatasync` is a whole commit. Frames follow each other at multiples
//! of eight bytes: length, checksum, number, synced mark, payload. The mark is the number up to
//! which everything was synced when the frame was written: a frame that is missing before it was
//! lost to damage, one that is missing after it to a power cut, and was never promised.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::StoreError;

/// What one commit is appended to and read back from. A replicated log can stand here as well.
pub(super) trait CommitLog: Send {
    /// Appends a payload under the number that must be the next one.
    fn append(&mut self, number: u64, payload: &[u8]) -> Result<(), StoreError>;

    /// Makes every appended payload survive a power cut.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// The first bytes of each segment.
const MAGIC: &[u8; 8] = b"PGLOG\x00\x00\x01";
/// Length, checksum, number and synced mark of a frame.
const FRAME_HEAD: usize = 24;
/// A segment is this long unless one payload needs more.
const SEGMENT_BYTES: u64 = 4 * 1024 * 1024;

/// The list of segments, shared with whoever retires them.
#[derive(Clone, Default)]
pub(super) struct Segments(Arc<Mutex<Vec<Segment>>>);

#[derive(Clone, Debug)]
struct Segment {
    /// The number of its first frame.
    first: u64,
    path: PathBuf,
}

impl Segments {
    /// Deletes the segments that hold nothing after `number`. The last one stays: it is written to.
    pub(super) fn retire(&self, number: u64) -> Result<(), StoreError> {
        let mut segments = self.0.lock();
        while let [oldest, next, ..] = segments.as_slice() {
            if next.first > number.saturating_add(1) {
                break;
            }
            fs::remove_file(&oldest.path)?;
            segments.remove(0);
        }
        Ok(())
    }
}

/// A log in the files of a directory.
pub(super) struct FileLog {
    directory: PathBuf,
    segments: Segments,
    open: Option<OpenSegment>,
    next: u64,
    synced: u64,
    sync: bool,
}

struct OpenSegment {
    file: File,
    position: u64,
    length: u64,
}

impl FileLog {
    /// Opens the log and hands every payload with a number above `after` to `replay`, in order.
    ///
    /// A torn tail, which a crash leaves, is cut off: nothing in it was promised. A missing frame
    /// that had been synced is reported.
    pub(super) fn open(
        directory: &Path,
        after: u64,
        sync: bool,
        mut replay: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
    ) -> Result<Self, StoreError> {
        fs::create_dir_all(directory)?;
        let segments = list(directory)?;
        let mut next = after.saturating_add(1);
        for segment in &segments {
            if segment.first > next {
                return Err(damaged(
                    &segment.path,
                    "begins after the state that it should extend",
                ));
            }
            let bytes = fs::read(&segment.path)?;
            let mut expected = segment.first;
            let end = read_frames(&bytes, &mut expected, &mut |number, payload| {
                if number < next {
                    return Ok(());
                }
                next = number + 1;
                replay(number, payload)
            })?;
            cut_torn_tail(&segment.path, &bytes, end, expected.max(next))?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            segments: Segments(Arc::new(Mutex::new(segments))),
            // Appending starts a new segment.
            open: None,
            next,
            synced: next - 1,
            sync,
        })
    }

    /// The list of segments, for checkpoints.
    pub(super) fn segments(&self) -> Segments {
        self.segments.clone()
    }

    /// The number that the next append must have.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    fn start_segment(&mut self, frame: u64) -> Result<OpenSegment, StoreError> {
        let path = self.directory.join(format!("{:020}.log", self.next));
        let length = SEGMENT_BYTES.max(frame + MAGIC.len() as u64);
        let prepared = self.prepare(&path, length);
        let file = match prepared {
            Ok(file) => file,
            Err(error) => {
                // What a full disk left half made would be taken for a segment at the next start.
                let _ = fs::remove_file(&path);
                return Err(error.into());
            }
        };
        let mut segments = self.segments.0.lock();
        // A segment that holds no frame has the same name, and has just been overwritten.
        segments.retain(|segment| segment.path != path);
        segments.push(Segment {
            first: self.next,
            path,
        });
        Ok(OpenSegment {
            file,
            position: MAGIC.len() as u64,
            length,
        })
    }

    fn prepare(&self, path: &Path, length: u64) -> io::Result<File> {
        let mut file = File::create(path)?;
        file.write_all(MAGIC)?;
        let zeros = vec![0; 64 * 1024];
        let mut left = length.saturating_sub(MAGIC.len() as u64);
        while left > 0 {
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(zeros.len());
            file.write_all(zeros.get(..part).unwrap_or_default())?;
            left = left.saturating_sub(part as u64);
        }
        if self.sync {
            file.sync_all()?;
            // The directory entry too, or the file is gone after a power cut.
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(file)
    }
}

impl CommitLog for FileLog {
    fn append(&mut self, number: u64, payload: &[u8]) -> Result<(), StoreError> {
        if number != self.next {
            return Err(StoreError::Engine(format!(
                "the log expects commit {} and was given {number}",
                self.next
            )));
        }
        let frame = frame(number, self.synced, payload)?;
        let size = frame.len() as u64;
        let fits = self
            .open
            .as_ref()
            .is_some_and(|open| open.position + size <= open.length);
        if !fits {
            // The old segment must be safe before a newer one can be: replay stops at a gap.
            self.sync()?;
            self.open = Some(self.start_segment(size)?);
        }
        let Some(open) = &mut self.open else {
            return Err(StoreError::Engine("no segment is open".to_owned()));
        };
        open.file.write_all_at(&frame, open.position)?;
        open.position += size;
        self.next = number + 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        if let Some(open) = &self.open
            && self.sync
        {
            open.file.sync_data()?;
        }
        self.synced = self.next - 1;
        Ok(())
    }
}

fn frame(number: u64, synced: u64, payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let length = u32::try_from(payload.len()).map_err(|_| StoreError::TooLarge {
        table: "commit log".to_owned(),
    })?;
    let mut frame = Vec::with_capacity(FRAME_HEAD + payload.len() + 8);
    frame.extend_from_slice(&length.to_le_bytes());
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(&synced.to_le_bytes());
    frame.extend_from_slice(payload);
    let sum = crc32fast::hash(frame.get(8..).unwrap_or_default());
    if let Some(field) = frame.get_mut(4..8) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
    frame.resize(frame.len().next_multiple_of(8), 0);
    Ok(frame)
}

/// A frame as it was read.
struct Frame<'a> {
    number: u64,
    synced: u64,
    payload: &'a [u8],
}

impl Frame<'_> {
    /// The bytes that it takes up.
    const fn size(&self) -> usize {
        (FRAME_HEAD + self.payload.len()).next_multiple_of(8)
    }
}

/// The frame at the start of `bytes`.
fn parse_frame(bytes: &[u8]) -> Option<Frame<'_>> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, summed) = rest.split_first_chunk::<4>()?;
    let (number, rest) = summed.split_first_chunk::<8>()?;
    let (synced, rest) = rest.split_first_chunk::<8>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let payload = rest.get(..length)?;
    let number = u64::from_le_bytes(*number);
    // The rest of a segment is zeros, and no frame has the number 0.
    let sound =
        number > 0 && crc32fast::hash(summed.get(..16 + length)?) == u32::from_le_bytes(*sum);
    sound.then_some(Frame {
        number,
        synced: u64::from_le_bytes(*synced),
        payload,
    })
}

/// Walks the frames of a segment from the number `expected` on; returns where they end.
fn read_frames(
    bytes: &[u8],
    expected: &mut u64,
    each: &mut dyn FnMut(u64, &[u8]) -> Result<(), StoreError>,
) -> Result<usize, StoreError> {
    // A crash can leave a new segment without its first bytes; then nothing is in it.
    if bytes.get(..MAGIC.len()) != Some(MAGIC.as_slice()) {
        return Ok(0);
    }
    let mut at = MAGIC.len();
    while let Some(frame) = bytes.get(at..).and_then(parse_frame) {
        if frame.number != *expected {
            break;
        }
        each(frame.number, frame.payload)?;
        *expected += 1;
        at += frame.size();
    }
    Ok(at)
}

/// Cuts off what follows the last frame that can be read, or reports it if a later frame knows that
/// the number `missing` had been synced.
fn cut_torn_tail(path: &Path, bytes: &[u8], end: usize, missing: u64) -> Result<(), StoreError> {
    let tail = bytes.get(end..).unwrap_or_default();
    if tail.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    let mut at = end.max(MAGIC.len());
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= FRAME_HEAD) {
        if parse_frame(rest).is_some_and(|frame| frame.synced >= missing) {
            return Err(damaged(path, "is damaged before its end"));
        }
        at += 8;
    }
    let file = File::options().write(true).open(path)?;
    file.set_len(end as u64)?;
    file.sync_all()?;
    Ok(())
}

fn damaged(path: &Path, what: &str) -> StoreError {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    StoreError::Damaged {
        place: format!("log segment {name}"),
        what: what.to_owned(),
    }
}

fn list(directory: &Path) -> Result<Vec<Segment>, StoreError> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let first = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_suffix(".log"))
            .and_then(|number| number.parse().ok());
        if let Some(first) = first {
            segments.push(Segment { first, path });
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}

/// A log that forgets: for a store in memory.
pub(super) struct NoLog;

impl CommitLog for NoLog {
    fn append(&mut self, _: u64, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reopen(directory: &Path, after: u64) -> Result<(Vec<(u64, Vec<u8>)>, FileLog), StoreError> {
        let mut seen = Vec::new();
        let log = FileLog::open(directory, after, true, |number, payload| {
            seen.push((number, payload.to_vec()));
            Ok(())
        })?;
        Ok((seen, log))
    }

    fn filled(directory: &Path, count: u64) {
        let (_, mut log) = reopen(directory, 0).unwrap();
        for number in 1..=count {
            log.append(number, format!("payload {number}").as_bytes())
                .unwrap();
            log.sync().unwrap();
        }
    }

    fn only_segment(directory: &Path) -> PathBuf {
        list(directory).unwrap().first().unwrap().path.clone()
    }

    #[test]
    fn what_was_appended_is_replayed_in_order() {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), 5);
        let (seen, mut log) = reopen(directory.path(), 2).unwrap();
        assert_eq!(
            seen.iter().map(|(number, _)| *number).collect::<Vec<_>>(),
            [3, 4, 5]
        );
        log.append(6, b"more").unwrap();
        assert!(log.append(8, b"a gap").is_err());
        drop(log);
        let (seen, _) = reopen(directory.path(), 0).unwrap();
        assert_eq!(seen.len(), 6);
    }

    /// The frames before the flipped bit are read; those after it are torn or damaged.
    #[test]
    fn a_torn_tail_is_cut_and_damage_before_it_is_told() {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), 3);
        let path = only_segment(directory.path());
        let sound = fs::read(&path).unwrap();
        let size = frame(1, 0, b"payload 1").unwrap().len();
        // The padding behind a payload holds nothing.
        let meaningful = FRAME_HEAD + b"payload 1".len();
        let with_flipped = |frame: usize, bit: usize| {
            let mut bytes = sound.clone();
            bytes[MAGIC.len() + frame * size + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            reopen(directory.path(), 0).map(|(seen, _)| seen.len())
        };
        for bit in 0..meaningful * 8 {
            assert_eq!(with_flipped(2, bit).unwrap(), 2, "bit {bit}");
            assert_eq!(fs::read(&path).unwrap().len(), MAGIC.len() + 2 * size);
            assert!(
                matches!(with_flipped(0, bit), Err(StoreError::Damaged { .. })),
                "bit {bit}"
            );
        }
    }

    /// Writeback may keep a later page and lose an earlier one, as long as neither was synced.
    #[test]
    fn frames_that_were_never_synced_may_be_lost_in_any_order() {
        let directory = tempfile::tempdir().unwrap();
        let (_, mut log) = reopen(directory.path(), 0).unwrap();
        log.append(1, b"payload 1").unwrap();
        log.sync().unwrap();
        log.append(2, b"payload 2").unwrap();
        log.append(3, b"payload 3").unwrap();
        drop(log);
        let path = only_segment(directory.path());
        let mut bytes = fs::read(&path).unwrap();
        let size = frame(1, 0, b"payload 1").unwrap().len();
        bytes[MAGIC.len() + size..MAGIC.len() + 2 * size].fill(0);
        fs::write(&path, &bytes).unwrap();
        let (seen, mut log) = reopen(directory.path(), 0).unwrap();
        assert_eq!(seen.len(), 1);
        log.append(2, b"again").unwrap();
        drop(log);
        assert_eq!(
            reopen(directory.path(), 0).unwrap().0.last().unwrap().1,
            b"again"
        );
    }

    #[test]
    fn a_missing_segment_is_told() {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), 3);
        let (_, mut log) = reopen(directory.path(), 0).unwrap();
        log.append(4, b"x").unwrap();
        drop(log);
        fs::remove_file(only_segment(directory.path())).unwrap();
        assert!(matches!(
            reopen(directory.path(), 0),
            Err(StoreError::Damaged { .. })
        ));
        assert!(reopen(directory.path(), 3).is_ok());
    }

    #[test]
    fn retired_segments_are_those_that_the_engine_has() {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), 3);
        let (_, mut log) = reopen(directory.path(), 0).unwrap();
        log.append(4, &vec![7; 5 * 1024 * 1024]).unwrap();
        log.append(5, b"x").unwrap();
        let segments = log.segments();
        segments.retire(2).unwrap();
        assert_eq!(list(directory.path()).unwrap().len(), 3);
        segments.retire(4).unwrap();
        assert_eq!(list(directory.path()).unwrap().len(), 1);
        let (seen, _) = reopen(directory.path(), 4).unwrap();
        assert_eq!(seen.len(), 1);
    }
}
