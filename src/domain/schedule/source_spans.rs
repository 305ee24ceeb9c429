//! Which EPG source filled which span of a livestream, if several cover it.
//!
//! A source never changes spans that a source of higher priority filled; it fills the rest. A source of the same
//! priority, and a manual import, replaces all that its guide covers. A programme belongs to the source that owns
//! the instant of its start.

use serde::{Deserialize, Serialize};

use playgate_store::{Record, Table};
use playgate_types::{LivestreamId, UnixSeconds};

/// The oldest are dropped first. Adjacent spans of one source are merged, so a hundred spans allow
/// for dozens of changes between sources.
const SPANS_MAX: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredSpan {
    pub from: UnixSeconds,
    /// The first second after the span.
    pub to: UnixSeconds,
}

impl CoveredSpan {
    pub fn holds(&self, at: UnixSeconds) -> bool {
        self.from <= at && at < self.to
    }

    pub fn meets(&self, from: UnixSeconds, to: UnixSeconds) -> bool {
        self.from < to && from < self.to
    }
}

/// The sources in `above` take precedence over it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportPriority {
    /// Empty for a manual import that names none.
    pub source: String,
    pub above: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpan {
    source: String,
    from: UnixSeconds,
    to: UnixSeconds,
}

/// The spans of one livestream, in order and without overlaps.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpans(Vec<SourceSpan>);

impl Record for SourceSpans {}

pub struct AllSourceSpans;

impl Table for AllSourceSpans {
    const NAME: &'static str = "schedule_claims";
    type Key = LivestreamId;
    type Record = SourceSpans;
}

impl SourceSpans {
    pub fn blocked(&self, priority: &ImportPriority) -> Vec<CoveredSpan> {
        let above = |entry: &&SourceSpan| priority.above.contains(&entry.source);
        let span = |entry: &SourceSpan| CoveredSpan {
            from: entry.from,
            to: entry.to,
        };
        self.0.iter().filter(above).map(span).collect()
    }

    pub fn horizon(&self, source: &str) -> Option<UnixSeconds> {
        let of_source = self.0.iter().filter(|entry| entry.source == source);
        of_source.map(|entry| entry.to).max()
    }

    pub fn owner(&self, at: UnixSeconds) -> Option<&str> {
        let holds = |entry: &&SourceSpan| entry.from <= at && at < entry.to;
        self.0.iter().find(holds).map(|entry| entry.source.as_str())
    }

    /// Gives `spans` to `source` after an import whose guide ends at `end`.
    pub fn assign(
        &mut self,
        source: &str,
        spans: &[CoveredSpan],
        end: UnixSeconds,
        first: UnixSeconds,
    ) {
        let mut entries = Vec::with_capacity(self.0.len() + spans.len());
        for mut old in std::mem::take(&mut self.0) {
            // Spans of the source beyond the guide become free: its newest guide does not cover them any more.
            if old.source == source {
                old.to = old.to.min(end);
            }
            let whole = CoveredSpan {
                from: old.from,
                to: old.to,
            };
            entries.extend(free(whole, spans).into_iter().map(|span| SourceSpan {
                source: old.source.clone(),
                from: span.from,
                to: span.to,
            }));
        }
        entries.extend(spans.iter().map(|span| SourceSpan {
            source: source.to_owned(),
            from: span.from,
            to: span.to,
        }));
        // Past spans do not matter once their days are dropped.
        entries.retain(|entry| entry.from < entry.to && entry.to > first);
        entries.sort_by_key(|entry| entry.from);
        entries.dedup_by(|later, earlier| {
            let joined = later.source == earlier.source && later.from <= earlier.to;
            if joined {
                earlier.to = earlier.to.max(later.to);
            }
            joined
        });
        // The list is a store value, whose size is limited.
        let over = entries.len().saturating_sub(SPANS_MAX);
        // Sorted by start, so the oldest are dropped.
        entries.drain(..over);
        self.0 = entries;
    }
}

