//! Segments that are cut short or have flipped bits.

use std::fs;

use super::*;

#[test]
fn a_segment_that_is_cut_short_loses_its_end_only() {
    let bench = Bench::new();
    let journal = bench.open();
    for at in 0..3 {
        journal.record(record(at, 1));
    }
    drop(journal);
    let journal = bench.open();
    journal.record(record(7, 1));
    drop(journal);
    // First the open segment, as after a power cut, then the finished one, as after damage.
    let open = &bench.files("records")[1];
    let bytes = fs::read(open).unwrap();
    fs::write(open, &bytes[..bytes.len() - 1]).unwrap();
    assert_eq!(all(&bench.open()).len(), 3);
    let finished = &bench.files("records")[0];
    let bytes = fs::read(finished).unwrap();
    for length in [bytes.len() - 10, bytes.len() / 2, 1, 0] {
        fs::write(finished, &bytes[..length]).unwrap();
        let journal = bench.open();
        journal.record(record(8, 2));
        let read = all(&journal);
        assert_eq!(read[0], "request-8-2", "cut at {length}");
    }
}

#[test]
fn a_flipped_bit_costs_records_and_never_the_journal() {
    let bench = Bench::new();
    let journal = bench.open();
    for at in 0..40 {
        journal.record(record(at, 1));
    }
    journal.flush().unwrap();
    // In the plain form a flipped bit costs at most one of forty records.
    let path = &bench.files("records")[0];
    let sound = fs::read(path).unwrap();
    for bit in (0..sound.len() * 8).step_by(97) {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(path, &damaged).unwrap();
        let read = all(&journal).len();
        assert!((39..=40).contains(&read), "bit {bit}: {read}");
    }
    fs::write(path, &sound).unwrap();
    drop(journal);
    // In the compressed form it costs at most one member, which is the whole segment here.
    drop(bench.open());
    let path = &bench.files("records")[0];
    let sound = fs::read(path).unwrap();
    for bit in (0..sound.len() * 8).step_by(97) {
        let mut damaged = sound.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(path, &damaged).unwrap();
        let journal = bench.open();
        assert!(all(&journal).len() <= 40, "bit {bit}");
        journal.record(record(100, 2));
        assert_eq!(all(&journal)[0], "request-100-2");
        drop(journal);
        for later in &bench.files("records")[1..] {
            fs::remove_file(later).unwrap();
        }
    }
    // A damaged index is written again.
    fs::write(path, &sound).unwrap();
    fs::write(path.with_extension("index"), b"PGi").unwrap();
    assert_eq!(all(&bench.open()).len(), 40);
}

#[test]
fn an_unreadable_segment_and_leftovers_do_not_stop_the_journal() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(1, 1));
    drop(journal);
    let folder = bench.folder.path().join("journal");
    // A directory in place of a file gives an error when it is read, also for root.
    fs::create_dir(folder.join(format!("{:020}.records", 50))).unwrap();
    for leftover in ["index", "length"] {
        fs::write(folder.join(format!("{:020}.{leftover}", 40)), b"x").unwrap();
    }
    let journal = bench.open();
    assert!(journal.last_number() >= 50);
    journal.record(record(2, 1));
    assert_eq!(all(&journal), ["request-2-1", "request-1-1"]);
    assert_eq!(bench.files("index").len(), 1);
    let open = bench.files("length");
    assert!(
        open.iter()
            .all(|path| !path.to_string_lossy().contains("0040."))
    );
}

#[test]
fn a_finished_segment_that_another_program_deletes_is_told_once() {
    let bench = Bench::new();
    for at in 0..3 {
        let journal = bench.open();
        journal.record(record(at, 1));
        journal.flush().unwrap();
    }
    let journal = bench.open();
    journal.record(record(3, 1));
    journal.flush().unwrap();
    let last = journal.last_number();
    let look = || journal.look_for_deleted(NOW).unwrap();
    assert_eq!((look(), journal.warning(NOW)), (0, None));
    let segments = bench.files("records");
    assert_eq!(segments.len(), 4);
    for path in &segments[1..3] {
        fs::remove_file(path).unwrap();
    }
    assert_eq!((look(), look()), (2, 0));
    let warning = journal.warning(NOW).unwrap();
    assert!(warning.contains("2 segments"), "{warning}");
    assert_eq!(all(&journal), ["request-3-1", "request-0-1"]);
    // A follower that has seen a number must not miss what comes later.
    drop(journal);
    for path in bench.files("records") {
        fs::remove_file(path).unwrap();
    }
    assert!(bench.open().last_number() + 1 >= last);
}

#[test]
fn an_erasure_waits_for_a_start_that_can_read_the_files() {
    let bench = Bench::new();
    let journal = bench.open();
    journal.record(record(1, 1));
    drop(journal);
    let folder = bench.folder.path().join("journal");
    let aside = bench.folder.path().join("aside");
    fs::rename(&folder, &aside).unwrap();
    fs::write(&folder, b"not a directory").unwrap();
    let gone = user(1);
    bench
        .store
        .write::<_, StoreError, _>(Durability::Logged, move |txn| {
            request_erasure(txn, &gone, NOW)
        })
        .wait()
        .unwrap();
    let journal = bench.open();
    assert_eq!(journal.run_erasures().unwrap(), 0);
    drop(journal);
    fs::remove_file(&folder).unwrap();
    fs::rename(&aside, &folder).unwrap();
    let journal = bench.open();
    assert_eq!(journal.run_erasures().unwrap(), 1);
    assert!(all(&journal).is_empty());
}

#[test]
fn records_of_a_deleted_file_are_written_again() {
    let bench = Bench::new();
    let journal = bench.open();
    let loses: [fn(&std::path::Path); 2] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::remove_dir_all(path.parent().unwrap()).unwrap(),
    ];
    let mut expected = Vec::new();
    for (round, lose) in (0_i64..).zip(loses) {
        for at in [2 * round, 2 * round + 1] {
            journal.record(record(at, 1));
            expected.push(format!("request-{at}-1"));
            journal.flush().unwrap();
            if at % 2 == 0 {
                lose(bench.files("records").last().unwrap());
            }
        }
    }
    // As at the end of the service, which finishes the segment at the next start.
    drop(journal);
    let mut found = all(&bench.open());
    found.sort();
    assert_eq!(found, expected);
}
