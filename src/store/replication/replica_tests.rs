//! Tests of the stores of fleet members, over a log in memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;

use super::memory::MemoryLog;
use super::{
    Appended, Claim, Entry, MemberId, MemberRole, ReplicaStatus, Replication, SharedLog,
    SharedLogError,
};
use crate::maintenance::backup::Restore;
use crate::schema::Schema;
use crate::tests::{People, all, assert_sound, person, put, schema};
use crate::{Durability, FleetAccess, FormatUpgrade, Join, Options, Store, StoreError};

const FLEET: [u8; 16] = [9; 16];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Works,
    /// An append arrives, and its answer is lost.
    AnswerLost,
    Away,
}

/// The connection of one member to the log.
#[derive(Clone)]
struct Connection {
    log: Arc<Mutex<MemoryLog>>,
    network: Arc<Mutex<Network>>,
}

impl Connection {
    fn new(log: &Arc<Mutex<MemoryLog>>) -> Self {
        Self {
            log: Arc::clone(log),
            network: Arc::new(Mutex::new(Network::Works)),
        }
    }

    fn reach(&self) -> Result<(), SharedLogError> {
        match *self.network.lock() {
            Network::Works | Network::AnswerLost => Ok(()),
            Network::Away => Err(SharedLogError::Unknown("away".to_owned())),
        }
    }
}

impl SharedLog for Connection {
    fn append(&mut self, entry: &Entry) -> Result<Appended, SharedLogError> {
        self.reach()?;
        let appended = self.log.lock().append(entry);
        match *self.network.lock() {
            Network::AnswerLost => Err(SharedLogError::Unknown("lost".to_owned())),
            Network::Works | Network::Away => appended,
        }
    }

    fn read(&mut self, from: u64, bytes: usize) -> Result<Vec<Entry>, SharedLogError> {
        match *self.network.lock() {
            Network::Works => self.log.lock().read(from, bytes),
            Network::AnswerLost | Network::Away => Err(SharedLogError::Unknown("away".to_owned())),
        }
    }

    fn head(&mut self) -> Result<u64, SharedLogError> {
        self.reach()?;
        self.log.lock().head()
    }

    fn claim(&mut self, member: MemberId) -> Result<Claim, SharedLogError> {
        self.reach()?;
        self.log.lock().claim(member)
    }

    fn resign(&mut self, member: MemberId) -> Result<(), SharedLogError> {
        self.log.lock().resign(member)
    }

    fn truncate(&mut self, below: u64) -> Result<(), SharedLogError> {
        self.log.lock().truncate(below)
    }
}

fn options(fleet: FleetAccess, seed: u8) -> Options {
    Options {
        fleet,
        instance: [seed; 16],
        timeline: [seed; 16],
        ..Options::default()
    }
}

fn open(directory: &Path, fleet: FleetAccess, seed: u8) -> Result<Store, StoreError> {
    Store::open(directory, schema(), options(fleet, seed))
}

fn mark(directory: &Path) {
    fs::create_dir_all(directory.join("fleet")).unwrap();
    fs::write(directory.join("fleet/member.json"), "{}").unwrap();
}

struct Node {
    directory: TempDir,
    store: Option<Store>,
    connection: Connection,
    id: u8,
    published: Arc<AtomicU64>,
}

impl Node {
    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn start(&mut self) -> Result<ReplicaStatus, StoreError> {
        let store = open(self.directory.path(), FleetAccess::Member, self.id)?;
        let mut drawn = 0_u8;
        let id = self.id;
        let status = store.replicate(Replication {
            fleet: FLEET,
            member: [id; 16],
            log: Box::new(self.connection.clone()),
            nonce: Box::new(move || {
                drawn += 1;
                [drawn.wrapping_mul(3) ^ id; 16]
            }),
            max_wait: Duration::ZERO,
            published: Arc::clone(&self.published),
        });
        self.store = Some(store);
        status
    }

    /// Runs one round of a member's threads.
    fn tick(&mut self) -> Result<ReplicaStatus, StoreError> {
        let claim = self.connection.claim([self.id; 16]).ok();
        let from = self.store().position()?.unwrap().number + 1;
        let entries = self.connection.read(from, 1 << 20);
        self.store().advance(claim, entries.unwrap_or_default())
    }

    fn put(&self, key: u32) -> Result<(), StoreError> {
        put(self.store(), key, person("Lund", 30))
    }
}

