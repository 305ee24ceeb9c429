//! Verification of records and indexes, both ways, of the engine against base and log, and the mending
//! of indexes. Nothing of it runs on the writer thread but short looks at what seems to be wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use super::core::{Core, OnDisk};
use super::engine::{Digest, Engine};
use super::keeper;
use super::log::read_segment;
use super::plan::visit;
use super::snapshot::Triple;
use super::table::{Entry, Schema, TableInfo, TreeName};
use super::truth::Truth;
use super::txn::Txn;
use super::writer::{Message, between, last_number};
use super::{Durability, Store, StoreError};

/// How many places a report names of each kind; the counts are whole.
const NAMED: usize = 100;

/// What verification found in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableReport {
    /// The table.
    pub table: TreeName,
    /// The records that were read.
    pub records: u64,
    /// Records that are damaged: how many, and the keys of some in hexadecimal.
    pub damaged: Found,
    /// Index entries that a record should have and has not.
    pub missing: Found,
    /// Index entries that no record has.
    pub stale: Found,
}

/// A count, and some of what was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// How many.
    pub count: u64,
    /// Up to a hundred of them, as `tree:key in hexadecimal`.
    pub some: Vec<String>,
}

impl Found {
    pub(super) fn add(&mut self, tree: TreeName, key: &[u8]) {
        self.count += 1;
        if self.some.len() < NAMED {
            self.some
                .push(format!("{tree}:{}", data_encoding::HEXLOWER.encode(key)));
        }
    }
}

impl TableReport {
    fn new(table: TreeName) -> Self {
        Self {
            table,
            records: 0,
            damaged: Found::default(),
            missing: Found::default(),
            stale: Found::default(),
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.damaged.count == 0 && self.missing.count == 0 && self.stale.count == 0
    }
}

/// Everything that verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Each table with its indexes.
    pub tables: Vec<TableReport>,
    /// The engine against base and log; none of a store in memory.
    pub truth: Option<TruthReport>,
}

/// What the engine holds other than base and log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TruthReport {
    /// The commit that the base was made after; none if the log has everything.
    pub base: Option<u64>,
    /// The last commit.
    pub number: u64,
    /// Pairs that base and log have and the engine has not, or has otherwise.
    pub missing: Found,
    /// Pairs that the engine alone has.
    pub extra: Found,
    /// Why base and log could not be read to their end.
    pub damage: Option<String>,
}

impl TruthReport {
    /// Whether both are the same.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.missing.count == 0 && self.extra.count == 0 && self.damage.is_none()
    }

    fn enter(
        &mut self,
        place: (TreeName, Vec<u8>),
        expected: Option<Digest>,
        found: Option<Digest>,
    ) {
        let (tree, key) = place;
        match (expected, found) {
            (None, Some(_)) => self.extra.add(tree, &key),
            (expected, found) if expected != found => self.missing.add(tree, &key),
            _ => {}
        }
    }
}

/// A key of a tree, and the digest of the value that it must have.
type Expected = BTreeMap<(TreeName, Vec<u8>), Option<Digest>>;

/// So few keys are looked at by the writer between two commits...
const FEW: usize = 256;
/// ...and more of them as well, if they were changed each time that they were looked at.
const LOOKS: u32 = 16;

fn digest_of(key: &[u8], value: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.add(key, value);
    digest
}

/// Compares records and indexes of base and log as of one commit, and the engine with them, while
/// commits go on. What is read of the engine is of no one moment, so a key that differs is looked at
/// again, and compared with what base, log and the commits since say of it.
pub(super) fn against_truth(
    core: &Arc<Core>,
    disk: &OnDisk,
    writer: &SyncSender<Message>,
) -> Result<(Vec<TableReport>, TruthReport, bool), StoreError> {
    // Held, so that nothing that is read here is retired, and no other engine takes the place of this.
    let base = disk.base.lock();
    let number = last_number(writer)?;
    // What waits for the engine would differ. If it takes nothing, that is looked at again.
    let _ = core.tail.reach(number);
    let mut report = TruthReport {
        base: base.as_ref().map(|base| base.number),
        number,
        ..TruthReport::default()
    };
    let mut census = Census::new(&core.schema);
    let mut differing = Expected::new();
    let compared = keeper::truth(core, base.as_ref(), number)
        .and_then(Truth::pairs)
        .and_then(|pairs| compare(core, pairs, &mut census, &mut differing));
    match compared {
        Err(StoreError::Damaged { place, what }) => {
            report.damage = Some(format!("{place}: {what}"));
        }
        other => other?,
    }
    settle(core, writer, differing, &mut report)?;
    let (tables, matched) = census.finish();
    Ok((tables, report, matched))
}

