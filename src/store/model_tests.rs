//! Random sequences of operations, compared with a sorted map, on both engines.
//!
//! Each run prints its seed; `PROPTEST_RNG_SEED` repeats it. The long form:
//!
//! ```text
//! PLAYGATE_MODEL_CASES=100000 cargo test --release --lib equals_the_model -- --nocapture
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::tests::{ByTown, People, Person, all, assert_sound, person, put, schema};
use super::{Durability, MemoryTable, Options, Store, StoreError};

/// A fixed seed for the regular test run, so that it fails because of a change and not by chance.
const SEED: u64 = 1;

/// Number of sequences and seed: fixed, or for the long form from the environment with a new seed.
#[allow(
    clippy::disallowed_methods,
    reason = "the long form is asked for by the environment, as in all tests"
)]
fn cases(short: u32) -> ProptestConfig {
    let number = |variable| std::env::var(variable).ok()?.parse::<u64>().ok();
    let long = number("PLAYGATE_MODEL_CASES").and_then(|cases| cases.try_into().ok());
    let seed = number("PROPTEST_RNG_SEED").unwrap_or_else(|| match long {
        Some(_) => UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs()),
        None => SEED,
    });
    let cases = long.unwrap_or(short);
    println!("{cases} sequences, PROPTEST_RNG_SEED={seed}");
    ProptestConfig {
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::with_cases(cases)
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Put(u32, u8, u8),
    Delete(u32),
    /// A transaction of several changes that fails at its end.
    Fail(u32, u8),
    /// Reads one record, and the people of a town.
    Look(u32, u8),
    Care(Care),
    Reopen,
}

#[derive(Clone, Copy, Debug)]
enum Care {
    Checkpoint,
    WriteSnapshot,
    Compact,
    Rebuild,
}

/// `""`, `"a"` or `"ab"`: prefixes of each other, since a key must not be confused with its prefix.
fn town(number: u8) -> String {
    "ab"[..usize::from(number)].to_owned()
}

fn operation() -> impl Strategy<Value = Operation> {
    use Care::{Checkpoint, Compact, Rebuild, WriteSnapshot};
    let care = prop::sample::select(vec![Checkpoint, WriteSnapshot, Compact, Rebuild]);
    prop_oneof![
        12 => (0..20_u32, 0..3_u8, any::<u8>()).prop_map(|(k, t, a)| Operation::Put(k, t, a)),
        6 => (0..20_u32).prop_map(Operation::Delete),
        6 => (0..20_u32, 0..3_u8).prop_map(|(k, t)| Operation::Look(k, t)),
        2 => (0..20_u32, 0..3_u8).prop_map(|(k, t)| Operation::Fail(k, t)),
        1 => care.prop_map(Operation::Care),
        1 => Just(Operation::Reopen),
    ]
}

fn take_care(store: &Store, care: Care) {
    match care {
        Care::Rebuild => drop(store.rebuild().unwrap()),
        Care::Checkpoint => store.checkpoint().unwrap(),
        // These operations need files.
        _ if store.instance().is_none() => {}
        Care::WriteSnapshot => drop(store.write_snapshot().unwrap()),
        Care::Compact => drop(store.compact().unwrap()),
    }
}

fn look(store: &Store, model: &BTreeMap<u32, Person>, key: u32, town: &str) {
    let read = store.read(|txn| txn.get::<People>(&key)).unwrap();
    assert_eq!(read.as_ref(), model.get(&key));
    let there = model.iter().filter(|(_, person)| person.town == town);
    let mut there: Vec<(u8, u32)> = there.map(|(key, person)| (person.age, *key)).collect();
    there.sort_unstable();
    let found = store.read(|txn| txn.scan_index::<ByTown>(&town.to_owned(), usize::MAX));
    let found = found.unwrap().into_iter().map(|((_, age), key)| (age, key));
    assert_eq!(found.collect::<Vec<_>>(), there);
}

/// Applies the operations to a store and to a sorted map, and compares tables, indexes and
/// listener.
fn check_model(operations: &[Operation], mut open: impl FnMut(Option<Store>) -> Store) {
    // Transactions read the memory table in one half of the sequences and from the engine in the other.
    let attached = |store: &Store| {
        let table = Arc::new(MemoryTable::<People>::default());
        match operations.len().is_multiple_of(2) {
            true => store.attach_memory_table(Arc::clone(&table)).unwrap(),
            false => store.attach::<People>(table.clone()).unwrap(),
        }
        table
    };
    let mut store = open(None);
    let mut table = attached(&store);
    let mut model = BTreeMap::new();
    for operation in operations.iter().cloned() {
        match operation {
            Operation::Put(key, number, age) => {
                let record = person(&town(number), age);
                model.insert(key, record.clone());
                put(&store, key, record).unwrap();
            }
            Operation::Delete(key) => {
                model.remove(&key);
                store
                    .write(Durability::Logged, move |txn| txn.delete::<People>(&key))
                    .wait()
                    .unwrap();
            }
            Operation::Fail(key, number) => {
                let failed: Result<(), StoreError> = store
                    .write(Durability::Durable, move |txn| {
                        txn.put::<People>(&key, &person(&town(number), 1))?;
                        txn.delete::<People>(&(key + 1))?;
                        Err(StoreError::Closed)
                    })
                    .wait();
                failed.unwrap_err();
            }
            Operation::Look(key, number) => look(&store, &model, key, &town(number)),
            Operation::Care(care) => take_care(&store, care),
            Operation::Reopen => {
                store = open(Some(store));
                table = attached(&store);
            }
        }
    }
    assert_eq!(all(&store), model);
    let mut mirrored = BTreeMap::new();
    table.for_each(|key, record| {
        mirrored.insert(*key, Person::clone(record));
    });
    assert_eq!(mirrored, model);
    assert_sound(&store);
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn memory_equals_the_model(operations in prop::collection::vec(operation(), 0..60)) {
        check_model(&operations, |old| old.unwrap_or_else(|| Store::in_memory(schema())));
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn sled_equals_the_model(operations in prop::collection::vec(operation(), 0..60)) {
        let directory = tempfile::tempdir().unwrap();
        check_model(&operations, |old| {
            drop(old);
            // Power cuts are covered by the crash tests.
            let options = Options { sync: false, ..Options::default() };
            Store::open(directory.path(), schema(), options).unwrap()
        });
    }
}
