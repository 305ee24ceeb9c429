//! Segment files: one append-only file of events an hour. Each finished segment has a fingerprint file next to it,
//! from which a start restores the dedup window without reading the events.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::DateTime;

use super::error::TelemetryError;
use super::frame::EventFrames;
use super::model::{Fingerprint, StoredEvent};
use playgate_process::data_file::{self, at};
use playgate_process::files::{
    is_failed_sync, is_in_place, make_directory, sync_directory, sync_file,
};
use playgate_segment_log::lengths::LengthFile;
use playgate_segment_log::{
    Lengths, SegmentReader, append_checksum, open, remove_if_present, without_checksum,
};

const HOUR: i64 = playgate_types::time::HOUR;
/// Start of a fingerprint file. The last byte is the version.
const KEYS_MARK: [u8; 4] = *b"PGk\x01";

pub(super) struct Directory {
    path: PathBuf,
    sync: bool,
}

impl Directory {
    pub(super) fn open(path: &Path, sync: bool) -> io::Result<Self> {
        make_directory(path, sync)?;
        for entry in fs::read_dir(path).map_err(at("list", path))? {
            let path = entry?.path();
            // Left by a process that was killed while it wrote.
            if path.extension().is_some_and(|extension| extension == "new") {
                ignore_full_disk(fs::remove_file(path))?;
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

    /// Temporary path of a segment's compressed form, before it replaces the plain file.
    pub(super) fn packing(&self, hour: i64) -> PathBuf {
        self.file(hour, "packed.new")
    }

    pub(super) fn lengths(&self, hour: i64) -> PathBuf {
        self.file(hour, "length")
    }

    pub(super) fn forwarded(&self) -> PathBuf {
        self.path.join("forwarded.cursors")
    }

    pub(super) fn hours(&self) -> io::Result<Vec<i64>> {
        self.hours_with("events")
    }

    fn hours_with(&self, extension: &str) -> io::Result<Vec<i64>> {
        let mut hours = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(at("list", &self.path))? {
            let name = entry?.file_name();
            let parts = name.to_str().and_then(|name| name.rsplit_once('.'));
            let time = parts.filter(|(_, found)| *found == extension);
            hours.extend(time.and_then(|(time, _)| hour_of_name(time)));
        }
        hours.sort_unstable();
        Ok(hours)
    }

    pub(super) fn sizes(&self) -> io::Result<BTreeMap<i64, u64>> {
        let mut sizes = BTreeMap::new();
        for hour in self.hours()? {
            let of = [self.events(hour), self.keys(hour)];
            let of = of.iter().filter_map(|path| fs::metadata(path).ok());
            sizes.insert(hour, of.map(|file| file.len()).sum());
        }
        Ok(sizes)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        if self.sync {
            sync_directory(&self.path)?;
        }
        Ok(())
    }

    pub(super) fn replace(
        &self,
        path: &Path,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        playgate_segment_log::replace(path, self.sync, write)?;
        self.sync()
    }

    pub(super) fn fingerprints(&self, hour: i64) -> io::Result<Vec<Fingerprint>> {
        let kept = data_file::read(&self.keys(hour)).ok();
        // Preferred, because reading the events takes minutes for a large window.
        if let Some(keys) = kept.as_deref().and_then(read_keys) {
            return Ok(keys);
        }
        let mut keys = Vec::new();
        let path = self.events(hour);
        let end = scan(&path, |event| keys.push(event.fingerprint))?;
        Lengths::read(&self.lengths(hour)).compare(&path, end);
        report_torn_end(&path, end)?;
        if self.sync {
            // The segment was never closed: after a kill its end may only be in the page cache.
            match sync_file(&data_file::open_to_read(&path)?, &path) {
                // A disk that was remounted read-only has no pending writes.
                Err(error) if error.kind() != io::ErrorKind::ReadOnlyFilesystem => {
                    return Err(error);
                }
                _ => {}
            }
        }
        self.write_fingerprints(hour, &keys)?;
        Ok(keys)
    }

    /// Logs and ignores errors other than a failed sync: the file only speeds up the next start.
    pub(super) fn write_fingerprints(&self, hour: i64, keys: &[Fingerprint]) -> io::Result<()> {
        let mut bytes = KEYS_MARK.to_vec();
        bytes.extend(keys.iter().flat_map(|key| key.0.to_le_bytes()));
        append_checksum(&mut bytes);
        match self.replace(&self.keys(hour), |file| file.write_all_at(&bytes, 0)) {
            Err(error) if !is_failed_sync(&error) => {
                tracing::warn!(%error, hour, "failed to write a fingerprint file; the next start reads the segment instead");
                Ok(())
            }
            other => other,
        }
    }
}

/// Ignores errors of a full or read-only disk.
fn ignore_full_disk(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| match error.kind() {
        kind if TelemetryError::is_out_of_space(kind) => Ok(()),
        _ => Err(error),
    })
}

fn hour_of_name(name: &str) -> Option<i64> {
    let time = chrono::NaiveDateTime::parse_from_str(&format!("{name}:00"), "%Y-%m-%dT%H:%M");
    Some(time.ok()?.and_utc().timestamp().div_euclid(HOUR))
}

fn read_keys(bytes: &[u8]) -> Option<Vec<Fingerprint>> {
    // A torn file is not an error: the segment itself has every fingerprint.
    let body = without_checksum(bytes)?;
    let (keys, rest) = body.strip_prefix(&KEYS_MARK)?.as_chunks::<8>();
    let keys = keys.iter().map(|key| Fingerprint(u64::from_le_bytes(*key)));
    rest.is_empty().then(|| keys.collect())
}

pub(super) fn scan(path: &Path, mut each: impl FnMut(&StoredEvent)) -> io::Result<u64> {
    let mut frames = EventFrames::new(SegmentReader::open(path)?);
    while let Some(event) = frames.next_frame()? {
        each(&event);
    }
    if frames.damaged() > 0 {
        report_damage(path, frames.damaged());
    }
    Ok(frames.sound_end())
}

pub(super) fn report_damage(path: &Path, bytes: u64) {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    tracing::error!(%file, bytes, "a telemetry segment is damaged; skipped the damaged bytes");
}

/// Reports the bytes behind the last complete record of a segment in its plain form, and returns their number.
pub(super) fn report_torn_end(path: &Path, sound_end: u64) -> io::Result<Option<u64>> {
    let SegmentReader::Plain(plain) = SegmentReader::open(path)? else {
        return Ok(None);
    };
    let Some(bytes @ 1..) = plain.metadata()?.len().checked_sub(sound_end) else {
        return Ok(None);
    };
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    // Nothing else shows damage of what was written after the last sync: it looks like a write that a kill interrupted.
    tracing::warn!(%file, bytes, "a telemetry segment ends with an incomplete record, which is skipped; a kill or power cut interrupted its write, or the file was damaged");
    Ok(Some(bytes))
}

fn set_aside(path: &Path, error: &io::Error) -> io::Result<()> {
    let kept = data_file::set_aside(path)?;
    tracing::error!(%error, kept = %kept.display(), "a telemetry file of the hour that is written to cannot be used; set it aside: its events are left out, also of erasures");
    Ok(())
}

/// Restores the plain form, which appending needs.
fn unpack(directory: &Directory, path: &Path) -> io::Result<()> {
    match SegmentReader::open(path) {
        Ok(mut packed @ SegmentReader::Packed(_)) => {
            directory.replace(path, |plain| io::copy(&mut packed, plain).map(drop))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(super) struct TelemetrySegment {
    pub(super) hour: i64,
    /// Shared with the sync thread: a second open could fail for lack of descriptors.
    file: Arc<File>,
    lengths: Lengths,
    length_file: LengthFile,
    /// Shared with the sync thread, which writes them after the last sync.
    keys: Arc<Vec<Fingerprint>>,
}

impl TelemetrySegment {
    /// Cuts off a torn end, which a kill or a power cut leaves: its events were never acknowledged.
    pub(super) fn open(directory: &Directory, hour: i64) -> io::Result<Self> {
        let path = directory.events(hour);
        // The fingerprint file would be outdated after the first append.
        remove_if_present(&directory.keys(hour))?;
        unpack(directory, &path)?;
        let file = open(&path, false)?;
        directory.sync()?;
        let mut keys = Vec::new();
        let length = scan(&path, |event| keys.push(event.fingerprint))?;
        let place = directory.lengths(hour);
        // Must precede the truncation, which would hide missing bytes.
        Lengths::read(&place).compare(&path, length);
        if report_torn_end(&path, length)?.is_some() {
            file.set_len(length)?;
        }
        if directory.sync {
            // Bytes from a killed process may only be in the page cache, but count as synced from here on.
            sync_file(&file, &path)?;
        }
        let lengths = Lengths::from_synced(length);
        let length_file = LengthFile::open(&place)?;
        length_file.write(lengths)?;
        Ok(Self {
            hour,
            file: Arc::new(file),
            lengths,
            length_file,
            keys: Arc::new(keys),
        })
    }

    /// Like [`open`](Self::open). What is in its place and cannot be used is set aside, so that one file does not stop the
    /// uploads of its hour.
    pub(super) fn open_or_replace(directory: &Directory, hour: i64) -> io::Result<Self> {
        let result = Self::open(directory, hour);
        if !result.as_ref().is_err_and(data_file::is_about_file) {
            return result;
        }
        // These two can be made again, so the events are kept if they are not the reason.
        for path in [directory.keys(hour), directory.lengths(hour)] {
            let opened = data_file::open(File::options().read(true).write(true), &path);
            if let Err(error) = opened
                && data_file::is_about_file(&error)
            {
                set_aside(&path, &error)?;
            }
        }
        match Self::open(directory, hour) {
            Err(error) if data_file::is_about_file(&error) => {
                set_aside(&directory.events(hour), &error)?;
                Self::open(directory, hour)
            }
            other => other,
        }
    }

    pub(super) const fn keys(&self) -> &Arc<Vec<Fingerprint>> {
        &self.keys
    }

    /// After an error the segment is unchanged.
    pub(super) fn append(
        &mut self,
        directory: &Directory,
        frames: &[u8],
        keys: &[Fingerprint],
    ) -> Result<(), TelemetryError> {
        let (end, known) = (self.lengths.written, self.keys.len());
        // Written at the known end and not in append mode, so that a partial write is overwritten.
        if let Err(error) = self.file.write_all_at(frames, end) {
            // A later batch overwrites the partial write. If it is shorter, the rest would read as damage.
            return Err(match self.file.set_len(end) {
                Ok(()) => error.into(),
                Err(second) => TelemetryError::Failed(second.to_string()),
            });
        }
        self.lengths.written += frames.len() as u64;
        Arc::make_mut(&mut self.keys).extend_from_slice(keys);
        // After the write: what is acknowledged must not be in a file without a name, which ends with the process.
        if self.file.metadata().is_ok_and(|file| file.nlink() == 0)
            && let Err(error) = self.write_again(directory)
        {
            // The sender sends the events again.
            self.lengths.written = end;
            Arc::make_mut(&mut self.keys).truncate(known);
            return Err(match self.file.set_len(end) {
                Ok(()) => error.into(),
                Err(second) => TelemetryError::Failed(second.to_string()),
            });
        }
        Ok(())
    }

    fn write_lengths(&self) -> Result<(), TelemetryError> {
        // A full disk must not stop the log, whose events are written already.
        let written = ignore_full_disk(self.length_file.write(self.lengths));
        written.map_err(|error| TelemetryError::Failed(error.to_string()))
    }

    pub(super) fn handle(&self) -> (Arc<File>, u64) {
        (Arc::clone(&self.file), self.lengths.written)
    }

    /// Returns the file to sync and its length. The length is recorded before the sync, so that the next start can tell
    /// what a power cut lost.
    pub(super) fn begin_sync(&self) -> Result<(Arc<File>, u64), TelemetryError> {
        self.write_lengths()?;
        Ok(self.handle())
    }

    pub(super) const fn length_synced(&self) -> u64 {
        self.lengths.synced
    }

    pub(super) fn synced(&mut self, length: u64) -> Result<(), TelemetryError> {
        // An older sync that ends later must not revert the result of a newer one.
        self.lengths.synced = self.lengths.synced.max(length);
        self.write_lengths()
    }

    /// Whether the handle refers to the file at `path`, and not to one that was replaced.
    pub(super) fn is_in_place(&self, path: &Path) -> bool {
        is_in_place(&self.file, path)
    }

    /// Writes the segment again if another program has deleted or replaced its file.
    pub(super) fn restore(&mut self, directory: &Directory) -> io::Result<()> {
        match self.is_in_place(&directory.events(self.hour)) {
            true => Ok(()),
            false => self.write_again(directory),
        }
    }

    fn write_again(&mut self, directory: &Directory) -> io::Result<()> {
        let path = directory.events(self.hour);
        let file = path.display();
        tracing::error!(%file, "another program has deleted or replaced a telemetry file that is being written; writing it again from the open file; exclude the data directory from such programs");
        let length = self.lengths.written;
        self.file = Arc::new(playgate_segment_log::restore(
            &self.file,
            length,
            &path,
            directory.sync,
        )?);
        directory.sync()?;
        self.length_file = LengthFile::open(&directory.lengths(self.hour))?;
        self.lengths = Lengths::from_synced(length);
        self.length_file.write(self.lengths)
    }

    pub(super) fn reopen(&mut self, directory: &Directory, length: u64) -> io::Result<()> {
        let file = open(&directory.events(self.hour), false)?;
        self.file = Arc::new(file);
        self.lengths = Lengths::from_synced(length);
        self.length_file.write(self.lengths)
    }
}
