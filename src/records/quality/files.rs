//! The files of the figures: roll-ups by hour, the open views, and the log of inputs since they were written.
//!
//! They are files, and not tables of the store: an hour is written, read and removed as a whole, is larger than a
//! record may be, and must not wait for requests or make them wait. Like telemetry, they are not part of a backup.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use chrono::NaiveDateTime;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::input::QualityInput;
use super::rollup::{HourTable, StoredHour};
use playgate_process::data_file::{self, at};
use playgate_process::files::{make_directory, replace_file, sync_data, sync_directory};
use playgate_types::FiguresFile;

/// The version of all three forms. Files of another version are set aside.
const MAGIC: &[u8; 4] = b"PGQ1";
/// Length and checksum before each batch of the log.
const HEAD_BYTES: usize = 8;
/// The folder with a folder for each other member of a fleet.
const COPIES: &str = "of";
const BATCH_MAX: usize = 64 * 1024 * 1024;

const fn options() -> bincode::config::Configuration {
    bincode::config::standard()
}

fn encode(value: &impl Serialize) -> io::Result<Vec<u8>> {
    bincode::serde::encode_to_vec(value, options()).map_err(io::Error::other)
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (value, _) = bincode::serde::decode_from_slice(bytes, options()).map_err(damaged)?;
    Ok(value)
}

/// gzip adds a checksum, which is verified when the end is reached. Streamed: the open views may be large.
fn pack(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let packed = GzEncoder::new(MAGIC.to_vec(), Compression::fast());
    let mut packed = BufWriter::with_capacity(64 * 1024, packed);
    bincode::serde::encode_into_std_write(value, &mut packed, options())
        .map_err(io::Error::other)?;
    packed.into_inner()?.finish()
}

fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    let other = || io::Error::new(io::ErrorKind::InvalidData, "not of this version");
    let packed = bytes.strip_prefix(MAGIC).ok_or_else(other)?;
    let mut plain = BufReader::with_capacity(64 * 1024, GzDecoder::new(packed));
    let damaged = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let value = bincode::serde::decode_from_std_read(&mut plain, options()).map_err(damaged)?;
    // The checksum is at the end, behind the value: it is verified only when the end is read.
    io::copy(&mut plain, &mut io::sink())?;
    Ok(value)
}

pub(super) struct Files {
    directory: PathBuf,
    sync: bool,
}

impl Files {
    pub(super) fn open(directory: &Path, sync: bool) -> Self {
        let files = Self {
            directory: directory.to_owned(),
            sync,
        };
        // Not an error: each checkpoint tries again, in case the disk is full or read-only now.
        if let Err(error) = files.make() {
            tracing::warn!(%error, "failed to make the directory of quality figures");
        }
        files
    }

    pub(super) fn make(&self) -> io::Result<()> {
        make_directory(&self.directory, self.sync)
    }

    /// Returns the paths of all files; none if the directory does not exist yet.
    fn paths(&self) -> io::Result<Vec<PathBuf>> {
        match fs::read_dir(&self.directory) {
            Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(at("list", &self.directory)(error)),
        }
    }

    pub(super) const fn syncs(&self) -> bool {
        self.sync
    }

    fn hour_path(&self, hour: i64) -> PathBuf {
        let time = chrono::DateTime::from_timestamp(hour.saturating_mul(3_600), 0);
        let name = time.map(|time| time.format("%Y-%m-%dT%H.rollup").to_string());
        self.directory
            .join(name.unwrap_or_else(|| format!("{hour}.rollup")))
    }

    fn views_path(&self) -> PathBuf {
        self.directory.join("views")
    }

    fn log_path(&self, first: u64) -> PathBuf {
        self.directory.join(format!("inputs-{first}"))
    }

