//! The files of events: one segment an hour, appended to, and beside each that is done a file of
//! its fingerprints, from which a start learns quickly what it has to remember.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::DateTime;

use super::error::TelemetryError;
use super::frame::Frames;
use super::model::{Fingerprint, StoredEvent};
use super::packed::SegmentReader;
use super::segment_length::{LengthFile, Lengths};
use crate::store::{is_failed_sync, make_directory, sync_directory, sync_file};

/// Seconds of a segment.
const HOUR: i64 = crate::types::time::HOUR;
/// What a file of fingerprints begins with; the last byte is the version.
const KEYS_MARK: [u8; 4] = *b"PGk\x01";

/// The directory of the segments.
pub(super) struct Directory {
    path: PathBuf,
    sync: bool,
}

impl Directory {
    pub(super) fn open(path: &Path, sync: bool) -> io::Result<Self> {
        make_directory(path, sync)?;
        for entry in fs::read_dir(path)? {
            let path = entry?.path();
            // What a kill left half made.
            if path.extension().is_some_and(|extension| extension == "new") {
                where_writable(fs::remove_file(path))?;
            }
        }
        Ok(Self {
            path: path.to_owned(),
            sync,
        })
    }

    fn file(&self, hour: i64, extension: &str) -> PathBuf {
        let time = DateTime::from_timestamp(hour.saturating_mul(HOUR), 0).unwrap_or_default();
        let name = time.format("%Y-%m-%dT%H");
        self.path.join(format!("{name}.{extension}"))
    }

    pub(super) fn events(&self, hour: i64) -> PathBuf {
        self.file(hour, "events")
    }

    pub(super) fn keys(&self, hour: i64) -> PathBuf {
        self.file(hour, "keys")
    }

    /// Where the compressed form of a segment is written before it takes its place.
    pub(super) fn packing(&self, hour: i64) -> PathBuf {
        self.file(hour, "packed.new")
    }

    pub(super) fn lengths(&self, hour: i64) -> PathBuf {
        self.file(hour, "length")
    }

    /// The hours that there are segments of, in order.
    pub(super) fn hours(&self) -> io::Result<Vec<i64>> {
        let mut hours = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let time = name.to_str().and_then(|name| name.strip_suffix(".events"));
            hours.extend(time.and_then(hour_of_name));
        }
        hours.sort_unstable();
        Ok(hours)
    }

    /// The bytes that the files of each hour take.
    pub(super) fn sizes(&self) -> io::Result<BTreeMap<i64, u64>> {
        let mut sizes = BTreeMap::new();
        for hour in self.hours()? {
            let of = [self.events(hour), self.keys(hour)];
            let of = of.iter().filter_map(|path| fs::metadata(path).ok());
            sizes.insert(hour, of.map(|file| file.len()).sum());
        }
        Ok(sizes)
    }

    /// Makes new and removed names survive a power cut.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.sync {
            sync_directory(&self.path)?;
        }
        Ok(())
    }

    /// Puts a file in place, whole or not at all.
    pub(super) fn replace(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = path.with_file_name(name);
        let written = options().truncate(true).open(&new).and_then(|mut file| {
            write(&mut file)?;
            if self.sync {
                sync_file(&file, &new)?;
            }
            fs::rename(&new, path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written?;
        self.sync()
    }

    /// The fingerprints of a segment that is done: from its file, or from the segment itself.
    pub(super) fn fingerprints(&self, hour: i64) -> io::Result<Vec<Fingerprint>> {
        let kept = fs::read(self.keys(hour)).ok();
        if let Some(keys) = kept.as_deref().and_then(read_keys) {
            return Ok(keys);
        }
        let mut keys = Vec::new();
        let path = self.events(hour);
        let end = scan(&path, |event| keys.push(event.fingerprint))?;
        Lengths::read(&self.lengths(hour)).compare(&path, end);
        if self.sync {
            // It was not closed, so a killed process may have left its end in the page cache alone.
            match sync_file(&File::open(&path)?, &path) {
                // On a disk that has been made read-only nothing is left to be written.
                Err(error) if error.kind() != io::ErrorKind::ReadOnlyFilesystem => {
                    return Err(error);
                }
                _ => {}
            }
        }
        self.keep_fingerprints(hour, &keys)?;
        Ok(keys)
    }

    /// Writes fingerprints down, which is only a help for the next start: where it cannot be done, that
    /// reads the segment instead. A failed sync alone is an error.
    fn keep_fingerprints(&self, hour: i64, keys: &[Fingerprint]) -> io::Result<()> {
        let mut bytes = KEYS_MARK.to_vec();
        bytes.extend(keys.iter().flat_map(|key| key.0.to_le_bytes()));
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        match self.replace(&self.keys(hour), |file| file.write_all_at(&bytes, 0)) {
            Err(error) if !is_failed_sync(&error) => {
                tracing::warn!(%error, hour, "failed to write the fingerprints of events");
                Ok(())
            }
            other => other,
        }
    }
}

/// What only tidies up is left out on a disk that is full or read-only.
fn where_writable(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.kind() {
        kind if TelemetryError::is_of_space(kind) => Ok(()),
        _ => Err(error),
    })
}

pub(super) fn options() -> fs::OpenOptions {
    let mut options = File::options();
    options.create(true).read(true).write(true).mode(0o640);
    options
}

fn hour_of_name(name: &str) -> Option<i64> {
    let time = chrono::NaiveDateTime::parse_from_str(&format!("{name}:00"), "%Y-%m-%dT%H:%M");
    Some(time.ok()?.and_utc().timestamp().div_euclid(HOUR))
}

fn read_keys(bytes: &[u8]) -> Option<Vec<Fingerprint>> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    let (keys, rest) = body.strip_prefix(&KEYS_MARK)?.as_chunks::<8>();
    let keys = keys.iter().map(|key| Fingerprint(u64::from_le_bytes(*key)));
    rest.is_empty().then(|| keys.collect())
}

