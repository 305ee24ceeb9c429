//! The index of users in compressed segments: a user's events are found without reading the rest of the hour.

use std::io::Read as _;
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::compressed::{LATER, closed, compress, filled, path, realistic, unpacked};
use super::*;
use crate::telemetry::frame::key_of;
use playgate_segment_log::member_index::{IndexedMember, MemberIndex};
use playgate_segment_log::{MEMBER_BYTES, Packer, SegmentReader};

fn members(bench: &Bench) -> Option<Vec<IndexedMember>> {
    MemberIndex::read(&File::open(path(bench)).unwrap()).unwrap()
}

/// What a search for a user reads of the hour.
fn read_for(bench: &Bench, number: u8) -> (usize, bool) {
    let user = sender(number).user;
    let (mut reader, in_parts) = SegmentReader::open_for(&path(bench), key_of(&user)).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    (bytes.len(), in_parts)
}

/// The hour of `NOW` with events of user 1, then many of user 2, then of both.
fn one_after_the_other(bench: &Bench) -> Telemetry {
    let telemetry = bench.open(NOW);
    let turns = [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1];
    for (user, from) in turns.into_iter().zip((0..).step_by(500)) {
        let events = realistic(from..from + 500);
        telemetry.ingest(sender(user), events, NOW).unwrap();
    }
    telemetry.ingest(sender(3), events([1]), LATER).unwrap();
    closed(&telemetry);
    telemetry
}

/// The file as the version before the index wrote it.
fn without_index(bench: &Bench) {
    let plain = unpacked(bench);
    let mut packer = Packer::new(Vec::new());
    for member in members(bench).unwrap().windows(2) {
        let [this, next] = [&member[0], &member[1]].map(|m| usize::try_from(m.place).unwrap());
        packer.member(&plain[this..next]).unwrap();
    }
    let last = usize::try_from(members(bench).unwrap().last().unwrap().place).unwrap();
    packer.member(&plain[last..]).unwrap();
    fs::write(path(bench), packer.finish().unwrap()).unwrap();
}

#[test]
fn a_search_for_a_user_reads_only_members_with_their_events() {
    let bench = Bench::new();
    let telemetry = one_after_the_other(&bench);
    let before = [1, 2].map(|user| sequences(&telemetry, of_user(user)));
    let all = fs::metadata(path(&bench)).unwrap().len();
    assert_eq!(read_for(&bench, 1), (usize::try_from(all).unwrap(), false));
    compress(&telemetry, LATER);
    assert_eq!(
        [1, 2].map(|user| sequences(&telemetry, of_user(user))),
        before
    );
    let (bytes, in_parts) = read_for(&bench, 1);
    // The first and the last of four members.
    assert!(in_parts && bytes > MEMBER_BYTES / 2, "{bytes}");
    assert!(bytes as u64 * 3 < all * 2, "{bytes} of {all}");
    assert_eq!(read_for(&bench, 77), (0, true));
}

#[test]
fn a_segment_of_the_version_before_gets_its_index() {
    let bench = Bench::new();
    let telemetry = one_after_the_other(&bench);
    compress(&telemetry, LATER);
    let (indexed, plain) = (fs::read(path(&bench)).unwrap(), unpacked(&bench));
    let before = sequences(&telemetry, of_user(1));
    without_index(&bench);
    let old = fs::read(path(&bench)).unwrap();
    assert!(members(&bench).is_none() && indexed.starts_with(&old));
    assert_eq!(sequences(&telemetry, of_user(1)), before);
    compress(&telemetry, LATER + 60);
    assert_eq!(fs::read(path(&bench)).unwrap(), indexed);
    assert_eq!(unpacked(&bench), plain);
    assert_eq!(sequences(&telemetry, of_user(1)), before);
}