fn compare(
    core: &Core,
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    census: &mut Census<'_>,
    differing: &mut Expected,
) -> Result<(), StoreError> {
    let mut pairs = pairs.peekable();
    let missing = |(tree, key, value): Triple, census: &mut Census<'_>, all: &mut Expected| {
        census.add(tree, &key, &value);
        let digest = digest_of(&key, &value);
        all.insert((tree, key), Some(digest));
    };
    let mut trees: Vec<_> = core.schema.trees().collect();
    trees.sort_unstable();
    let engine = core.engine();
    for tree in trees {
        for found in engine.scan(tree, &[], None) {
            let (key, value) = found?;
            while let Some(pair) =
                pairs.next_if(|pair| matches!(pair, Ok((t, k, _)) if (*t, k) < (tree, &key)))
            {
                missing(pair?, census, differing);
            }
            match pairs.next_if(|pair| !matches!(pair, Ok((t, k, _)) if (*t, k) != (tree, &key))) {
                Some(Ok(pair)) if pair.2 == value => census.add(tree, &key, &value),
                Some(pair) => missing(pair?, census, differing),
                None => drop(differing.insert((tree, key), None)),
            }
        }
    }
    for pair in pairs {
        missing(pair?, census, differing);
    }
    Ok(())
}

/// Looks again at keys that the engine had otherwise than base and log as of `report.number`, until
/// none of them was changed while it was looked at. What then differs is reported.
fn settle(
    core: &Arc<Core>,
    writer: &SyncSender<Message>,
    mut expected: Expected,
    report: &mut TruthReport,
) -> Result<(), StoreError> {
    let mut known = report.number;
    for _ in 0..LOOKS {
        if expected.len() <= FEW {
            break;
        }
        let before = last_number(writer)?;
        let found = read_again(core, &expected)?;
        let after = last_number(writer)?;
        let touched = bring_forward(core, &mut expected, known, before, after)?;
        known = after;
        let settled = std::mem::take(&mut expected).into_iter().zip(found);
        for ((place, expected_value), found) in settled {
            if touched.contains(&place) {
                expected.insert(place, expected_value);
            } else {
                report.enter(place, expected_value, found);
            }
        }
    }
    if expected.is_empty() {
        return Ok(());
    }
    let core = Arc::clone(core);
    let settled = between(writer, move |writer| {
        let number = writer.number;
        bring_forward(&core, &mut expected, known, number, number)?;
        let found = read_again(&core, &expected)?;
        Ok(expected.into_iter().zip(found).collect::<Vec<_>>())
    })?;
    for ((place, expected), found) in settled {
        report.enter(place, expected, found);
    }
    Ok(())
}

/// What the keys have now: the tail over the engine.
fn read_again(core: &Core, expected: &Expected) -> Result<Vec<Option<Digest>>, StoreError> {
    let engine = core.engine();
    let read = |(tree, key): &(TreeName, Vec<u8>)| {
        let value = match core.tail.get(tree, key) {
            Some(change) => change,
            None => engine.get(tree, key)?,
        };
        Ok(value.map(|value| digest_of(key, &value)))
    };
    expected.keys().map(read).collect()
}

/// Makes what was expected as of the commit `known` what is expected as of the commit `to`. Returns the
/// keys that were changed after the commit `before`.
fn bring_forward(
    core: &Core,
    expected: &mut Expected,
    known: u64,
    before: u64,
    to: u64,
) -> Result<BTreeSet<(TreeName, Vec<u8>)>, StoreError> {
    let mut touched = BTreeSet::new();
    let segments = keeper::truth(core, None, to)?.segments;
    let ends = segments.iter().skip(1).map(|next| next.first - 1);
    let ends: Vec<u64> = ends.chain([u64::MAX]).collect();
    let newer = segments.iter().zip(ends).filter(|(_, end)| *end > known);
    for (segment, _) in newer {
        read_segment(segment, &mut |frame, _| {
            if frame.number <= known || frame.number > to {
                return Ok(());
            }
            let payload = frame.payload;
            visit(payload, &core.schema, &mut |tree, key, value| {
                let place = (tree, key.to_vec());
                if let Some(expected) = expected.get_mut(&place) {
                    let value = value.and_then(|at| payload.get(at));
                    *expected = value.map(|value| digest_of(key, value));
                    if frame.number > before {
                        touched.insert(place);
                    }
                }
            })
            .ok_or_else(|| StoreError::Damaged {
                place: format!("commit {} of the log", frame.number),
                what: "is not a plan of this version's tables".to_owned(),
            })
        })?;
    }
    Ok(touched)
}

