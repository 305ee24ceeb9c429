//! Playgate's store, in the process that uses it, with the tables and the memory tables that accounts and playback have.

use std::path::Path;
use std::sync::Arc;

use dashmap::DashMap;
use playgate_store::{
    Changed, Commit, CommitListener, Durability, Entries, Index, MemoryTable, Options, PackedTable,
    Record, Schema, Store, StoreError, Table,
};
use serde::{Deserialize, Serialize};

use crate::workload::{ASSET, Client, SEEDED, SESSIONS_MAX, SignUp, Start, seeded, seeded_right};

type Id = [u8; 16];

#[derive(Serialize, Deserialize)]
struct User {
    email: String,
    profile: String,
}

impl Record for User {}

struct Users;

impl Table for Users {
    const NAME: &'static str = "users";
    type Key = Id;
    type Record = User;
    const INDEXES: &'static [&'static str] = &[UsersByEmail::NAME];

    fn index(key: &Id, record: &User, entries: &mut Entries) {
        entries.add::<UsersByEmail>(&record.email, key);
    }
}

struct UsersByEmail;

impl Index for UsersByEmail {
    const NAME: &'static str = "users.by_email";
    type Table = Users;
    type Key = String;
}

#[derive(Serialize, Deserialize)]
struct Text(String);

impl Record for Text {}

#[derive(Serialize, Deserialize)]
struct Login {
    user: Id,
    login: String,
}

impl Record for Login {}

macro_rules! table {
    ($table:ident, $name:literal, $key:ty, $record:ty) => {
        struct $table;

        impl Table for $table {
            const NAME: &'static str = $name;
            type Key = $key;
            type Record = $record;
        }
    };
}

table!(Credentials, "credentials", Id, Text);
table!(Logins, "logins", [u8; 32], Login);
table!(Rights, "rights", (Id, String), Text);
table!(Sessions, "sessions", (Id, Id), Text);

/// The sessions of each user.
#[derive(Default)]
struct Running(DashMap<Id, Vec<Id>, foldhash::quality::RandomState>);

impl CommitListener<Sessions> for Running {
    fn apply(&self, changes: Vec<Changed<Sessions>>) {
        for change in changes {
            let (user, session) = change.key;
            self.0.entry(user).or_default().push(session);
        }
    }
}

#[derive(Clone)]
pub struct PlaygateStore {
    store: Store,
    durability: Durability,
    users: Arc<PackedTable<Users, User>>,
    rights: Arc<MemoryTable<Rights>>,
    running: Arc<Running>,
}

impl PlaygateStore {
    /// Opens a new store with the seeded users.
    pub fn open(folder: &Path, durability: Durability) -> Self {
        let schema = Schema::default()
            .with::<Users>()
            .with::<Credentials>()
            .with::<Logins>()
            .with::<Rights>()
            .with::<Sessions>();
        let store = Store::open(&folder.join("data"), schema, Options::default());
        let opened = Self {
            store: store.expect("a new store"),
            durability,
            users: Arc::new(PackedTable::new(|_, user| user)),
            rights: Arc::default(),
            running: Arc::default(),
        };
        opened.attach().expect("an empty store");
        for number in (0..SEEDED).step_by(500) {
            let seeded = opened.store.write(Durability::Logged, move |txn| {
                for number in number..SEEDED.min(number + 500) {
                    let new = seeded(number);
                    let right = (new.user, ASSET.to_owned());
                    insert(txn, new)?;
                    txn.insert::<Rights>(&right, &Text(seeded_right()))?;
                }
                Ok::<_, StoreError>(())
            });
            seeded.wait().expect("the disk has space");
        }
        opened
    }

    fn attach(&self) -> Result<(), StoreError> {
        self.store.attach_packed_table(Arc::clone(&self.users))?;
        self.store.attach::<Rights>(Arc::clone(&self.rights) as _)?;
        self.store
            .attach::<Sessions>(Arc::clone(&self.running) as _)
    }
}

fn insert(txn: &mut playgate_store::Txn<'_>, new: SignUp) -> Result<bool, StoreError> {
    if txn.find::<UsersByEmail>(&new.email)?.is_some() {
        return Ok(false);
    }
    let user = User {
        email: new.email,
        profile: new.profile,
    };
    let login = Login {
        user: new.user,
        login: new.login,
    };
    txn.insert::<Users>(&new.user, &user)?;
    txn.insert::<Credentials>(&new.user, &Text(new.credentials))?;
    txn.insert::<Logins>(&new.token, &login)?;
    Ok(true)
}

impl Client for PlaygateStore {
    async fn sign_up(&mut self, new: &SignUp) -> bool {
        let new = new.clone();
        let commit: Commit<bool, StoreError> =
            self.store.write(self.durability, |txn| insert(txn, new));
        commit.await.expect("the disk has space")
    }

    async fn start(&mut self, start: &Start) -> bool {
        let user = self.users.get(&start.user);
        let right = self.rights.get(&(start.user, ASSET.to_owned()));
        if user.is_none() || right.is_none() {
            return false;
        }
        let (start, running) = (start.clone(), Arc::clone(&self.running));
        let commit: Commit<bool, StoreError> = self.store.write(self.durability, move |txn| {
            let before = running.0.get(&start.user).map_or(0, |all| all.len());
            // Of this group; those of groups before are in memory.
            let pending = txn.pending_records::<Sessions>(&start.user)?;
            if before + pending.len() >= SESSIONS_MAX as usize {
                return Ok(false);
            }
            txn.insert::<Sessions>(&(start.user, start.session), &Text(start.record))?;
            Ok(true)
        });
        commit.await.expect("the disk has space")
    }
}
