use proptest::prelude::*;

use super::*;
use crate::schedule::model::Metadata;
use playgate_types::UnixSeconds;

fn livestream() -> LivestreamId {
    LivestreamId::parse("news").unwrap()
}

/// Parses `Title@start-stop`.
fn parse_row(text: &str, id: Option<&str>) -> NewRow {
    let (title, times) = text.split_once('@').unwrap();
    let (start, stop) = times.split_once('-').unwrap();
    NewRow {
        line: 1,
        id: id.map(|id| BroadcastId::parse(id).unwrap()),
        start: UnixSeconds(start.parse().unwrap()),
        stop: UnixSeconds(stop.parse().unwrap()),
        metadata: Metadata {
            title: title.into(),
            ..Metadata::default()
        },
    }
}

/// Parses rows separated by spaces, each with an optional `#id` from the source.
fn rows(text: &str) -> Vec<NewRow> {
    text.split_whitespace()
        .map(|one| match one.split_once('#') {
            Some((text, id)) => parse_row(text, Some(id)),
            None => parse_row(one, None),
        })
        .collect()
}

/// Returns the writable spans without sources of higher priority.
fn all_writable(rows: &[NewRow]) -> WritableSpans {
    let ends = rows.first().zip(rows.last());
    let whole = ends.map(|(first, last)| CoveredSpan {
        from: first.start,
        to: last.stop,
    });
    WritableSpans {
        free: whole.into_iter().collect(),
        blocked: Vec::new(),
    }
}

fn apply(existing: &[Broadcast], text: &str) -> ChannelDiff {
    let rows = rows(text);
    let writable = all_writable(&rows);
    apply_in(existing, rows, &writable)
}

fn apply_in(existing: &[Broadcast], rows: Vec<NewRow>, writable: &WritableSpans) -> ChannelDiff {
    let mut skipped = Skipped::default();
    let existing = existing.to_vec();
    diff_channel(
        &livestream(),
        existing,
        rows,
        writable,
        |_| false,
        &mut skipped,
    )
}

fn shown(list: &[Broadcast]) -> String {
    list.iter()
        .map(|b| format!("{}@{}-{}", b.metadata.title, b.start, b.stop))
        .collect::<Vec<_>>()
        .join(" ")
}

fn id_of(list: &[Broadcast], title: &str) -> BroadcastId {
    let found = list.iter().find(|b| &*b.metadata.title == title);
    found.unwrap().id.clone()
}

fn difference(added: u64, changed: u64, removed: u64, unchanged: u64) -> DiffCounts {
    DiffCounts {
        added,
        changed,
        removed,
        unchanged,
    }
}

const EVENING: &str = "News@0-1800 Show@1800-3600 Film@3600-9000 Late@9000-12600";

#[test]
fn a_first_import_adds_and_repeating_it_changes_nothing() {
    let first = apply(&[], EVENING);
    assert_eq!(first.difference, difference(4, 0, 0, 0));
    let again = apply(&first.list, EVENING);
    assert_eq!(again.difference, difference(0, 0, 0, 4));
    assert_eq!(again.list, first.list);
    let id = first.list[0].id.as_str();
    assert!(id.starts_with("bc-") && id.len() == 19, "{id}");
}

#[test]
fn an_id_survives_a_move_and_a_correction_and_goes_to_no_other_title() {
    let first = apply(&[], EVENING).list;
    let moved = apply(
        &first,
        "News@0-2100 Show@2100-3900 Film@3900-9300 Late@9300-12900",
    );
    for title in ["News", "Show", "Film", "Late"] {
        assert_eq!(id_of(&moved.list, title), id_of(&first, title), "{title}");
    }
    assert_eq!(moved.difference, difference(0, 4, 0, 0));

    let renamed = apply(
        &first,
        "News@0-1800 Gala@1800-3600 Film@3600-9000 Late@9000-12600",
    );
    assert!(
        first
            .iter()
            .all(|old| old.id != id_of(&renamed.list, "Gala"))
    );
    let corrected = apply(
        &first,
        "news@0-1800 The-Show@1800-3600 Film@3600-9000 Late@9000-12600",
    );
    assert_eq!(id_of(&corrected.list, "The-Show"), id_of(&first, "Show"));
    assert_eq!(id_of(&corrected.list, "news"), id_of(&first, "News"));

    // A new programme is in its old slot; the programme that moved keeps its id.
    let squeezed = apply(
        &first,
        "News@0-1800 Flash@1800-2100 Show@2100-3900 Film@3900-9300 Late@9300-12900",
    );
    assert_eq!(id_of(&squeezed.list, "Show"), id_of(&first, "Show"));
    assert_ne!(id_of(&squeezed.list, "Flash"), id_of(&first, "Show"));
    assert_eq!(squeezed.difference, difference(1, 4 - 1, 0, 1));
}