/// Counts the records of a consistent stream of pairs, and adds up which index entries they should
/// have and which there are. That takes no memory, however large the store is, and tells whether
/// anything is wrong; what it is, [`examine`] finds.
struct Census<'a> {
    schema: &'a Schema,
    tables: Vec<TableReport>,
    wanted: BTreeMap<TreeName, Digest>,
    found: BTreeMap<TreeName, Digest>,
}

impl<'a> Census<'a> {
    fn new(schema: &'a Schema) -> Self {
        let tables = schema.tables().iter();
        Self {
            schema,
            tables: tables.map(|table| TableReport::new(table.name)).collect(),
            wanted: BTreeMap::new(),
            found: BTreeMap::new(),
        }
    }

    fn add(&mut self, tree: TreeName, key: &[u8], value: &[u8]) {
        let mut tables = self.schema.tables().iter().zip(&mut self.tables);
        let Some((table, report)) = tables.find(|(table, _)| table.name == tree) else {
            self.found.entry(tree).or_default().add(key, b"");
            return;
        };
        report.records += 1;
        match (table.examine)(key, value) {
            Some(entries) => {
                for (tree, entry) in entries {
                    self.wanted.entry(tree).or_default().add(&entry, b"");
                }
            }
            None => report.damaged.add(tree, key),
        }
    }

    /// The reports, and whether every index has what it should.
    fn finish(self) -> (Vec<TableReport>, bool) {
        let matched = self.wanted == self.found;
        (self.tables, matched)
    }
}

/// Something that looked wrong in an engine that moves.
#[derive(Clone)]
enum Suspect {
    Damaged(Vec<u8>),
    Missing(Entry),
    Stale(Entry),
}

/// Compares each table with its indexes in the engine itself, as it is. What looks wrong is looked at
/// again in a plan, some of it at a time: a plan sees one moment. With `mend` the plan makes it right.
pub(super) fn examine_engine(store: &Store, mend: bool) -> Result<Vec<TableReport>, StoreError> {
    /// A few of these take the writer about as long as a commit.
    const AT_A_TIME: usize = 16;
    let core = &store.0.core;
    let mut reports = Vec::new();
    for table in core.schema.tables() {
        // What waits for the engine would look wrong. If it takes nothing, that is looked at again.
        let _ = core.tail.reach(last_number(&store.0.inbox)?);
        let (records, suspects) = examine(&*core.engine(), table)?;
        let mut report = TableReport {
            records,
            ..TableReport::new(table.name)
        };
        for some in suspects.chunks(AT_A_TIME) {
            let (table, some) = (*table, some.to_vec());
            let wrong = store.write(Durability::Durable, move |txn| {
                let mut wrong = Vec::new();
                for suspect in some {
                    if is_wrong(txn, &table, &suspect, mend)? {
                        wrong.push(suspect);
                    }
                }
                Ok::<_, StoreError>(wrong)
            });
            for suspect in wrong.wait()? {
                match suspect {
                    Suspect::Damaged(key) => report.damaged.add(table.name, &key),
                    Suspect::Missing((tree, entry)) => report.missing.add(tree, &entry),
                    Suspect::Stale((tree, entry)) => report.stale.add(tree, &entry),
                }
            }
        }
        reports.push(report);
    }
    Ok(reports)
}

