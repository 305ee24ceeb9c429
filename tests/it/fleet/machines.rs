//! Three machines, each with an etcd and a member on its own disk (ext4 in a loop-mounted file) and in its own network
//! namespace: their power can be cut, and their packets can be dropped.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::disk::{Disk, run};
use super::faults::Direction;
use super::ledger::PowerlessMachines;
use super::{installed, playgate, post, program_file, program_of, until};
use crate::support::external_tools::{faketime_library, program};
use crate::support::process::{InTime as _, first_json_line, pause, resume, signal};

pub const MACHINES: usize = 3;
pub const NAMES: [&str; MACHINES] = ["north", "south", "west"];
/// The machine of a joining member, without etcd.
pub const FOURTH: usize = MACHINES;
const DISK_MIB: u32 = 700;
/// In commits. The clients of these tests make fewer in two seconds.
const FOLLOWING: u64 = 200;

/// The network of all machines: a bridge that this process can reach too.
struct Network {
    bridge: String,
    /// The first three numbers of its addresses.
    prefix: String,
    /// Held until the network is removed.
    _only_one: MutexGuard<'static, ()>,
}

/// Networks are named by process, so the tests of one process take turns.
static ONLY_ONE: Mutex<()> = Mutex::new(());

impl Network {
    fn new() -> Result<Self, String> {
        let id = std::process::id();
        let network = Self {
            // A failed test must not make the others fail.
            _only_one: ONLY_ONE.lock().unwrap_or_else(PoisonError::into_inner),
            bridge: format!("pgf{id}"),
            prefix: format!("10.213.{}", id % 250 + 1),
        };
        let bridge_address = format!("{}.1/24", network.prefix);
        ip(&["link", "add", &network.bridge, "type", "bridge"])?;
        ip(&["addr", "add", &bridge_address, "dev", &network.bridge])?;
        ip(&["link", "set", &network.bridge, "up"])?;
        for at in 0..=FOURTH {
            let (space, link) = (network.space(at), format!("{}v{at}", network.bridge));
            ip(&["netns", "add", &space])?;
            let peer = ["type", "veth", "peer", "name", "eth0", "netns", &space];
            ip(&[&["link", "add", &link][..], &peer].concat())?;
            ip(&["link", "set", &link, "master", &network.bridge, "up"])?;
            let address = format!("{}/24", network.address(at));
            ip(&["-n", &space, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &space, "link", "set", "eth0", "up"])?;
            ip(&["-n", &space, "link", "set", "lo", "up"])?;
            // Behind the rules of `drop_calls`.
            ip(&["-n", &space, "rule", "add", "pref", "10", "lookup", "local"])?;
            ip(&["-n", &space, "rule", "del", "pref", "0"])?;
        }
        Ok(network)
    }

    fn space(&self, at: usize) -> String {
        format!("{}n{at}", self.bridge)
    }

    fn address(&self, at: usize) -> String {
        format!("{}.{}", self.prefix, 10 + at)
    }

    /// Drops packets of one machine to another, in this direction only.
    fn drop_packets(&self, from: usize, to: usize, is_dropped: bool) {
        let route = format!("{}/32", self.address(to));
        let verb = if is_dropped { "add" } else { "del" };
        ip(&["-n", &self.space(from), "route", verb, "blackhole", &route]).unwrap();
    }