/// Returns three members. The first one has created the fleet with two records and is the owner.
fn fleet() -> (Arc<Mutex<MemoryLog>>, [Node; 3]) {
    let directories = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let single = open(directories[0].path(), FleetAccess::Refuse, 1).unwrap();
    put(&single, 1, person("Lund", 30)).unwrap();
    put(&single, 2, person("Lund", 31)).unwrap();
    let at = single.position().unwrap().unwrap();
    let backups = tempfile::tempdir().unwrap();
    let snapshot = single.back_up(backups.path()).unwrap().path;
    drop(single);
    for (seed, directory) in (2..).zip(&directories[1..]) {
        let join = Join {
            directory: directory.path(),
            snapshot: &snapshot,
            schema: &schema(),
            instance: [seed; 16],
            replace: false,
        };
        assert_eq!(join.run(), Ok(at));
    }
    let log = Arc::new(Mutex::new(MemoryLog::new(at.number)));
    let mut id = 0;
    let mut nodes = directories.map(|directory| {
        mark(directory.path());
        id += 1;
        let mut node = Node {
            directory,
            store: None,
            connection: Connection::new(&log),
            id,
            published: Arc::default(),
        };
        assert_eq!(node.start().unwrap().position, at);
        node
    });
    assert!(matches!(
        nodes[0].tick().unwrap().role,
        MemberRole::Owner { .. }
    ));
    (log, nodes)
}

fn assert_equal(nodes: &[Node]) {
    let at = nodes[0].store().position().unwrap().unwrap();
    for node in nodes {
        assert_eq!(node.store().position().unwrap(), Some(at));
        assert_eq!(node.published.load(Ordering::Acquire), at.number);
        assert_eq!(all(node.store()), all(nodes[0].store()));
        assert_sound(node.store());
    }
}

#[test]
fn followers_apply_what_the_owner_commits_and_one_of_them_continues() {
    let (log, mut nodes) = fleet();
    for key in 3..30 {
        let before = nodes[0].published.load(Ordering::Acquire);
        nodes[0].put(key).unwrap();
        assert_eq!(nodes[0].published.load(Ordering::Acquire), before + 1);
    }
    // A follower rejects changes.
    assert_eq!(nodes[1].put(99), Err(StoreError::Moved));
    for node in &mut nodes[1..] {
        assert_eq!(node.tick().unwrap().role, MemberRole::Follower);
    }
    assert_equal(&nodes);
    // The owner's process is killed. Another member takes over with every acknowledged change.
    nodes[0].store = None;
    log.lock().expire();
    assert!(matches!(
        nodes[1].tick().unwrap().role,
        MemberRole::Owner { .. }
    ));
    nodes[1].put(30).unwrap();
    assert_eq!(nodes[0].start().unwrap().role, MemberRole::Follower);
    for node in [0, 2] {
        nodes[node].tick().unwrap();
    }
    assert_equal(&nodes);
    assert_eq!(all(nodes[2].store()).len(), 30);
}

#[test]
fn owner_that_lost_its_claim_commits_nothing() {
    let (log, mut nodes) = fleet();
    log.lock().expire();
    nodes[1].tick().unwrap();
    // The old owner does not know about the new one yet.
    assert_eq!(nodes[0].put(3), Err(StoreError::Moved));
    // It does not even answer with the result of a read.
    let read = nodes[0]
        .store()
        .write(Durability::Durable, |_| Ok::<_, StoreError>(7));
    assert_eq!(read.wait(), Err(StoreError::Moved));
    nodes[1].put(4).unwrap();
    let status = nodes[0].tick().unwrap();
    assert_eq!((status.role, status.followed), (MemberRole::Follower, 1));
    nodes[2].tick().unwrap();
    assert_equal(&nodes);
    assert!(!all(nodes[0].store()).contains_key(&3));
}

#[test]
fn member_that_has_left_the_log_rejects_commits_at_once() {
    let (log, nodes) = fleet();
    nodes[0].put(3).unwrap();
    let head = log.lock().head().unwrap();
    nodes[0].store().leave_log().unwrap();
    assert_eq!(nodes[0].put(4), Err(StoreError::Moved));
    assert_eq!(log.lock().head().unwrap(), head);
    assert!(all(nodes[0].store()).contains_key(&3));
}