#[test]
fn an_evening_that_moves_keeps_its_ids() {
    let first = apply(&[], EVENING).list;
    // The news overruns by 45 minutes, and another programme replaces the show.
    let late = apply(
        &first,
        "News@0-1800 Match@1800-6300 Film@6300-11700 Late@11700-15300",
    )
    .list;
    assert_eq!(id_of(&late, "Film"), id_of(&first, "Film"));
    assert_eq!(id_of(&late, "Late"), id_of(&first, "Late"));
    assert_ne!(id_of(&late, "Match"), id_of(&first, "Show"));
    // After the show is forgotten, its id is not made again either.
    let next = apply(
        &late,
        "News@0-1800 Concert@1800-6300 Film@6300-11700 Late@11700-15300",
    )
    .list;
    assert_ne!(id_of(&next, "Concert"), id_of(&first, "Show"));
    assert_ne!(id_of(&next, "Concert"), id_of(&late, "Match"));
    // A title that occurs several times is aligned in its order.
    let hourly = |shift: i64| {
        let rows = (0..5).map(|n| {
            let (from, to) = (n * 7_200 + shift, (n + 1) * 7_200 + shift);
            format!("Show@{from}-{} Gap{n}@{}-{to}", from + 600, from + 600)
        });
        rows.collect::<Vec<_>>().join(" ")
    };
    let before = apply(&[], &hourly(0)).list;
    let after = apply(&before, &format!("Cut@0-2700 {}", hourly(2_700))).list;
    let shows = |list: &[Broadcast]| -> Vec<BroadcastId> {
        list.iter()
            .filter(|b| &*b.metadata.title == "Show")
            .map(|b| b.id.clone())
            .collect()
    };
    assert_eq!(shows(&after), shows(&before));
}

#[test]
fn a_title_on_the_next_day_is_another_broadcast() {
    let first = apply(&[], "A@0-600 Film@10000-13000").list;
    let near = apply(&first, "A@0-600 Film@53200-56200").list;
    assert_eq!(id_of(&near, "Film"), id_of(&first, "Film"));
    let far = apply(&first, "A@0-600 Film@53201-56201");
    assert_ne!(id_of(&far.list, "Film"), id_of(&first, "Film"));
    assert_eq!(far.difference, difference(1, 0, 1, 1));
}

#[test]
fn many_rows_of_one_title_are_aligned_in_time() {
    let rows = |from: i64| {
        let rows =
            (0..2_000).map(|n| format!("Same@{}-{}", from + n * 3, from + n * 3 + 2 + n % 2));
        rows.collect::<Vec<_>>().join(" ")
    };
    let first = apply(&[], &rows(0)).list;
    let moved = apply(&first, &rows(1)).list;
    assert_eq!(moved.len(), 2_000);
}

#[test]
fn equal_consecutive_programmes_are_matched_by_the_nearest_start() {
    let first = apply(&[], "Sport@0-1800 Sport@1800-3600 Sport@3600-5400").list;
    let moved = apply(&first, "Sport@60-1860 Sport@1860-3660 Sport@3660-5460").list;
    for (before, after) in first.iter().zip(&moved) {
        assert_eq!(before.id, after.id);
    }
}

#[test]
fn the_id_that_the_source_gives_is_the_id() {
    let first = apply(&[], "A@0-600#a Film@600-1200#film").list;
    assert_eq!(id_of(&first, "Film").as_str(), "film");
    // Days later and with another title: still the same id.
    let moved = apply(&first, "B@0-600#b Premiere@90000-90600#film");
    assert_eq!(id_of(&moved.list, "Premiere").as_str(), "film");
    assert_eq!(moved.difference, difference(1, 1, 1, 0));
    // And from outside the span of the new guide.
    let back = apply(&moved.list, "Film@200000-200600#film");
    assert_eq!(shown(&back.list), "B@0-600 Film@200000-200600");
}

