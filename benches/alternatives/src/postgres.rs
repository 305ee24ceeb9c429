//! Postgres through tokio-postgres: a connection for each client, prepared statements, one round trip for each write. The
//! settings are those of Debian, except for `synchronous_commit`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tokio_postgres::error::SqlState;
use tokio_postgres::{NoTls, Statement};

use crate::process::{Process, command_as, find};
use crate::servers::{Served, folder, within};
use crate::workload::{ASSET, Client, SEEDED, SESSIONS_MAX, SignUp, Start, seeded, seeded_right};

/// Postgres does not run as root.
const USER: &str = "postgres";

/// `start_session` has a function, because the usual form, a transaction of four statements, takes as many round trips. It
/// locks the user, as the usual form would.
const SCHEMA: &str = "
    CREATE TABLE users (id bytea PRIMARY KEY, email text NOT NULL UNIQUE, profile text NOT NULL);
    CREATE TABLE credentials (\"user\" bytea PRIMARY KEY, credentials text NOT NULL);
    CREATE TABLE logins (token bytea PRIMARY KEY, \"user\" bytea NOT NULL, login text NOT NULL);
    CREATE TABLE rights (\"user\" bytea, asset text, granted text NOT NULL, PRIMARY KEY (\"user\", asset));
    CREATE TABLE sessions (\"user\" bytea, id bytea, record text NOT NULL, PRIMARY KEY (\"user\", id));
    CREATE FUNCTION start_session(viewer bytea, wanted text, session bytea, record text, most bigint)
    RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM profile, granted FROM users JOIN rights ON rights.\"user\" = users.id
            WHERE users.id = viewer AND asset = wanted FOR UPDATE OF users;
        IF NOT FOUND OR (SELECT count(*) FROM sessions WHERE \"user\" = viewer) >= most THEN
            RETURN false;
        END IF;
        INSERT INTO sessions VALUES (viewer, session, record);
        RETURN true;
    END $$;";

const SIGN_UP: &str = "
    WITH added AS (INSERT INTO users VALUES ($1, $2, $3) RETURNING id),
    secret AS (INSERT INTO credentials SELECT id, $4 FROM added)
    INSERT INTO logins SELECT $5, id, $6 FROM added";

const SEED: &str = "INSERT INTO users SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[])";

pub struct Connection {
    client: tokio_postgres::Client,
    sign_up: Statement,
    start: Statement,
}

/// Starts a new server. Returns `None` if Postgres is not installed.
pub fn start(
    name: &'static str,
    commit: &str,
    parent: &Path,
    clients: usize,
) -> Option<Served<Connection>> {
    let (program, initdb) = (find("postgres")?, find("initdb")?);
    let root = fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0);
    let user = if root { Some(USER) } else { None };
    let owner = user.map(|user| (user, user_id(user)));
    let folder = folder(parent, &format!("postgres-{commit}"), owner);
    let data = folder.join("data");
    let (at, data) = (folder.to_string_lossy(), data.to_string_lossy());
    let command = [
        &*initdb,
        "-D",
        &*data,
        "-U",
        USER,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
    ];
    let made = command_as(&command, user).output().expect("initdb runs");
    assert!(made.status.success(), "initdb: {made:?}");
    let setting = format!("synchronous_commit={commit}");
    let command = [
        &*program,
        "-D",
        &*data,
        "-k",
        &*at,
        "-h",
        "",
        "-c",
        &*setting,
        "-c",
        "log_min_messages=panic",
    ];
    let mut process = Process::start(&command, user, "-QUIT");
    let socket = folder.join(".s.PGSQL.5432");
    process.wait_until(|| socket.exists());
    crate::runtime().block_on(within(seed(&at)));
    Some(Served::new(name, process, clients, async || {
        let client = connect(&at).await;
        Connection {
            sign_up: client.prepare(SIGN_UP).await.expect("it is SQL"),
            start: client
                .prepare("SELECT start_session($1, $2, $3, $4, $5)")
                .await
                .expect("it is SQL"),
            client,
        }
    }))
}

fn user_id(name: &str) -> u32 {
    let users = fs::read_to_string("/etc/passwd").expect("there are users");
    let mut users = users.lines().map(|line| line.split(':'));
    let found = users.find_map(|mut fields| (fields.next()? == name).then(|| fields.nth(1))?);
    let id = found.and_then(|id| id.parse().ok());
    id.expect("Debian's package makes the user postgres")
}

async fn connect(folder: &str) -> tokio_postgres::Client {
    let settings = format!("host={folder} user={USER} dbname=postgres");
    // The socket is there before the server takes connections.
    let (client, connection) = loop {
        match tokio_postgres::connect(&settings, NoTls).await {
            Ok(connected) => break connected,
            Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
        }
    };
    tokio::spawn(connection);
    client
}

async fn seed(folder: &str) {
    let client = connect(folder).await;
    client.batch_execute(SCHEMA).await.expect("it is SQL");
    let all: Vec<SignUp> = (0..SEEDED).map(seeded).collect();
    let ids: Vec<&[u8]> = all.iter().map(|new| &new.user[..]).collect();
    let emails: Vec<&str> = all.iter().map(|new| &*new.email).collect();
    let profiles: Vec<&str> = all.iter().map(|new| &*new.profile).collect();
    let inserted = client.execute(SEED, &[&ids, &emails, &profiles]).await;
    inserted.expect("new users");
    let rights = "INSERT INTO rights SELECT id, $1, $2 FROM users";
    let inserted = client.execute(rights, &[&ASSET, &seeded_right()]).await;
    inserted.expect("new rights");
    client.batch_execute("ANALYZE").await.expect("it is SQL");
}

async fn insert(
    client: &tokio_postgres::Client,
    sign_up: &Statement,
    new: &SignUp,
) -> Result<u64, tokio_postgres::Error> {
    client
        .execute(
            sign_up,
            &[
                &&new.user[..],
                &new.email,
                &new.profile,
                &new.credentials,
                &&new.token[..],
                &new.login,
            ],
        )
        .await
}

impl Client for Connection {
    async fn sign_up(&mut self, new: &SignUp) -> bool {
        match insert(&self.client, &self.sign_up, new).await {
            Ok(added) => added == 1,
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn start(&mut self, start: &Start) -> bool {
        let most = i64::from(SESSIONS_MAX);
        let row = self
            .client
            .query_one(
                &self.start,
                &[
                    &&start.user[..],
                    &ASSET,
                    &&start.session[..],
                    &start.record,
                    &most,
                ],
            )
            .await;
        row.expect("the server takes it").get(0)
    }
}