/// Shows every sound event of a file to `each`; returns where the last one ends.
pub(super) fn scan(path: &Path, mut each: impl FnMut(&StoredEvent)) -> io::Result<u64> {
    let mut frames = Frames::new(SegmentReader::open(path)?);
    while let Some(event) = frames.next()? {
        each(&event);
    }
    if frames.damaged() > 0 {
        tell_damage(path, frames.damaged());
    }
    Ok(frames.sound_end())
}

pub(super) fn tell_damage(path: &Path, bytes: u64) {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    tracing::error!(%file, bytes, "a file of events is damaged; what could be read was kept");
}

/// Makes a compressed segment plain, so that it can be appended to: a clock was put back.
fn unpack(directory: &Directory, path: &Path) -> io::Result<()> {
    match SegmentReader::open(path) {
        Ok(mut packed @ SegmentReader::Packed(_)) => {
            directory.replace(path, |plain| io::copy(&mut packed, plain).map(drop))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The segment that is appended to.
pub(super) struct Segment {
    pub(super) hour: i64,
    /// Shared with the thread that syncs: a second descriptor might not be had.
    file: Arc<File>,
    lengths: Lengths,
    keeper: LengthFile,
    keys: Vec<Fingerprint>,
}

impl Segment {
    /// Opens or makes the segment of an hour. A torn end, which a kill or a power cut leaves, is
    /// cut off: nothing in it was promised.
    pub(super) fn open(directory: &Directory, hour: i64) -> io::Result<Self> {
        let path = directory.events(hour);
        // It will not be true any more.
        match fs::remove_file(directory.keys(hour)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        unpack(directory, &path)?;
        let file = options().truncate(false).open(&path)?;
        directory.sync()?;
        let mut keys = Vec::new();
        let length = scan(&path, |event| keys.push(event.fingerprint))?;
        let place = directory.lengths(hour);
        Lengths::read(&place).compare(&path, length);
        if file.metadata()?.len() != length {
            file.set_len(length)?;
        }
        if directory.sync {
            // What a killed process wrote may be in the page cache alone, and counts as kept.
            sync_file(&file, &path)?;
        }
        let lengths = Lengths::of_whole(length);
        let keeper = LengthFile::open(&place)?;
        keeper.write(lengths)?;
        Ok(Self {
            hour,
            file: Arc::new(file),
            lengths,
            keeper,
            keys,
        })
    }

    pub(super) fn keys(&self) -> &[Fingerprint] {
        &self.keys
    }

    /// Appends frames and remembers their fingerprints. After an error nothing has been added.
    pub(super) fn append(
        &mut self,
        frames: &[u8],
        keys: &[Fingerprint],
    ) -> Result<(), TelemetryError> {
        let end = self.lengths.written;
        if let Err(error) = self.file.write_all_at(frames, end) {
            // The next frames are written over what was written; but a shorter batch would leave a
            // rest behind it that reads as damage.
            return Err(match self.file.set_len(end) {
                Ok(()) => error.into(),
                Err(second) => TelemetryError::Failed(second.to_string()),
            });
        }
        self.lengths.written += frames.len() as u64;
        self.keys.extend_from_slice(keys);
        self.keep_lengths()
    }

    fn keep_lengths(&self) -> Result<(), TelemetryError> {
        let written = where_writable(self.keeper.write(self.lengths));
        written.map_err(|error| TelemetryError::Failed(error.to_string()))
    }

    /// A second handle, to sync without holding up those who append, and how much there is to sync.
    pub(super) fn handle(&self) -> (Arc<File>, u64) {
        (Arc::clone(&self.file), self.lengths.written)
    }

    /// How much of it a power cut leaves.
    pub(super) const fn length_synced(&self) -> u64 {
        self.lengths.synced
    }

    /// So much of it has been synced.
    pub(super) fn synced(&mut self, length: u64) -> Result<(), TelemetryError> {
        self.lengths.synced = self.lengths.synced.max(length);
        self.keep_lengths()
    }

    /// Writes the fingerprints of a segment down that has been synced and is not appended to again.
    pub(super) fn close(self, directory: &Directory) -> io::Result<()> {
        directory.keep_fingerprints(self.hour, &self.keys)
    }

    /// Goes on with the file that has taken the place of this one's, of that length.
    pub(super) fn moved(&mut self, directory: &Directory, length: u64) -> io::Result<()> {
        let file = options()
            .truncate(false)
            .open(directory.events(self.hour))?;
        self.file = Arc::new(file);
        self.lengths = Lengths::of_whole(length);
        self.keeper.write(self.lengths)
    }
}