#[test]
fn append_without_an_answer_is_settled_before_anything_else_is_planned() {
    for arrived in [true, false] {
        let (_, mut nodes) = fleet();
        *nodes[0].connection.network.lock() = match arrived {
            true => Network::AnswerLost,
            false => Network::Away,
        };
        assert_eq!(nodes[0].put(3), Err(StoreError::Unsettled));
        // A transaction without changes is not answered either.
        let read = nodes[0]
            .store()
            .write(Durability::Durable, |_| Ok::<_, StoreError>(7));
        assert_eq!(read.wait(), Err(StoreError::Unsettled));
        assert!(
            !all(nodes[0].store()).contains_key(&3),
            "not before it is settled"
        );
        *nodes[0].connection.network.lock() = Network::Works;
        nodes[0].put(4).unwrap();
        for node in &mut nodes {
            node.tick().unwrap();
        }
        assert_equal(&nodes);
        assert_eq!(all(nodes[1].store()).len(), 4);
        // The caller got an error, so the services must derive their states again.
        assert_eq!(nodes[0].tick().unwrap().followed, 1);
    }
}

/// A client whose change had no answer sends it again: the second transaction must see the first one.
#[test]
fn transaction_after_an_append_without_an_answer_sees_its_change() {
    for arrived in [true, false] {
        let (_, nodes) = fleet();
        *nodes[0].connection.network.lock() = match arrived {
            true => Network::AnswerLost,
            false => Network::Away,
        };
        assert_eq!(nodes[0].put(3), Err(StoreError::Unsettled));
        *nodes[0].connection.network.lock() = Network::Works;
        let store = nodes[0].store();
        let again = store.write(Durability::Durable, |txn| {
            let is_new = txn.get::<People>(&3)?.is_none();
            if is_new {
                txn.put::<People>(&3, &person("Malmö", 7))?;
            }
            Ok::<_, StoreError>(is_new)
        });
        assert_eq!(again.wait(), Ok(false));
        assert_eq!(all(store)[&3], person("Lund", 30));
    }
}

#[test]
fn change_above_the_limit_of_an_entry_is_refused_and_changes_nothing() {
    let (_, nodes) = fleet();
    let mut state = 1_u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("{state:016x}")
    };
    let mut town = || [(); 4].map(|()| noise()).concat();
    let mut put_people = |keys: std::ops::Range<u32>| {
        let people: Vec<_> = keys.map(|key| (key, town())).collect();
        nodes[0].store().write(Durability::Durable, move |txn| {
            people
                .iter()
                .try_for_each(|(key, town)| txn.put::<People>(key, &person(town, 1)))
        })
    };
    assert_eq!(
        put_people(100..40_100).wait(),
        Err(StoreError::ChangeTooLarge)
    );
    nodes[0].put(3).unwrap();
    assert_eq!(all(nodes[0].store()).len(), 3);
    // The other transactions wait for the first one, which puts them into its group.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let held = nodes[0].store().write(Durability::Durable, move |_| {
        Ok::<_, StoreError>(released.recv().is_ok())
    });
    let small = nodes[0].store().write(Durability::Durable, |txn| {
        txn.put::<People>(&4, &person("Lund", 30))
    });
    let large = put_people(100..40_100);
    // Together these are above the limit.
    let (next, last) = (put_people(100..3_100), put_people(4_000..13_000));
    release.send(()).unwrap();
    assert_eq!((held.wait(), small.wait()), (Ok(true), Ok(())));
    assert_eq!(large.wait(), Err(StoreError::ChangeTooLarge));
    assert_eq!((next.wait(), last.wait()), (Ok(()), Ok(())));
    assert_eq!(all(nodes[0].store()).len(), 12_004);
}

#[test]
fn store_of_a_member_is_opened_by_its_service_only() {
    let (_, mut nodes) = fleet();
    let node = &mut nodes[1];
    let directory = node.directory.path().to_owned();
    let backups = tempfile::tempdir().unwrap();
    let backup = node.store().back_up(backups.path()).unwrap().path;
    node.store = None;
    let refused = open(&directory, FleetAccess::Refuse, 2).map(drop);
    assert_eq!(refused, Err(StoreError::InFleet));
    let restore = Restore {
        directory: &directory,
        backup: &backup,
        backups: backups.path(),
        schema: &schema(),
        instance: [2; 16],
        timeline: [5; 16],
        adopt: true,
        restore_note: b"",
    };
    assert_eq!(restore.run().map(drop), Err(StoreError::InFleet));
    // The store commits nothing before it has joined the log.
    let store = open(&directory, FleetAccess::Member, 2).unwrap();
    assert_eq!(put(&store, 9, person("Lund", 1)), Err(StoreError::Moved));
    drop(store);
    // An empty store would begin a separate history.
    let empty = tempfile::tempdir().unwrap();
    mark(empty.path());
    let refused = open(empty.path(), FleetAccess::Member, 7).map(drop);
    assert_eq!(refused, Err(StoreError::NotJoined));
}

