//! The demo's guide: broadcasts around its start time, in the JSON format of a day's schedule.
//!
//! Broadcasts of `blackout` are relative to the start time, not to the full hour, so that the documented
//! demo behaviour holds for an hour after every start.

use serde_json::{Map, Value, json};

use playgate_types::UnixSeconds;

/// How far the guide reaches back and forward: a day, plus what a time-shift of a day needs.
const REACH_SECONDS: i64 = 26 * HOUR;
const HOUR: i64 = 3_600;
const SLOT_SECONDS: i64 = 1_800;
const BLACKOUT_SLOT: i64 = 2 * HOUR;
/// Age of the current broadcast of `blackout` when the demo starts.
const BLACKOUT_SINCE: i64 = 300;
/// Offset at which `blackout` shows the broadcast before the current one, for the next 55 minutes.
pub(super) const OFFSET_OPEN: i64 = -HOUR;

pub(super) struct Guide {
    pub json: Value,
    /// A finished broadcast of `open` within its catch-up window.
    pub catchup: String,
}

pub(super) fn around(now: UnixSeconds) -> Guide {
    let now = now.0;
    let slot = now - now.rem_euclid(SLOT_SECONDS);
    let mut guide = Map::new();
    guide.insert("open".to_owned(), open(slot));
    guide.insert("blackout".to_owned(), blackout(now - BLACKOUT_SINCE));
    guide.insert("cinema".to_owned(), cinema(slot));
    guide.insert("news".to_owned(), news(slot));
    Guide {
        json: Value::Object(guide),
        // Two slots back: it is finished even for a client whose clock is slightly behind.
        catchup: id("open", slot - 2 * SLOT_SECONDS),
    }
}

/// Builds the guide for `now` of a demo that started at `start`. All these guides fit together: `blackout` is aligned
/// to the start of the demo, and the other livestreams to fixed times of day.
pub(super) fn continued(start: UnixSeconds, now: UnixSeconds) -> Guide {
    const PERIOD: i64 = 2 * BLACKOUT_SLOT;
    let passed = now.since(start);
    around(start + (passed - passed.rem_euclid(PERIOD)))
}

fn id(livestream: &str, start: i64) -> String {
    // Depends only on livestream and start, so that a restarted demo recognises the broadcast.
    format!("{livestream}-{}", start / 60)
}

/// Returns numbers and start times of the slots around the one that begins at `anchor`.
fn slots(anchor: i64, length: i64) -> impl Iterator<Item = (i64, i64)> {
    let reach = REACH_SECONDS / length + 1;
    (-reach..=reach).map(move |number| (number, anchor + number * length))
}

fn broadcast(
    livestream: &str,
    (start, length): (i64, i64),
    (title, description): (&str, &str),
    pg_age: u8,
) -> Value {
    json!({
        "id": id(livestream, start),
        "title": title,
        "description": description,
        "start": start,
        "stop": start + length,
        "pgAge": pg_age,
    })
}

fn pick<T: Copy>(list: &[T], number: i64, otherwise: T) -> T {
    let length = i64::try_from(list.len()).unwrap_or(1).max(1);
    // The number may be negative: slots before the anchor count down.
    usize::try_from(number.rem_euclid(length))
        .ok()
        .and_then(|at| list.get(at).copied())
        .unwrap_or(otherwise)
}

fn open(anchor: i64) -> Value {
    const SHOWS: [(&str, &str); 4] = [
        ("Morning Walk", "A quiet half hour along the shore."),
        ("The Workshop", "How things are made, and mended."),
        ("Garden Hour", "What grows now, and what should."),
        ("Small Kitchen", "One pan, one flame, one dish."),
    ];
    slots(anchor, SLOT_SECONDS)
        .map(|(_, start)| {
            let show = pick(&SHOWS, start / SLOT_SECONDS, ("Open Channel", ""));
            broadcast("open", (start, SLOT_SECONDS), show, 0)
        })
        .collect()
}

