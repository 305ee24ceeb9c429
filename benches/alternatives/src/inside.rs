//! Contestants without a server: a process of this program on core 0 that is database and clients in one. What the
//! clients cost is measured with a database that does nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::ChildStdout;
use std::time::Duration;

use playgate_store::Durability;

use crate::process::Process;
use crate::rounds::Contestant;
use crate::servers::within;
use crate::sqlite::Sqlite;
use crate::store::PlaygateStore;
use crate::workload::{self, Client, SignUp, Start, Write};

/// The argument that makes a process of this program such a contestant.
pub const ARGUMENT: &str = "--inside";

/// A contestant of another process.
pub struct Inside {
    process: Process,
    output: BufReader<ChildStdout>,
    name: &'static str,
    write: Write,
}

impl Inside {
    /// `kind` is one of those that [`serve`] knows.
    pub fn start(name: &'static str, kind: &str, folder: &Path) -> Self {
        let folder = folder.join(kind);
        std::fs::create_dir(&folder).expect("a new folder");
        let program = std::env::current_exe().expect("the path of this program can be read");
        let (program, folder) = (program.to_string_lossy(), folder.to_string_lossy());
        let command = [&*program, ARGUMENT, kind, &*folder];
        let mut process = Process::start(&command, None, "-KILL");
        let output = process.child.stdout.take().expect("it is piped");
        let mut inside = Self {
            process,
            output: BufReader::new(output),
            name,
            write: Write::SignUp,
        };
        // It has checked itself.
        inside.line();
        inside
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        assert!(!line.is_empty(), "{} ended", self.name);
        line
    }
}

impl Contestant for Inside {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn select(&mut self, write: Write) {
        self.write = write;
    }

    fn turn(&mut self, clients: usize, time: Duration) -> u64 {
        let input = self.process.child.stdin.as_mut().expect("it is piped");
        let write = self.write.name();
        writeln!(input, "{write} {clients} {}", time.as_millis()).expect("it reads");
        self.line().trim().parse().expect("a number of answers")
    }

    fn cpu(&self) -> Duration {
        self.process.cpu()
    }

    fn cpu_by_thread(&self) -> BTreeMap<String, Duration> {
        self.process.cpu_by_thread()
    }
}

/// Is a contestant until standard input ends.
pub fn serve(kind: &str, folder: &Path) {
    match kind {
        "clients" => serve_turns(&Nothing),
        "file" => serve_turns(&Appended::new(folder)),
        "playgate-durable" => serve_turns(&PlaygateStore::open(folder, Durability::Durable)),
        "playgate-logged" => serve_turns(&PlaygateStore::open(folder, Durability::Logged)),
        "sqlite-full" => serve_turns(&Sqlite::open(folder, "FULL", false)),
        "sqlite-full-shared" => serve_turns(&Sqlite::open(folder, "FULL", true)),
        "sqlite-normal" => serve_turns(&Sqlite::open(folder, "NORMAL", false)),
        other => panic!("{other} is no contestant"),
    }
}

fn serve_turns<C: Client + Clone + Checked>(client: &C) {
    let runtime = crate::runtime();
    if C::REFUSES {
        runtime.block_on(workload::check(&mut client.clone()));
    }
    println!("ready");
    for line in io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        let write = Write::parse(words[0]).expect("a write");
        let number = |at: usize| words[at].parse::<u32>().expect("a number");
        let mut clients = vec![client.clone(); number(1) as usize];
        let time = Duration::from_millis(number(2).into());
        let turn = workload::run(&mut clients, write, time);
        println!("{}", runtime.block_on(within(turn)));
    }
}

/// Whether a client refuses what [`workload::check`] tries.
trait Checked {
    const REFUSES: bool = true;
}

impl Checked for PlaygateStore {}

impl Checked for Sqlite {}

/// What the clients of this process cost.
#[derive(Clone)]
struct Nothing;

impl Checked for Nothing {
    const REFUSES: bool = false;
}

impl Client for Nothing {
    async fn sign_up(&mut self, new: &SignUp) -> bool {
        std::hint::black_box(new);
        true
    }

    async fn start(&mut self, start: &Start) -> bool {
        std::hint::black_box(start);
        true
    }
}

/// The yardstick of the disk: the bytes appended to a file, and `fdatasync`.
#[derive(Clone)]
struct Appended(std::sync::Arc<File>);

impl Appended {
    fn new(folder: &Path) -> Self {
        let file = File::create(folder.join("file")).expect("a new file");
        Self(std::sync::Arc::new(file))
    }

    fn append(&self, parts: &[&[u8]]) -> bool {
        (&*self.0)
            .write_all(&parts.concat())
            .expect("there is space");
        self.0.sync_data().expect("it is synced");
        true
    }
}

impl Checked for Appended {
    const REFUSES: bool = false;
}

impl Client for Appended {
    async fn sign_up(&mut self, new: &SignUp) -> bool {
        let texts = [&new.email, &new.profile, &new.credentials, &new.login];
        let [email, profile, credentials, login] = texts.map(String::as_bytes);
        self.append(&[&new.user, email, profile, credentials, &new.token, login])
    }

    async fn start(&mut self, start: &Start) -> bool {
        self.append(&[&start.user, &start.session, start.record.as_bytes()])
    }
}
