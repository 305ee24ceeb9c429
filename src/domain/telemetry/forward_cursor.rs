//! The forwarding cursor: for each hour an offset into its unpacked segment, kept in the store.
//!
//! There is one offset per hour, since a clock that is set back appends to an older hour. Only synced bytes are
//! forwarded: after a power cut, new events could take the place of unsynced ones, behind the cursor, and would
//! never be sent.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Take};

use super::Telemetry;
use super::error::TelemetryError;
use super::frame::EventFrames;
use super::tables::{Forwarded, ForwardedRecord};
use crate::domain::segment_file::packed::{SegmentReader, unpacked_length};
use crate::store::{All, Durability, Store, StoreError};

pub(super) type Extent = (i64, u64);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ForwardCursor {
    /// The record as it is in the store.
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
    store: Store,
    hours: BTreeMap<i64, ForwardCursor>,
    /// Nothing is sent until this cursor is in the store.
    unwritten: Option<i64>,
}

impl ForwardCursors {
    pub(super) fn open(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let store = telemetry.inner.store.clone();
        let mut hours = BTreeMap::new();
        let extents: BTreeMap<i64, u64> = telemetry.extents()?.into_iter().collect();
        for (hour, mut kept) in store.read(|txn| txn.scan::<Forwarded>(&All, usize::MAX))? {
            let length = extents.get(&hour).copied().unwrap_or(kept.sent);
            if kept.sent > length {
                // The file is damaged or from another server. Sending twice does less harm than losing events.
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
            store,
            hours,
            unwritten: None,
        })
    }

    pub(super) fn get(&self, hour: i64) -> ForwardCursor {
        self.hours.get(&hour).copied().unwrap_or_default()
    }

    pub(super) fn is_unsent(&self, (hour, length): Extent) -> bool {
        self.get(hour).scanned_to < length
    }

    pub(super) fn write_pending(&mut self, durability: Durability) -> Result<(), StoreError> {
        let Some(hour) = self.unwritten else {
            return Ok(());
        };
        let kept = self.get(hour).kept;
        self.store
            .write(durability, move |txn| txn.put::<Forwarded>(&hour, &kept))
            .wait()?;
        self.unwritten = None;
        Ok(())
    }

    /// Records the end of the batch that is about to be offered.
    pub(super) fn offer(&mut self, hour: i64, to: u64) -> Result<(), StoreError> {
        let position = self.hours.entry(hour).or_default();
        if position.kept.offered != to {
            position.kept.offered = to;
            self.unwritten = Some(hour);
        }
        // Logged only: a power cut may lose the record, and then the repeated batch may have another end,
        // which costs at most a duplicate.
        self.write_pending(Durability::Logged)
    }

    /// Advances the cursor to `to`. There is nothing to read between `to` and `scanned_to`.
    pub(super) fn pass(&mut self, hour: i64, to: u64, scanned_to: u64) -> Result<(), StoreError> {
        let kept = ForwardedRecord {
            sent: to,
            offered: to,
        };
        let before = self.hours.insert(hour, ForwardCursor { kept, scanned_to });
        if before.is_none_or(|before| before.kept != kept) {
            self.unwritten = Some(hour);
        }
        // Durable: the batch must not be sent again after every power cut.
        self.write_pending(Durability::Durable)
    }

    /// Removes the cursors of the hours before `oldest`, whose segments are gone.
    pub(super) fn forget(&mut self, oldest: i64) -> Result<(), StoreError> {
        let kept = self.hours.split_off(&oldest);
        let gone: Vec<i64> = self.hours.keys().copied().collect();
        self.hours = kept;
        self.unwritten = self.unwritten.filter(|hour| *hour >= oldest);
        if gone.is_empty() {
            return Ok(());
        }
        self.store
            // Losing this costs nothing: the next run removes the cursors again.
            .write(Durability::Logged, move |txn| {
                gone.iter()
                    .try_for_each(|hour| txn.delete::<Forwarded>(hour))
            })
            .wait()
    }
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
