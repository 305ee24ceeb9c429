//! An owner whose disk is full can make no change, but another member can.

use std::fs;
use std::path::Path;

use super::disk::{Disk, fill};
use super::etcd_data::copy_directory;
use super::operations::{by_email, ops};
use super::trial::Fleet;
use super::{playgate, send, until};
use crate::support::external_tools::skip;

#[test]
fn an_owner_with_a_full_disk_hands_over_and_is_back_with_space() {
    let disk = match Disk::tmpfs("size=256m") {
        Ok(disk) => disk,
        Err(why) => return skip(&why),
    };
    let Some(mut fleet) = Fleet::start() else {
        return;
    };
    let owner = fleet.owner();
    // All members serve the media files of the first.
    let small = [1, 2].into_iter().find(|at| *at != owner).unwrap();
    move_data(&mut fleet, small, disk.path());
    let name = fleet.members[small].name.clone();
    let handover = ["fleet", "handover", "--to", &name];
    until("a handover", || {
        playgate(&fleet.members[owner].config, &handover).ok()
    });
    assert_eq!(fleet.owner(), small);

    // Again and again, since the member frees the space that it has reserved.
    let mut fillers = Vec::new();
    let next = until("another owner", || {
        let filler = disk.path().join(format!("filler-{}", fillers.len()));
        fill(&filler);
        fillers.push(filler);
        Some(fleet.owner()).filter(|at| *at != small)
    });
    signs_up(&fleet, next);
    // It cannot follow the log, and still passes its clients on.
    signs_up(&fleet, small);
    let small_ops = ops(&fleet.members[small].config);
    until("the reason", || {
        let (status, body) = send(small_ops, "GET", "/readyz", &[], "")?;
        (status == 503 && body.contains("disk is full")).then_some(())
    });

    fleet.members[next].process.kill();
    let third = 3 - small - next;
    let owner = until("an owner", || Some(fleet.owner()).filter(|at| *at != next));
    assert_eq!(owner, third, "the one that has space");
    signs_up(&fleet, third);

    for filler in fillers {
        fs::remove_file(filler).unwrap();
    }
    until("the member with space again", || {
        let found = fleet.status();
        let caught_up = (name.clone(), "standby".to_owned(), 0);
        found.contains(&caught_up).then_some(())
    });
}

/// Waits until a viewer can sign up at a member.
fn signs_up(fleet: &Fleet, at: usize) {
    let name = &fleet.members[at].name;
    let mut number = 0;
    until("a sign-up", || {
        number += 1;
        let email = format!("{name}-{number}@example.com");
        by_email(fleet, at, "PUT", &email).filter(|status| *status == 200)
    });
}

/// Moves the data of a member to another disk, as an operator does.
fn move_data(fleet: &mut Fleet, at: usize, disk: &Path) {
    let member = &mut fleet.members[at];
    member.process.stop();
    let config = fs::read_to_string(&member.config).unwrap();
    let from = member.config.with_extension("");
    let to = disk.join("data");
    copy_directory(&from, &to);
    let moved = config.replace(&from.display().to_string(), &to.display().to_string());
    assert_ne!(moved, config);
    fs::write(&member.config, moved).unwrap();
    member.process.start(&member.config, &[]);
    fleet.wait_until_equal();
}
