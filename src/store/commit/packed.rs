//! A memory table for tables with one record per user. It holds encoded records and decodes them
//! when they are read.
//!
//! A decoded record in a map takes three to four times the space of its encoding. Here a record
//! takes its key, its encoding and about 16 bytes, and filling the table decodes nothing. The first
//! bytes of encodings, which for users are the partner, are kept once. Recently read records are
//! also cached decoded, in a fixed number of slots.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use parking_lot::RwLock;

use crate::commit::memory_table::{TableListener, report_damage};
use crate::error::StoreError;
use crate::key::Key as _;
use crate::record;
use crate::table::Table;
use crate::table_copies::TableCopy;
use crate::write_batch::RawChange;

/// With a million records a shard takes a few hundred kilobytes, so that the writer thread compacts
/// it in well under a millisecond.
const SHARDS: usize = 256;
const ENTRY_HEAD: usize = 5;
/// Larger than every entry: a value has at most 16 KiB.
const CHUNK_BYTES: usize = 32 * 1024;
/// Length of a shared head: the version of the record and the id that it begins with. With a million users, shared heads
/// save 16 MB.
const HEAD_BYTES: usize = 17;
/// Maximum number of shared heads. As the number of a head, it marks a body that has none.
const HEADS_MAX: u8 = u8::MAX;
/// A shard is compacted once its garbage exceeds this many bytes and a quarter of its size.
const GARBAGE_MIN: usize = 4_096;

/// Number of cached decoded records: about the users active at a time, and at 350 bytes each at
/// most 23 MB.
const CACHE_SLOTS: usize = 65_536;

pub struct PackedTable<T: Table, V> {
    shards: Box<[RwLock<Shard>]>,
    slots: Box<[RwLock<Slot<T, V>>]>,
    has_slots: AtomicBool,
    heads: RwLock<Vec<[u8; HEAD_BYTES]>>,
    hasher: RandomState,
    decoded: fn(T::Key, T::Record) -> V,
}

/// The record that was read last of all that share the slot.
type Slot<T, V> = Option<(<T as Table>::Key, Arc<V>)>;

#[derive(Default)]
struct Shard {
    /// Where the entry of each key begins in `bytes`.
    places: HashTable<u32>,
    bytes: ChunkedBytes,
    garbage: usize,
}

/// Storage of entries in chunks of fixed size, so that growth copies nothing. A single buffer copies each entry about eight
/// times while a table is filled, and with a million users it left 20 MB of freed memory behind.
#[derive(Default)]
struct ChunkedBytes(Vec<Vec<u8>>);

impl ChunkedBytes {
    fn len(&self) -> usize {
        let last = self.0.last().map_or(0, Vec::len);
        self.0.len().saturating_sub(1) * CHUNK_BYTES + last
    }

    /// Returns the chunk to append an entry of `needed` bytes to, and the place of the entry: its offset in all chunks.
    /// `None` if the entry is larger than a chunk, or the place too large.
    fn reserve(&mut self, needed: usize) -> Option<(&mut Vec<u8>, u32)> {
        if needed > CHUNK_BYTES {
            return None;
        }
        match self.0.last() {
            Some(last) if last.len() + needed <= CHUNK_BYTES => {}
            // The first one grows with its content, since most installations have few records.
            None => self.0.push(Vec::new()),
            Some(_) => self.0.push(Vec::with_capacity(CHUNK_BYTES)),
        }
        let before = (self.0.len() - 1) * CHUNK_BYTES;
        let last = self.0.last_mut()?;
        let place = u32::try_from(before + last.len()).ok()?;
        Some((last, place))
    }

    fn entry(&self, place: u32) -> Option<RawEntry<'_>> {
        let place = usize::try_from(place).ok()?;
        let bytes = self
            .0
            .get(place / CHUNK_BYTES)?
            .get(place % CHUNK_BYTES..)?;
        let (key_length, bytes) = bytes.split_first_chunk::<2>()?;
        let (rest_length, bytes) = bytes.split_first_chunk::<2>()?;
        let (head, bytes) = bytes.split_first()?;
        let (key, bytes) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*key_length)))?;
        let rest = bytes.get(..usize::from(u16::from_le_bytes(*rest_length)))?;
        Some((key, *head, rest))
    }

    fn has_key_at(&self, place: u32, key: &[u8]) -> bool {
        self.entry(place).is_some_and(|(found, ..)| found == key)
    }

    fn key_hash_at(&self, place: u32, hasher: &RandomState) -> u64 {
        self.entry(place)
            .map_or(0, |(key, ..)| hasher.hash_one(key))
    }
}

