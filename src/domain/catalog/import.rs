//! The parsed content of a catalogue file, and its consistency checks.
//!
//! It does not know file formats; each item carries its line number.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::content_keys::ContentKeySealer;
use super::model::{Asset, ContentKey, KeyId, Livestream, Offer};
use super::rules::{Effects, Rule};
use super::snapshot::CatalogContents;
use playgate_decode::Mistake;
use playgate_ports::Entropy;
use playgate_types::{BroadcastId, OfferId};

#[derive(Debug, Clone)]
pub struct Spanned<T> {
    pub line: u64,
    pub item: T,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub by: String,
    pub livestream: bool,
    pub id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Removes objects that the file does not contain.
    Replace,
    /// Keeps objects that the file does not contain, and replaces the others completely. Rules are appended; duplicates
    /// are skipped.
    Merge,
}

/// Objects with mistakes are included, so that references to them are not reported as well. Any entry in
/// [`CatalogImport::problems`] stops the import.
#[derive(Default)]
pub struct CatalogImport {
    pub livestreams: Vec<Spanned<Livestream>>,
    pub assets: Vec<Spanned<Asset>>,
    pub offers: Vec<Spanned<Offer>>,
    pub rules: Vec<Spanned<Rule>>,
    pub broadcasts: Vec<Spanned<(BroadcastId, Effects)>>,
    pub keys: Vec<Spanned<(KeyId, ContentKey)>>,
    pub references: Vec<Spanned<Reference>>,
    pub problems: Vec<Mistake>,
    /// The file could not be parsed completely, so missing objects are not reported.
    pub incomplete: bool,
}

impl CatalogImport {
    /// Returns all mistakes: those of parsing, unresolved references and conflicts with the current
    /// catalogue.
    pub(super) fn mistakes(
        &self,
        current: &CatalogContents,
        mode: Mode,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Vec<Mistake> {
        let mut check = Check {
            import: self,
            // A merge keeps the current objects, so references to them are valid.
            existing: (mode == Mode::Merge).then_some(current),
            problems: self.problems.clone(),
        };
        check.namespace(is_broadcast);
        check.offers();
        check.keys();
        // The missing objects may be in the part that could not be parsed.
        if !self.incomplete {
            check.references();
        }
        let mut problems = check.problems;
        // In the order of the file; two checks may report the same mistake.
        problems.sort();
        problems.dedup();
        problems
    }

    pub(super) fn apply(
        self,
        current: &CatalogContents,
        mode: Mode,
        sealer: &ContentKeySealer,
        entropy: &dyn Entropy,
    ) -> CatalogContents {
        let mut next = match mode {
            Mode::Replace => CatalogContents::default(),
            Mode::Merge => current.clone(),
        };
        let livestreams = self.livestreams.into_iter().map(|placed| placed.item);
        next.livestreams
            .extend(livestreams.map(|item| (item.id.clone(), Arc::new(item))));
        let assets = self.assets.into_iter().map(|placed| placed.item);
        next.assets
            .extend(assets.map(|item| (item.id.clone(), Arc::new(item))));
        let offers = self.offers.into_iter().map(|placed| placed.item);
        next.offers
            .extend(offers.map(|item| (item.id.clone(), Arc::new(item))));
        let broadcasts = self.broadcasts.into_iter().map(|placed| placed.item);
        next.broadcasts.extend(broadcasts);
        for rule in self.rules {
            // Merging the same file twice must not double its rules.
            let there = mode == Mode::Merge && next.rules.iter().any(|old| **old == rule.item);
            if !there {
                next.rules.push(Arc::new(rule.item));
            }
        }
        // Keys last: only the ids that the new objects name are kept.
        let given = self.keys.into_iter().map(|placed| placed.item).collect();
        next.keys = keys(&next, current, &given, sealer, entropy);
        next
    }
}

fn keys(
    next: &CatalogContents,
    current: &CatalogContents,
    given: &BTreeMap<KeyId, ContentKey>,
    sealer: &ContentKeySealer,
    entropy: &dyn Entropy,
) -> BTreeMap<KeyId, super::SealedKey> {
    let of_livestreams = next.livestreams.values().flat_map(|item| &item.keys);
    let of_assets = next.assets.values().flat_map(|item| &item.keys);
    let sealed = |id: &KeyId| {
        let old = current.keys.get(id);
        match given.get(id) {
            // An export contains no keys; importing it again keeps those that are stored.
            None => old.cloned(),
            Some(key) => {
                let same = |old: &&super::SealedKey| sealer.open(id, old).as_ref() == Some(key);
                // Sealing draws a nonce, so sealing the same key again would look like a change.
                let kept = old.filter(same).cloned();
                Some(kept.unwrap_or_else(|| sealer.seal(id, key, entropy)))
            }
        }
    };
    of_livestreams
        .chain(of_assets)
        // Keys that no object names are dropped.
        .filter_map(|id| Some((*id, sealed(id)?)))
        .collect()
}

struct Check<'a> {
    import: &'a CatalogImport,
    existing: Option<&'a CatalogContents>,
    problems: Vec<Mistake>,
}

