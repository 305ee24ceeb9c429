//! Tests of the WAL: replay, torn writes and damage.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use super::*;

/// How long a test waits for another thread before it fails.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Returns the payloads after a number, and the reopened log.
fn reopen(directory: &Path, after: u64) -> (Vec<(u64, Vec<u8>)>, FileLog) {
    let survey = surveyed(directory);
    assert_eq!(survey.gaps, []);
    let next = survey.next.max(after + 1).max(1);
    let mut seen = Vec::new();
    for segment in &survey.segments {
        read_segment(segment, &mut |frame, _| {
            if frame.number > after && frame.number < next {
                seen.push((frame.number, frame.payload.to_vec()));
            }
            Ok(())
        })
        .unwrap();
    }
    let log = FileLog::resume(Resume {
        directory,
        end: &directory.join("end"),
        survey: &survey,
        number: next - 1,
        history: if survey.history.is_chained() {
            survey.history
        } else {
            History::begin([1; 16], next - 1)
        },
        sync: true,
    })
    .unwrap();
    (seen, log)
}

fn surveyed(directory: &Path) -> Survey {
    Survey::read_directory(directory, &Expected::default()).unwrap()
}

fn payload(number: u64) -> Vec<u8> {
    format!("payload {number}").into_bytes()
}

fn filled(directory: &Path, count: u64) -> FileLog {
    let (_, mut log) = reopen(directory, 0);
    for number in 1..=count {
        log.append(number, &payload(number)).unwrap();
        log.sync().unwrap();
    }
    log
}

/// Cuts a segment and adapts its head to the new length.
fn shortened(path: &Path) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    bytes.truncate(4_096);
    let first: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let short = Head {
        length: 4_096,
        first,
        history: surveyed(path.parent().unwrap()).segments[0].history,
    };
    bytes[..HEAD_BYTES].copy_from_slice(&short.encode());
    bytes
}

fn first_segment(directory: &Path) -> PathBuf {
    let survey = surveyed(directory);
    survey.segments.first().unwrap().path.clone()
}

#[test]
fn frames_are_replayed_in_order() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 5));
    let (seen, mut log) = reopen(directory.path(), 2);
    let numbers: Vec<_> = seen.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [3, 4, 5]);
    log.append(6, b"more").unwrap();
    assert!(log.append(8, b"a gap").is_err());
    drop(log);
    assert_eq!(reopen(directory.path(), 0).0.len(), 6);
}

/// Flips every bit of every frame. A change of a synced frame is always detected, also in the last
/// frame, since a power cut never leaves a frame that is whole and wrong.
#[test]
fn flipped_bit_is_not_treated_as_a_torn_end() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3));
    let path = first_segment(directory.path());
    // The preallocated zeros after the frames do not matter and would slow the test down.
    let sound = shortened(&path);
    let size = frame(1, 0, &payload(1)).unwrap().len();
    let padding = payload_at(payload(1).len()).end..size - 8;
    for number in [1_u64, 2, 3] {
        let start = HEAD_BYTES + (usize::try_from(number).unwrap() - 1) * size;
        for bit in (0..size * 8).filter(|bit| !padding.contains(&(bit / 8))) {
            let mut bytes = sound.clone();
            bytes[start + bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &bytes).unwrap();
            let survey = surveyed(directory.path());
            let gap = Gap {
                from: number,
                to: number + 1,
                path: path.clone(),
            };
            assert_eq!(survey.gaps, [gap], "frame {number}, bit {bit}");
            assert_eq!((survey.next, survey.torn), (4, None));
            assert!(!survey.segments.is_empty());
        }
    }
}

#[test]
fn flipped_bit_after_the_end_is_harmless() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3));
    let path = first_segment(directory.path());
    let sound = shortened(&path);
    let end = HEAD_BYTES + 3 * frame(1, 0, &payload(1)).unwrap().len();
    for bit in 0..64 * 8 {
        let mut bytes = sound.clone();
        bytes[end + bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &bytes).unwrap();
        let survey = surveyed(directory.path());
        assert_eq!((survey.gaps, survey.next), (vec![], 4), "bit {bit}");
    }
}

/// Write-back may persist a later page and lose an earlier one if neither was synced.
#[test]
fn frames_that_were_never_synced_may_be_lost_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let (_, mut log) = reopen(directory.path(), 0);
    log.append(1, &payload(1)).unwrap();
    log.sync().unwrap();
    log.append(2, &vec![7; 2_000]).unwrap();
    log.append(3, &payload(3)).unwrap();
    drop(log);
    let path = first_segment(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[1_024..1_536].fill(0);
    fs::write(&path, &bytes).unwrap();
    let survey = surveyed(directory.path());
    assert_eq!((survey.next, survey.gaps.len()), (2, 0));
    assert!(survey.torn.is_some());
    let (seen, mut log) = reopen(directory.path(), 0);
    assert_eq!(seen.len(), 1);
    log.append(2, b"again").unwrap();
    drop(log);
    assert_eq!(reopen(directory.path(), 0).0.last().unwrap().1, b"again");
}

#[test]
fn missing_segment_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3));
    let (_, mut log) = reopen(directory.path(), 0);
    log.append(4, b"x").unwrap();
    log.roll().unwrap();
    log.append(5, b"x").unwrap();
    drop(log);
    let survey = surveyed(directory.path());
    assert!(survey.is_whole(1, 6));
    fs::remove_file(&survey.segments[1].path).unwrap();
    let survey = surveyed(directory.path());
    assert_eq!((survey.gaps[0].from, survey.gaps[0].to), (4, 5));
    assert!(survey.is_whole(1, 4) && !survey.is_whole(1, 5) && survey.is_whole(5, 6));
    fs::remove_file(&survey.segments[0].path).unwrap();
    assert!(!surveyed(directory.path()).is_whole(1, 6));
}