/// Matches, which the catalogue's rule blocks for live viewers, alternate with studio hours.
fn blackout(anchor: i64) -> Value {
    const MATCH: (&str, &str) = ("Match: Harbour v. Mill", "Not to be shown live.");
    const STUDIO: (&str, &str) = ("Studio", "Before and after the match.");
    slots(anchor, BLACKOUT_SLOT)
        .map(|(number, start)| {
            let show = if number % 2 == 0 { MATCH } else { STUDIO };
            broadcast("blackout", (start, BLACKOUT_SLOT), show, 0)
        })
        .collect()
}

fn cinema(anchor: i64) -> Value {
    const FILMS: [(&str, u8); 5] = [
        ("The Paper Boat", 0),
        ("Seven Bridges", 7),
        ("The Long Night", 15),
        ("No Way Back", 18),
        ("A Summer in June", 11),
    ];
    const LENGTH: i64 = 3 * SLOT_SECONDS;
    slots(anchor - anchor.rem_euclid(LENGTH), LENGTH)
        .map(|(_, start)| {
            let (title, pg_age) = pick(&FILMS, start / LENGTH, ("Cinema", 0));
            broadcast("cinema", (start, LENGTH), (title, "A film."), pg_age)
        })
        .collect()
}

fn news(anchor: i64) -> Value {
    const LENGTH: i64 = SLOT_SECONDS / 2;
    slots(anchor, LENGTH)
        .map(|(_, start)| {
            let show = pick(
                &[("Headlines", "The news."), ("In Depth", "One subject.")],
                start / LENGTH,
                ("News", ""),
            );
            broadcast("news", (start, LENGTH), show, 0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(guide: &Value, livestream: &str, at: i64) -> Value {
        let all = guide[livestream].as_array().unwrap();
        let on = |b: &&Value| b["start"].as_i64() <= Some(at) && Some(at) < b["stop"].as_i64();
        let found: Vec<_> = all.iter().filter(on).collect();
        assert_eq!(found.len(), 1, "{livestream} at {at}");
        found[0].clone()
    }

    #[test]
    fn documented_behaviour_holds_for_any_start_within_a_half_hour() {
        for now in (1_768_064_400..1_768_064_400 + SLOT_SECONDS).step_by(13) {
            let guide = around(UnixSeconds(now));
            for after in [0, 60, 3_000] {
                let at = now + after;
                let present = find(&guide.json, "blackout", at);
                assert!(present["title"].as_str().unwrap().starts_with("Match: "));
                let earlier = find(&guide.json, "blackout", at + OFFSET_OPEN);
                assert_eq!(earlier["stop"], present["start"]);
                assert_eq!(earlier["title"], "Studio");
                assert_eq!(find(&guide.json, "open", at)["pgAge"], 0);
            }
            let open = guide.json["open"].as_array().unwrap();
            let finished = open
                .iter()
                .find(|b| b["id"] == guide.catchup.as_str())
                .unwrap();
            assert!(finished["stop"].as_i64().unwrap() < now);
        }
    }

    #[test]
    fn guide_of_a_moved_clock_continues_the_first_one() {
        let start = UnixSeconds(1_768_064_477);
        for days in [-40, -1, 0, 1, 21, 400] {
            let now = start + days * 24 * HOUR + 1_234;
            let guide = continued(start, now).json;
            for livestream in ["open", "blackout", "cinema", "news"] {
                for hours in [-20, 0, 20] {
                    find(&guide, livestream, now.0 + hours * HOUR);
                }
            }
            let program = find(&guide, "blackout", now.0);
            let since = program["start"].as_i64().unwrap() - (start.0 - BLACKOUT_SINCE);
            assert_eq!(since.rem_euclid(BLACKOUT_SLOT), 0);
            let is_match = program["title"].as_str().unwrap().starts_with("Match: ");
            assert_eq!(is_match, (since / BLACKOUT_SLOT) % 2 == 0);
        }
    }

    #[test]
    fn every_channel_is_covered_a_day_both_ways() {
        let now = 1_768_064_477;
        let guide = around(UnixSeconds(now));
        for livestream in ["open", "blackout", "cinema", "news"] {
            for hours in -25..=25 {
                find(&guide.json, livestream, now + hours * HOUR);
            }
        }
    }
}