impl<T: Table, V: Send + Sync + 'static> PackedTable<T, V>
where
    T::Key: Hash,
{
    pub fn new(decoded: fn(T::Key, T::Record) -> V) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            slots: (0..CACHE_SLOTS).map(|_| RwLock::new(None)).collect(),
            has_slots: AtomicBool::new(false),
            heads: RwLock::default(),
            hasher: RandomState::default(),
            decoded,
        }
    }

    pub fn get(&self, key: &T::Key) -> Option<Arc<V>> {
        let slot = self.slot(key)?;
        if let Some((found, value)) = &*slot.read()
            && found == key
        {
            // The common case takes one read lock and one reference count.
            return Some(Arc::clone(value));
        }
        // The slot stays locked until it is filled. A concurrent change updates the encoded record
        // first and clears the slot afterwards, so no stale record remains.
        let mut slot = slot.write();
        // The flag is set before the record is read. A change that the read does not see then sees the flag.
        self.has_slots.store(true, Ordering::Release);
        let value = Arc::new((self.decoded)(key.clone(), self.find_record(key)?));
        *slot = Some((key.clone(), Arc::clone(&value)));
        Some(value)
    }

    pub fn contains(&self, key: &T::Key) -> bool {
        let bytes = key.to_bytes();
        self.locate(&bytes)
            .is_some_and(|(hash, shard)| shard.read().find(hash, &bytes).is_some())
    }

    fn split_head<'a>(&self, body: &'a [u8]) -> (u8, &'a [u8]) {
        let Some((head, rest)) = body.split_first_chunk::<HEAD_BYTES>() else {
            return (HEADS_MAX, body);
        };
        let position = |heads: &[[u8; HEAD_BYTES]]| {
            let at = heads.iter().position(|known| known == head);
            at.and_then(|at| u8::try_from(at).ok())
        };
        if let Some(known) = position(&self.heads.read()) {
            return (known, rest);
        }
        // Only the writer thread adds heads.
        let mut heads = self.heads.write();
        match u8::try_from(heads.len()) {
            Ok(next) if next < HEADS_MAX => {
                heads.push(*head);
                (next, rest)
            }
            _ => (HEADS_MAX, body),
        }
    }

    fn whole_body<'a>(&self, head: u8, rest: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if head == HEADS_MAX {
            return Some(Cow::Borrowed(rest));
        }
        let heads = self.heads.read();
        let head = heads.get(usize::from(head))?;
        Some(Cow::Owned([head, rest].concat()))
    }

    fn slot(&self, key: &T::Key) -> Option<&RwLock<Slot<T, V>>> {
        let hash = self.hasher.hash_one(key);
        // Collisions only evict each other: the slots are a cache.
        self.slots.get(usize::try_from(hash).ok()? % CACHE_SLOTS)
    }

    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| shard.read().places.len())
            .sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with every key, in no particular order, and with a function that decodes its record.
    /// Not a consistent snapshot. One shard is locked at a time, so `each` must not use the table.
    pub fn for_each(&self, mut each: impl FnMut(&T::Key, &dyn Fn() -> Option<V>)) {
        for shard in &self.shards {
            let shard = shard.read();
            for place in &shard.places {
                let Some((key, head, rest)) = shard.bytes.entry(*place) else {
                    continue;
                };
                if let Some(key) = T::Key::from_bytes(key) {
                    each(&key, &|| {
                        let record = record::read_body(&self.whole_body(head, rest)?)?;
                        Some((self.decoded)(key.clone(), record))
                    });
                }
            }
        }
    }

    fn locate(&self, key: &[u8]) -> Option<(u64, &RwLock<Shard>)> {
        let hash = self.hasher.hash_one(key);
        // The shard comes from middle bits: the hash table within a shard uses the highest and the lowest ones.
        let at = usize::try_from(hash >> 24).unwrap_or_default() % SHARDS;
        Some((hash, self.shards.get(at)?))
    }

    fn change(&self, key: &[u8], body: Option<&[u8]>) {
        let Some((hash, shard)) = self.locate(key) else {
            return;
        };
        let mut shard = shard.write();
        // An update appends and leaves garbage, since the new body may be longer.
        shard.remove(hash, key);
        if let Some(body) = body {
            let (head, rest) = self.split_head(body);
            shard.insert(hash, (key, head, rest), &self.hasher);
        }
        shard.compact_if_wasteful(&self.hasher);
    }

    fn evict_decoded(&self, key: &[u8]) {
        // Nothing is cached while the table is filled.
        if !self.has_slots.load(Ordering::Acquire) {
            return;
        }
        let Some(key) = T::Key::from_bytes(key) else {
            return;
        };
        let Some(slot) = self.slot(&key) else { return };
        // A read lock first: most changed records are not cached, and readers hold these locks often.
        let is_there = slot.read().as_ref().is_some_and(|(found, _)| *found == key);
        if is_there {
            *slot.write() = None;
        }
    }
}

