//! Segment files of the journal: the open one, and compressed ones with an index.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::erasure_subject::ErasureSubject;
use super::index::{SegmentBounds, SegmentIndex, SegmentKeys};
use super::record::JournalRecord;
use playgate_process::data_file;
use playgate_process::files::{is_in_place, make_directory, sync_data, sync_directory};
use playgate_segment_log::frame::{Frames, write_frame};
use playgate_segment_log::{
    Lengths, Packer, SegmentReader, open, remove_if_present, replace, restore,
};
use playgate_store::encode_note;

/// Bytes after which a segment is finished.
pub(super) const SEGMENT_MAX: u64 = 4 * 1024 * 1024;

/// The file with the highest number of a deleted record.
const LAST_DELETED: &str = "last-deleted";

type RecordFrames<R> = Frames<JournalRecord, R>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentSummary {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Bounds of the time, in Unix milliseconds. The clock may go back within a segment.
    pub(super) first_at: i64,
    pub(super) last_at: i64,
    /// Bytes of all its files.
    pub(super) bytes: u64,
    /// Whether it is in its final form.
    pub(super) finished: bool,
    /// Whether a start could not read it. It is erased and expires like others, and is not read.
    pub(super) unreadable: bool,
}

impl SegmentSummary {
    const fn new(bounds: SegmentBounds, bytes: u64, finished: bool) -> Self {
        Self {
            first: bounds.first,
            last: bounds.last,
            first_at: bounds.first_at,
            last_at: bounds.last_at,
            bytes,
            finished,
            unreadable: false,
        }
    }
}

impl SegmentBounds {
    fn add(&mut self, record: &JournalRecord) {
        if self.count == 0 {
            *self = Self {
                first: record.number,
                last: record.number,
                first_at: record.at_millis,
                last_at: record.at_millis,
                count: 1,
            };
            return;
        }
        self.first = self.first.min(record.number);
        self.last = self.last.max(record.number);
        self.first_at = self.first_at.min(record.at_millis);
        self.last_at = self.last_at.max(record.at_millis);
        self.count += 1;
    }
}

pub(super) struct SegmentDirectory {
    path: PathBuf,
    sync: bool,
}

impl SegmentDirectory {
    pub(super) fn new(path: &Path, sync: bool) -> Self {
        Self {
            path: path.to_owned(),
            sync,
        }
    }

    pub(super) fn records(&self, first: u64) -> PathBuf {
        self.path.join(format!("{first:020}.records"))
    }

    fn index_file(&self, first: u64) -> PathBuf {
        self.path.join(format!("{first:020}.index"))
    }

    fn lengths(&self, first: u64) -> PathBuf {
        self.path.join(format!("{first:020}.length"))
    }

    /// `None` if there is no valid index.
    pub(super) fn index(&self, first: u64) -> Option<SegmentIndex> {
        SegmentIndex::parse(&data_file::read(&self.index_file(first)).ok()?)
    }

