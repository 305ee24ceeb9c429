//! Identifies the history that a commit belongs to.
//!
//! A number does not identify a commit: a data directory that was rolled back reuses numbers that
//! backups elsewhere already contain. So every store has a *timeline*, a random id that changes
//! whenever the store continues from an earlier state. Every commit has a *chain* digest over
//! itself and all commits before it. A snapshot fits a log only if both agree.

use ring::digest::{Context, SHA256};

/// Files written before timelines existed have neither id.
const UNKNOWN: [u8; 16] = [0; 16];

/// Each restore or rollback adds one, and new snapshots make old ones superfluous.
const ANCESTORS_MAX: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Zeros if it is unknown, like the chain.
    pub timeline: [u8; 16],
    pub chain: [u8; 16],
}

impl History {
    /// Begins a chain after a commit whose digest is unknown.
    pub(crate) fn begin(timeline: [u8; 16], number: u64) -> Self {
        let chain = digest(&[b"begin", &timeline, &number.to_le_bytes()]);
        Self { timeline, chain }
    }

    /// `d(n) = SHA-256(d(n-1) || n || batch)`, truncated to 16 bytes.
    pub(crate) fn after(self, number: u64, batch: &[u8]) -> Self {
        // An unknown digest stays unknown: a chain that begins in the middle would agree with no other.
        if !self.is_chained() {
            return self;
        }
        let chain = digest(&[&self.chain, &number.to_le_bytes(), batch]);
        Self { chain, ..self }
    }

    pub(crate) const fn unchained(self) -> Self {
        // After missing commits the chain cannot be continued.
        Self {
            chain: UNKNOWN,
            ..self
        }
    }

    pub(crate) fn is_chained(self) -> bool {
        self.chain != UNKNOWN
    }

    pub(crate) fn agrees(self, other: Self) -> bool {
        // An unknown digest agrees with all others.
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

/// A commit of one timeline: numbers of different timelines are not comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommitId {
    pub(crate) timeline: [u8; 16],
    pub(crate) number: u64,
}

impl CommitId {
    pub(crate) const fn at(self, number: u64) -> Self {
        Self { number, ..self }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage {
    pub(crate) current: [u8; 16],
    /// Ancestors from the newest on, each with its last commit that belongs to this store.
    pub(crate) ancestors: Vec<([u8; 16], u64)>,
}

impl Lineage {
    pub(crate) fn new(seed: [u8; 16], instance: [u8; 16], number: u64) -> Self {
        Self {
            current: derive(seed, instance, number),
            ancestors: Vec::new(),
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        // The version that opened the store last had no timelines.
        self.current == UNKNOWN
    }

    /// Returns the last commit of a timeline that belongs to this store; `None` for another history.
    pub(crate) fn until(&self, timeline: [u8; 16]) -> Option<u64> {
        // Commits of the current timeline belong to the store without limit.
        if timeline == self.current {
            return Some(u64::MAX);
        }
        let mut ancestors = self.ancestors.iter();
        ancestors
            .find(|(ancestor, _)| *ancestor == timeline)
            .map(|(_, until)| *until)
    }

    pub(crate) fn holds(&self, timeline: [u8; 16], number: u64) -> bool {
        self.until(timeline).is_some_and(|until| number <= until)
    }

    pub(crate) fn holds_engine(&self, applied: CommitId) -> bool {
        // An engine without a timeline is new, or was written by a version that stored only the number. Nothing
        // distinguishes it from one of this store.
        applied.timeline == UNKNOWN || self.holds(applied.timeline, applied.number)
    }

    pub(crate) const fn commit(&self, number: u64) -> CommitId {
        CommitId {
            timeline: self.current,
            number,
        }
    }

    pub(crate) fn until_in_log(&self, timeline: [u8; 16]) -> Option<u64> {
        // The segment is from a version before timelines. Its frames are checked by number and checksum only.
        if timeline == UNKNOWN {
            return Some(u64::MAX);
        }
        self.until(timeline)
    }

    /// Begins a new timeline after a commit. Later commits of other timelines are abandoned.
    pub(crate) fn fork(&mut self, seed: [u8; 16], number: u64) {
        let next = derive(seed, self.current, number);
        self.ancestors.insert(0, (self.current, number));
        self.ancestors.truncate(ANCESTORS_MAX);
        // An ancestor's commits after the fork are not part of this store's past.
        for (_, until) in &mut self.ancestors {
            *until = number.min(*until);
        }
        self.current = next;
    }
}

fn derive(seed: [u8; 16], parent: [u8; 16], number: u64) -> [u8; 16] {
    // The seed makes the id random; parent and number distinguish the forks within a process.
    digest(&[b"timeline", &seed, &parent, &number.to_le_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_distinguishes_histories_with_equal_numbers() {
        let begin = History::begin([1; 16], 0);
        let one = begin.after(1, b"a").after(2, b"b");
        assert_eq!(one, begin.after(1, b"a").after(2, b"b"));
        assert_ne!(one, begin.after(1, b"c").after(2, b"b"));
        assert_ne!(one, begin.after(1, b"a").after(3, b"b"));
        assert!(!one.agrees(begin.after(1, b"c").after(2, b"b")));
    }

    #[test]
    fn unknown_chain_stays_unknown_and_agrees_with_all() {
        let unknown = History::default().after(1, b"a");
        assert!(!unknown.is_chained());
        assert!(unknown.agrees(History::begin([1; 16], 1)));
    }

    #[test]
    fn fork_keeps_earlier_commits_and_abandons_later_ones() {
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
        // An engine without a timeline is accepted for every history.
        let engine = |timeline, number| lineage.holds_engine(CommitId { timeline, number });
        assert!(engine(UNKNOWN, 1_000) && engine(first, 90));
        assert!(!engine(first, 91) && !engine([9; 16], 1));
        assert!(!lineage.holds(UNKNOWN, 1));
    }
}
