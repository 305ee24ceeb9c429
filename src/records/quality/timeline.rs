//! The timeline of a player: when it played, paused and waited, and at which bitrate. Times are milliseconds of the
//! player's clock. Entries may arrive in any order; the result depends only on their times.
//!
//! Both lists are bounded. When one is full, its oldest entries are folded, so that only an entry that arrives later than
//! some hundred others is counted in a wrong place.

use serde::{Deserialize, Serialize};

const MARKS_MAX: usize = 256;
const POINTS_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum PlayState {
    Playing,
    Paused,
    Seeking,
    /// The player stalls in mid-play: its buffer is empty.
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct TimelineMark {
    at: i64,
    /// The player's sequence number: several events may carry the same time.
    sequence: i64,
    state: PlayState,
}

/// Milliseconds in each state, and how often a wait began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TimeSpent {
    pub paused: i64,
    pub waited: i64,
    pub waits: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Timeline {
    marks: Vec<TimelineMark>,
    folded: TimeSpent,
    /// The state in which the folded marks end, and the time since which it lasts.
    since: Option<(i64, PlayState)>,
}

impl Timeline {
    /// `begin` is the time of the first frame, if known.
    pub(super) fn insert(&mut self, at: i64, sequence: i64, state: PlayState, begin: Option<i64>) {
        let mark = TimelineMark {
            at,
            sequence,
            state,
        };
        // Most events arrive in order, so this is nearly always the end of the list.
        let place = self.marks.partition_point(|other| *other <= mark);
        self.marks.insert(place, mark);
        if self.marks.len() >= MARKS_MAX {
            // Half of the list, so that many inserts share the cost of a fold.
            let older: Vec<TimelineMark> = self.marks.drain(..MARKS_MAX / 2).collect();
            let end = older.last().map_or(0, |mark| mark.at);
            // Without a first frame nothing has been played, so the folded part counts as before the start.
            let begin = begin.unwrap_or(end);
            let mut state = self.start(begin);
            let mut spent = self.folded;
            walk(&older, &mut state, end, |was, length, began| {
                spent.add(was, length, began);
            });
            self.folded = spent;
            self.since = Some(state);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.marks.capacity() * size_of::<TimelineMark>()
    }

    /// Returns when the player began to wait, if that was its first report.
    pub(super) fn waits_since(&self) -> Option<i64> {
        let first = self.marks.first()?;
        (self.since.is_none() && first.state == PlayState::Waiting).then_some(first.at)
    }

    pub(super) fn plays_after(&self, at: i64) -> bool {
        let later = self.marks.iter().rev().take_while(|mark| mark.at > at);
        later
            .into_iter()
            .any(|mark| mark.state == PlayState::Playing)
    }

    fn start(&self, begin: i64) -> (i64, PlayState) {
        self.since.unwrap_or((begin, PlayState::Playing))
    }

    /// Calls `each` with state, begin and end of each stretch between `begin` and `end`.
    pub(super) fn stretches(
        &self,
        begin: i64,
        end: i64,
        mut each: impl FnMut(PlayState, i64, i64),
    ) {
        let mut state = self.start(begin);
        let mut from = state.0;
        walk(&self.marks, &mut state, end, |was, length, _| {
            each(was, from, from + length);
            from += length;
        });
    }

    pub(super) fn spent(&self, begin: i64, end: i64) -> TimeSpent {
        let mut state = self.start(begin);
        let mut spent = self.folded;
        walk(&self.marks, &mut state, end, |was, length, began| {
            spent.add(was, length, began);
        });
        spent
    }
}

impl TimeSpent {
    fn add(&mut self, state: PlayState, length: i64, began: bool) {
        match state {
            PlayState::Playing => {}
            PlayState::Paused | PlayState::Seeking => self.paused += length,
            PlayState::Waiting => {
                self.waited += length;
                self.waits += u32::from(began);
            }
        }
    }
}

/// Calls `each` with each state, its length, and whether the state began there, up to `end`.
fn walk(
    marks: &[TimelineMark],
    (since, state): &mut (i64, PlayState),
    end: i64,
    mut each: impl FnMut(PlayState, i64, bool),
) {
    let mut began = false;
    for mark in marks {
        // Before the first frame nothing is played, paused or waited for.
        if mark.at < *since || mark.at > end {
            continue;
        }
        // A wait that a seek causes is part of the seek.
        let is_seek = (*state, mark.state) == (PlayState::Seeking, PlayState::Waiting);
        if mark.state != *state && !is_seek {
            each(*state, mark.at - *since, began);
            (*since, *state, began) = (mark.at, mark.state, true);
        }
    }
    if end > *since {
        each(*state, end - *since, began);
        *since = end;
    } else if began {
        each(*state, 0, true);
    }
}

/// Bitrates by the time from which they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bitrates {
    points: Vec<(i64, u64)>,
}

impl Bitrates {
    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.points.capacity() * size_of::<(i64, u64)>()
    }

    pub(super) fn insert(&mut self, at: i64, bitrate: u64) {
        let place = self.points.partition_point(|point| *point <= (at, bitrate));
        self.points.insert(place, (at, bitrate));
        while self.points.len() > POINTS_MAX {
            self.fold();
        }
    }

    /// Appends a point that is later than all others. A point that repeats the last value is dropped.
    pub(super) fn append(&mut self, at: i64, bitrate: u64) {
        if self.points.last().is_none_or(|(_, last)| *last != bitrate) {
            self.insert(at, bitrate);
        }
    }

    /// Replaces the two oldest points by one with their mean, weighted by time.
    fn fold(&mut self) {
        let [(first, one), (second, two), (third, _), ..] = *self.points.as_slice() else {
            return;
        };
        let (long, short) = (millis(second - first), millis(third - second));
        let mean = (u128::from(one) * u128::from(long) + u128::from(two) * u128::from(short))
            .checked_div(u128::from(long + short));
        let mean = mean
            .and_then(|mean| u64::try_from(mean).ok())
            .unwrap_or(two);
        self.points.splice(..2, [(first, mean)]);
    }

    /// Joins two lists. `shift` is subtracted from the times of `other`, to convert them to the clock of this list.
    pub(super) fn joined(&self, other: &Self, shift: i64) -> Self {
        let mut points = self.points.clone();
        points.extend(other.points.iter().map(|(at, rate)| (at - shift, *rate)));
        points.sort_unstable();
        Self { points }
    }

    /// The mean over the playing stretches between `begin` and `end`.
    pub(super) fn mean(&self, timeline: &Timeline, begin: i64, end: i64) -> Option<f64> {
        let (mut bits, mut time) = (0.0, 0.0);
        timeline.stretches(begin, end, |state, from, to| {
            if state != PlayState::Playing {
                return;
            }
            for (place, (at, rate)) in self.points.iter().enumerate() {
                // Before the first report the first bitrate is assumed.
                let at = if place == 0 { i64::MIN } else { *at };
                let until = self.points.get(place + 1).map_or(i64::MAX, |next| next.0);
                let length = millis(until.min(to) - at.max(from).min(to)) as f64;
                bits += length * *rate as f64;
                time += length;
            }
        });
        if time > 0.0 {
            return Some(bits / time);
        }
        // A view without playing time gets its last bitrate.
        self.points.last().map(|(_, rate)| *rate as f64)
    }
}

fn millis(length: i64) -> u64 {
    u64::try_from(length).unwrap_or(0)
}