    /// Finds all segments. One without a valid index, such as the one that was open, is finished now.
    pub(super) fn load(&self) -> io::Result<BTreeMap<u64, SegmentSummary>> {
        make_directory(&self.path, self.sync)?;
        let mut segments = BTreeMap::new();
        for entry in data_file::list(&self.path)? {
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.ends_with(".new")) {
                // Left by a process that was killed while it wrote.
                let _ = fs::remove_file(self.path.join(name));
                continue;
            }
            let Some((number, kind)) = name.to_str().and_then(|name| name.split_once('.')) else {
                continue;
            };
            let Ok(first) = number.parse() else {
                continue;
            };
            if kind != "records" {
                // Left by a process that was killed while it deleted or began a segment.
                if !self.records(first).exists() {
                    let _ = fs::remove_file(self.path.join(&name));
                }
                continue;
            }
            // The length file is removed last when a segment is finished. If it exists, that was interrupted.
            let known = self.index(first).filter(|_| !self.lengths(first).exists());
            let summary = match known {
                Some(index) => Some(SegmentSummary::new(index.bounds, self.size(first), true)),
                None => match self.rewrite(first, |_| true) {
                    Ok(summary) => summary,
                    // A full or read-only disk: the records stay readable in the plain form.
                    Err(error) => {
                        tracing::warn!(%error, first, "failed to finish a segment of the request journal");
                        match self.survey(first) {
                            Ok(summary) => summary,
                            // One bad sector must not stop the journal at every start.
                            Err(error) => {
                                tracing::error!(%error, first, "failed to read a segment of the request journal; its records are left out");
                                Some(self.unreadable(first))
                            }
                        }
                    }
                },
            };
            segments.extend(summary.map(|summary| (first, summary)));
        }
        Ok(segments)
    }

    fn survey(&self, first: u64) -> io::Result<Option<SegmentSummary>> {
        let mut bounds = SegmentBounds::default();
        for record in self.read(first)? {
            bounds.add(&record);
        }
        // The segment keeps its name even if its first record is lost.
        bounds.first = first;
        let summary = SegmentSummary::new(bounds, self.size(first), true);
        Ok((bounds.count > 0).then_some(summary))
    }

    fn unreadable(&self, first: u64) -> SegmentSummary {
        let bytes = self.size(first);
        let changed = fs::metadata(self.records(first)).and_then(|file| file.modified());
        let since = changed
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        // The time of the last write decides when it expires.
        let at = since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(0));
        let bounds = SegmentBounds {
            first,
            // Numbers continue behind every record that it can have: each takes more than a byte.
            last: first.saturating_add(bytes),
            first_at: at,
            last_at: at,
            count: 0,
        };
        SegmentSummary {
            unreadable: true,
            ..SegmentSummary::new(bounds, bytes, true)
        }
    }

    /// The highest number of a deleted record. A follower that has seen it must not miss later ones.
    pub(super) fn last_deleted(&self) -> u64 {
        let text = data_file::read_to_string(&self.path.join(LAST_DELETED));
        text.ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    }

    fn size(&self, first: u64) -> u64 {
        let files = [
            self.records(first),
            self.index_file(first),
            self.lengths(first),
        ];
        let files = files.iter().filter_map(|path| fs::metadata(path).ok());
        files.map(|file| file.len()).sum()
    }

    /// Reads all records of a segment, oldest first. Damage is reported; what is intact is returned.
    pub(super) fn read(&self, first: u64) -> io::Result<Vec<JournalRecord>> {
        let mut records = Vec::new();
        self.scan(first, |record| records.push(record))?;
        // Read after the records: an erasure replaces them before their index.
        let expected = self.index(first).map_or(0, |index| index.bounds.count);
        let missing = expected.saturating_sub(records.len() as u64);
        if missing > 0 {
            let file = file_name(&self.records(first));
            tracing::error!(%file, missing, "a segment of the request journal is damaged: records are missing");
        }
        Ok(records)
    }

    fn scan(&self, first: u64, mut each: impl FnMut(JournalRecord)) -> io::Result<()> {
        let path = self.records(first);
        // Only an open segment has this file, with the length that is safely on disk. Read before the records, which may
        // grow.
        let lengths = Lengths::read(&self.lengths(first));
        let mut frames = RecordFrames::new(SegmentReader::open(&path)?);
        while let Some(record) = frames.next_frame()? {
            each(record);
        }
        if frames.damaged() > 0 {
            let (file, bytes) = (file_name(&path), frames.damaged());
            tracing::error!(%file, bytes, "a segment of the request journal is damaged; skipped the damaged bytes");
        }
        lengths.compare(&path, frames.sound_end());
        Ok(())
    }

    /// Brings a segment into its final form, with the records that `retained` selects. Deletes the segment if none is
    /// left. A kill leaves either the old or the new form.
    pub(super) fn rewrite(
        &self,
        first: u64,
        retained: impl Fn(&JournalRecord) -> bool,
    ) -> io::Result<Option<SegmentSummary>> {
        let (mut bounds, mut keys) = (SegmentBounds::default(), SegmentKeys::default());
        let mut last = 0;
        replace(&self.records(first), self.sync, |target| {
            let mut packer = Packer::new(target);
            let mut written = Ok(());
            let mut frame = Vec::new();
            self.scan(first, |record| {
                last = last.max(record.number);
                // `scan` does not stop early, so records after a failed write are skipped here.
                if retained(&record) && written.is_ok() {
                    frame.clear();
                    if encode(&record, &mut frame) {
                        bounds.add(&record);
                        keys.add(&record);
                        written = packer.write_all(&frame);
                    }
                }
            })?;
            written?;
            packer.finish()?;
            // An index must never exclude records that its segment has. If it is missing, the next start writes it again.
            remove_if_present(&self.index_file(first))
        })?;
        if bounds.count == 0 {
            self.remove(first, last)?;
            return Ok(None);
        }
        // The segment keeps its name: its first records may have been erased.
        bounds.first = first;
        let index = SegmentIndex::new(bounds, &keys).to_bytes();
        // Written after the records: after a power cut the index must not be newer than the records and hide some.
        replace(&self.index_file(first), self.sync, |file| {
            file.write_all(&index)
        })?;
        // Last: it marks the segment as finished.
        remove_if_present(&self.lengths(first))?;
        self.sync()?;
        Ok(Some(SegmentSummary::new(bounds, self.size(first), true)))
    }

    /// `last` is the number of its last record.
    pub(super) fn remove(&self, first: u64, last: u64) -> io::Result<()> {
        if last > self.last_deleted() {
            let path = self.path.join(LAST_DELETED);
            if let Err(error) = replace(&path, self.sync, |file| writeln!(file, "{last}")) {
                // A full disk must not keep retention from making room.
                tracing::warn!(%error, "failed to record the last number of the request journal");
            }
        }
        for path in [
            self.records(first),
            self.lengths(first),
            self.index_file(first),
        ] {
            remove_if_present(&path)?;
        }
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        match self.sync {
            true => sync_directory(&self.path),
            false => Ok(()),
        }
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Appends the frame of a record; `false` if it is too long to be stored.
pub(super) fn encode(record: &JournalRecord, out: &mut Vec<u8>) -> bool {
    // A refusal must be recorded even if its client made the record too long.
    let Ok(body) = encode_note(record).or_else(|_| encode_note(&record.shortened())) else {
        return false;
    };
    write_frame::<JournalRecord>(out, |out| out.extend_from_slice(&body));
    true
}

pub(super) struct OpenJournalSegment {
    pub(super) first: u64,
    path: PathBuf,
    lengths: PathBuf,
    file: File,
    sync: bool,
    synced: u64,
    length: u64,
    bounds: SegmentBounds,
    /// The keys of the index are not collected here: seven digests for each record took a twelfth of an entitlement.
    subjects: HashSet<ErasureSubject>,
}

impl OpenJournalSegment {
    pub(super) fn create(directory: &SegmentDirectory, first: u64) -> io::Result<Self> {
        let (path, lengths) = (directory.records(first), directory.lengths(first));
        // Marks the segment as open before it exists.
        Lengths::default().write(&lengths)?;
        let file = open(&path, true)?;
        directory.sync()?;
        Ok(Self {
            first,
            path,
            lengths,
            file,
            sync: directory.sync,
            synced: 0,
            length: 0,
            bounds: SegmentBounds::default(),
            subjects: HashSet::new(),
        })
    }

    /// Appends frames. After an error none of them is in the file.
    pub(super) fn append(&mut self, frames: &[u8], records: &[JournalRecord]) -> io::Result<()> {
        // Written at the known end and not in append mode, so that a partial write is overwritten.
        if let Err(error) = self.file.write_all_at(frames, self.length) {
            // Otherwise the rest of a partial write would be read as damage.
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += frames.len() as u64;
        for record in records {
            self.bounds.add(record);
            self.subjects.extend(ErasureSubject::of(record));
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.synced < self.length && self.sync {
            // The length is written after the sync, so that it never promises what a power cut may take.
            sync_data(&self.file, &self.path)?;
            Lengths::from_synced(self.length).write(&self.lengths)?;
        }
        self.synced = self.length;
        Ok(())
    }

    /// Writes the file again if another program has deleted or replaced it.
    pub(super) fn restore(&mut self) -> io::Result<()> {
        if is_in_place(&self.file, &self.path) {
            return Ok(());
        }
        let file = self.path.display();
        tracing::error!(%file, "another program has deleted or replaced the file of the request journal that is being written; writing it again from the open file; exclude the data directory from such programs");
        self.file = restore(&self.file, self.length, &self.path, self.sync)?;
        self.synced = 0;
        Lengths::default().write(&self.lengths)?;
        self.sync()
    }

    pub(super) fn summary(&self) -> SegmentSummary {
        SegmentSummary::new(self.bounds, self.length, false)
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn has_records_of(&self, subject: ErasureSubject) -> bool {
        self.subjects.contains(&subject)
    }
}