impl Check<'_> {
    fn report(&mut self, line: u64, message: String) {
        self.problems.push(Mistake { line, message });
    }

    fn namespace(&mut self, is_broadcast: &dyn Fn(&str) -> bool) {
        // Livestreams, assets and broadcasts share one namespace: an id in a URL path must be unambiguous.
        let import = self.import;
        let livestreams =
            (import.livestreams.iter()).map(|p| (p.line, "livestream", p.item.id.as_str()));
        let assets = (import.assets.iter()).map(|p| (p.line, "asset", p.item.id.as_str()));
        let broadcasts =
            (import.broadcasts.iter()).map(|p| (p.line, "broadcast", p.item.0.as_str()));
        let mut first: HashMap<&str, (u64, &str)> = HashMap::new();
        for (line, kind, id) in livestreams.chain(assets).chain(broadcasts) {
            if let Some((other_line, other)) = first.get(id) {
                let message = if *other == kind {
                    format!("{kind} `{id}` is defined twice, first in line {other_line}")
                } else {
                    format!("id `{id}` is already used by the {other} in line {other_line}")
                };
                self.report(line, message);
                continue;
            }
            first.insert(id, (line, kind));
            let existing = self.existing.and_then(|existing| {
                // An object of the same kind is replaced and is no conflict.
                let found = |other: &str, there: bool| there && kind != other;
                if found("livestream", existing.livestreams.contains_key(id)) {
                    Some("a livestream")
                } else if found("asset", existing.assets.contains_key(id)) {
                    Some("an asset")
                } else if found("broadcast", existing.broadcasts.contains_key(id)) {
                    Some("a broadcast")
                } else {
                    None
                }
            });
            let taken = existing.or_else(|| {
                // An override names a broadcast of the schedule and is no conflict.
                let broadcast = kind != "broadcast" && is_broadcast(id);
                broadcast.then_some("a broadcast of the schedule")
            });
            if let Some(other) = taken {
                self.report(line, format!("id `{id}` is already used by {other}"));
            }
        }
    }

    fn offers(&mut self) {
        let import = self.import;
        let mut first: HashMap<&OfferId, u64> = HashMap::new();
        for Spanned { line, item } in &import.offers {
            if let Some(other) = first.insert(&item.id, *line) {
                let message = format!(
                    "offer `{}` is defined twice, first in line {other}",
                    item.id
                );
                self.report(*line, message);
            }
        }
    }

    fn keys(&mut self) {
        let import = self.import;
        let mut first: HashMap<&KeyId, (u64, &ContentKey)> = HashMap::new();
        for Spanned {
            line,
            item: (id, key),
        } in &import.keys
        {
            // The same key may be given for several objects, but one id must not have two keys.
            let (other, known) = first.entry(id).or_insert((*line, key));
            if *known != key {
                let message = format!("kid `{id}` has another key in line {other}");
                self.report(*line, message);
            }
        }
    }

    fn references(&mut self) {
        let import = self.import;
        let livestreams: HashSet<&str> = (import.livestreams.iter())
            .map(|placed| placed.item.id.as_str())
            .collect();
        let assets: HashSet<&str> = (import.assets.iter())
            .map(|placed| placed.item.id.as_str())
            .collect();
        for Spanned { line, item } in &import.references {
            let id = item.id.as_str();
            let (kind, known) = if item.livestream {
                let existing = self
                    .existing
                    .is_some_and(|s| s.livestreams.contains_key(id));
                ("livestream", existing || livestreams.contains(id))
            } else {
                let existing = self.existing.is_some_and(|s| s.assets.contains_key(id));
                ("asset", existing || assets.contains(id))
            };
            if !known {
                let message = format!("{}: there is no {kind} `{id}`", item.by);
                self.report(*line, message);
            }
        }
    }
}