impl<T: Table, V: Send + Sync + 'static> TableCopy<T> for PackedTable<T, V>
where
    T::Key: Hash,
{
    fn find_record(&self, key: &T::Key) -> Option<T::Record> {
        let bytes = key.to_bytes();
        let (hash, shard) = self.locate(&bytes)?;
        let shard = shard.read();
        let (head, rest) = shard.find(hash, &bytes)?;
        // The checksum was verified when the entry was inserted.
        record::read_body(&self.whole_body(head, rest)?)
    }
}

impl<T: Table, V: Send + Sync + 'static> TableListener for PackedTable<T, V>
where
    T::Key: Hash,
{
    fn apply(&self, changes: &mut dyn Iterator<Item = RawChange<'_>>) -> Result<(), StoreError> {
        for (key, value) in changes {
            let body = value.map(|value| record::sound_body(T::NAME, key, value));
            match body {
                None => self.change(key, None),
                Some(Some(body)) => {
                    record::check_version::<T::Record>(T::NAME, body)?;
                    self.change(key, Some(body));
                }
                // The previous record, if any, stays: a damaged one cannot replace it.
                Some(None) => report_damage(T::NAME, key),
            }
            // The slot is cleared after the change: a reader that fills it in between decodes the new record.
            self.evict_decoded(key);
        }
        Ok(())
    }
}

impl Shard {
    fn find(&self, hash: u64, key: &[u8]) -> Option<(u8, &[u8])> {
        let place = self
            .places
            .find(hash, |place| self.bytes.has_key_at(*place, key))?;
        self.bytes.entry(*place).map(|(_, head, rest)| (head, rest))
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        let Self { places, bytes, .. } = self;
        let Ok(found) = places.find_entry(hash, |place| bytes.has_key_at(*place, key)) else {
            return;
        };
        let (place, _) = found.remove();
        self.garbage += bytes.entry(place).map_or(0, size);
    }

    /// Adds an entry whose key does not exist yet.
    fn insert(&mut self, hash: u64, entry: RawEntry<'_>, hasher: &RandomState) {
        let (key, head, rest) = entry;
        // Keys and bodies are shorter than 16 KiB, so these lengths always fit.
        let lengths = (u16::try_from(key.len()), u16::try_from(rest.len()));
        let Self { places, bytes, .. } = self;
        let ((Ok(key_length), Ok(rest_length)), Some((chunk, place))) =
            (lengths, bytes.reserve(size(entry)))
        else {
            return;
        };
        chunk.extend_from_slice(&key_length.to_le_bytes());
        chunk.extend_from_slice(&rest_length.to_le_bytes());
        chunk.push(head);
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(rest);
        places.insert_unique(hash, place, |place| bytes.key_hash_at(*place, hasher));
    }

    fn compact_if_wasteful(&mut self, hasher: &RandomState) {
        if self.garbage < GARBAGE_MIN.max(self.bytes.len() / 4) {
            return;
        }
        // The whole shard is taken, so that the old buffer is freed when this function returns.
        let old = std::mem::take(self);
        self.places.reserve(old.places.len(), |_| 0);
        for place in &old.places {
            if let Some(entry) = old.bytes.entry(*place) {
                self.insert(hasher.hash_one(entry.0), entry, hasher);
            }
        }
    }
}

/// Key, number of the head, and the rest of the body.
type RawEntry<'a> = (&'a [u8], u8, &'a [u8]);

