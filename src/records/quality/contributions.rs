//! Computes what a view adds to which hour and minute.

use super::figures::Cell;
use super::view::View;
use playgate_types::time::HOUR;
use playgate_types::{DurationUnit, UnixSeconds};

pub(super) fn contributions(
    view: &View,
    unit: DurationUnit,
    now: UnixSeconds,
    closed: bool,
    mut each: impl FnMut(i64, u8, Cell),
) {
    let mut add = |at: UnixSeconds, cell: Cell| {
        let minute = at.0.rem_euclid(HOUR) / 60;
        each(
            at.0.div_euclid(HOUR),
            u8::try_from(minute).unwrap_or(0),
            cell,
        );
    };
    // All figures of a view count at its begin, even those of later hours: both parts of a ratio must be in one cell.
    let mut cell = view.sums(unit, closed);
    let begin = view.begin();
    let Some((opened, end)) = view.alive(now) else {
        add(begin, cell);
        return;
    };
    cell.change(second_of_hour(opened), 1);
    add(begin, cell);
    if let Some(end) = end {
        let mut cell = Cell::default();
        cell.change(second_of_hour(end), -1);
        add(end, cell);
    }
    // The session is alive at the start of each of these hours. A session of over a year is a clock error.
    let until = end.unwrap_or(now);
    let first = opened.0.div_euclid(HOUR) + 1;
    let hours = (first..first + 24 * 366).take_while(|hour| hour * HOUR <= until.0);
    for hour in hours {
        let carried = Cell {
            carried: 1,
            ..Cell::default()
        };
        add(UnixSeconds(hour * HOUR), carried);
    }
}

fn second_of_hour(at: UnixSeconds) -> u16 {
    u16::try_from(at.0.rem_euclid(HOUR)).unwrap_or(0)
}
