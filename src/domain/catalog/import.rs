//! What a catalogue file brings, and whether it fits together.
//!
//! How a file is read is not known here; only that each thing comes with its line.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use super::content_keys::ContentKeySealer;
use super::model::{Asset, ContentKey, KeyId, Livestream, Offer};
use super::rules::{Effects, Rule};
use super::snapshot::Contents;
use crate::ports::Entropy;
use crate::types::{BroadcastId, OfferId};

/// A mistake in a catalogue file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, counted from 1; 0 where there is none.
    pub line: u64,
    /// What is wrong, naming the thing and its member.
    pub message: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => f.write_str(&self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

/// Something and its line in the file.
#[derive(Debug, Clone)]
pub struct Spanned<T> {
    /// The line, counted from 1; 0 where there is none.
    pub line: u64,
    /// The thing.
    pub item: T,
}

/// A mention of a livestream or an asset by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// What mentions it, as messages name it.
    pub by: String,
    /// Whether it must be a livestream; an asset otherwise.
    pub livestream: bool,
    /// The id.
    pub id: String,
}

/// What an import does with what the file does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// It goes.
    Replace,
    /// It stays. What the file names is replaced whole; its rules come after those there are, and
    /// one that is there already is not taken twice.
    Merge,
}

/// What a catalogue file brings. Things with mistakes in them are here too, so that whatever
/// mentions them is not reported as well; [`CatalogImport::problems`] stops the import.
#[derive(Default)]
pub struct CatalogImport {
    /// Livestreams, placed at their ids.
    pub livestreams: Vec<Spanned<Livestream>>,
    /// Videos on demand, placed at their ids.
    pub assets: Vec<Spanned<Asset>>,
    /// Offers, placed at their ids.
    pub offers: Vec<Spanned<Offer>>,
    /// Rules, in their order.
    pub rules: Vec<Spanned<Rule>>,
    /// What is said of single broadcasts, placed at their ids.
    pub broadcasts: Vec<Spanned<(BroadcastId, Effects)>>,
    /// Content keys.
    pub keys: Vec<Spanned<(KeyId, ContentKey)>>,
    /// Mentions that must lead somewhere.
    pub references: Vec<Spanned<Reference>>,
    /// The mistakes that reading the file has found.
    pub problems: Vec<Problem>,
    /// The file could not be read to its end, so that what seems to be missing may not be.
    pub torn: bool,
}

impl CatalogImport {
    /// Every mistake there is: those of reading, and where things do not fit together or to what
    /// is there. `is_broadcast` knows the ids of the schedule.
    pub(super) fn mistakes(
        &self,
        current: &Contents,
        mode: Mode,
        is_broadcast: &dyn Fn(&str) -> bool,
    ) -> Vec<Problem> {
        let mut check = Check {
            import: self,
            stays: (mode == Mode::Merge).then_some(current),
            problems: self.problems.clone(),
        };
        check.namespace(is_broadcast);
        check.offers();
        check.keys();
        if !self.torn {
            check.references();
        }
        let mut problems = check.problems;
        problems.sort();
        problems.dedup();
        problems
    }

    /// The catalogue after this import.
    pub(super) fn apply(
        self,
        current: &Contents,
        mode: Mode,
        vault: &ContentKeySealer,
        entropy: &dyn Entropy,
    ) -> Contents {
        let mut next = match mode {
            Mode::Replace => Contents::default(),
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
            let there = mode == Mode::Merge && next.rules.iter().any(|old| **old == rule.item);
            if !there {
                next.rules.push(Arc::new(rule.item));
            }
        }
        let given = self.keys.into_iter().map(|placed| placed.item).collect();
        next.keys = keys(&next, current, &given, vault, entropy);
        next
    }
}

/// The keys of everything in `next`. One that the file gives is sealed anew only if it differs, so
/// that importing a file again changes nothing; one that it only names stays as it is, so that an
/// export, which holds no keys, can be imported again.
fn keys(
    next: &Contents,
    current: &Contents,
    given: &BTreeMap<KeyId, ContentKey>,
    vault: &ContentKeySealer,
    entropy: &dyn Entropy,
) -> BTreeMap<KeyId, super::SealedKey> {
    let of_livestreams = next.livestreams.values().flat_map(|item| &item.keys);
    let of_assets = next.assets.values().flat_map(|item| &item.keys);
    let sealed = |id: &KeyId| {
        let old = current.keys.get(id);
        match given.get(id) {
            None => old.cloned(),
            Some(key) => {
                let same = |old: &&super::SealedKey| vault.open(id, old).as_ref() == Some(key);
                let kept = old.filter(same).cloned();
                Some(kept.unwrap_or_else(|| vault.seal(id, key, entropy)))
            }
        }
    };
    of_livestreams
        .chain(of_assets)
        .filter_map(|id| Some((*id, sealed(id)?)))
        .collect()
}

struct Check<'a> {
    import: &'a CatalogImport,
    /// What there is besides the file.
    stays: Option<&'a Contents>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn report(&mut self, line: u64, message: String) {
        self.problems.push(Problem { line, message });
    }

    /// Livestreams, assets and broadcasts share one namespace: an id in a path must mean one thing.
    fn namespace(&mut self, is_broadcast: &dyn Fn(&str) -> bool) {
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
                    format!("{kind} `{id}` stands twice, first in line {other_line}")
                } else {
                    format!("{kind} `{id}` has the id of the {other} in line {other_line}")
                };
                self.report(line, message);
                continue;
            }
            first.insert(id, (line, kind));
            let stays = self.stays.and_then(|stays| {
                let found = |other: &str, there: bool| there && kind != other;
                if found("livestream", stays.livestreams.contains_key(id)) {
                    Some("a livestream")
                } else if found("asset", stays.assets.contains_key(id)) {
                    Some("an asset")
                } else if found("broadcast", stays.broadcasts.contains_key(id)) {
                    Some("a broadcast")
                } else {
                    None
                }
            });
            let taken = stays.or_else(|| {
                let broadcast = kind != "broadcast" && is_broadcast(id);
                broadcast.then_some("a broadcast of the schedule")
            });
            if let Some(other) = taken {
                self.report(line, format!("{kind} `{id}` has the id of {other}"));
            }
        }
    }

    fn offers(&mut self) {
        let import = self.import;
        let mut first: HashMap<&OfferId, u64> = HashMap::new();
        for Spanned { line, item } in &import.offers {
            if let Some(other) = first.insert(&item.id, *line) {
                let message = format!("offer `{}` stands twice, first in line {other}", item.id);
                self.report(*line, message);
            }
        }
    }

    /// One id of a key means one key.
    fn keys(&mut self) {
        let import = self.import;
        let mut first: HashMap<&KeyId, (u64, &ContentKey)> = HashMap::new();
        for Spanned {
            line,
            item: (id, key),
        } in &import.keys
        {
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
                let stays = self.stays.is_some_and(|s| s.livestreams.contains_key(id));
                ("livestream", stays || livestreams.contains(id))
            } else {
                let stays = self.stays.is_some_and(|s| s.assets.contains_key(id));
                ("asset", stays || assets.contains(id))
            };
            if !known {
                let message = format!("{}: there is no {kind} `{id}`", item.by);
                self.report(*line, message);
            }
        }
    }
}