#[test]
fn a_damaged_or_torn_index_hides_nothing_and_is_written_again() {
    let bench = Bench::new();
    let telemetry = one_after_the_other(&bench);
    compress(&telemetry, LATER);
    let whole = fs::read(path(&bench)).unwrap();
    let before = [1, 2].map(|user| sequences(&telemetry, of_user(user)));
    without_index(&bench);
    let begin = fs::read(path(&bench)).unwrap().len();
    for at in (begin..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        for bytes in [&damaged[..], &whole[..at]] {
            fs::write(path(&bench), bytes).unwrap();
            let found = [1, 2].map(|user| sequences(&telemetry, of_user(user)));
            assert_eq!(found, before, "byte {at}");
        }
    }
    compress(&telemetry, LATER + 60);
    assert_eq!(fs::read(path(&bench)).unwrap(), whole);
}

#[test]
fn members_that_moved_are_found_by_reading_all() {
    let bench = Bench::new();
    let telemetry = one_after_the_other(&bench);
    compress(&telemetry, LATER);
    let whole = fs::read(path(&bench)).unwrap();
    // A byte too much in the second member, which has no event of user 1, moves the last one.
    let second = usize::try_from(members(&bench).unwrap()[1].at).unwrap() + 500;
    let before = sequences(&telemetry, of_user(1));
    let moved = [&whole[..second], b"x", &whole[second..]].concat();
    fs::write(path(&bench), moved).unwrap();
    assert_eq!(sequences(&telemetry, of_user(1)), before);
    // A damaged segment gets no index, and is not tried again and again.
    let moved = [&whole[..second], b"x", &whole[second..whole.len() - 60]].concat();
    fs::write(path(&bench), moved).unwrap();
    compress(&telemetry, LATER + 60);
    assert!(members(&bench).is_none());
    assert_eq!(telemetry.compress(LATER + 120).unwrap(), 0);
    assert_eq!(sequences(&telemetry, of_user(1)), before);
}

#[test]
fn an_erasure_copies_the_members_of_others() {
    let bench = Bench::new();
    let telemetry = one_after_the_other(&bench);
    compress(&telemetry, LATER);
    let before = sequences(&telemetry, of_user(2));
    let (whole, places) = (fs::read(path(&bench)).unwrap(), members(&bench).unwrap());
    let of_second = &places[1..3];
    assert!(!of_second[0].may_have(key_of(&sender(1).user)));
    // Damage in a member without the user is copied, too: it is not read.
    let at = usize::try_from(of_second[0].at).unwrap() + 500;
    let file = File::options().write(true).open(path(&bench)).unwrap();
    file.write_all_at(&[whole[at] ^ 1], at as u64).unwrap();
    telemetry.erase(sender(1).user, LATER).unwrap();
    let after = members(&bench).unwrap();
    let bytes = |members: &[IndexedMember], whole: &[u8]| {
        let [from, to] = [1, 2].map(|n: usize| usize::try_from(members[n].at).unwrap());
        whole[from..to].to_vec()
    };
    let mut expected = bytes(&places, &whole);
    expected[500] ^= 1;
    let erased = fs::read(path(&bench)).unwrap();
    assert!(bytes(&after, &erased) == expected, "the member is copied");
    assert_eq!(read_for(&bench, 1), (0, true));
    // With the byte as it was, nothing of the other user is missing.
    let at = usize::try_from(after[1].at).unwrap() + 500;
    let file = File::options().write(true).open(path(&bench)).unwrap();
    file.write_all_at(&[erased[at] ^ 1], at as u64).unwrap();
    assert_eq!(sequences(&telemetry, of_user(2)), before);
    assert!(!unpacked(&bench).windows(16).any(|bytes| bytes == [1; 16]));
    drop(telemetry);
    assert_eq!(sequences(&bench.open(LATER), of_user(2)), before);
}

