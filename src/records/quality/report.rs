//! Reports: the figures of a span of time, grouped and filtered.
//!
//! A report reads the roll-ups of closed views and adds the open ones. Its memory is bounded by its rows.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use super::contributions::contributions;
use super::figures::{Cell, Figures};
use super::rollup::{Coordinates, HourCells, HourTable};
use super::{Inner, Quality, QualityError};
use crate::telemetry::dimensions::{DIMENSIONS, Dimension};
use playgate_types::UnixSeconds;
use playgate_types::time::HOUR;

const ROWS_MAX: usize = 100_000;
/// Attempts to read all hours without a checkpoint in between.
const ATTEMPTS_MAX: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupBy {
    Dimension(Dimension),
    Minute,
    Hour,
}

impl GroupBy {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dimension(dimension) => dimension.as_str(),
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "minute" => Some(Self::Minute),
            "hour" => Some(Self::Hour),
            other => Dimension::parse(other).map(Self::Dimension),
        }
    }
}

/// Views that began from `from` on and before `to`, whole minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QualityQuery {
    pub from: UnixSeconds,
    pub to: UnixSeconds,
    pub by: Vec<GroupBy>,
    /// A view must have one of the given values in each dimension that is given.
    pub filters: Vec<(Dimension, String)>,
    /// Length of each point of a series, in seconds.
    pub step: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyPart {
    Name(Arc<str>),
    Time(UnixSeconds),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReportRow {
    /// A value for each element of `by`; an unknown one is empty.
    pub key: Vec<KeyPart>,
    pub figures: Figures,
    /// Figures by the start of their interval; only in a series.
    pub points: Vec<(UnixSeconds, Figures)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct QualityReport {
    pub total: ReportRow,
    pub rows: Vec<ReportRow>,
}

impl Quality {
    /// Reads files: call it on a blocking thread.
    pub fn report(
        &self,
        query: &QualityQuery,
        now: UnixSeconds,
    ) -> Result<QualityReport, QualityError> {
        let mut attempt = 1;
        loop {
            if let Some(report) = self.inner.report(query, now, attempt >= ATTEMPTS_MAX)? {
                return Ok(report);
            }
            // The last attempt takes what it finds: a report that is off by some views of the last seconds is better
            // than none.
            attempt += 1;
        }
    }
}

impl Inner {
    /// `None` if a checkpoint has changed an hour that was not in memory, so that a view could be counted twice.
    fn report(
        &self,
        query: &QualityQuery,
        now: UnixSeconds,
        is_last: bool,
    ) -> Result<Option<QualityReport>, QualityError> {
        let hours = query.from.0.div_euclid(HOUR)..(query.to.0 + HOUR - 1).div_euclid(HOUR);
        let (next, loaded, open) = {
            let mut state = self.state.lock();
            self.drain(&mut state)?;
            let mut open: BTreeMap<i64, HourTable> = BTreeMap::new();
            for view in state.views.values() {
                let unit = (state.unit_of)(&view.partner);
                contributions(view, unit, now, false, |hour, minute, cell| {
                    if hours.contains(&hour) {
                        let table = open.entry(hour).or_default();
                        table.add(minute, &view.labels, &cell);
                    }
                });
            }
            // Only the references to shared tables are cloned, so that the lock is held for the open views only.
            (state.next, state.hours.clone(), open)
        };
        let others = self.files.of_members()?;
        let mut rows = Grouping::new(query, query.by.clone());
        let mut total = Grouping::new(query, Vec::new());
        for hour in hours {
            let mut groups = Groups::new();
            if let Some(table) = loaded.get(&hour) {
                rows.collect(hour, &**table, &mut groups);
            } else if let Some(stored) = self.files.read_stored_hour(hour)? {
                // A checkpoint has moved views from the state into this file since the state was read: they would count
                // twice.
                if stored.written_after(next) && !is_last {
                    return Ok(None);
                }
                rows.collect(hour, &stored, &mut groups);
            }
            if let Some(table) = open.get(&hour) {
                rows.collect(hour, table, &mut groups);
            }
            for files in &others {
                if let Some(stored) = files.read_stored_hour(hour)? {
                    rows.collect(hour, &stored, &mut groups);
                }
            }
            let mut all = HourGroup::default();
            for group in groups.values() {
                all.merge(group);
            }
            if !groups.is_empty() {
                total.add_hour(hour, [(Vec::new(), all)])?;
            }
            rows.add_hour(hour, groups)?;
        }
        let total = total.rows().pop();
        Ok(Some(QualityReport {
            total: total.unwrap_or_else(|| ReportRow {
                key: Vec::new(),
                figures: Figures::default(),
                points: Vec::new(),
            }),
            rows: rows.rows(),
        }))
    }
}

/// Sums by key and slot of time.
struct Grouping<'a> {
    query: &'a QualityQuery,
    by: Vec<GroupBy>,
    /// Length of a time slot in seconds; 0 if the whole span is one slot.
    slot: i64,
    rows: HashMap<Vec<Arc<str>>, BTreeMap<i64, SeriesSlot>>,
    slots: usize,
}

#[derive(Default)]
struct SeriesSlot {
    cell: Cell,
    max_concurrent: i64,
}

/// The views of an hour with the same key.
#[derive(Default)]
struct HourGroup {
    alive: i64,
    /// Second of the hour and change of the number of live sessions, in any order.
    changes: Vec<(u16, i32)>,
    minutes: BTreeMap<u8, Cell>,
}

/// Sums of an hour, by the values of the report's dimensions.
type Groups = HashMap<Vec<Arc<str>>, HourGroup>;

impl<'a> Grouping<'a> {
    fn new(query: &'a QualityQuery, by: Vec<GroupBy>) -> Self {
        let slot = if by.contains(&GroupBy::Minute) {
            60
        } else if by.contains(&GroupBy::Hour) {
            HOUR
        } else {
            query.step.unwrap_or(0)
        };
        Self {
            query,
            by,
            slot,
            rows: HashMap::new(),
            slots: 0,
        }
    }

    fn dimensions(&self) -> Vec<Dimension> {
        let dimension = |by: &GroupBy| match by {
            GroupBy::Dimension(dimension) => Some(*dimension),
            GroupBy::Minute | GroupBy::Hour => None,
        };
        self.by.iter().filter_map(dimension).collect()
    }

    fn collect(&self, hour: i64, table: &impl HourCells, groups: &mut Groups) {
        let dimensions = self.dimensions();
        let span = self.span_in(hour);
        let filter = Filter::new(self.query, table);
        // Minutes are kept apart only if the report needs them, or if its span begins or ends within the hour.
        let in_hours =
            self.slot == 0 || (self.slot % HOUR, self.origin().rem_euclid(HOUR)) == (0, 0);
        let apart = span != (0..HOUR) || !in_hours;
        // Grouped by numbers first and by names afterwards: an hour has thousands of cells but few groups.
        let mut by_coordinates: HashMap<Coordinates, HourGroup> = HashMap::new();
        table.each_cell(|minute, at, cell| {
            if filter.allows(at) {
                by_coordinates
                    .entry(masked(at, &dimensions))
                    .or_default()
                    .add(if apart { minute } else { 0 }, cell);
            }
        });
        for (at, group) in by_coordinates {
            let key = dimensions
                .iter()
                .map(|dimension| table.name(*dimension, &at));
            groups.entry(key.collect()).or_default().merge(&group);
        }
    }

    fn add_hour(
        &mut self,
        hour: i64,
        groups: impl IntoIterator<Item = (Vec<Arc<str>>, HourGroup)>,
    ) -> Result<(), QualityError> {
        let (span, origin) = (self.span_in(hour), self.origin());
        for (key, group) in groups {
            let span = span.clone();
            let row = self.rows.entry(key).or_default();
            let before = row.len();
            group.add_to(row, hour * HOUR, span, self.slot, origin);
            self.slots += row.len() - before;
        }
        // Checked as it grows: a report of a month by minute and asset would fill the memory before it is complete.
        if self.slots > ROWS_MAX {
            return Err(QualityError::TooManyRows(ROWS_MAX));
        }
        Ok(())
    }

    /// Minutes and hours are those of the clock; the points of a series begin with its span.
    fn origin(&self) -> i64 {
        let by_time = self
            .by
            .iter()
            .any(|by| matches!(by, GroupBy::Minute | GroupBy::Hour));
        if by_time { 0 } else { self.query.from.0 }
    }

    /// Returns the seconds of an hour that the report covers.
    fn span_in(&self, hour: i64) -> Range<i64> {
        let begin = hour * HOUR;
        (self.query.from.0.max(begin) - begin)..(self.query.to.0.min(begin + HOUR) - begin)
    }

    fn rows(self) -> Vec<ReportRow> {
        let by_time = self
            .by
            .iter()
            .any(|by| matches!(by, GroupBy::Minute | GroupBy::Hour));
        let mut rows = Vec::new();
        for (names, slots) in self.rows {
            if by_time {
                for (at, slot) in slots {
                    let key = key(&self.by, &names, UnixSeconds(at));
                    rows.push(row(key, [(at, slot)].into(), false));
                }
            } else {
                let key = key(&self.by, &names, self.query.from);
                rows.push(row(key, slots, self.query.step.is_some()));
            }
        }
        // The groups are in a hash map; two equal reports must be equal texts.
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    }
}

fn key(by: &[GroupBy], names: &[Arc<str>], at: UnixSeconds) -> Vec<KeyPart> {
    let mut names = names.iter();
    let part = |by: &GroupBy| match by {
        GroupBy::Dimension(_) => KeyPart::Name(names.next().cloned().unwrap_or_default()),
        GroupBy::Minute | GroupBy::Hour => KeyPart::Time(at),
    };
    by.iter().map(part).collect()
}

fn row(key: Vec<KeyPart>, slots: BTreeMap<i64, SeriesSlot>, is_series: bool) -> ReportRow {
    let mut all = SeriesSlot::default();
    let mut points = Vec::new();
    for (at, slot) in slots {
        all.cell.merge(&slot.cell);
        all.max_concurrent = all.max_concurrent.max(slot.max_concurrent);
        if is_series {
            points.push((UnixSeconds(at), slot.figures()));
        }
    }
    ReportRow {
        key,
        figures: all.figures(),
        points,
    }
}

impl SeriesSlot {
    fn figures(&self) -> Figures {
        let alive = u32::try_from(self.max_concurrent).unwrap_or(0);
        self.cell.figures(alive)
    }
}

impl HourGroup {
    fn add(&mut self, minute: u8, cell: &Cell) {
        self.alive += i64::from(cell.carried);
        self.changes.extend_from_slice(&cell.changes);
        if cell.has_views() {
            self.minutes.entry(minute).or_default().merge_views(cell);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.alive += other.alive;
        self.changes.extend_from_slice(&other.changes);
        for (minute, cell) in &other.minutes {
            self.minutes.entry(*minute).or_default().merge_views(cell);
        }
    }

    /// Adds the group to the slots of a row. All times are seconds; `span` is relative to `begin`.
    fn add_to(
        mut self,
        row: &mut BTreeMap<i64, SeriesSlot>,
        begin: i64,
        span: Range<i64>,
        slot: i64,
        origin: i64,
    ) {
        let slot_of = |second: i64| match slot {
            0 => origin,
            slot => origin + (begin + second - origin).div_euclid(slot) * slot,
        };
        for (minute, cell) in &self.minutes {
            let second = i64::from(*minute) * 60;
            if span.contains(&second) {
                row.entry(slot_of(second)).or_default().cell.merge(cell);
            }
        }
        let mut alive = self.alive;
        let mut peak = |at: i64, alive: i64| {
            if alive > 0 {
                let slot = row.entry(slot_of(at)).or_default();
                slot.max_concurrent = slot.max_concurrent.max(alive);
            }
        };
        // The number of live sessions changes at these seconds and is sampled at the start of each slot. Changes in the
        // same second are merged: otherwise the order of an end and a begin would decide on the peak.
        self.changes.sort_unstable_by_key(|(second, _)| *second);
        self.changes.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            kept.1 += if same { later.1 } else { 0 };
            same
        });
        let mut changes = self.changes.iter().peekable();
        let width = if slot == 0 { HOUR } else { slot.min(HOUR) };
        let mut at = span.start;
        while at < span.end {
            let next = at + width - (begin + at - origin).rem_euclid(width);
            while let Some((_, by)) = changes.next_if(|(second, _)| i64::from(*second) <= at) {
                alive += i64::from(*by);
            }
            // A slot without changes still has the sessions that were alive at its start.
            peak(at, alive);
            let until = next.min(span.end);
            while let Some((second, by)) = changes.next_if(|(second, _)| i64::from(*second) < until)
            {
                alive += i64::from(*by);
                peak(i64::from(*second), alive);
            }
            at = until;
        }
    }
}

