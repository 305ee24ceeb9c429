//! Keeps broadcast ids stable: a row gets the id of the stored broadcast that it matches.

use std::collections::{BTreeMap, HashMap, HashSet};

use data_encoding::BASE32_NOPAD;
use ring::digest::{SHA256, digest};

use super::model::{Broadcast, NewRow};
use playgate_types::time::HOUR;
use playgate_types::{BroadcastId, LivestreamId, UnixSeconds};

/// Maximum shift, in seconds, at which a programme is still matched by title and length.
pub(crate) const MOVE_MAX: i64 = 1_800;
/// Maximum shift of an evening, in which titles are aligned in their order.
const EVENING: i64 = 6 * HOUR;
/// Maximum shift of a title that occurs once. The same title on the next day is another broadcast.
const ONCE: i64 = 12 * HOUR;
/// Broadcasts of the same title that are compared with a row in each direction: a guide that repeats one title must
/// not take longer than another one.
const NEIGHBOURS: usize = 8;

/// The index of the matching stored broadcast for each row. Each stored broadcast matches once.
///
/// A row never matches another title: overrides, bookmarks and sessions belong to a programme and not to its time.
pub(crate) fn recognise(existing: &[Broadcast], rows: &[NewRow]) -> Vec<Option<usize>> {
    // The order of the rules lets a programme that moved be matched before the one that replaced it in
    // its old slot.
    let mut found = Matches {
        of_row: vec![None; rows.len()],
        used: vec![false; existing.len()],
    };
    let by_id: HashMap<&str, usize> = (existing.iter().enumerate())
        .map(|(at, broadcast)| (broadcast.id.as_str(), at))
        .collect();
    let given = |row: &NewRow| row.id.as_ref().and_then(|id| by_id.get(id.as_str()));
    // First the id that the source gives.
    found.pass(rows, |row| given(row).copied());

    let at_start = |row: &NewRow| {
        let at = existing
            .binary_search_by_key(&row.start, |b| b.start)
            .ok()?;
        existing
            .get(at)
            .filter(|_| row.id.is_none())
            .map(|known| (at, known))
    };
    // Then the same start and title.
    found.pass(rows, |row| {
        let (at, known) = at_start(row)?;
        (known.metadata.title == row.metadata.title).then_some(at)
    });
    // Then the same title and length within 30 minutes, nearest first.
    for (distance, row, at) in moves(existing, rows, &found) {
        debug_assert!(distance <= MOVE_MAX);
        found.join(row, at);
    }
    // Then a title that was corrected: the same time, and one title is part of the other.
    found.pass(rows, |row| {
        let (at, known) = at_start(row)?;
        let (old, new) = (fold(&known.metadata.title), fold(&row.metadata.title));
        let is_part = old == new
            || (known.stop == row.stop && (contains(&old, &new) || contains(&new, &old)));
        is_part.then_some(at)
    });
    // Then an evening that moved: what is left of each title, in its order.
    align(existing, rows, &mut found);
    found.of_row
}

fn moves(existing: &[Broadcast], rows: &[NewRow], found: &Matches) -> Vec<(i64, usize, usize)> {
    let mut pairs = Vec::new();
    for (at_row, row) in rows.iter().enumerate() {
        if row.id.is_some() || found.is_matched(at_row) {
            continue;
        }
        // Sorted by start, so only a window has to be compared.
        let first = existing.partition_point(|b| b.start < row.start - MOVE_MAX);
        for (at, broadcast) in existing.iter().enumerate().skip(first) {
            let distance = broadcast.start.since(row.start).abs();
            if distance > MOVE_MAX {
                break;
            }
            let same_length = broadcast.stop.since(broadcast.start) == row.stop.since(row.start);
            if same_length
                && broadcast.metadata.title == row.metadata.title
                && is_same_episode(broadcast, row)
            {
                pairs.push((distance, at_row, at));
            }
        }
    }
    // Nearest first; rows and broadcasts in their order break ties.
    pairs.sort_unstable();
    pairs
}

/// Letters and digits in lower case: sources change the case of titles and what stands between words.
fn fold(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    words.join(" ")
}

/// Whether a title has all words of a shorter one, together.
fn contains(title: &str, part: &str) -> bool {
    // A word such as `the` says nothing.
    part.len() >= 4 && format!(" {title} ").contains(&format!(" {part} "))
}

fn is_same_episode(known: &Broadcast, row: &NewRow) -> bool {
    fn agree<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.is_none() || other.is_none() || one == other
    }
    let (old, new) = (&known.metadata, &row.metadata);
    agree(old.subtitle.as_ref(), new.subtitle.as_ref())
        && agree(old.season.as_ref(), new.season.as_ref())
        && agree(old.episode.as_ref(), new.episode.as_ref())
}