/// The procedure of `docs/fleet.md`.
#[test]
fn new_store_format_is_refused_in_a_fleet_and_begins_another_one_after_its_end() {
    let (_, mut nodes) = fleet();
    let path = nodes[0].directory.path().to_owned();
    nodes[0].store = None;
    let upgraded = || schema().upgraded_by(|store| put(store, 3, person("Lund", 32)));
    let open_upgraded = |fleet, upgrade| {
        let options = Options {
            upgrade,
            ..options(fleet, 8)
        };
        Store::open(&path, upgraded(), options)
    };
    let refused = open_upgraded(FleetAccess::Member, FormatUpgrade::Refuse).map(drop);
    assert_eq!(refused, Err(StoreError::Older { found: 1, known: 2 }));
    // The old version dissolves the fleet, and the new version upgrades the single node.
    drop(open(&path, FleetAccess::Leave, 8).unwrap());
    fs::remove_dir_all(path.join("fleet")).unwrap();
    let single = open_upgraded(FleetAccess::Refuse, FormatUpgrade::Run).unwrap();
    assert_eq!(all(&single).len(), 3);
    let at = single.position().unwrap().unwrap();
    let backups = tempfile::tempdir().unwrap();
    let snapshot = single.back_up(backups.path()).unwrap().path;
    drop(single);
    let directory = tempfile::tempdir().unwrap();
    let join = |schema: &Schema| {
        let join = Join {
            directory: directory.path(),
            snapshot: &snapshot,
            schema,
            instance: [9; 16],
            replace: false,
        };
        join.run()
    };
    // Another machine still has the old version.
    assert_eq!(
        join(&schema()),
        Err(StoreError::Newer { found: 2, known: 1 })
    );
    assert_eq!(join(&upgraded()), Ok(at));
}

/// The steps of `fleet reseed` for a store that cannot follow.
#[test]
fn member_with_another_history_takes_a_copy_and_follows() {
    let (_, mut nodes) = fleet();
    let path = nodes[2].directory.path().to_owned();
    nodes[0].put(3).unwrap();
    nodes[2].tick().unwrap();
    nodes[2].store = None;
    drop(open(&path, FleetAccess::Leave, 8).unwrap());
    assert!(nodes[2].start().is_err());
    nodes[2].store = None;
    let backups = tempfile::tempdir().unwrap();
    let snapshot = nodes[0].store().back_up(backups.path()).unwrap().path;
    let join = |replace| {
        let join = Join {
            directory: &path,
            snapshot: &snapshot,
            schema: &schema(),
            instance: [7; 16],
            replace,
        };
        join.run().map(drop)
    };
    assert_eq!(join(false), Err(StoreError::NotEmpty));
    join(true).unwrap();
    // The replaced store is kept.
    assert!(path.join("aside").read_dir().unwrap().next().is_some());
    nodes[2].start().unwrap();
    nodes[0].put(4).unwrap();
    for node in &mut nodes {
        node.tick().unwrap();
    }
    assert_equal(&nodes);
}

#[test]
fn store_with_another_history_does_not_follow() {
    let (_, mut nodes) = fleet();
    nodes[0].put(3).unwrap();
    nodes[1].tick().unwrap();
    // Member 2 leaves the fleet and comes back with its old membership.
    nodes[1].store = None;
    let path = nodes[1].directory.path().to_owned();
    let left = open(&path, FleetAccess::Leave, 8).unwrap();
    drop(left);
    assert!(matches!(nodes[1].start(), Err(StoreError::Failed(_))));
    // Member 3 comes back with commits that the log does not have.
    nodes[2].tick().unwrap();
    nodes[2].store = None;
    fs::remove_file(nodes[2].directory.path().join("fleet/member.json")).unwrap();
    let alone = open(nodes[2].directory.path(), FleetAccess::Refuse, 3).unwrap();
    put(&alone, 50, person("Lund", 1)).unwrap();
    drop(alone);
    mark(nodes[2].directory.path());
    assert!(matches!(nodes[2].start(), Err(StoreError::Failed(_))));
}

#[test]
fn member_that_was_away_too_long_stops_with_a_reason() {
    let (log, mut nodes) = fleet();
    for key in 3..9 {
        nodes[0].put(key).unwrap();
    }
    log.lock().truncate(7).unwrap();
    let entries = nodes[1].connection.read(3, 1);
    assert_eq!(entries, Err(SharedLogError::Truncated { first: 7 }));
    nodes[1].store = None;
    let Err(StoreError::Failed(why)) = nodes[1].start() else {
        panic!("it has started");
    };
    assert!(why.contains("begins at commit 7"), "{why}");
}