const fn size((key, _, rest): RawEntry<'_>) -> usize {
    ENTRY_HEAD + key.len() + rest.len()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::tests::{People, Person, person};

    fn empty() -> PackedTable<People, Person> {
        PackedTable::new(|_, person| person)
    }

    fn changed(table: &PackedTable<People, Person>, key: u32, person: Option<&Person>) {
        let key = key.to_bytes();
        let value = person.map(|person| record::seal(People::NAME, &key, person).unwrap());
        let mut change = std::iter::once((key.as_slice(), value.as_deref()));
        table.apply(&mut change).unwrap();
    }

    fn contents(table: &PackedTable<People, Person>) -> BTreeMap<u32, Person> {
        let mut found = BTreeMap::new();
        table.for_each(|key, record| {
            found.insert(*key, record().unwrap());
        });
        found
    }

    proptest! {
        #[test]
        fn packed_table_equals_a_map(
            changes in prop::collection::vec((0..40_u32, prop::option::of(0..200_usize)), 0..2_000),
        ) {
            let table = empty();
            let mut model = BTreeMap::new();
            for (key, town) in changes {
                // Read before and after each change, since a cached record must not outlive it.
                prop_assert_eq!(table.get(&key).map(|found| (*found).clone()), model.get(&key).cloned());
                let person = town.map(|length| person(&"x".repeat(length), 30));
                changed(&table, key, person.as_ref());
                match person {
                    Some(person) => model.insert(key, person),
                    None => model.remove(&key),
                };
            }
            prop_assert_eq!(table.len(), model.len());
            for key in 0..40 {
                prop_assert_eq!(table.get(&key).map(|found| (*found).clone()), model.get(&key).cloned());
            }
            prop_assert_eq!(contents(&table), model);
        }
    }

    #[test]
    fn records_with_more_heads_than_are_shared_are_read_back() {
        let table = empty();
        let town = |key: u32| format!("{key:03} is the number of this town");
        for key in 0..600 {
            changed(&table, key, Some(&person(&town(key % 300), 30)));
        }
        for key in 0..600 {
            let found = table.get(&key).unwrap();
            assert_eq!(*found, person(&town(key % 300), 30));
        }
        assert_eq!(table.heads.read().len(), usize::from(HEADS_MAX));
        let bytes: usize = table.shards.iter().map(|s| s.read().bytes.len()).sum();
        // Two records share each head, and each of them is shorter by its length.
        let body = 1 + 1 + town(0).len() + 1;
        let saved = 2 * usize::from(HEADS_MAX) * HEAD_BYTES;
        assert_eq!(bytes, 600 * (ENTRY_HEAD + 4 + body) - saved);
    }

    #[test]
    fn records_in_several_chunks_are_read_back() {
        let table = empty();
        let town = |key: u32, round: u32| "x".repeat((key % 3_000 + round) as usize);
        for key in 0..15_000 {
            changed(&table, key, Some(&person(&town(key, 0), 30)));
        }
        let most = table.shards.iter().map(|s| s.read().bytes.0.len()).max();
        assert!(most > Some(2), "{most:?}");
        for key in (0..15_000).step_by(3) {
            changed(&table, key, Some(&person(&town(key, 1), 30)));
        }
        for key in (0..15_000).step_by(5) {
            changed(&table, key, None);
        }
        for key in 0..15_000_u32 {
            let found = table.get(&key).map(|found| (*found).clone());
            let round = u32::from(key.is_multiple_of(3));
            let expected = (!key.is_multiple_of(5)).then(|| person(&town(key, round), 30));
            assert_eq!(found, expected, "{key}");
        }
    }

    #[test]
    fn memory_of_overwritten_records_is_reused() {
        let table = empty();
        for round in 0..10_000 {
            changed(&table, 7, Some(&person(&"x".repeat(round % 300), 30)));
        }
        let bytes: usize = table.shards.iter().map(|s| s.read().bytes.len()).sum();
        assert!(bytes < 3 * GARBAGE_MIN, "{bytes}");
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn damaged_record_is_skipped() {
        let table = empty();
        let key = 1_u32.to_bytes();
        let mut value = record::seal(People::NAME, &key, &person("Lund", 30)).unwrap();
        value[6] ^= 1;
        let mut change = std::iter::once((key.as_slice(), Some(value.as_slice())));
        table.apply(&mut change).unwrap();
        assert!(table.is_empty());
    }
}
