//! How far events have been forwarded: for each hour an offset into its unpacked segment, kept in the store.
//!
//! By the hour, since a clock that is put back goes on in an old one. Nothing is forwarded that a power
//! cut could take back: what came in its place would lie before the position, and never be sent.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Take};

use super::Telemetry;
use super::error::TelemetryError;
use super::frame::Frames;
use super::packed::{SegmentReader, unpacked_length};
use super::tables::{Forwarded, ForwardedRecord};
use crate::store::{All, Durability, Store, StoreError};

/// An hour, and how much of its segment is there for good.
pub(super) type Extent = (i64, u64);

/// A place in the segment of an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// What the store keeps.
    pub(super) kept: ForwardedRecord,
    /// Behind `sent` there is nothing to be read up to here: a torn end, until it is cut off.
    looked: u64,
}

impl Position {
    /// Where the batch ends that may be with the sink already, if there is one.
    pub(super) fn offered(&self) -> Option<u64> {
        Some(self.kept.offered).filter(|offered| *offered > self.kept.sent)
    }
}

/// The places of all hours.
pub(super) struct Positions {
    store: Store,
    hours: BTreeMap<i64, Position>,
    /// The hour whose place the store has not taken yet. Nothing is sent before it has, or the same
    /// batch would be sent for as long as a disk is full.
    unwritten: Option<i64>,
}

impl Positions {
    pub(super) fn open(telemetry: &Telemetry) -> Result<Self, TelemetryError> {
        let store = telemetry.inner.store.clone();
        let mut hours = BTreeMap::new();
        let extents: BTreeMap<i64, u64> = telemetry.extents()?.into_iter().collect();
        for (hour, mut kept) in store.read(|txn| txn.scan::<Forwarded>(&All, usize::MAX))? {
            let length = extents.get(&hour).copied().unwrap_or(kept.sent);
            if kept.sent > length {
                // Damage, or another machine's files. What comes twice does less harm.
                tracing::warn!(
                    hour,
                    "a file of events has been cut short; it is forwarded anew"
                );
                kept = ForwardedRecord::default();
            }
            kept.offered = kept.offered.min(length);
            let looked = kept.sent;
            hours.insert(hour, Position { kept, looked });
        }
        Ok(Self {
            store,
            hours,
            unwritten: None,
        })
    }

    pub(super) fn get(&self, hour: i64) -> Position {
        self.hours.get(&hour).copied().unwrap_or_default()
    }

    pub(super) fn is_unsent(&self, (hour, length): Extent) -> bool {
        self.get(hour).looked < length
    }

    /// Has the store take what it has not.
    pub(super) fn write_down(&mut self, durability: Durability) -> Result<(), StoreError> {
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

    /// A batch that ends there is about to be offered, or none any more. A power cut may forget that:
    /// then the batch that goes out again is another.
    pub(super) fn offer(&mut self, hour: i64, to: u64) -> Result<(), StoreError> {
        let position = self.hours.entry(hour).or_default();
        if position.kept.offered != to {
            position.kept.offered = to;
            self.unwritten = Some(hour);
        }
        self.write_down(Durability::Logged)
    }

    /// What lies before `to` is done with, and there is nothing more to be read before `looked`.
    pub(super) fn pass(&mut self, hour: i64, to: u64, looked: u64) -> Result<(), StoreError> {
        let kept = ForwardedRecord {
            sent: to,
            offered: to,
        };
        let before = self.hours.insert(hour, Position { kept, looked });
        if before.is_none_or(|before| before.kept != kept) {
            self.unwritten = Some(hour);
        }
        self.write_down(Durability::Durable)
    }

    /// Forgets the hours before `oldest`, which there are no events of any more.
    pub(super) fn forget(&mut self, oldest: i64) -> Result<(), StoreError> {
        let kept = self.hours.split_off(&oldest);
        let gone: Vec<i64> = self.hours.keys().copied().collect();
        self.hours = kept;
        self.unwritten = self.unwritten.filter(|hour| *hour >= oldest);
        if gone.is_empty() {
            return Ok(());
        }
        self.store
            .write(Durability::Logged, move |txn| {
                gone.iter()
                    .try_for_each(|hour| txn.delete::<Forwarded>(hour))
            })
            .wait()
    }
}

impl Telemetry {
    /// The hours that there are events of, in order.
    pub(super) fn extents(&self) -> Result<Vec<Extent>, TelemetryError> {
        let inner = &self.inner;
        let mut extents = Vec::new();
        for hour in inner.directory.hours()? {
            match unpacked_length(&inner.directory.events(hour)) {
                Ok(length) => extents.push((hour, length)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        // After the files were looked at: one that is not appended to any more has been synced.
        let state = inner.state.lock();
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

    /// Reads a part of a segment; nothing if it is gone.
    pub(super) fn part(
        &self,
        hour: i64,
        (from, to): (u64, u64),
    ) -> io::Result<Option<Frames<Take<SegmentReader>>>> {
        let reader = match SegmentReader::open_at(&self.inner.directory.events(hour), from) {
            Ok(reader) => reader,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let part = reader.take(to.saturating_sub(from));
        Ok(Some(Frames::resume(part, from)))
    }
}