#[test]
fn an_id_in_use_elsewhere_or_by_an_earlier_row_is_rejected() {
    let mut skipped = Skipped::default();
    let rows = rows("A@0-600#mine B@600-1200#mine C@1200-1800#theirs");
    let taken = |id: &BroadcastId| id.as_str() == "theirs";
    let writable = all_writable(&rows);
    let done = diff_channel(
        &livestream(),
        Vec::new(),
        rows,
        &writable,
        taken,
        &mut skipped,
    );
    assert_eq!(shown(&done.list), "A@0-600");
    assert_eq!(
        (skipped.count(Skip::BadId), skipped.count(Skip::IdTaken)),
        (1, 1)
    );
}

#[test]
fn only_the_span_is_replaced() {
    let first = apply(&[], EVENING).list;
    let done = apply(&first, "Gala@2400-9000");
    assert_eq!(
        shown(&done.list),
        "News@0-1800 Show@1800-2400 Gala@2400-9000 Late@9000-12600"
    );
    // Show is cut, Film is removed.
    assert_eq!(done.difference, difference(1, 1, 1, 0));
    let again = apply(&done.list, "Gala@2400-9000");
    assert_eq!(again.difference, difference(0, 0, 0, 1));
    let within = apply(&first, "Flash@3700-3800");
    assert_eq!(
        shown(&within.list),
        "News@0-1800 Show@1800-3600 Film@3600-3700 Flash@3700-3800 Late@9000-12600"
    );
    assert_eq!(apply(&first, "").list, first);
}

#[test]
fn spans_of_a_source_with_higher_priority_are_unchanged() {
    let first = apply(&[], "A@0-1000#a Theirs@1000-2000#t B@2000-3000#b").list;
    let span = |from, to| CoveredSpan {
        from: UnixSeconds(from),
        to: UnixSeconds(to),
    };
    let writable = WritableSpans {
        free: vec![span(0, 1000), span(2000, 4000)],
        blocked: vec![span(1000, 2000)],
    };
    // Its id cannot be used either.
    let done = apply_in(
        &first,
        rows("X@500-1000 Thief@2000-2500#t Y@2500-3000"),
        &writable,
    );
    assert_eq!(shown(&done.list), "X@500-1000 Theirs@1000-2000 Y@2500-3000");
    assert_eq!(done.difference, difference(2, 0, 2, 0));
}

/// Generates rows in order and without overlaps, with random gaps, lengths and titles.
fn any_rows() -> impl Strategy<Value = Vec<NewRow>> {
    let piece = (0i64..3, 1i64..6, 0u8..4);
    (0i64..60, prop::collection::vec(piece, 0..15)).prop_map(|(first, pieces)| {
        let mut at = first * 300;
        let row = |(gap, length, title): (i64, i64, u8)| {
            let start = at + gap * 300;
            at = start + length * 300;
            parse_row(&format!("T{title}@{start}-{at}"), None)
        };
        pieces.into_iter().map(row).collect()
    })
}

proptest! {
    #[test]
    fn imports_keep_order_ids_and_broadcasts_outside_of_the_span(guides in prop::collection::vec(any_rows(), 1..5)) {
        let mut list = Vec::new();
        for rows in guides {
            let before: Vec<Broadcast> = list;
            let done = apply_in(&before, rows.clone(), &all_writable(&rows));
            for pair in done.list.windows(2) {
                prop_assert!(pair[0].stop <= pair[1].start);
            }
            prop_assert!(done.list.iter().all(|b| b.start < b.stop));
            let ids: HashSet<_> = done.list.iter().map(|b| &b.id).collect();
            prop_assert_eq!(ids.len(), done.list.len());
            // The rows of the guide are stored unchanged.
            for row in &rows {
                let found = done.list.iter().find(|b| b.start == row.start);
                prop_assert!(found.is_some_and(|b| b.stop == row.stop && b.metadata == row.metadata));
            }
            // Nothing changed outside of the span.
            if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
                for old in before.iter().filter(|b| b.stop <= first.start || b.start >= last.stop) {
                    prop_assert!(done.list.contains(old));
                }
            } else {
                prop_assert_eq!(&done.list, &before);
            }
            // The counts add up.
            let DiffCounts { added, changed, removed, .. } = done.difference;
            prop_assert_eq!(before.len() as u64 + added, done.list.len() as u64 + removed);
            let touched = done.list.iter().filter(|b| !before.contains(b)).count() as u64;
            prop_assert_eq!(added + changed, touched);
            // Importing the guide again changes nothing.
            let again = apply_in(&done.list, rows.clone(), &all_writable(&rows));
            prop_assert_eq!(&again.list, &done.list);
            list = done.list;
        }
    }
}