#[test]
fn only_unneeded_segments_are_retired() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = filled(directory.path(), 3);
    log.append(4, &vec![7; 5 * 1024 * 1024]).unwrap();
    log.append(5, b"x").unwrap();
    let segments = log.segments();
    assert_eq!(
        segments
            .closed()
            .map(|closed| (closed.segments.len(), closed.number)),
        Some((2, 4))
    );
    segments.retire(2).unwrap();
    assert_eq!(segments.all().len(), 3);
    segments.retire(4).unwrap();
    assert_eq!(segments.all().len(), 1);
    assert_eq!(reopen(directory.path(), 4).0.len(), 1);
}

/// The segment that is open after a snapshot has no frame, and a large commit replaces it by a longer one.
#[test]
fn failed_replacement_of_an_empty_segment_loses_no_later_commit() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = filled(directory.path(), 3);
    log.roll().unwrap();
    let large = vec![7; 5 * 1024 * 1024];
    let blocked = directory.path().join(UNFINISHED);
    fs::create_dir(&blocked).unwrap();
    assert!(log.append(4, &large).is_err());
    log.append(4, b"small").unwrap();
    fs::remove_dir(&blocked).unwrap();
    log.append(5, &large).unwrap();
    log.append(6, b"after it").unwrap();
    drop(log);
    let (seen, _) = reopen(directory.path(), 3);
    let numbers: Vec<_> = seen.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [4, 5, 6]);
    assert_eq!(seen.first().unwrap().1, b"small");
}

/// Runs `work` in a thread that cannot open a directory without read permission, even as root.
fn without_privileges(work: impl FnOnce() + Send + 'static) {
    let guarded = move || {
        let mut reduced = capabilities(None).unwrap();
        reduced
            .effective
            .remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, reduced).unwrap();
        work();
    };
    std::thread::spawn(guarded).join().unwrap();
}

#[test]
fn new_segment_whose_directory_cannot_be_synced_does_not_replace_the_open_one() {
    without_privileges(|| {
        let directory = tempfile::tempdir().unwrap();
        let mode = |mode| fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode));
        let mut log = filled(directory.path(), 3);
        log.roll().unwrap();
        let large = vec![7; 5 * 1024 * 1024];
        // As without a free descriptor: files can be renamed, but the directory cannot be opened.
        mode(0o300).unwrap();
        assert!(log.append(4, &large).is_err());
        mode(0o700).unwrap();
        log.append(4, b"small").unwrap();
        drop(log);
        let (seen, _) = reopen(directory.path(), 3);
        let numbers: Vec<_> = seen.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [4]);
    });
}

#[test]
fn damaged_magic_number_hides_no_frame() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 2));
    let path = first_segment(directory.path());
    let mut bytes = fs::read(&path).unwrap();
    bytes[0] ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(reopen(directory.path(), 0).0.len(), 2);
}

/// Wherever a file is cut, the frames behind the cut are reported as missing.
#[test]
fn truncated_segment_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    drop(filled(directory.path(), 3));
    let path = first_segment(directory.path());
    let sound = shortened(&path);
    let size = frame(1, 0, &payload(1)).unwrap().len();
    for cut in HEAD_BYTES + size..sound.len() {
        fs::write(&path, &sound[..cut]).unwrap();
        let survey = surveyed(directory.path());
        let whole = (cut - HEAD_BYTES) / size;
        if whole >= 3 && cut - HEAD_BYTES - 3 * size >= 8 {
            assert_eq!((survey.next, survey.gaps.len()), (4, 0), "{cut}");
        } else {
            assert!(!survey.gaps.is_empty() && survey.torn.is_none(), "{cut}");
        }
    }
}

#[test]
fn next_segment_is_created_in_advance() {
    let directory = tempfile::tempdir().unwrap();
    let ahead = directory.path().join("ahead");
    fs::write(&ahead, "of a process that was killed").unwrap();
    let (_, mut log) = reopen(directory.path(), 0);
    assert!(!ahead.exists());
    let megabyte = vec![7; 1024 * 1024];
    log.append(1, &megabyte).unwrap();
    assert!(!ahead.exists());
    log.append(2, &megabyte).unwrap();
    let until = Instant::now() + MAX_WAIT;
    while fs::metadata(&ahead).map_or(0, |file| file.len()) < SEGMENT_BYTES {
        assert!(Instant::now() < until, "no segment was prepared");
        std::thread::yield_now();
    }
    let made = fs::metadata(&ahead).unwrap().ino();
    for number in 3..=4 {
        log.append(number, &megabyte).unwrap();
    }
    assert!(!ahead.exists());
    let segments = log.segments().all();
    assert_eq!(segments.last().map(|last| last.first), Some(4));
    let last = &segments.last().unwrap().path;
    assert_eq!(fs::metadata(last).unwrap().ino(), made);
    drop(log);
    let survey = surveyed(directory.path());
    assert_eq!((survey.next, survey.gaps.len(), survey.torn), (5, 0, None));
}

#[test]
fn segment_that_could_not_be_prepared_is_created_on_demand() {
    let directory = tempfile::tempdir().unwrap();
    let (_, mut log) = reopen(directory.path(), 0);
    fs::create_dir(directory.path().join("ahead")).unwrap();
    for number in 1..=9 {
        log.append(number, &vec![7; 1024 * 1024]).unwrap();
    }
    assert_eq!(log.segments().all().len(), 3);
    drop(log);
    assert_eq!(surveyed(directory.path()).next, 10);
}
