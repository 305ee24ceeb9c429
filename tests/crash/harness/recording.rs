//! Records every file operation of a process with strace: names, data, and when each began and ended.
//!
//! The recorded process sees another boot id than the processes that are started on a simulated disk later, as after a power cut.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use tempfile::TempDir;

use crate::harness::disk::run;

/// The calls that change files, or without which a change cannot be understood. `read` is none of them: no file is both
/// read and written at the position of one descriptor.
const CALLS: &str = "open,openat,creat,close,fcntl,dup,dup2,dup3,lseek,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,\
    fallocate,copy_file_range,sendfile,fsync,fdatasync,sync,syncfs,mkdir,mkdirat,rmdir,unlink,unlinkat,rename,renameat,\
    renameat2,link,linkat,symlink,symlinkat,clone,clone3,fork,vfork";

/// Longer than any write.
const LONGEST: usize = 64 << 20;

/// How long strace may take to write the rest of its output after the end of the process.
const WITHIN: Duration = Duration::from_secs(20);

/// Runs `"$@"` with the file `$0` in place of the boot id.
const OTHER_BOOT: &str = r#"mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@""#;

#[derive(Clone, Debug)]
pub enum Argument {
    /// A number, a name of a constant, or a structure, as strace prints it.
    Plain(String),
    Bytes(Arc<[u8]>),
}

/// A call that succeeded.
#[derive(Clone, Debug)]
pub struct Call {
    /// The recorded process, and the id of the process or of its child.
    pub process: (usize, u32),
    pub thread: u32,
    pub name: String,
    pub arguments: Vec<Argument>,
    pub result: i64,
    /// In nanoseconds since 1970.
    pub began: u64,
    pub ended: u64,
}

impl Call {
    pub fn plain(&self, at: usize) -> &str {
        match self.arguments.get(at) {
            Some(Argument::Plain(text)) => text,
            other => panic!("argument {at} of {} is {other:?}", self.name),
        }
    }

    pub fn number(&self, at: usize) -> i64 {
        let text = self.plain(at);
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("argument {at} of {}: {text}", self.name))
    }

    pub fn bytes(&self, at: usize) -> &Arc<[u8]> {
        match self.arguments.get(at) {
            Some(Argument::Bytes(bytes)) => bytes,
            other => panic!("argument {at} of {} is {other:?}", self.name),
        }
    }

    pub fn path(&self, at: usize) -> PathBuf {
        String::from_utf8_lossy(self.bytes(at)).into_owned().into()
    }

    pub fn is_sync(&self) -> bool {
        ["fsync", "fdatasync"].contains(&self.name.as_str())
    }

    /// Whether it begins another process, and not a thread.
    pub fn is_fork(&self) -> bool {
        let starts = ["clone", "clone3", "fork", "vfork"].contains(&self.name.as_str());
        let has_flag = |argument: &Argument| match argument {
            Argument::Plain(text) => text.contains("CLONE_THREAD"),
            Argument::Bytes(_) => false,
        };
        starts && !self.arguments.iter().any(has_flag)
    }
}

pub struct Recording {
    folder: TempDir,
    /// How many processes were recorded.
    processes: usize,
}

impl Recording {
    /// Fails with the reason why nothing can be recorded here.
    pub fn new() -> Result<Self, String> {
        let folder = tempfile::tempdir_in(scratch()).unwrap();
        let boot = folder.path().join("boot_id");
        fs::write(&boot, "11111111-2222-4333-8444-555555555555\n").unwrap();
        run(Command::new("strace").arg("-V"))?;
        let mut tried = Command::new("unshare");
        tried.args(["-m", "sh", "-c", OTHER_BOOT]).arg(&boot);
        run(tried.arg("true"))?;
        Ok(Self {
            folder,
            processes: 0,
        })
    }

    /// The command under which the next process is recorded. strace is not its parent, so the id of the started process is that
    /// of the recorded one.
    pub fn next(&mut self) -> Vec<String> {
        let boot = self.folder.path().join("boot_id");
        let output = self.folder.path().join(self.processes.to_string());
        self.processes += 1;
        let mut command = ["unshare", "-m", "sh", "-c", OTHER_BOOT]
            .map(str::to_owned)
            .to_vec();
        command.push(boot.to_str().unwrap().to_owned());
        let longest = LONGEST.to_string();
        let strace = [
            "strace",
            "-D",
            "-ff",
            "--seccomp-bpf",
            "-q",
            "-xx",
            "-s",
            &longest,
            "--absolute-timestamps=format:unix,precision:ns",
            "--syscall-times=ns",
            "-e",
            "signal=none",
            "-o",
        ];
        command.extend(strace.map(str::to_owned));
        command.push(output.to_str().unwrap().to_owned());
        command.extend(["-e".to_owned(), format!("trace={CALLS}")]);
        command
    }

    /// Returns the calls of all recorded processes, which must have ended, in the order in which they ended.
    pub fn calls(&self) -> Vec<Call> {
        let mut calls = Vec::new();
        for process in 0..self.processes {
            let mut threads = BTreeMap::new();
            for (thread, text) in self.output(process) {
                let read = text.lines().filter_map(|line| parse(line, process));
                threads.insert(thread, read.collect::<Vec<Call>>());
            }
            let owners = owners(&threads);
            for (thread, of_thread) in threads {
                let owner = owners.get(&thread).copied().unwrap_or(thread);
                calls.extend(of_thread.into_iter().map(|mut call| {
                    call.process.1 = owner;
                    call.thread = thread;
                    call
                }));
            }
        }
        calls.sort_by_key(|call| call.ended);
        calls
    }