/// What looks wrong in a table and its indexes, which may change meanwhile; and how many records there
/// are.
fn examine(engine: &dyn Engine, table: &TableInfo) -> Result<(u64, Vec<Suspect>), StoreError> {
    let mut records = 0;
    let mut suspects = Vec::new();
    let mut wanted = BTreeSet::new();
    for pair in engine.scan(table.name, &[], None) {
        let (key, value) = pair?;
        records += 1;
        match (table.examine)(&key, &value) {
            Some(entries) => wanted.extend(entries),
            None => suspects.push(Suspect::Damaged(key)),
        }
    }
    for tree in table.indexes {
        for pair in engine.scan(tree, &[], None) {
            let entry = (*tree, pair?.0);
            if !wanted.remove(&entry) {
                suspects.push(Suspect::Stale(entry));
            }
        }
    }
    suspects.extend(wanted.into_iter().map(Suspect::Missing));
    Ok((records, suspects))
}

/// Whether something that looked wrong is wrong now; with `mend` it is planned to be right.
fn is_wrong(
    txn: &mut Txn<'_>,
    table: &TableInfo,
    suspect: &Suspect,
    mend: bool,
) -> Result<bool, StoreError> {
    let ((tree, entry), missing) = match suspect {
        Suspect::Damaged(key) => {
            let value = txn.raw(table.name, key)?;
            return Ok(value.is_some_and(|value| (table.examine)(key, &value).is_none()));
        }
        Suspect::Missing(entry) => (entry, true),
        Suspect::Stale(entry) => (entry, false),
    };
    let is_there = txn.raw(tree, entry)?.is_some();
    let wrong = is_there != missing && is_wanted(txn, table, tree, entry)? == missing;
    if wrong && mend {
        let change = missing.then(Vec::new);
        txn.plan.set(tree, entry.clone(), change);
    }
    Ok(wrong)
}

/// Whether a record should have an index entry. Its key is what the entry ends in, and nothing says
/// how long that is.
fn is_wanted(
    txn: &Txn<'_>,
    table: &TableInfo,
    tree: TreeName,
    entry: &[u8],
) -> Result<bool, StoreError> {
    for at in 0..entry.len() {
        let key = entry.get(at..).unwrap_or_default();
        let Some(value) = txn.raw(table.name, key)? else {
            continue;
        };
        let entries = (table.examine)(key, &value).unwrap_or_default();
        if entries
            .iter()
            .any(|(t, e)| (*t, e.as_slice()) == (tree, entry))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a snapshot holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotReport {
    /// The records of each table.
    pub records: BTreeMap<TreeName, u64>,
    /// Records that are damaged.
    pub damaged: Found,
    /// Index entries without their record, or records without their entry.
    pub unmatched: Found,
}

impl SnapshotReport {
    /// The records of all tables.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.records.values().sum()
    }

    /// What is wrong, if anything is.
    #[must_use]
    pub fn damage(&self) -> Option<String> {
        let places = [&self.damaged.some[..], &self.unmatched.some[..]].concat();
        (!places.is_empty()).then(|| {
            format!(
                "holds {} damaged records and {} unmatched index entries: {}",
                self.damaged.count,
                self.unmatched.count,
                places.join(", ")
            )
        })
    }

    /// Whether another snapshot holds as much.
    pub(super) fn same(&self, other: &Self, path: &Path) -> Result<(), StoreError> {
        if self.records == other.records {
            return Ok(());
        }
        Err(StoreError::Damaged {
            place: path.display().to_string(),
            what: "holds another number of records than the backup".to_owned(),
        })
    }
}

/// Examines every record of a snapshot, and its indexes both ways, in one pass.
pub(super) fn examine_snapshot(
    pairs: impl Iterator<Item = Result<Triple, StoreError>>,
    schema: &Schema,
) -> Result<SnapshotReport, StoreError> {
    let mut report = SnapshotReport::default();
    // Entries that were found or made, until the other comes: in a sound snapshot none is left.
    let mut single = BTreeSet::new();
    let mut match_up = |entry| {
        if !single.remove(&entry) {
            single.insert(entry);
        }
    };
    for pair in pairs {
        let (tree, key, value) = pair?;
        let Some(table) = schema.tables().iter().find(|table| table.name == tree) else {
            match_up((tree, key));
            continue;
        };
        *report.records.entry(tree).or_default() += 1;
        match (table.examine)(&key, &value) {
            Some(entries) => entries.into_iter().for_each(&mut match_up),
            None => report.damaged.add(tree, &key),
        }
    }
    for (tree, key) in single {
        report.unmatched.add(tree, &key);
    }
    Ok(report)
}
