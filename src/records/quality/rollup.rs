//! The figures of one hour by minute and labels, in a bounded number of cells.
//!
//! When an hour has too many values or cells, the values with the fewest views become "other", then rare combinations
//! of values lose their least important dimensions. Totals stay exact.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::figures::Cell;
use crate::telemetry::dimensions::{DIMENSIONS, Dimension, Labels, OTHER};

/// Cells per hour. A folded hour has at most this many, and is folded at twice as many.
pub(super) const CELLS_MAX: usize = 16_384;

/// The value of each dimension, as a place in its list of names.
pub(super) type Coordinates = [u16; DIMENSIONS];

const UNKNOWN_AT: u16 = 0;
const OTHER_AT: u16 = 1;

/// The order in which a rare combination of values loses its dimensions.
const FOLDED_FIRST: [Dimension; DIMENSIONS] = [
    Dimension::DeviceModel,
    Dimension::AppVersion,
    Dimension::Country,
    Dimension::DeviceType,
    Dimension::Asset,
    Dimension::Protocol,
    Dimension::Drm,
    Dimension::Livestream,
    Dimension::Platform,
    Dimension::Partner,
];

#[derive(Clone, Debug, Default)]
struct DimensionNames {
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u16>,
}

impl DimensionNames {
    fn new() -> Self {
        let mut names = Self::default();
        // These two come first in every list: `UNKNOWN_AT` and `OTHER_AT` are their places.
        names.place(&Arc::from(""));
        names.place(&Arc::from(OTHER));
        names
    }

    fn place(&mut self, name: &Arc<str>) -> u16 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        // Unreachable: a list is folded at twice its limit, far below 65,536 names.
        let Ok(place) = u16::try_from(self.names.len()) else {
            return OTHER_AT;
        };
        self.names.push(Arc::clone(name));
        self.places.insert(Arc::clone(name), place);
        place
    }
}

#[derive(Clone, Debug)]
pub(super) struct HourTable {
    names: [DimensionNames; DIMENSIONS],
    cells: HashMap<(u8, Coordinates), Cell>,
    /// The hour's file contains all batches of the input log before this number. A replay skips them.
    pub(super) stored: u64,
    pub(super) changed: bool,
}

/// The cells of one hour, as a report reads them: the table in memory, or its form on disk.
pub(super) trait HourCells {
    fn each_cell(&self, each: impl FnMut(u8, &Coordinates, &Cell));

    fn names(&self, dimension: Dimension) -> &[Arc<str>];

    fn name(&self, dimension: Dimension, at: &Coordinates) -> Arc<str> {
        let place = at.get(dimension.index());
        let name = place.and_then(|place| self.names(dimension).get(usize::from(*place)));
        name.cloned().unwrap_or_else(|| Arc::from(OTHER))
    }

    /// `None` if no view of the hour has the name.
    fn place(&self, dimension: Dimension, name: &str) -> Option<u16> {
        let mut names = self.names(dimension).iter();
        u16::try_from(names.position(|other| **other == *name)?).ok()
    }
}

impl HourCells for HourTable {
    fn each_cell(&self, mut each: impl FnMut(u8, &Coordinates, &Cell)) {
        for ((minute, at), cell) in &self.cells {
            each(*minute, at, cell);
        }
    }

    fn names(&self, dimension: Dimension) -> &[Arc<str>] {
        let names = self.names.get(dimension.index());
        names.map_or(&[], |names| names.names.as_slice())
    }
}

impl HourCells for StoredHour {
    fn each_cell(&self, mut each: impl FnMut(u8, &Coordinates, &Cell)) {
        for (minute, at, cell) in &self.cells {
            each(*minute, at, cell);
        }
    }

    fn names(&self, dimension: Dimension) -> &[Arc<str>] {
        let names = self.names.get(dimension.index());
        names.map_or(&[], Vec::as_slice)
    }
}

