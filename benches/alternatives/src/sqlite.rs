//! SQLite through rusqlite, in the process that uses it: one connection, in WAL mode, on a thread that does one
//! transaction after the other, as tokio-rusqlite has it.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _, params};
use tokio::sync::oneshot;

use crate::workload::{ASSET, Client, SEEDED, SESSIONS_MAX, SignUp, Start, seeded, seeded_right};

/// The most writes in a transaction where those that wait share one.
const TOGETHER: usize = 256;

const SCHEMA: &str = "
    CREATE TABLE users (id BLOB PRIMARY KEY, email TEXT NOT NULL UNIQUE, profile TEXT NOT NULL);
    CREATE TABLE credentials (user BLOB PRIMARY KEY, credentials TEXT NOT NULL);
    CREATE TABLE logins (token BLOB PRIMARY KEY, user BLOB NOT NULL, login TEXT NOT NULL);
    CREATE TABLE rights (user BLOB, asset TEXT, granted TEXT NOT NULL, PRIMARY KEY (user, asset));
    CREATE TABLE sessions (user BLOB, id BLOB, record TEXT NOT NULL, PRIMARY KEY (user, id));";

type Job = Box<dyn FnOnce(&Connection) -> Answer + Send>;
/// The result and whom to tell it after the commit.
type Answer = (rusqlite::Result<bool>, oneshot::Sender<bool>);

#[derive(Clone)]
pub struct Sqlite(Sender<Job>);

impl Sqlite {
    /// Opens a new database. `shared`: writes that wait go into one transaction.
    pub fn open(folder: &Path, synchronous: &str, shared: bool) -> Self {
        let connection = Connection::open(folder.join("bench.sqlite")).expect("a new database");
        connection
            .pragma_update(None, "journal_mode", "WAL")
            .expect("a setting");
        connection
            .pragma_update(None, "synchronous", synchronous)
            .expect("a setting");
        connection.execute_batch(SCHEMA).expect("a new database");
        seed(&connection).expect("a new database");
        let (jobs, waiting) = channel();
        let most = if shared { TOGETHER } else { 1 };
        thread::spawn(move || serve(&connection, &waiting, most));
        Self(jobs)
    }

    async fn write(
        &self,
        write: impl FnOnce(&Connection) -> rusqlite::Result<bool> + Send + 'static,
    ) -> bool {
        let (sender, answer) = oneshot::channel();
        let job: Job = Box::new(move |connection| (write(connection), sender));
        self.0.send(job).expect("the thread runs");
        answer.await.expect("the thread answers")
    }
}

fn serve(connection: &Connection, waiting: &Receiver<Job>, most: usize) {
    let run = |text: &str| {
        let mut statement = connection.prepare_cached(text).expect("it is SQL");
        statement.execute([]).expect("the disk has space");
    };
    while let Ok(first) = waiting.recv() {
        run("BEGIN IMMEDIATE");
        let jobs = std::iter::once(first).chain(waiting.try_iter().take(most - 1));
        // A refused write has changed nothing, so the others of its transaction stay.
        let answers: Vec<Answer> = jobs.map(|job| job(connection)).collect();
        run("COMMIT");
        for (result, sender) in answers {
            let _ = sender.send(result.expect("a statement of the bench"));
        }
    }
}

fn seed(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    for number in 0..SEEDED {
        let new = seeded(number);
        insert_user(connection, &new)?;
        let mut right = connection.prepare_cached("INSERT INTO rights VALUES (?, ?, ?)")?;
        right.execute(params![new.user, ASSET, seeded_right()])?;
    }
    connection.execute_batch("COMMIT")
}

fn insert_user(connection: &Connection, new: &SignUp) -> rusqlite::Result<bool> {
    let mut user = connection.prepare_cached("INSERT INTO users VALUES (?, ?, ?)")?;
    match user.execute(params![new.user, new.email, new.profile]) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
            return Ok(false);
        }
        other => other?,
    };
    let mut credentials = connection.prepare_cached("INSERT INTO credentials VALUES (?, ?)")?;
    credentials.execute(params![new.user, new.credentials])?;
    let mut login = connection.prepare_cached("INSERT INTO logins VALUES (?, ?, ?)")?;
    login.execute(params![new.token, new.user, new.login])?;
    Ok(true)
}

fn insert_session(connection: &Connection, start: &Start) -> rusqlite::Result<bool> {
    let mut read = connection.prepare_cached(
        "SELECT profile, granted FROM users JOIN rights ON user = id WHERE id = ? AND asset = ?",
    )?;
    let found = read
        .query_row(params![start.user, ASSET], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    let mut count = connection.prepare_cached("SELECT count(*) FROM sessions WHERE user = ?")?;
    let count: i64 = count.query_row([start.user], |row| row.get(0))?;
    if found.is_none() || count >= i64::from(SESSIONS_MAX) {
        return Ok(false);
    }
    let mut insert = connection.prepare_cached("INSERT INTO sessions VALUES (?, ?, ?)")?;
    insert.execute(params![start.user, start.session, start.record])?;
    Ok(true)
}

impl Client for Sqlite {
    async fn sign_up(&mut self, new: &SignUp) -> bool {
        let new = new.clone();
        self.write(move |connection| insert_user(connection, &new))
            .await
    }

    async fn start(&mut self, start: &Start) -> bool {
        let start = start.clone();
        self.write(move |connection| insert_session(connection, &start))
            .await
    }
}
