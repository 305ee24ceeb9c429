//! The forwarding cursor: for each hour an offset into its unpacked segment, kept in a file next to the segments.
//!
//! There is one offset per hour, since a clock that is set back appends to an older hour. Only synced bytes are
//! forwarded: after a power cut, new events could take the place of unsynced ones, behind the cursor, and would
//! never be sent.
//!
//! The file is not part of the store: in a fleet all members have one store, and each has its own segments.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Take, Write as _};
use std::sync::Arc;

use super::error::TelemetryError;
use super::frame::EventFrames;
use super::tables::{Forwarded, ForwardedRecord};
use super::{Inner, Telemetry};
use playgate_process::data_file;
use playgate_segment_log::packed::unpacked_length;
use playgate_segment_log::{SegmentReader, append_checksum, without_checksum};
use playgate_store::All;

pub(super) type Extent = (i64, u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardCursor {
    /// The record as it is in the file.
    pub(super) kept: ForwardedRecord,
    /// There is nothing to read between `sent` and this offset: a torn end that is not cut off yet.
    scanned_to: u64,
}

impl ForwardCursor {
    /// Returns the end of the batch that the sink may have received already, if any.
    pub(super) fn offered(&self) -> Option<u64> {
        Some(self.kept.offered).filter(|offered| *offered > self.kept.sent)
    }
}

pub(super) struct ForwardCursors {
    inner: Arc<Inner>,
    hours: BTreeMap<i64, ForwardCursor>,
    /// Nothing is sent until the cursors are in the file.
    is_unwritten: bool,
}

impl ForwardCursors {
    pub(super) fn open(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let inner = Arc::clone(&telemetry.inner);
        let in_file = match data_file::read(&inner.directory.forwarded()) {
            Ok(bytes) => Some(decode(&bytes).unwrap_or_else(|| {
                // Sending twice does less harm than losing events.
                tracing::error!(
                    "the forwarding cursor is damaged; forwarding all telemetry events again"
                );
                Vec::new()
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let is_unwritten = in_file.is_none();
        let rows = match in_file {
            Some(rows) => rows,
            // Earlier versions kept the cursors in the store.
            None => inner
                .store
                .read(|txn| txn.scan::<Forwarded>(&All, usize::MAX))?,
        };
        let mut hours = BTreeMap::new();
        let extents: BTreeMap<i64, u64> = telemetry.extents()?.into_iter().collect();
        for (hour, mut kept) in rows {
            // Retention has removed the segment, or another member has it.
            let Some(length) = extents.get(&hour).copied() else {
                continue;
            };
            if kept.sent > length {
                // The segment is damaged.
                tracing::warn!(
                    hour,
                    "a telemetry segment is shorter than its forwarding cursor; forwarding it from its beginning"
                );
                kept = ForwardedRecord::default();
            }
            // A shorter file cannot contain the end of the offered batch.
            kept.offered = kept.offered.min(length);
            let scanned_to = kept.sent;
            hours.insert(hour, ForwardCursor { kept, scanned_to });
        }
        Ok(Self {
            inner,
            hours,
            is_unwritten,
        })
    }

    pub(super) fn get(&self, hour: i64) -> ForwardCursor {
        self.hours.get(&hour).copied().unwrap_or_default()
    }

    pub(super) fn is_unsent(&self, (hour, length): Extent) -> bool {
        self.get(hour).scanned_to < length
    }

    pub(super) fn write_pending(&mut self) -> Result<(), TelemetryError> {
        if !self.is_unwritten {
            return Ok(());
        }
        let inner = &self.inner;
        let bytes = encode(&self.hours);
        let replaced = inner
            .directory
            .replace(&inner.directory.forwarded(), |file| file.write_all(&bytes));
        inner.or_fail(replaced.map_err(Into::into))?;
        self.is_unwritten = false;
        Ok(())
    }

    /// Records the end of the batch that is about to be offered.
    pub(super) fn offer(&mut self, hour: i64, to: u64) -> Result<(), TelemetryError> {
        let position = self.hours.entry(hour).or_default();
        if position.kept.offered != to {
            position.kept.offered = to;
            self.is_unwritten = true;
        }
        self.write_pending()
    }

    /// Advances the cursor to `to`. There is nothing to read between `to` and `scanned_to`.
    pub(super) fn pass(
        &mut self,
        hour: i64,
        to: u64,
        scanned_to: u64,
    ) -> Result<(), TelemetryError> {
        let kept = ForwardedRecord {
            sent: to,
            offered: to,
        };
        let before = self.hours.insert(hour, ForwardCursor { kept, scanned_to });
        if before.is_none_or(|before| before.kept != kept) {
            self.is_unwritten = true;
        }
        self.write_pending()
    }

    /// Removes the cursors of the hours before `oldest`, whose segments are gone.
    pub(super) fn forget(&mut self, oldest: i64) -> Result<(), TelemetryError> {
        let kept = self.hours.split_off(&oldest);
        let gone = std::mem::replace(&mut self.hours, kept);
        self.is_unwritten |= !gone.is_empty();
        self.write_pending()
    }
}

/// Bytes of one hour: the hour, what was sent, and what was offered. A checksum of all follows.
const ROW_BYTES: usize = 24;

fn encode(hours: &BTreeMap<i64, ForwardCursor>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(hours.len() * ROW_BYTES + 4);
    for (hour, cursor) in hours {
        bytes.extend(hour.to_le_bytes());
        bytes.extend(cursor.kept.sent.to_le_bytes());
        bytes.extend(cursor.kept.offered.to_le_bytes());
    }
    append_checksum(&mut bytes);
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<(i64, ForwardedRecord)>> {
    let (rows, []) = without_checksum(bytes)?.as_chunks::<ROW_BYTES>() else {
        return None;
    };
    let decoded = rows.iter().map(|row| {
        let ([hour, sent, offered], _) = row.as_chunks() else {
            return None;
        };
        let kept = ForwardedRecord {
            sent: u64::from_le_bytes(*sent),
            offered: u64::from_le_bytes(*offered),
        };
        Some((i64::from_le_bytes(*hour), kept))
    });
    decoded.collect()
}

impl Telemetry {
    pub(super) fn extents(&self) -> Result<Vec<Extent>, TelemetryError> {
        let inner = &self.inner;
        let mut extents = Vec::new();
        for hour in inner.directory.hours()? {
            match unpacked_length(&inner.directory.events(hour)) {
                Ok(length) => extents.push((hour, length)),
                // Retention removed the hour after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if data_file::is_about_file(&error) => self.leave_out(hour, &error),
                Err(error) => return Err(error.into()),
            }
        }
        // Read after the files were listed: a segment that is not open any more by now has been synced.
        let state = inner.state.lock();
        // Without syncs, which only tests switch off, the length of the file counts.
        for open in state
            .segment
            .iter()
            .chain(&state.done)
            .filter(|_| inner.settings.sync)
        {
            let extent = extents.iter_mut().find(|(hour, _)| *hour == open.hour);
            if let Some((_, length)) = extent {
                *length = open.length_synced().min(*length);
            }
        }
        Ok(extents)
    }

    pub(super) fn part(
        &self,
        hour: i64,
        (from, to): (u64, u64),
    ) -> io::Result<Option<EventFrames<Take<SegmentReader>>>> {
        let reader = match SegmentReader::open_at(&self.inner.directory.events(hour), from) {
            Ok(reader) => reader,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let part = reader.take(to.saturating_sub(from));
        Ok(Some(EventFrames::resume(part, from)))
    }
}
