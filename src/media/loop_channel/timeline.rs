//! Maps wall-clock time to segments. The clip repeats endlessly from the Unix epoch, in segments of equal
//! length that are numbered from there: a media position is the Unix time, and no state is needed.

use std::ops::RangeInclusive;

use chrono::{DateTime, SecondsFormat, Utc};

use super::error::{LoopError, unfit};
use super::path::ManifestRange;
use playgate_types::UnixSeconds;

/// Length of a live DASH manifest in seconds: a day of time-shift and an hour of pause. One line of the manifest covers
/// all of it.
pub(super) const DASH_BACK: i64 = 25 * 3_600;
/// Length of a live HLS playlist in seconds: an hour of time-shift and five minutes of pause. Each segment is a line of
/// a playlist that players fetch every few seconds.
pub(super) const HLS_BACK: i64 = 3_600 + 300;
/// Maximum number of segments in an HLS playlist: a little more than a day of two-second segments.
pub(super) const HLS_PIECES_MAX: u64 = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LoopTimeline {
    length: u64,
    scale: u64,
    pieces: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentWindow {
    pub(super) span: ManifestRange,
    pub(super) numbers: RangeInclusive<u64>,
    pub(super) is_open: bool,
}

impl LoopTimeline {
    /// `length` is in ticks, `scale` in ticks per second. [`LoopError::Unfit`] if the segments are too
    /// short or too long for players.
    pub(super) fn new(length: u64, scale: u32, pieces: usize) -> Result<Self, LoopError> {
        let pieces = u64::try_from(pieces).unwrap_or(u64::MAX);
        let scale = u64::from(scale);
        let second = u128::from(scale) * u128::from(pieces);
        if second == 0 || !(second..=60 * second).contains(&u128::from(length)) {
            return Err(unfit("a segment must have 1 to 60 seconds on average"));
        }
        Ok(Self {
            length,
            scale,
            pieces,
        })
    }

    /// The length of a segment in seconds, as a fraction in lowest terms.
    pub(super) fn piece(&self) -> (u64, u64) {
        let (a, b) = (self.length, self.scale.saturating_mul(self.pieces));
        let divisor = gcd(a, b).max(1);
        (a / divisor, b / divisor)
    }

    /// Returns how many segments have begun before `at`.
    fn begun_before(&self, at: UnixSeconds) -> u64 {
        self.divide(at, u128::div_ceil)
    }

    pub(super) fn at(&self, at: UnixSeconds) -> u64 {
        self.divide(at, |whole, piece| whole / piece)
    }

    fn divide(&self, at: UnixSeconds, by: impl Fn(u128, u128) -> u128) -> u64 {
        let (length, scale) = self.piece();
        // Before 1970 there is only segment 0.
        let seconds = u128::try_from(at.0).unwrap_or(0);
        u64::try_from(by(seconds * u128::from(scale), u128::from(length).max(1)))
            .unwrap_or(u64::MAX)
    }

    /// The newest segment that is available; `None` in the first seconds of 1970.
    pub(super) fn newest(&self, now: UnixSeconds) -> Option<u64> {
        // A segment becomes available in the second in which it ends: the server clock counts whole
        // seconds, and that of a player may be finer-grained.
        self.begun_before(now + 1).checked_sub(2)
    }

    pub(super) fn iteration(&self, number: u64) -> (u64, usize) {
        let pieces = self.pieces.max(1);
        let piece = usize::try_from(number % pieces).unwrap_or(usize::MAX);
        (number / pieces, piece)
    }

    /// Returns the start of an iteration of the clip in ticks of `scale`; `None` on overflow.
    pub(super) fn begin(&self, turn: u64, scale: u32) -> Option<u64> {
        // Computed from the number of the iteration, and not by adding lengths: rounding errors do not grow.
        let ticks = u128::from(turn) * u128::from(self.length);
        let ticks = ticks.checked_mul(u128::from(scale))? / u128::from(self.scale.max(1));
        u64::try_from(ticks).ok()
    }

    pub(super) fn clip(&self, scale: u32) -> u64 {
        self.begin(1, scale).unwrap_or(u64::MAX)
    }

    /// `None` if nothing of the range is available.
    pub(super) fn window(
        &self,
        span: ManifestRange,
        back: i64,
        now: UnixSeconds,
    ) -> Option<SegmentWindow> {
        let newest = self.newest(now)?;
        let (first, last) = match span {
            ManifestRange::Live => (self.at(now - back), None),
            ManifestRange::Window { start, stop } if start < stop => {
                (self.at(start), self.begun_before(stop).checked_sub(1))
            }
            ManifestRange::Window { .. } => return None,
        };
        let known = last.map_or(newest, |last| last.min(newest));
        (first <= known).then_some(SegmentWindow {
            span,
            numbers: first..=known,
            // A catch-up range is open until its last segment is available.
            is_open: last != Some(known),
        })
    }
}

/// Formats seconds with up to six decimals.
pub(super) fn decimal(ticks: u64, scale: u64) -> String {
    let micros = u128::from(ticks) * 1_000_000 / u128::from(scale.max(1));
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(super) fn instant(at: UnixSeconds) -> String {
    moment(u64::try_from(at.0).unwrap_or(0), 1)
}

/// Formats an instant, with milliseconds if needed.
pub(super) fn moment(ticks: u64, scale: u64) -> String {
    let millis = u128::from(ticks) * 1_000 / u128::from(scale.max(1));
    let date = i64::try_from(millis)
        .ok()
        .and_then(DateTime::from_timestamp_millis);
    // chrono ends at the year 262142.
    date.unwrap_or(DateTime::<Utc>::MAX_UTC)
        .to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The demo's clip: ten seconds in five segments.
    fn demo() -> LoopTimeline {
        LoopTimeline::new(128_000, 12_800, 5).unwrap()
    }

    #[test]
    fn a_position_is_the_unix_time() {
        let grid = demo();
        assert_eq!(grid.piece(), (2, 1));
        assert_eq!(grid.at(UnixSeconds(1_767_268_800)), 883_634_400);
        assert_eq!(grid.at(UnixSeconds(1_767_268_801)), 883_634_400);
        assert_eq!(grid.iteration(883_634_400), (176_726_880, 0));
        assert_eq!(
            grid.begin(176_726_880, 48_000),
            Some(1_767_268_800 * 48_000)
        );
        assert_eq!(grid.at(UnixSeconds(-5)), 0);
    }

    #[test]
    fn a_segment_is_available_once_it_has_ended() {
        let grid = demo();
        for (now, newest) in [
            (-9, None),
            (0, None),
            (1, None),
            (2, Some(0)),
            (3, Some(0)),
            (4, Some(1)),
        ] {
            assert_eq!(grid.newest(UnixSeconds(now)), newest, "{now}");
        }
        // 1.92 s each: the first ends within the second that begins at 1.
        let film = LoopTimeline::new(48, 25, 1).unwrap();
        assert_eq!(film.newest(UnixSeconds(0)), None);
        assert_eq!(film.newest(UnixSeconds(1)), Some(0));
        assert_eq!(
            film.newest(UnixSeconds(i64::MAX)),
            film.newest(UnixSeconds(i64::MAX - 1))
        );
    }

    #[test]
    fn a_catchup_window_closes_at_its_stop() {
        let grid = demo();
        let window = |start, stop| ManifestRange::Window {
            start: UnixSeconds(start),
            stop: UnixSeconds(stop),
        };
        let of = |span, now| {
            let stretch = grid.window(span, 100, UnixSeconds(now))?;
            let (first, last) = stretch.numbers.into_inner();
            Some((first, last, stretch.is_open))
        };
        assert_eq!(of(ManifestRange::Live, 1_000), Some((450, 499, true)));
        assert_eq!(of(ManifestRange::Live, 6), Some((0, 2, true)));
        assert_eq!(of(ManifestRange::Live, 1), None);
        assert_eq!(of(window(100, 110), 1_000), Some((50, 54, false)));
        assert_eq!(of(window(101, 109), 1_000), Some((50, 54, false)));
        assert_eq!(of(window(100, 110), 110), Some((50, 54, false)));
        assert_eq!(of(window(100, 110), 109), Some((50, 53, true)));
        assert_eq!(of(window(100, 110), 102), Some((50, 50, true)));
        assert_eq!(of(window(100, 110), 101), None);
        assert_eq!(of(window(100, 100), 1_000), None);
        assert_eq!(of(window(110, 100), 1_000), None);
        assert_eq!(of(window(i64::MIN, i64::MAX), 1_000), Some((0, 499, true)));
    }

    #[test]
    fn segments_of_an_unusable_length_are_rejected() {
        assert!(LoopTimeline::new(0, 25, 1).is_err());
        assert!(LoopTimeline::new(100, 0, 1).is_err());
        assert!(LoopTimeline::new(100, 25, 0).is_err());
        assert!(LoopTimeline::new(100, 25, 5).is_err());
        assert!(LoopTimeline::new(100, 25, 4).is_ok());
        assert!(LoopTimeline::new(61, 1, 1).is_err());
    }

    proptest! {
        #[test]
        fn the_current_segment_has_begun_and_not_ended(
            now in 0..10_000_000_000_i64, ticks in 1..60_u64, scale in 1..90_000_u32, pieces in 1..500_usize,
        ) {
            let length = ticks * u64::from(scale) * u64::try_from(pieces).unwrap();
            let grid = LoopTimeline::new(length + 7, scale, pieces);
            prop_assume!(grid.is_ok());
            let grid = grid.unwrap();
            let (piece, second) = grid.piece();
            let begin = |number: u64| i128::from(number) * i128::from(piece);
            let at = i128::from(now) * i128::from(second);
            let number = grid.at(UnixSeconds(now));
            prop_assert!(begin(number) <= at && at < begin(number + 1));
            if let Some(newest) = grid.newest(UnixSeconds(now)) {
                // The newest segment ends within this second, and the next one does not.
                prop_assert!(begin(newest + 1) < at + i128::from(second));
                prop_assert!(begin(newest + 2) >= at + i128::from(second));
            }
        }
    }
}