    /// Returns the output of strace for each thread of a process.
    fn output(&self, process: usize) -> BTreeMap<u32, String> {
        let began = Instant::now();
        let prefix = format!("{process}.");
        loop {
            let mut found = BTreeMap::new();
            for entry in fs::read_dir(self.folder.path()).unwrap().flatten() {
                let name = entry.file_name().into_string().unwrap();
                if let Some(thread) = name.strip_prefix(&prefix) {
                    let text = fs::read_to_string(entry.path()).unwrap();
                    found.insert(thread.parse().unwrap(), text);
                }
            }
            let has_ended = |text: &String| {
                let last = text.trim_end().rsplit('\n').next().unwrap_or_default();
                last.contains(" +++ ")
            };
            if !found.is_empty() && found.values().all(has_ended) {
                return found;
            }
            assert!(
                began.elapsed() < WITHIN,
                "strace goes on after the end of its process"
            );
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}

/// Returns the process of each thread.
fn owners(threads: &BTreeMap<u32, Vec<Call>>) -> HashMap<u32, u32> {
    let mut begun_by = HashMap::new();
    for (thread, calls) in threads {
        for call in calls
            .iter()
            .filter(|call| call.name.starts_with("clone") && !call.is_fork())
        {
            begun_by.insert(u32::try_from(call.result).unwrap(), *thread);
        }
    }
    let owner = |thread: &u32| {
        let mut owner = *thread;
        while let Some(parent) = begun_by.get(&owner) {
            owner = *parent;
        }
        (*thread, owner)
    };
    threads.keys().map(owner).collect()
}

/// A folder in memory, if there is one: states are many, and no test here needs a slow disk.
pub fn scratch() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        Path::new("/tmp")
    }
}

/// The present time as strace prints it.
pub fn now() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

/// Returns the call of a line, if it succeeded.
fn parse(line: &str, process: usize) -> Option<Call> {
    let (time, rest) = line.split_once(' ')?;
    let (call, outcome) = rest.rsplit_once(" = ")?;
    let (name, arguments) = call.split_once('(')?;
    let arguments = arguments.trim_end().strip_suffix(')')?;
    // Of a call during which the process was killed nobody knows whether it was made.
    let result = outcome
        .split(' ')
        .next()?
        .parse()
        .ok()
        .filter(|result| *result >= 0)?;
    let took = outcome.rsplit_once('<')?.1.strip_suffix('>')?;
    let began = nanoseconds(time)?;
    Some(Call {
        process: (process, 0),
        thread: 0,
        name: name.to_owned(),
        arguments: split(arguments),
        result,
        began,
        ended: began + nanoseconds(took)?,
    })
}

fn nanoseconds(seconds: &str) -> Option<u64> {
    let (whole, fraction) = seconds.split_once('.')?;
    let whole: u64 = whole.parse().ok()?;
    Some(whole * 1_000_000_000 + fraction.parse::<u64>().ok()?)
}

fn split(mut text: &str) -> Vec<Argument> {
    let mut arguments = Vec::new();
    while !text.is_empty() {
        let argument = match text.as_bytes()[0] {
            b'"' => {
                let (hex, rest) = text[1..].split_once('"').unwrap();
                assert!(!rest.starts_with("..."), "strace cut off an argument");
                text = rest;
                Argument::Bytes(decode(hex))
            }
            _ => {
                let end = end_of_plain(text);
                let plain = &text[..end];
                text = &text[end..];
                plain_or_vector(plain)
            }
        };
        arguments.push(argument);
        text = text.strip_prefix(", ").unwrap_or(text);
    }
    arguments
}

/// The data of a vector of buffers are one argument.
fn plain_or_vector(text: &str) -> Argument {
    if !text.contains("iov_base=\"") {
        return Argument::Plain(text.to_owned());
    }
    let parts = text.split("iov_base=\"").skip(1);
    let parts = parts.flat_map(|part| decode(part.split('"').next().unwrap()).to_vec());
    Argument::Bytes(parts.collect())
}

fn end_of_plain(text: &str) -> usize {
    let mut depth = 0_u32;
    for (at, letter) in text.bytes().enumerate() {
        match letter {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

/// Decodes `\x2f\x74`. Most of what is written are zeros, which are compared at once: this test is compiled without
/// optimisation.
fn decode(hex: &str) -> Arc<[u8]> {
    const BLOCK: usize = 1_024;
    let zeros = "\\x00".repeat(BLOCK);
    let mut bytes = Vec::with_capacity(hex.len() / 4);
    let mut rest = hex;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(zeros.as_str()) {
            bytes.resize(bytes.len() + BLOCK, 0);
            rest = after;
            continue;
        }
        let (block, after) = rest.split_at(rest.len().min(4 * BLOCK));
        rest = after;
        for escape in block.as_bytes().chunks(4) {
            let digit = |at: usize| char::from(escape[at]).to_digit(16).unwrap();
            bytes.push(u8::try_from(digit(2) * 16 + digit(3)).unwrap());
        }
    }
    bytes.into()
}