/// Keeps the coordinates of some dimensions and sets the others to 0.
fn masked(at: &Coordinates, dimensions: &[Dimension]) -> Coordinates {
    let mut kept = [0; DIMENSIONS];
    for dimension in dimensions {
        let index = dimension.index();
        if let (Some(kept), Some(place)) = (kept.get_mut(index), at.get(index)) {
            *kept = *place;
        }
    }
    kept
}

/// Allowed places of each dimension in one table.
struct Filter(Vec<(usize, Vec<u16>)>);

impl Filter {
    fn new(query: &QualityQuery, table: &impl HourCells) -> Self {
        let mut allowed: Vec<(usize, Vec<u16>)> = Vec::new();
        for (dimension, value) in &query.filters {
            let index = dimension.index();
            let place = table.place(*dimension, value);
            match allowed.iter_mut().find(|(other, _)| *other == index) {
                // Several values of one dimension are alternatives; different dimensions must all fit.
                Some((_, places)) => places.extend(place),
                // A value that the hour does not have leaves an empty list, which no cell passes.
                None => allowed.push((index, place.into_iter().collect())),
            }
        }
        Self(allowed)
    }

    fn allows(&self, at: &Coordinates) -> bool {
        self.0
            .iter()
            .all(|(index, places)| at.get(*index).is_some_and(|place| places.contains(place)))
    }
}
