//! The figures of the members of a fleet: each view is counted by one of them, and all have all.

use super::*;
use playgate_types::FiguresFile;

fn play(quality: &Quality, number: u64, at: UnixSeconds) {
    quality.opened(opened(number, at, Labels::default()));
    let started = PlayerAction::Started(Reported::in_millis(700.0));
    quality.stored(sender(number), event(number, at.0 * 1_000, 1, started), at);
}

#[test]
fn a_report_has_the_figures_of_the_owner_before_and_counts_no_view_twice() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [before, next] = folders.each_ref().map(|folder| open(folder.path()));
    for number in 0..5 {
        play(&before, number, NOON);
    }
    // The fifth session goes on at the next owner.
    play(&next, 4, NOON);
    play(&next, 5, NOON + 60);
    let later = NOON + 120;
    before.hand_over(|id, _| *id == session(4), later).unwrap();
    assert_eq!(figures(&before, later).attempts, 4);

    assert_eq!(figures(&next, later).attempts, 2);
    let copy = || {
        let until = next.copied_until("before").unwrap();
        let files = before.files_since(until).unwrap();
        next.copy("before", &files).unwrap();
        (until, files.len())
    };
    assert_eq!(copy(), (0, 1));
    let read = figures(&next, later);
    assert_eq!((read.attempts, read.plays), (6, 6));
    // Copied again: the file is known by the time of its change, and counts once.
    let (until, files) = copy();
    assert!(until > 0 && files == 1);
    assert_eq!(figures(&next, later), read);
    assert_eq!(figures(&open(folders[1].path()), later), read);
    // What is a copy is not made here, and nobody copies it from this member.
    assert_eq!(next.files_since(0).unwrap(), []);

    // Retention removes copies too.
    next.retain(NOON + (KEPT_DAYS + 2) * DAY).unwrap();
    assert_eq!(figures(&next, later).attempts, 2);
}

#[test]
fn damaged_figures_of_another_member_are_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let quality = open(folder.path());
    let file = FiguresFile {
        hour: NOON.0 / HOUR,
        changed: 1,
        content: b"PGQ1 and then nothing".to_vec(),
    };
    quality.copy("other", &[file]).unwrap();
    assert_eq!(quality.copied_until("other").unwrap(), 0);
    assert_eq!(figures(&quality, NOON).attempts, 0);
}