/// What is left of one title, in order of time.
#[derive(Default)]
struct SameTitle {
    known: Vec<usize>,
    rows: Vec<usize>,
}

fn align(existing: &[Broadcast], rows: &[NewRow], found: &mut Matches) {
    let mut titles: BTreeMap<String, SameTitle> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if row.id.is_none() && !found.is_matched(at) {
            let title = titles.entry(fold(&row.metadata.title)).or_default();
            title.rows.push(at);
        }
    }
    for (at, known) in existing.iter().enumerate() {
        if !found.is_used(at)
            && let Some(title) = titles.get_mut(&fold(&known.metadata.title))
        {
            title.known.push(at);
        }
    }
    let distance = |row: usize, at: usize| {
        let (row, known) = (rows.get(row)?, existing.get(at)?);
        is_same_episode(known, row).then(|| known.start.since(row.start).abs())
    };
    for SameTitle { known, rows: new } in titles.into_values() {
        let in_order: Option<Vec<i64>> = (known.len() == new.len())
            .then(|| {
                new.iter()
                    .zip(&known)
                    .map(|(row, at)| distance(*row, *at))
                    .collect()
            })
            .flatten();
        let limit = if known.len() == 1 { ONCE } else { EVENING };
        if in_order.is_some_and(|all| all.iter().all(|distance| *distance <= limit)) {
            for (row, at) in new.iter().zip(&known) {
                found.join(*row, *at);
            }
            continue;
        }
        let start = |at: &usize| existing.get(*at).map_or(UnixSeconds(i64::MAX), |b| b.start);
        let mut pairs: Vec<(i64, usize, usize)> = Vec::new();
        for row in &new {
            let Some(from) = rows.get(*row).map(|row| row.start) else {
                continue;
            };
            let middle = known.partition_point(|at| start(at) < from);
            let near = known
                .iter()
                .take(middle + NEIGHBOURS)
                .skip(middle.saturating_sub(NEIGHBOURS));
            pairs.extend(near.filter_map(|at| {
                let distance = distance(*row, *at).filter(|distance| *distance <= EVENING)?;
                Some((distance, *row, *at))
            }));
        }
        pairs.sort_unstable();
        // Rows and broadcasts are in order of time, and stay so.
        let mut joined: BTreeMap<usize, usize> = BTreeMap::new();
        for (_, row, at) in pairs {
            let before = joined
                .range(..row)
                .next_back()
                .is_none_or(|(_, known)| *known < at);
            let after = joined
                .range(row..)
                .next()
                .is_none_or(|(_, known)| at < *known);
            if before && after && !joined.contains_key(&row) {
                joined.insert(row, at);
                found.join(row, at);
            }
        }
    }
}

struct Matches {
    of_row: Vec<Option<usize>>,
    used: Vec<bool>,
}

impl Matches {
    fn is_matched(&self, row: usize) -> bool {
        self.of_row.get(row).is_none_or(Option::is_some)
    }

    fn is_used(&self, at: usize) -> bool {
        self.used.get(at).is_none_or(|used| *used)
    }

    fn pass(&mut self, rows: &[NewRow], rule: impl Fn(&NewRow) -> Option<usize>) {
        for (at_row, row) in rows.iter().enumerate() {
            if let Some(at) = rule(row) {
                self.join(at_row, at);
            }
        }
    }

    fn join(&mut self, row: usize, at: usize) {
        if let (Some(slot @ None), Some(used @ false)) =
            (self.of_row.get_mut(row), self.used.get_mut(at))
        {
            *slot = Some(at);
            *used = true;
        }
    }
}

pub(crate) fn derive(
    livestream: &LivestreamId,
    (start, title): (UnixSeconds, &str),
    used: &HashSet<BroadcastId>,
) -> Option<BroadcastId> {
    // A hash and not a random number, so that two servers that import the same guide agree.
    (0..=u32::MAX).find_map(|salt| {
        let mut input = livestream.as_str().as_bytes().to_vec();
        // Unambiguous: the separator cannot occur in an id.
        input.push(b'/');
        input.extend_from_slice(&start.0.to_be_bytes());
        // Another title at the same time has another id, also after the first one is forgotten: an override may still
        // name it.
        input.extend_from_slice(title.as_bytes());
        input.extend_from_slice(&salt.to_be_bytes());
        let hash = digest(&SHA256, &input);
        let bits = hash.as_ref().get(..10).unwrap_or_default();
        // The prefix distinguishes it from the ids of the catalogue.
        let text = format!("bc-{}", BASE32_NOPAD.encode(bits).to_ascii_lowercase());
        BroadcastId::parse(&text)
            .ok()
            .filter(|id| !used.contains(id))
    })
}