    /// Moves a damaged file aside and reports it. Its figures are then missing.
    fn read<T: DeserializeOwned>(&self, path: &Path) -> io::Result<Option<T>> {
        let bytes = match data_file::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        match unpack(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                set_aside(path, &error);
                Ok(None)
            }
        }
    }

    pub(super) fn read_hour(&self, hour: i64) -> io::Result<Option<HourTable>> {
        Ok(self.read_stored_hour(hour)?.map(HourTable::from))
    }

    pub(super) fn read_stored_hour(&self, hour: i64) -> io::Result<Option<StoredHour>> {
        self.read(&self.hour_path(hour))
    }

    pub(super) fn write_hour(&self, hour: i64, table: &HourTable, stored: u64) -> io::Result<()> {
        let packed = pack(&table.to_stored(stored))?;
        replace_file(&self.hour_path(hour), &packed, self.sync)
    }

    pub(super) fn remove_before(&self, first: i64) -> io::Result<usize> {
        let bound = self.hour_path(first);
        let mut removed = 0;
        for path in self.paths()? {
            // The names sort by time.
            if path.extension().is_some_and(|kind| kind == "rollup") && path < bound {
                fs::remove_file(&path).map_err(at("remove", &path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns the hours of this folder that were changed at `since` or later, in nanoseconds, with the time of the change,
    /// by this time.
    pub(super) fn hours_since(&self, since: i64) -> io::Result<Vec<(i64, i64)>> {
        let mut hours = Vec::new();
        for path in self.paths()? {
            let Some(hour) = hour_of(&path) else {
                continue;
            };
            let changed = changed_at(&fs::metadata(&path).map_err(at("read", &path))?)?;
            hours.extend((changed >= since).then_some((changed, hour)));
        }
        hours.sort_unstable();
        Ok(hours)
    }

    pub(super) fn last_change(&self) -> io::Result<i64> {
        Ok(self
            .hours_since(0)?
            .last()
            .map_or(0, |(changed, _)| *changed))
    }

    /// `None` if there is no file of the hour.
    pub(super) fn raw_hour(&self, hour: i64) -> io::Result<Option<Vec<u8>>> {
        match data_file::read(&self.hour_path(hour)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The copies of another member's files.
    pub(super) fn of_member(&self, member: &str) -> Self {
        Self {
            directory: self.directory.join(COPIES).join(member),
            sync: self.sync,
        }
    }

    pub(super) fn of_members(&self) -> io::Result<Vec<Self>> {
        let copies = Self {
            directory: self.directory.join(COPIES),
            sync: self.sync,
        };
        let folders = copies.paths()?.into_iter().map(|directory| Self {
            directory,
            sync: self.sync,
        });
        Ok(folders.collect())
    }

    /// Stores a file of another member, with the time of its change there.
    pub(super) fn put(&self, file: &FiguresFile) -> io::Result<()> {
        unpack::<StoredHour>(&file.content)?;
        let path = self.hour_path(file.hour);
        replace_file(&path, &file.content, self.sync)?;
        let changed = u64::try_from(file.changed).map_err(io::Error::other)?;
        let changed = UNIX_EPOCH + Duration::from_nanos(changed);
        data_file::open(File::options().write(true), &path)?.set_modified(changed)
    }

    /// Replaces the checkpoint of the open views, and begins a log at `next`.
    pub(super) fn checkpoint(&self, views: &impl Serialize, next: u64) -> io::Result<InputLog> {
        self.make()?;
        // The new log first: once the views are replaced, inputs need a log that begins where they end.
        let log = InputLog::create(&self.log_path(next))?;
        if self.sync {
            sync_directory(&self.directory)?;
        }
        replace_file(&self.views_path(), &pack(views)?, self.sync)?;
        for (first, path) in self.logs()? {
            // Last: until the new views are in place, the older logs are needed for a replay.
            if first < next {
                fs::remove_file(&path).map_err(at("remove", &path))?;
            }
        }
        Ok(log)
    }

    /// Sets an unreadable file aside: figures must not keep the server from starting.
    pub(super) fn read_views<T: DeserializeOwned>(&self) -> Option<T> {
        let path = self.views_path();
        self.read(&path).unwrap_or_else(|error| {
            set_aside(&path, &error);
            None
        })
    }

    /// Calls `each` with the batches that were logged from `next` on, in order. Returns the number of the next batch.
    /// Sets an unreadable log aside, like damaged views.
    pub(super) fn replay(&self, next: u64, mut each: impl FnMut(u64, Vec<QualityInput>)) -> u64 {
        let mut at = next;
        let logs = self.logs().unwrap_or_else(|error| {
            tracing::error!(%error, "failed to list the logs of quality inputs; their figures are missing");
            Vec::new()
        });
        for (first, path) in logs {
            // A gap means that a log was lost; the batches behind it still count.
            at = at.max(first);
            let bytes = match data_file::read(&path) {
                Ok(bytes) => bytes,
                Err(error) => {
                    set_aside(&path, &error);
                    continue;
                }
            };
            let mut rest = bytes.as_slice();
            let mut number = first;
            while let Some((batch, after)) = next_batch(rest) {
                rest = after;
                // The checkpoint may be newer than the log: a kill came before the old log was removed.
                if number >= next {
                    each(number, batch);
                    at = number + 1;
                }
                number += 1;
            }
            if !rest.is_empty() {
                let (file, lost) = (path.display(), rest.len());
                tracing::warn!(%file, lost, "the log of quality inputs ends in an incomplete batch");
            }
        }
        at
    }

    fn logs(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut logs = Vec::new();
        for path in self.paths()? {
            let name = path.file_name().and_then(|name| name.to_str());
            let first = name.and_then(|name| name.strip_prefix("inputs-")?.parse().ok());
            logs.extend(first.map(|first| (first, path)));
        }
        logs.sort();
        Ok(logs)
    }

    pub(super) fn bytes(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for path in self.paths()? {
            bytes += fs::metadata(&path).map_err(at("read", &path))?.len();
        }
        Ok(bytes)
    }
}

fn hour_of(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".rollup")?;
    let time = NaiveDateTime::parse_from_str(&format!("{name}:00"), "%Y-%m-%dT%H:%M").ok()?;
    Some(time.and_utc().timestamp().div_euclid(3_600))
}

/// Nanoseconds since 1970.
fn changed_at(file: &fs::Metadata) -> io::Result<i64> {
    let since = file.modified()?.duration_since(UNIX_EPOCH);
    let nanos = since.map(|since| i64::try_from(since.as_nanos()));
    Ok(nanos.ok().and_then(Result::ok).unwrap_or_default())
}

/// Renames a file that cannot be used. Its figures are then missing.
fn set_aside(path: &Path, error: &io::Error) {
    let file = path.display();
    // The next checkpoint needs the name.
    match data_file::set_aside(path) {
        Ok(kept) => {
            tracing::error!(%error, %file, "unusable quality figures; moved to {}", kept.display());
        }
        // On a read-only disk the figures are kept in memory.
        Err(second) => {
            tracing::error!(%error, %second, %file, "unusable quality figures, which could not be moved away");
        }
    }
}

fn next_batch(bytes: &[u8]) -> Option<(Vec<QualityInput>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let [a, b, c, d, sum @ ..] = *head;
    let length = usize::try_from(u32::from_le_bytes([a, b, c, d])).ok()?;
    let (body, rest) = rest.split_at_checked(length)?;
    // A kill can leave a batch half written, although its length fits.
    (crc32fast::hash(body) == u32::from_le_bytes(sum)).then_some(())?;
    Some((decode(body).ok()?, rest))
}

/// Inputs since the checkpoint, a batch at a time.
pub(super) struct InputLog {
    file: File,
    path: PathBuf,
    pub(super) bytes: u64,
    dirty: bool,
}

impl InputLog {
    fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: File::create(path)?,
            path: path.to_owned(),
            bytes: 0,
            dirty: false,
        })
    }

    /// After this, a kill loses nothing and a power cut loses what is not synced.
    pub(super) fn append(&mut self, batch: &[QualityInput]) -> io::Result<()> {
        let mut frame = vec![0; HEAD_BYTES];
        frame.append(&mut encode(&batch)?);
        let body = frame.get(HEAD_BYTES..).unwrap_or_default();
        let length = u32::try_from(body.len())
            .ok()
            .filter(|length| *length as usize <= BATCH_MAX);
        let length = length.ok_or_else(|| io::Error::other("the batch is too large"))?;
        let sum = crc32fast::hash(body);
        let (head, _) = frame.split_at_mut(HEAD_BYTES);
        let (first, second) = head.split_at_mut(4);
        first.copy_from_slice(&length.to_le_bytes());
        second.copy_from_slice(&sum.to_le_bytes());
        // One write for head and body, so that a kill leaves at most one batch incomplete.
        self.file.write_all(&frame)?;
        self.bytes += frame.len() as u64;
        self.dirty = true;
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.dirty) {
            sync_data(&self.file, &self.path)?;
        }
        Ok(())
    }

    /// Returns a handle to sync without a lock on the log, if there is anything to sync.
    pub(super) fn unsynced(&mut self) -> Option<io::Result<(File, PathBuf)>> {
        std::mem::take(&mut self.dirty).then(|| Ok((self.file.try_clone()?, self.path.clone())))
    }
}