impl StoredHour {
    pub(super) const fn written_after(&self, batch: u64) -> bool {
        self.stored > batch
    }
}

/// The stored form of an [`HourTable`].
#[derive(Serialize, Deserialize)]
pub(super) struct StoredHour {
    stored: u64,
    names: Vec<Vec<Arc<str>>>,
    cells: Vec<(u8, Coordinates, Cell)>,
}

impl Default for HourTable {
    fn default() -> Self {
        Self {
            names: std::array::from_fn(|_| DimensionNames::new()),
            cells: HashMap::new(),
            stored: 0,
            changed: false,
        }
    }
}

impl HourTable {
    pub(super) fn add(&mut self, minute: u8, labels: &Labels, cell: &Cell) {
        let mut at = [UNKNOWN_AT; DIMENSIONS];
        for ((place, names), value) in at.iter_mut().zip(&mut self.names).zip(labels.iter()) {
            *place = names.place(value);
        }
        self.cells.entry((minute, at)).or_default().merge(cell);
        self.changed = true;
        let many = |(names, dimension): (&DimensionNames, Dimension)| {
            // Folded at twice the limit, so that the cost is shared by as many additions.
            names.names.len() > 2 * dimension.values_max()
        };
        if self.cells.len() > 2 * CELLS_MAX || self.names.iter().zip(Dimension::ALL).any(many) {
            self.fold();
        }
    }

    /// Bounds values and cells. Called before the table is written.
    pub(super) fn fold(&mut self) {
        for dimension in Dimension::ALL {
            self.fold_values(dimension);
        }
        for dimension in FOLDED_FIRST {
            if self.cells.len() > CELLS_MAX {
                self.fold_cells(dimension);
            }
        }
    }

    /// Keeps the names of the values with the most views.
    fn fold_values(&mut self, dimension: Dimension) {
        let index = dimension.index();
        let Some(names) = self.names.get_mut(index) else {
            return;
        };
        let mut weights = vec![0_u64; names.names.len()];
        for ((_, at), cell) in &self.cells {
            let place = at.get(index).map_or(0, |place| usize::from(*place));
            if let Some(weight) = weights.get_mut(place) {
                *weight += cell.weight();
            }
        }
        // The first two names, "unknown" and "other", are always kept.
        let mut ranked: Vec<(u64, &Arc<str>)> =
            weights.into_iter().zip(&names.names).skip(2).collect();
        if ranked.len() <= dimension.values_max() {
            return;
        }
        // The name breaks ties, so that a replay keeps the same values.
        ranked.sort_by(|a, b| (b.0, a.1).cmp(&(a.0, b.1)));
        ranked.truncate(dimension.values_max());
        let mut kept = DimensionNames::new();
        for (_, name) in ranked {
            kept.place(name);
        }
        let before = std::mem::replace(names, kept.clone());
        let places: Vec<u16> = (before.names.iter())
            .map(|name| kept.places.get(name).copied().unwrap_or(OTHER_AT))
            .collect();
        self.remap(|at| {
            if let Some(place) = at.get_mut(index) {
                *place = places.get(usize::from(*place)).copied().unwrap_or(OTHER_AT);
            }
        });
    }

    /// Replaces a dimension by "other" in the combinations with the fewest views.
    fn fold_cells(&mut self, dimension: Dimension) {
        let mut ranked: Vec<(u64, (u8, Coordinates))> = self
            .cells
            .iter()
            .map(|(key, cell)| (cell.weight(), *key))
            .collect();
        ranked.sort_unstable();
        // Folds down to half of the limit, so that the next fold is some time away.
        let rare = ranked.len() - CELLS_MAX / 2;
        for (_, key) in ranked.into_iter().take(rare) {
            let Some(cell) = self.cells.remove(&key) else {
                continue;
            };
            let (minute, mut at) = key;
            if let Some(place) = at.get_mut(dimension.index()) {
                *place = OTHER_AT;
            }
            self.cells.entry((minute, at)).or_default().merge(&cell);
        }
    }

