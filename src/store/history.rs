//! Which history a commit belongs to.
//!
//! A number alone does not name a commit: a data directory that was rolled back gives numbers again
//! that backups elsewhere already carry. So every store has a *timeline*, a random id that changes
//! whenever the store goes on from an earlier state than one it has had, and every commit has a
//! *chain* digest over itself and all commits before it. A snapshot fits a log only if both agree.

use ring::digest::{Context, SHA256};

/// Zeros stand for what is not known: files written before timelines existed have neither.
const UNKNOWN: [u8; 16] = [0; 16];

/// How many ancestors a store remembers; each restore or rollback adds one, each new base makes the
/// older ones needless.
const ANCESTORS: usize = 16;

/// The timeline of a commit, and the digest of everything up to and including it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The timeline; zeros if it is not known.
    pub timeline: [u8; 16],
    /// The chain digest; zeros if it is not known.
    pub chain: [u8; 16],
}

impl History {
    /// A chain that begins after a commit of which only the number is known.
    pub(super) fn begin(timeline: [u8; 16], number: u64) -> Self {
        let chain = digest(&[b"begin", &timeline, &number.to_le_bytes()]);
        Self { timeline, chain }
    }

    /// The history after one more commit: `d(n) = SHA-256(d(n-1) || n || batch)`, cut to 16 bytes.
    #[must_use]
    pub(super) fn after(self, number: u64, batch: &[u8]) -> Self {
        if !self.is_chained() {
            return self;
        }
        let chain = digest(&[&self.chain, &number.to_le_bytes(), batch]);
        Self { chain, ..self }
    }

    /// The same where commits are missing, so that the digest is not known any more.
    pub(super) const fn unchained(self) -> Self {
        Self {
            chain: UNKNOWN,
            ..self
        }
    }

    /// Whether the digest is known.
    pub(super) fn is_chained(self) -> bool {
        self.chain != UNKNOWN
    }

    /// Whether two digests of the same commit are the same, as far as both are known.
    pub(super) fn agrees(self, other: Self) -> bool {
        !self.is_chained() || !other.is_chained() || self.chain == other.chain
    }
}

fn digest(parts: &[&[u8]]) -> [u8; 16] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut short = [0; 16];
    for (to, from) in short.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    short
}

/// The timeline of a store, and those that it descends from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lineage {
    pub(super) current: [u8; 16],
    /// The newest first, each with its last commit that belongs to this store.
    pub(super) ancestors: Vec<([u8; 16], u64)>,
}

impl Lineage {
    /// The lineage of a new store.
    pub(super) fn new(seed: [u8; 16], instance: [u8; 16], number: u64) -> Self {
        Self {
            current: derive(seed, instance, number),
            ancestors: Vec::new(),
        }
    }

    /// Whether the store was last opened by a version that knew no timelines.
    pub(super) fn is_unknown(&self) -> bool {
        self.current == UNKNOWN
    }

    /// The last commit of a timeline that belongs to this store; none if it is of another history.
    pub(super) fn until(&self, timeline: [u8; 16]) -> Option<u64> {
        if timeline == self.current {
            return Some(u64::MAX);
        }
        let mut ancestors = self.ancestors.iter();
        ancestors
            .find(|(ancestor, _)| *ancestor == timeline)
            .map(|(_, until)| *until)
    }

    /// Whether a snapshot made after a commit of a timeline is of this store's past.
    pub(super) fn holds(&self, timeline: [u8; 16], number: u64) -> bool {
        self.until(timeline).is_some_and(|until| number <= until)
    }

    /// As [`Lineage::until`], for a segment: one without a timeline was written by a version that
    /// knew none, and its frames are checked by number and checksum alone.
    pub(super) fn until_in_log(&self, timeline: [u8; 16]) -> Option<u64> {
        if timeline == UNKNOWN {
            return Some(u64::MAX);
        }
        self.until(timeline)
    }

    /// Goes on after a commit in a new timeline. What any other one has beyond it is abandoned.
    pub(super) fn fork(&mut self, seed: [u8; 16], number: u64) {
        let next = derive(seed, self.current, number);
        self.ancestors.insert(0, (self.current, number));
        self.ancestors.truncate(ANCESTORS);
        for (_, until) in &mut self.ancestors {
            *until = number.min(*until);
        }
        self.current = next;
    }
}

/// A new timeline id: random by its seed, and another one for each fork of a process.
fn derive(seed: [u8; 16], parent: [u8; 16], number: u64) -> [u8; 16] {
    digest(&[b"timeline", &seed, &parent, &number.to_le_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_tells_histories_with_the_same_numbers_apart() {
        let begin = History::begin([1; 16], 0);
        let one = begin.after(1, b"a").after(2, b"b");
        assert_eq!(one, begin.after(1, b"a").after(2, b"b"));
        assert_ne!(one, begin.after(1, b"c").after(2, b"b"));
        assert_ne!(one, begin.after(1, b"a").after(3, b"b"));
        assert!(!one.agrees(begin.after(1, b"c").after(2, b"b")));
    }

    #[test]
    fn an_unknown_chain_stays_unknown_and_contradicts_nothing() {
        let unknown = History::default().after(1, b"a");
        assert!(!unknown.is_chained());
        assert!(unknown.agrees(History::begin([1; 16], 1)));
    }

    #[test]
    fn a_fork_keeps_the_past_and_abandons_what_came_after_it() {
        let mut lineage = Lineage::new([7; 16], [1; 16], 0);
        let first = lineage.current;
        lineage.fork([7; 16], 100);
        let second = lineage.current;
        lineage.fork([7; 16], 90);
        assert!(lineage.holds(lineage.current, 1_000));
        for abandoned in [first, second] {
            assert!(lineage.holds(abandoned, 90));
            assert!(!lineage.holds(abandoned, 91));
        }
        assert!(!lineage.holds([9; 16], 1));
        assert!(!lineage.holds(UNKNOWN, 1));
    }
}
