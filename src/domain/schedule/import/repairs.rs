//! What was repaired while a guide was read: counted and shown, as what was skipped is.

use std::collections::BTreeMap;

use super::LINES_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repair {
    /// A byte that is no character in the encoding of the guide.
    BadCharacter,
    /// A character of windows-1252 in a guide that says it is UTF-8.
    Encoding,
    /// An `&` that begins no reference.
    BareAmpersand,
    /// HTML in a text, or references that were escaped twice.
    Markup,
    /// A stop that is missing or impossible, taken from the next start.
    Stop,
    /// A stop beyond the next starts, or of a placeholder around other programmes.
    LongStop,
    /// The last stop of a channel, estimated.
    LastStop,
    /// A local time that occurs twice when clocks go back, told by the order of the file.
    RepeatedHour,
    /// Of two copies of a row the one that says more.
    Copy,
    /// A date or another detail that was not understood and is left out.
    Detail,
}

impl Repair {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BadCharacter => "badCharacter",
            Self::Encoding => "encoding",
            Self::BareAmpersand => "bareAmpersand",
            Self::Markup => "markup",
            Self::Stop => "stop",
            Self::LongStop => "longStop",
            Self::LastStop => "lastStop",
            Self::RepeatedHour => "repeatedHour",
            Self::Copy => "copy",
            Self::Detail => "detail",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepairedRows {
    pub count: u64,
    /// The first.
    pub lines: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repairs(BTreeMap<Repair, RepairedRows>);

impl Repairs {
    pub fn add(&mut self, repair: Repair, line: u64) {
        self.add_many(repair, line, 1);
    }

    pub fn add_many(&mut self, repair: Repair, line: u64, count: u64) {
        if count == 0 {
            return;
        }
        let rows = self.0.entry(repair).or_default();
        rows.count += count;
        if rows.lines.len() < LINES_MAX {
            rows.lines.push(line);
        }
    }

    pub fn merge(&mut self, repair: Repair, rows: &RepairedRows) {
        let known = self.0.entry(repair).or_default();
        known.count += rows.count;
        let room = LINES_MAX.saturating_sub(known.lines.len());
        known.lines.extend(rows.lines.iter().take(room));
    }

    /// For what is counted without lines.
    pub fn count_of(&mut self, repair: Repair, count: u64) {
        if count > 0 {
            self.0.entry(repair).or_default().count = count;
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Repair, &RepairedRows)> {
        self.0.iter().map(|(kind, rows)| (*kind, rows))
    }

    pub fn count(&self, repair: Repair) -> u64 {
        self.0.get(&repair).map_or(0, |rows| rows.count)
    }
}