    fn remap(&mut self, change: impl Fn(&mut Coordinates)) {
        for ((minute, mut at), cell) in std::mem::take(&mut self.cells) {
            change(&mut at);
            self.cells.entry((minute, at)).or_default().merge(&cell);
        }
    }

    pub(super) fn to_stored(&self, stored: u64) -> StoredHour {
        let mut cells: Vec<_> = (self.cells.iter())
            .map(|((minute, at), cell)| (*minute, *at, cell.clone()))
            .collect();
        // Sorted, so that equal tables give equal files.
        cells.sort_unstable_by_key(|(minute, at, _)| (*minute, *at));
        StoredHour {
            stored,
            names: self.names.iter().map(|names| names.names.clone()).collect(),
            cells,
        }
    }
}

impl From<StoredHour> for HourTable {
    fn from(hour: StoredHour) -> Self {
        let mut table = Self {
            stored: hour.stored,
            ..Self::default()
        };
        // In their stored order, so that the coordinates of the cells stay valid.
        for (names, stored) in table.names.iter_mut().zip(&hour.names) {
            for name in stored {
                names.place(name);
            }
        }
        let cells = hour.cells.into_iter();
        table.cells = cells
            .map(|(minute, at, cell)| ((minute, at), cell))
            .collect();
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(model: usize) -> (Labels, Cell) {
        let labels = Labels::default()
            .with(Dimension::Platform, "web")
            .with(Dimension::DeviceModel, &format!("model-{model}"));
        let cell = Cell {
            attempts: 1,
            plays: 1,
            ..Cell::default()
        };
        (labels, cell)
    }

    fn total(table: &HourTable) -> u32 {
        table.cells.values().map(|cell| cell.attempts).sum()
    }

    #[test]
    fn a_thousand_device_models_become_the_top_ones_and_other() {
        let mut table = HourTable::default();
        for round in 0..1_000 {
            let (labels, cell) = view(round);
            table.add(0, &labels, &cell);
            // One model is far more frequent than the others.
            let (labels, cell) = view(999);
            table.add(1, &labels, &cell);
        }
        table.fold();
        assert_eq!(total(&table), 2_000);
        assert!(table.cells.len() <= 202, "{}", table.cells.len());
        let frequent = table.place(Dimension::DeviceModel, "model-999").unwrap();
        let of_it: u32 = (table.cells.iter())
            .filter(|((_, at), _)| at[Dimension::DeviceModel.index()] == frequent)
            .map(|(_, cell)| cell.attempts)
            .sum();
        assert_eq!(of_it, 1_001);
    }

    #[test]
    fn the_number_of_cells_is_bounded_and_totals_stay_exact() {
        let mut table = HourTable::default();
        for number in 0..100_000_usize {
            let (labels, cell) = view(number % 190);
            let labels = labels
                .with(Dimension::Asset, &format!("asset-{}", number % 401))
                .with(Dimension::Country, &format!("C{}", number % 53));
            table.add(u8::try_from(number % 60).unwrap(), &labels, &cell);
            assert!(table.cells.len() <= 2 * CELLS_MAX + 1);
        }
        table.fold();
        assert!(table.cells.len() <= CELLS_MAX);
        assert_eq!(total(&table), 100_000);
        // The platform is among the last to be folded.
        let platform = table.place(Dimension::Platform, "web").unwrap();
        assert!(
            table
                .cells
                .keys()
                .all(|(_, at)| at[Dimension::Platform.index()] == platform)
        );
    }

    #[test]
    fn a_stored_table_reads_back() {
        let mut table = HourTable::default();
        for number in 0..50 {
            let (labels, cell) = view(number);
            table.add(7, &labels, &cell);
        }
        let read = HourTable::from(table.to_stored(12));
        assert_eq!(read.stored, 12);
        assert_eq!(read.cells, table.cells);
    }
}
