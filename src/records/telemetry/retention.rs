//! Drops expired events, a whole hour at a time.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::error::TelemetryError;
use super::tables::{DayUsage, Forwarded, UserHours};
use super::{Forwarder, Inner, Telemetry, hour_of};
use playgate_segment_log::remove_if_present;
use playgate_store::{All, Durability, StoreError};
use playgate_types::UnixSeconds;

const ENTRIES_AT_ONCE: usize = 1_000;

impl Telemetry {
    pub(super) fn oldest_kept(&self, now: UnixSeconds) -> i64 {
        self.inner.oldest_kept(now)
    }

    /// Returns how many files were removed.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        self.drop_before(self.oldest_kept(now))
    }

    /// The oldest hour to retain if the files exceed their limit.
    pub(super) fn oldest_with_room(&self, now: UnixSeconds) -> Result<Option<i64>, TelemetryError> {
        let sizes = self.inner.directory.sizes()?;
        let total = sizes.values().sum();
        let most = self.inner.settings.budgets.total;
        // Some space is left free for new events until the next check.
        let wanted = most - most / 16;
        let mut state = self.inner.state.lock();
        let (mut left, mut oldest) = (total, None);
        let open = state.segment.as_ref().map_or(i64::MAX, |open| open.hour);
        let last = sizes.keys().next_back().copied().unwrap_or(i64::MAX);
        for (hour, size) in sizes {
            // The hour that is written to is never dropped.
            if left <= wanted || hour >= open.min(last) {
                break;
            }
            left -= size;
            oldest = Some(hour + 1);
        }
        // The files are removed before the next write. If that fails, the next check measures them again.
        state.usage.total = left;
        if let Some(oldest) = oldest {
            let days = (hour_of(now) - oldest).max(0) / 24;
            let message = format!(
                "`telemetry.max_bytes` is reached: events are kept for {days} days instead of \
                 `telemetry.retention_days`"
            );
            tracing::warn!(bytes = total, "{message}");
            state.notices.cut = Some((now, message));
        }
        Ok(oldest)
    }

    pub fn make_room(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let oldest = self.oldest_with_room(now)?;
        oldest.map_or(Ok(0), |oldest| self.drop_before(oldest))
    }

    pub fn warning(&self, now: UnixSeconds) -> Option<String> {
        self.inner.state.lock().notices.warning(now)
    }

    /// Saves the usage of the budgets, which a restart would otherwise reset. Returns how many rows were written.
    pub fn save_usage(&self) -> Result<usize, TelemetryError> {
        Ok(self.inner.save_usage()?)
    }

    pub(super) fn drop_before(&self, oldest: i64) -> Result<usize, TelemetryError> {
        let inner = &self.inner;
        // Files before index entries: an entry without a file does no harm.
        let dropped = inner.or_fail(inner.drop_files(oldest))?;
        while inner.drop_entries(oldest)? == ENTRIES_AT_ONCE {}
        Ok(dropped)
    }
}

/// With forwarding, retention also counts the events that were never sent.
impl Forwarder {
    /// Counts the unsent events of the dropped hours. Returns how many files were removed.
    pub fn retain(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let oldest = self.telemetry.oldest_kept(now);
        self.drop_before(oldest, || self.telemetry.drop_before(oldest))
    }

    /// Leaves the index unchanged, which only the owner writes.
    pub fn retain_as_standby(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let oldest = self.telemetry.oldest_kept(now);
        self.drop_before(oldest, || self.telemetry.retain_as_standby(now))
    }

    pub fn make_room(&self, now: UnixSeconds) -> Result<usize, TelemetryError> {
        let oldest = self.telemetry.oldest_with_room(now)?;
        oldest.map_or(Ok(0), |oldest| {
            self.drop_before(oldest, || self.telemetry.drop_before(oldest))
        })
    }

    fn unsent(&self, hour: i64, part: (u64, u64)) -> io::Result<u64> {
        let mut count = 0;
        if let Some(mut events) = self.telemetry.part(hour, part)? {
            while events.next_frame()?.is_some() {
                count += 1;
            }
        }
        Ok(count)
    }

    fn drop_before(
        &self,
        oldest: i64,
        drop: impl FnOnce() -> Result<usize, TelemetryError>,
    ) -> Result<usize, TelemetryError> {
        let mut expired = 0;
        let extents = self.telemetry.extents()?.into_iter();
        for (hour, length) in extents.take_while(|(hour, _)| *hour < oldest) {
            // Events behind the cursor were never accepted by the sink.
            let sent = self.positions.lock().get(hour).kept.sent;
            match self.unsent(hour, (sent, length)) {
                Ok(events) => expired += events,
                Err(error) => {
                    tracing::error!(%error, hour, "cannot count the telemetry events of an hour that were never forwarded; retention drops them");
                }
            }
        }
        let dropped = drop()?;
        self.positions.lock().forget(oldest)?;
        if expired > 0 {
            self.expired.fetch_add(expired, Relaxed);
            tracing::error!(
                events = expired,
                "retention dropped telemetry events that the event sink never accepted"
            );
        }
        Ok(dropped)
    }
}

impl Inner {
    pub(super) fn oldest_kept(&self, now: UnixSeconds) -> i64 {
        hour_of(now) - i64::from(self.settings.retention_days) * 24
    }

    pub(super) fn save_usage(&self) -> Result<usize, StoreError> {
        let (day, rows) = self.state.lock().usage.take_unsaved();
        if rows.is_empty() {
            return Ok(0);
        }
        let (count, taken) = (rows.len(), rows.clone());
        // A power cut loses at most the usage since the last run.
        self.store
            .write(Durability::Logged, move |txn| {
                for (row, record) in rows {
                    txn.put::<DayUsage>(&row, &record)?;
                }
                // Rows of other days do not count any more.
                let mut old = txn.scan::<DayUsage>(&All, ENTRIES_AT_ONCE)?;
                old.retain(|((of, _, _), _)| *of != day);
                for (row, _) in &old {
                    txn.delete::<DayUsage>(row)?;
                }
                Ok(count)
            })
            .wait()
            .inspect_err(|_| self.state.lock().usage.restore_unsaved(day, taken))
    }

    pub(super) fn drop_files(&self, oldest: i64) -> Result<usize, TelemetryError> {
        let mut dropped = 0;
        let mut state = self.state.lock();
        for hour in self.directory.hours()? {
            if hour >= oldest {
                break;
            }
            // After a clock change the open segment can be an old one.
            state.segment.take_if(|segment| segment.hour == hour);
            state.done.retain(|segment| segment.hour != hour);
            state.notices.forget(hour);
            let of = &self.directory;
            for path in [of.events(hour), of.keys(hour), of.lengths(hour)] {
                remove_if_present(&path)?;
            }
            dropped += 1;
        }
        drop(state);
        if dropped > 0 {
            self.directory.sync()?;
        }
        Ok(dropped)
    }

    fn drop_entries(&self, oldest: i64) -> Result<usize, StoreError> {
        self.store
            // Entries that a power cut brings back are deleted by the next run.
            .write(Durability::Logged, move |txn| {
                let mut entries = txn.scan::<UserHours>(&All, ENTRIES_AT_ONCE)?;
                entries.retain(|((hour, _), _)| *hour < oldest);
                for (key, _) in &entries {
                    txn.delete::<UserHours>(key)?;
                }
                for (hour, _) in txn.scan::<Forwarded>(&All, ENTRIES_AT_ONCE)? {
                    if hour < oldest {
                        txn.delete::<Forwarded>(&hour)?;
                    }
                }
                Ok(entries.len())
            })
            .wait()
    }
}