#[test]
fn damage_where_the_erased_user_is_rewrites_the_whole_segment() {
    let bench = Bench::new();
    let telemetry = filled(&bench, 6_000);
    compress(&telemetry, LATER);
    let mut bytes = fs::read(path(&bench)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path(&bench), &bytes).unwrap();
    let before = sequences(&telemetry, of_user(2));
    telemetry.erase(sender(1).user, LATER).unwrap();
    assert_eq!(sequences(&telemetry, of_user(2)), before);
    assert_eq!(read_for(&bench, 1), (0, true));
}

#[derive(Clone, Debug)]
enum Step {
    Upload {
        user: u8,
        events: i64,
        hour: i64,
    },
    Compress,
    Erase(u8),
    /// Damages a byte near the end of a file, where the index is.
    Damage {
        hour: i64,
        before_end: u64,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let upload = (1..6_u8, 1..80_i64, 0..3_i64);
    let upload = upload.prop_map(|(user, events, hour)| Step::Upload { user, events, hour });
    let damage = (0..3_i64, 51..150_u64);
    let damage = damage.prop_map(|(hour, before_end)| Step::Damage { hour, before_end });
    let step = prop_oneof![
        8 => upload,
        4 => Just(Step::Compress),
        2 => (1..6_u8).prop_map(Step::Erase),
        1 => damage,
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 8..40)
}

/// Events of 20 KiB, so that a member has about fifty.
fn large(numbers: std::ops::Range<i64>) -> Vec<NewEvent<'static>> {
    let of = |number: i64| NewEvent {
        json: format!("{{\"seqId\":{number},\"x\":\"{}\"}}", "x".repeat(20_000))
            .into_bytes()
            .into(),
        ..event(number)
    };
    numbers.map(of).collect()
}

/// Damages the index of an hour, if it has one.
fn damage_index(telemetry: &Telemetry, hour: i64, before_end: u64) {
    let path = telemetry.inner.directory.events(hour_of(NOW) + hour);
    let Ok(file) = File::options().read(true).write(true).open(path) else {
        return;
    };
    if MemberIndex::read(&file).unwrap().is_some() {
        let at = file.metadata().unwrap().len() - before_end;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
    }
}

fn play(steps: Vec<Step>) {
    let bench = Bench::new();
    let end = NOW + 10 * HOUR;
    let mut telemetry = bench.open(NOW);
    let (mut expected, mut next) = (vec![Vec::new(); 6], 0);
    for step in steps {
        match step {
            Step::Upload { user, events, hour } => {
                let numbers = next..next + events;
                next += events;
                let at = NOW + hour * HOUR;
                telemetry
                    .ingest(sender(user), large(numbers.clone()), at)
                    .unwrap();
                expected[usize::from(user)].extend(numbers);
            }
            Step::Compress => {
                // Begins another hour, so that the others are finished.
                telemetry
                    .ingest(sender(9), large(next..next + 1), end)
                    .unwrap();
                next += 1;
                closed(&telemetry);
                compress(&telemetry, end + next * 60);
            }
            Step::Erase(user) => {
                telemetry.erase(sender(user).user, end).unwrap();
                expected[usize::from(user)].clear();
            }
            Step::Damage { hour, before_end } => damage_index(&telemetry, hour, before_end),
            Step::Restart => {
                drop(telemetry);
                telemetry = bench.open(end);
            }
        }
        let all = telemetry.events(Selection::default()).unwrap();
        let all: Vec<StoredEvent> = all.map(Result::unwrap).collect();
        for (user, expected) in (1..).zip(&expected[1..]) {
            let found = telemetry.events(of_user(user)).unwrap().map(Result::unwrap);
            let naive = all.iter().filter(|event| event.sender == sender(user));
            assert!(found.eq(naive.cloned()), "user {user}");
            let mut found = sequences(&telemetry, of_user(user));
            found.sort_unstable();
            assert_eq!(found, *expected, "user {user}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::with_cases(6)
    })]
    #[test]
    fn what_the_index_finds_equals_a_reading_of_everything(steps in steps()) {
        play(steps);
    }
}