pub fn free(span: CoveredSpan, blocked: &[CoveredSpan]) -> Vec<CoveredSpan> {
    let mut free = Vec::new();
    let mut rest = span;
    // The gaps are in order of time, so everything before a gap is final.
    for gap in blocked.iter().filter(|gap| gap.meets(span.from, span.to)) {
        free.push(CoveredSpan {
            from: rest.from,
            to: gap.from,
        });
        rest.from = rest.from.max(gap.to);
    }
    free.push(rest);
    // Empty spans arise before the first gap, after the last one, and between two that touch.
    free.retain(|span| span.from < span.to);
    free
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(from: i64, to: i64) -> CoveredSpan {
        CoveredSpan {
            from: UnixSeconds(from),
            to: UnixSeconds(to),
        }
    }

    fn shown(entries: &SourceSpans) -> String {
        let one = |entry: &SourceSpan| format!("{}@{}-{}", entry.source, entry.from, entry.to);
        entries.0.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn fill(entries: &mut SourceSpans, source: &str, spans: &[CoveredSpan]) {
        let end = spans.last().unwrap().to;
        entries.assign(source, spans, end, UnixSeconds(-1_000));
    }

    #[test]
    fn golden_examples() {
        let mut entries = SourceSpans::default();
        fill(&mut entries, "a", &[span(0, 100)]);
        fill(&mut entries, "a", &[span(50, 150)]);
        assert_eq!(shown(&entries), "a@0-150");
        fill(&mut entries, "b", &[span(20, 30), span(140, 200)]);
        assert_eq!(shown(&entries), "a@0-20 b@20-30 a@30-140 b@140-200");
        assert_eq!(entries.owner(UnixSeconds(29)), Some("b"));
        assert_eq!(entries.horizon("a"), Some(UnixSeconds(140)));
        // A shorter guide releases the span beyond its end.
        fill(&mut entries, "a", &[span(40, 60)]);
        assert_eq!(shown(&entries), "a@0-20 b@20-30 a@30-60 b@140-200");
        let below = ImportPriority {
            source: "c".to_owned(),
            above: vec!["b".to_owned()],
        };
        let blocked = entries.blocked(&below);
        assert_eq!(blocked, [span(20, 30), span(140, 200)]);
        assert_eq!(
            free(span(25, 250), &blocked),
            [span(30, 140), span(200, 250)]
        );
        // Spans before the first retained day are dropped.
        entries.assign("c", &[span(300, 310)], UnixSeconds(310), UnixSeconds(60));
        assert_eq!(shown(&entries), "b@140-200 c@300-310");
    }

    proptest! {
        #[test]
        fn spans_match_a_model_with_one_owner_per_instant(
            steps in prop::collection::vec((0usize..3, 0i64..60, 1i64..30), 1..20)
        ) {
            let names = ["a", "b", "c"];
            let mut entries = SourceSpans::default();
            let mut line: Vec<Option<usize>> = vec![None; 100];
            for (source, from, length) in steps {
                let priority = ImportPriority {
                    source: names[source].to_owned(),
                    above: names[..source].iter().map(ToString::to_string).collect(),
                };
                let whole = span(from, from + length);
                let spans = free(whole, &entries.blocked(&priority));
                entries.assign(names[source], &spans, whole.to, UnixSeconds(-1));
                for (at, owner) in (0i64..).zip(line.iter_mut()) {
                    let outranked = owner.is_some_and(|owner| owner < source);
                    if whole.holds(UnixSeconds(at)) && !outranked {
                        *owner = Some(source);
                    } else if *owner == Some(source) && at >= whole.to.0 {
                        *owner = None;
                    }
                }
                for (at, owner) in (0i64..).zip(&line) {
                    prop_assert_eq!(entries.owner(UnixSeconds(at)), owner.map(|o| names[o]));
                }
                prop_assert!(entries.0.windows(2).all(|pair| pair[0].to <= pair[1].from));
            }
        }
    }
}