    /// Drops what arrives at a machine from another one with this port. A machine cannot send such packets to itself.
    fn drop_arriving(&self, at: usize, from: usize, port: [&str; 2], is_dropped: bool) {
        let verb = if is_dropped { "add" } else { "del" };
        let (space, from_address) = (self.space(at), self.address(from));
        let place = match at == from {
            true => ["to", &*from_address],
            false => ["from", &*from_address],
        };
        let rule = ["-n", &space, "rule", verb, "pref", "5"];
        let arriving: &[_] = if at == from { &[] } else { &["iif", "eth0"] };
        let what = [place[0], place[1], "ipproto", "tcp", port[0], port[1]];
        ip(&[&rule[..], arriving, &what, &["blackhole"]].concat()).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for at in 0..=FOURTH {
            let _ = ip(&["netns", "del", &self.space(at)]);
        }
        let _ = ip(&["link", "del", &self.bridge]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    run(Command::new("ip").args(arguments))
}

/// A process that is killed when this is dropped.
pub struct Process(Option<Child>);

impl Process {
    /// Runs the service of a member in a network namespace. `ahead` moves its clock by seconds.
    pub fn serve(space: &str, config: &Path, log: File, ahead: Option<i64>) -> Self {
        let program = program_of(config);
        let mut command = command(space, Path::new(program.get_program()));
        for (name, value) in program.get_envs() {
            match value {
                // The configuration has the address of the operations listener.
                _ if name == "PLAYGATE_OPS_LISTEN" => command.env_remove(name),
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        if let Some(ahead) = ahead {
            let library = faketime_library().expect("it was there at the start");
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", format!("{ahead:+}s"))
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let child = command
            .arg("--config")
            .arg(config)
            .arg("serve")
            .envs(installed(config))
            .env("PLAYGATE_LOG_LEVEL", "info")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self(Some(child.unwrap()))
    }

    /// Sends SIGTERM and waits.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.0.take() {
            assert!(signal(child.id(), Signal::TERM));
            child.status_in_time();
        }
    }

    pub fn pause(&self) {
        if let Some(child) = &self.0 {
            assert!(pause(child.id()));
        }
    }

    pub fn resume(&self) {
        if let Some(child) = &self.0 {
            assert!(resume(child.id()));
        }
    }

    pub fn has_ended(&mut self) -> bool {
        let child = self.0.as_mut();
        child.is_none_or(|child| child.try_wait().unwrap().is_some())
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            child.status_in_time();
        }
    }
}

fn command(space: &str, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    // Not `ip netns exec`, which also enters a mount namespace, and that would keep the disks mounted.
    let space = format!("--net=/run/netns/{space}");
    command.arg(space).arg(program).stdin(Stdio::null());
    command
}

impl From<Child> for Process {
    fn from(child: Child) -> Self {
        Self(Some(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub struct Machine {
    pub address: SocketAddr,
    pub config: PathBuf,
    etcd: Process,
    member: Process,
    /// Those of etcd and of the member.
    disk: Disk,
    data: Disk,
}

pub struct Machines {
    /// Declared first, because the processes must end before network and folder are removed.
    pub machines: Vec<Machine>,
    pub partner: String,
    pub powerless: PowerlessMachines,
    network: Network,
    folder: tempfile::TempDir,
}

impl Machines {
    /// `None` without etcd, `Err` without the necessary rights.
    pub fn start() -> Option<Result<Self, String>> {
        Self::start_with(None)
    }

    /// Starts members of the binary at this path.
    pub fn start_with(binary: Option<&str>) -> Option<Result<Self, String>> {
        program("etcd")?;
        faketime_library()?;
        Some(Self::new(binary))
    }

    fn new(binary: Option<&str>) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let network = Network::new()?;
        let mut machines = Vec::new();
        for (at, name) in NAMES.into_iter().enumerate() {
            let [disk, data] = [Disk::ext4(DISK_MIB)?, Disk::ext4(DISK_MIB)?];
            machines.push(Machine {
                address: format!("{}:8080", network.address(at)).parse().unwrap(),
                config: folder.path().join(format!("{name}.toml")),
                etcd: Process(None),
                member: Process(None),
                disk,
                data,
            });
        }
        let mut all = Self {
            machines,
            partner: String::new(),
            powerless: PowerlessMachines::default(),
            network,
            folder,
        };
        all.configure();
        if let Some(binary) = binary {
            (0..MACHINES).for_each(|at| all.install(at, binary));
        }
        for at in 0..MACHINES {
            all.start_etcd(at);
        }
        all.fill_first_store();
        until("the first member", || {
            let config = all.config(0);
            playgate(config, &["fleet", "init", "--name", NAMES[0]]).ok()
        });
        all.start_member(0, None);
        for (at, name) in NAMES.into_iter().enumerate().skip(1) {
            let word = until("an owner", || {
                playgate(all.config(0), &["fleet", "invite"]).ok()
            });
            let join = ["fleet", "join", word.trim(), "--name", name];
            until("a member", || playgate(all.config(at), &join).ok());
            all.start_member(at, None);
        }
        all.wait_until_equal();
        Ok(all)
    }

    fn configure(&self) {
        let media = self.folder.path().join("media");
        fs::create_dir_all(&media).unwrap();
        for (at, machine) in self.machines.iter().enumerate() {
            let data = self.data(at);
            fs::write(&machine.config, self.configuration(at, &data)).unwrap();
        }
    }

    pub fn configuration(&self, at: usize, data: &Path) -> String {
        let endpoints = (0..MACHINES).map(|at| format!("\"{}\"", self.etcd_url(at)));
        let endpoints = endpoints.collect::<Vec<_>>().join(", ");
        let address = self.network.address(at);
        let lease = std::env::var_os("PLAYGATE_FLEET_LEASE");
        let lease = lease.map_or_else(|| "2s".to_owned(), |lease| lease.into_string().unwrap());
        format!(
            "listen = [\"{address}:8080\"]\ndata_dir = \"{}\"\nenvironment = \"staging\"\n\
             [ops]\nlisten = \"{address}:8081\"\n[origin]\nmedia_dir = \"{}\"\n\
             [limits]\nsign_up_per_address = 1000000\n\
             [fleet]\nendpoints = [{endpoints}]\nlisten = \"{address}:7080\"\nlease = \"{lease}\"\n",
            data.display(),
            self.folder.path().join("media").display(),
        )
    }

    /// Makes a machine start another binary from now on.
    pub fn install(&self, at: usize, binary: &str) {
        fs::write(program_file(self.config(at)), binary).unwrap();
    }

    /// Makes a machine start the binary under test from now on.
    pub fn upgrade(&self, at: usize) {
        fs::remove_file(program_file(self.config(at))).unwrap();
    }

    /// Returns the machine to upgrade next: the owner last.
    pub fn next_to_upgrade(&self, is_new: [bool; MACHINES]) -> Option<usize> {
        let owner = self.owner();
        let old = (0..MACHINES).filter(|at| !is_new[*at]);
        old.max_by_key(|at| *at != owner)
    }

    pub fn space(&self, at: usize) -> String {
        self.network.space(at)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self, at: usize) -> PathBuf {
        self.disk_of_data(at).join("data")
    }

    pub fn disk_of_data(&self, at: usize) -> &Path {
        self.machines[at].data.path()
    }

    pub fn data_of_etcd(&self, at: usize) -> PathBuf {
        self.machines[at].disk.path().join("etcd")
    }

    pub fn config(&self, at: usize) -> &Path {
        &self.machines[at].config
    }

    pub fn etcd_url(&self, at: usize) -> String {
        format!("http://{}:2379", self.network.address(at))
    }

    pub fn etcd_peer_url(&self, at: usize) -> String {
        format!("http://{}:2380", self.network.address(at))
    }

    pub fn etcd_cluster(&self) -> String {
        let cluster = (0..MACHINES).map(|at| format!("{}={}", NAMES[at], self.etcd_peer_url(at)));
        cluster.collect::<Vec<_>>().join(",")
    }

    pub fn start_etcd(&mut self, at: usize) {
        self.start_etcd_of(at, "new");
    }

    fn start_etcd_of(&mut self, at: usize, cluster_state: &str) {
        let cluster = self.etcd_cluster();
        let (client, peer) = (self.etcd_url(at), self.etcd_peer_url(at));
        let log = self.folder.path().join(format!("etcd{at}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child = command(&self.network.space(at), Path::new("etcd"))
            .args(["--name", NAMES[at], "--data-dir"])
            .arg(self.data_of_etcd(at))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args([
                "--initial-cluster",
                &cluster,
                "--initial-cluster-state",
                cluster_state,
            ])
            // The values of `docs/fleet.md`.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.machines[at].etcd = Process(Some(child.unwrap()));
    }

    /// `ahead` moves the clock of the member by seconds.
    pub fn start_member(&mut self, at: usize, ahead: Option<i64>) {
        // Keeps the log of the previous start.
        let log = self.folder.path().join(format!("member{at}.log"));
        let _ = fs::rename(&log, log.with_extension("log.before"));
        let log = File::create(log).unwrap();
        let space = self.network.space(at);
        self.machines[at].member = Process::serve(&space, self.config(at), log, ahead);
    }

    pub fn start_service(&mut self, at: usize, config: &Path) {
        let log = File::create(self.folder.path().join(format!("member{at}.log"))).unwrap();
        self.machines[at].member = Process::serve(&self.network.space(at), config, log, None);
    }

    /// Takes the process of a machine's service, which has none after that.
    pub fn take_service(&mut self, at: usize) -> Process {
        std::mem::replace(&mut self.machines[at].member, Process(None))
    }

    /// Fills the first store with the data of the demo.
    fn fill_first_store(&mut self) {
        let mut command = program_of(self.config(0));
        let data = self.data(0);
        command
            .arg("--data-dir")
            .arg(data)
            .args(["demo", "--json", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null());
        let (mut demo, output) = first_json_line(&mut command);
        self.partner = output["partnerToken"].as_str().unwrap().to_owned();
        demo.terminate();
        demo.status_in_time();
    }

    pub fn fourth(&self) -> SocketAddr {
        format!("{}:8080", self.network.address(FOURTH))
            .parse()
            .unwrap()
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.machines
            .iter()
            .map(|machine| machine.address)
            .collect()
    }

    /// Replaces an etcd member with damaged files, as etcd's documentation says.
    pub fn replace_etcd(&mut self, at: usize) {
        self.kill_etcd(at);
        let other = (at + 1) % MACHINES;
        let peer = self.etcd_peer_url(at);
        until("the removal of a member of etcd", || {
            let list = self.ask_etcd(other, "/v3/cluster/member/list", &json!({}))?;
            let members = list["members"].as_array()?;
            let old = members.iter().find(|member| member["name"] == NAMES[at]);
            let Some(old) = old else { return Some(()) };
            let gone = json!({ "ID": old["ID"] });
            self.ask_etcd(other, "/v3/cluster/member/remove", &gone)?;
            None
        });
        until("a new member of etcd", || {
            let new = json!({ "peerURLs": [peer] });
            let added = self.ask_etcd(other, "/v3/cluster/member/add", &new)?;
            added.get("member").map(drop)
        });
        fs::remove_dir_all(self.data_of_etcd(at)).unwrap();
        self.start_etcd_of(at, "existing");
        until("the new member of etcd", || {
            let answer = self.ask_etcd(at, "/v3/maintenance/status", &json!({}))?;
            answer["leader"].as_str().map(drop)
        });
    }

    // -- What they say

    /// Returns name, role and lag of each member.
    pub fn status(&self) -> Vec<(String, String, u64)> {
        let output = self.machines.iter().find_map(|machine| {
            machine.member.0.as_ref()?;
            let output = playgate(&machine.config, &["fleet", "status"]).ok();
            // Without etcd the command prints what the member knows, which may be old.
            output.filter(|text| text.contains("  etcd "))
        });
        let output = output.unwrap_or_default();
        let lines = output.lines().skip(1).map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let behind = words[4].parse().unwrap();
            (words[0].to_owned(), words[1].to_owned(), behind)
        });
        lines.collect()
    }

    pub fn owner(&self) -> usize {
        until("an owner", || {
            let status = self.status();
            let (name, ..) = status.iter().find(|(_, role, _)| role == "owner")?;
            NAMES.iter().position(|known| known == name)
        })
    }

    pub fn etcd_leader(&self) -> usize {
        until("a leader of etcd", || {
            (0..MACHINES).find(|at| {
                let answer = self.ask_etcd(*at, "/v3/maintenance/status", &json!({}));
                answer.is_some_and(|answer| {
                    let leader = answer["leader"].as_str().map(str::to_owned);
                    leader.is_some() && leader.as_deref() == answer["header"]["member_id"].as_str()
                })
            })
        })
    }

    pub fn ask_etcd(&self, at: usize, path: &str, body: &Value) -> Option<Value> {
        let address = format!("{}:2379", self.network.address(at))
            .parse()
            .unwrap();
        let (_, body) = post(address, path, &[], &body.to_string())?;
        serde_json::from_str(&body).ok()
    }

    /// Waits until a member has almost caught up, while clients write.
    pub fn wait_until_following(&self, at: usize) {
        // A member reports its lag every two seconds.
        std::thread::park_timeout(Duration::from_secs(2));
        until("a member that follows", || {
            let status = self.status();
            let (.., behind) = status.iter().find(|(name, ..)| name == NAMES[at])?;
            (*behind < FOLLOWING).then_some(())
        });
    }

    pub fn wait_until_equal(&self) {
        self.wait_until_so_many_are_equal(MACHINES);
    }

    pub fn wait_until_so_many_are_equal(&self, members: usize) {
        until("equal members", || {
            let status = self.status();
            let equal = status.len() == members
                && status.iter().any(|(_, role, _)| role == "owner")
                && status.iter().all(|(.., behind)| *behind == 0);
            equal.then_some(())
        });
    }

    /// Returns the end of the log of a member.
    pub fn log(&self, at: usize) -> String {
        let log = fs::read_to_string(self.folder.path().join(format!("member{at}.log")));
        let log = log.unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(12).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    // -- Faults

    pub fn kill_member(&mut self, at: usize) {
        self.machines[at].member.kill();
    }

    pub fn kill_etcd(&mut self, at: usize) {
        self.machines[at].etcd.kill();
    }

    pub fn pause_member(&self, at: usize) {
        self.machines[at].member.pause();
    }

    pub fn resume_member(&self, at: usize) {
        self.machines[at].member.resume();
    }

    pub fn stop_member(&mut self, at: usize) {
        self.machines[at].member.stop();
    }

    pub fn has_ended(&mut self, at: usize) -> bool {
        self.machines[at].member.has_ended()
    }

    /// Cuts off the disks and kills the processes on them.
    pub fn cut_power(&mut self, which: &[usize]) {
        self.powerless.set(which.len());
        for at in which {
            // A sync in progress while ext4 is shut down can report a false success, which a disk without power would
            // not do. A stopped process cannot pass it on.
            self.machines[*at].member.pause();
            self.machines[*at].etcd.pause();
        }
        for at in which {
            self.machines[*at].disk.cut();
            self.machines[*at].data.cut();
        }
        for at in which {
            let machine = &mut self.machines[*at];
            machine.member.kill();
            machine.etcd.kill();
        }
    }

    pub fn restore_power(&mut self, which: &[usize]) {
        self.restore_power_without_members(which);
        for at in which {
            self.start_member(*at, None);
        }
        for at in which {
            let address = self.machines[*at].address;
            until("a listener", || TcpStream::connect(address).ok());
        }
        self.powerless.set(0);
    }

    pub fn restore_power_without_members(&mut self, which: &[usize]) {
        for at in which {
            let machine = &mut self.machines[*at];
            for disk in [&mut machine.disk, &mut machine.data] {
                disk.unmount();
                disk.mount().unwrap();
            }
            // The lease file is valid for one boot only.
            let _ = fs::remove_file(self.data(*at).join("fleet/lease.json"));
            self.start_etcd(*at);
        }
    }

    /// Drops all packets from a machine, or all to it.
    pub fn drop_packets_of(&self, at: usize, outgoing: bool, is_dropped: bool) {
        for other in (0..=FOURTH).filter(|other| *other != at) {
            let (from, to) = if outgoing { (at, other) } else { (other, at) };
            self.network.drop_packets(from, to, is_dropped);
        }
    }

    /// Drops packets of the calls of a member to a port of a machine, which may be its own.
    pub fn drop_calls(
        &self,
        member: usize,
        to: usize,
        port: u16,
        (requests, answers): Direction,
        is_dropped: bool,
    ) {
        let port = port.to_string();
        // What a machine cannot send to itself has no answer.
        if requests || to == member {
            self.network
                .drop_arriving(to, member, ["dport", &port], is_dropped);
        }
        if answers && to != member {
            self.network
                .drop_arriving(member, to, ["sport", &port], is_dropped);
        }
    }

    /// Saves or restores the disk images with the power off.
    pub fn with_images(&mut self, work: fn(&Disk, &Path)) {
        for (at, machine) in self.machines.iter_mut().enumerate() {
            for (kind, disk) in [("etcd", &mut machine.disk), ("data", &mut machine.data)] {
                disk.unmount();
                work(disk, &self.folder.path().join(format!("image.{kind}{at}")));
                disk.mount().unwrap();
            }
        }
    }

    /// Flips one bit in the files of a folder, `after` bytes behind the last occurrence of `text`. Returns whether the
    /// text was found.
    pub fn flip_bit(below: &Path, text: &[u8], after: u64) -> bool {
        let mut files = Vec::new();
        list_files(below, &mut files);
        files.sort();
        for path in files.iter().rev() {
            let mut file = File::options().read(true).write(true).open(path).unwrap();
            let mut content = Vec::new();
            file.read_to_end(&mut content).unwrap();
            let mut positions = content.windows(text.len()).enumerate();
            let last = positions.rfind(|(_, window)| *window == text);
            let Some((position, _)) = last else { continue };
            let position = position + text.len() + usize::try_from(after).unwrap();
            let Some(byte) = content.get(position) else {
                continue;
            };
            file.seek(SeekFrom::Start(position as u64)).unwrap();
            file.write_all(&[byte ^ 4]).unwrap();
            return true;
        }
        false
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            println!("the logs stay in {}", self.folder.path().display());
        }
    }
}

fn list_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => list_files(&path, files),
            false => files.push(path),
        }
    }
}
