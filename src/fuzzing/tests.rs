use std::fs;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::{TARGETS, run};

/// Mutated inputs per target. `PLAYGATE_FUZZ_CASES` sets another number, and then the seed is random.
const CASES: u32 = 3_000;
/// Fixed, so that a failure comes from the change under test and not from chance.
const SEED: u64 = 1;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var_os(variable)?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{variable} is not a number: {text:?}")))
}

/// Reads the seeds of a target, one per file in `tests/fuzz/seeds`.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fuzz/seeds");
    let files = fs::read_dir(folder.join(target)).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A mutation of the input. The position is taken modulo the length.
#[derive(Clone, Debug)]
enum Mutation {
    Flip(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Repeat(usize, usize),
    Cut(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let pieces = prop::sample::select(vec![
        "0",
        "-1",
        "9223372036854775808",
        "\0",
        "\"",
        "{",
        "[",
        "<",
        "&",
        ",",
        "\r\n",
        "%",
        "\u{feff}",
        "\u{202e}",
        "/../",
        "#",
        "=",
    ]);
    prop_oneof![
        3 => (any::<usize>(), 1_u8..).prop_map(|(at, bits)| Mutation::Flip(at, bits)),
        1 => (any::<usize>(), 1_usize..64).prop_map(|(at, length)| Mutation::Remove(at, length)),
        1 => (any::<usize>(), vec(any::<u8>(), 1..16)).prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
        2 => (any::<usize>(), pieces).prop_map(|(at, piece)| Mutation::Insert(at, piece.into())),
        1 => (any::<usize>(), 1_usize..64).prop_map(|(at, length)| Mutation::Repeat(at, length)),
        1 => any::<usize>().prop_map(Mutation::Cut),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: &Mutation) {
    let at = |at: usize| at % (bytes.len() + 1);
    match mutation {
        Mutation::Flip(place, bits) => {
            let place = at(*place);
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= bits;
            }
        }
        Mutation::Remove(place, length) => {
            let place = at(*place);
            bytes.drain(place..(place + length).min(bytes.len()));
        }
        Mutation::Insert(place, more) => {
            let place = at(*place);
            bytes.splice(place..place, more.iter().copied());
        }
        Mutation::Repeat(place, length) => {
            let place = at(*place);
            let piece = bytes[place..(place + length).min(bytes.len())].to_vec();
            bytes.splice(place..place, piece);
        }
        Mutation::Cut(place) => bytes.truncate(at(*place)),
    }
}

#[test]
fn every_target_holds_for_its_seeds_and_their_mutations() {
    let long = number("PLAYGATE_FUZZ_CASES");
    let cases = long.map_or(CASES, |cases| u32::try_from(cases).unwrap());
    let seed = number("PLAYGATE_FUZZ_SEED").unwrap_or_else(|| match long {
        Some(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
        None => SEED,
    });
    println!("PLAYGATE_FUZZ_SEED={seed}");
    for (name, target) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        seeds.iter().for_each(|seed| target(seed));
        let mutated = (prop::sample::select(seeds), vec(mutation(), 1..6)).prop_map(
            |(mut seed, mutations)| {
                mutations
                    .iter()
                    .for_each(|mutation| mutate(&mut seed, mutation));
                seed
            },
        );
        let config = Config {
            cases,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed),
            ..Config::default()
        };
        let ran = TestRunner::new(config).run(&mutated, |bytes| {
            run(name, &bytes);
            Ok(())
        });
        ran.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}

#[test]
fn the_fuzzers_have_every_target() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("tests/fuzz");
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let named = |line: &str| {
        line.strip_prefix("name = \"")
            .map(|rest| rest.trim_end_matches('"').to_owned())
    };
    let bins = manifest.split("[[bin]]").skip(1);
    let bins: Vec<_> = bins.filter_map(|bin| bin.lines().find_map(named)).collect();
    let known: Vec<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(bins, known);
}
