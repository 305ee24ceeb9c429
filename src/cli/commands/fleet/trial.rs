//! `playgate fleet try`: a whole fleet on one machine, to watch a failover.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::ops::Range;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal,
};
use serde_json::{Value, json};

use crate::output::{self, CommandResult, Exit, Failure};
use crate::process::THIS_PROGRAM;
use crate::process::signals::Signals;
use crate::process::temp_dir::TempDataDir;
use playgate_ports::{Entropy, SystemEntropy};

const NAMES: [&str; 3] = ["one", "two", "three"];
const TIMEOUT: Duration = Duration::from_secs(60);
/// Names the process with which a child process ends.
const PARENT: &str = "PLAYGATE_TRIAL_PARENT";
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Starts three etcd (from PATH) and three members on loopback, with the data of the demo in a temporary
/// directory. Prints their addresses and how to kill one, and runs until Ctrl-C.
#[derive(Args)]
pub(crate) struct Trial {
    /// Print one line of JSON when ready, instead of the explanation
    #[arg(long)]
    json: bool,
}

/// A child process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct TrialMember {
    name: &'static str,
    config: PathBuf,
    url: String,
    ops: String,
    _process: Running,
    pid: u32,
}

struct TrialEtcd {
    name: &'static str,
    url: String,
    process: Running,
}

fn failed(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Fatal, format!("{what}: {error}"))
}

/// Below the ports that Linux gives to outgoing connections and to sockets without a port: a port that is found free stays
/// free until its server binds it.
const PORTS: Range<u16> = 10_240..32_768;
/// Ports of a trial: one that claims the block, two of each etcd and three of each member.
const BLOCK_PORTS: u16 = 16;
const BLOCK_ATTEMPTS: usize = 100;

/// A block of ports. The first one stays bound, so that no other trial takes a port that is free because its server is about
/// to start, or is restarted.
struct PortBlock {
    _claim: TcpListener,
    free: Range<u16>,
}

impl PortBlock {
    fn claim() -> Result<Self, Failure> {
        let entropy: &dyn Entropy = &SystemEntropy::default();
        let mut refused = None;
        for _ in 0..BLOCK_ATTEMPTS {
            let random = u16::from_le_bytes(entropy.array());
            let blocks = (PORTS.end - PORTS.start) / BLOCK_PORTS;
            match Self::claim_at(PORTS.start + random % blocks * BLOCK_PORTS) {
                Ok(block) => return Ok(block),
                Err(error) => refused = Some(error),
            }
        }
        let refused = refused.unwrap_or_else(|| std::io::ErrorKind::AddrInUse.into());
        Err(failed("no free block of TCP ports on 127.0.0.1", &refused))
    }

    fn claim_at(first: u16) -> std::io::Result<Self> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let claim = bind(first)?;
        let free = first + 1..first + BLOCK_PORTS;
        free.clone().try_for_each(|port| bind(port).map(drop))?;
        Ok(Self {
            _claim: claim,
            free,
        })
    }

    fn address(&mut self) -> Result<String, Failure> {
        let port = self.free.next();
        let port = port.ok_or_else(|| Failure::new(Exit::Fatal, "the block has no port left"))?;
        Ok(format!("127.0.0.1:{port}"))
    }
}

impl Trial {
    pub(super) fn run(self) -> CommandResult {
        let place = TempDataDir::temporary("demo")?;
        let folder = PathBuf::from(place.text()?);
        let mut ports = PortBlock::claim()?;
        let etcd = start_etcd(&folder, &mut ports)?;
        let endpoints = etcd.iter().map(|etcd| etcd.url.clone()).collect::<Vec<_>>();
        let (first, ops) = config(&folder, 0, &endpoints, &mut ports)?;
        // Before `fleet init`: a member of a fleet cannot be filled by the demo, which opens the store itself.
        let demo = fill(&folder.join("one"))?;
        playgate(&first, &["fleet", "init", "--name", "one"])?;
        let mut members = vec![start_member("one", &first, ops)?];
        for (at, name) in NAMES.into_iter().enumerate().skip(1) {
            let word = playgate(&first, &["fleet", "invite"])?;
            let (member_config, ops) = config(&folder, at, &endpoints, &mut ports)?;
            playgate(
                &member_config,
                &["fleet", "join", word.trim(), "--name", name],
            )?;
            members.push(start_member(name, &member_config, ops)?);
        }
        self.announce(&members, &etcd, &demo)?;
        wait_for_signal()
    }

    fn announce(&self, members: &[TrialMember], etcd: &[TrialEtcd], demo: &Value) -> CommandResult {
        let text = |name: &str| demo.get(name).and_then(Value::as_str).unwrap_or_default();
        let (token, operator) = (text("partnerToken"), text("operatorToken"));
        let (Some(first), Some(last), Some(log)) = (members.first(), members.last(), etcd.first())
        else {
            return Ok(());
        };
        if self.json {
            let members = members.iter().map(|member| {
                json!({
                    "name": member.name, "baseUrl": member.url, "opsUrl": member.ops,
                    "pid": member.pid, "config": member.config,
                })
            });
            let listed = etcd.iter().map(
                |etcd| json!({"name": etcd.name, "endpoint": etcd.url, "pid": etcd.process.0.id()}),
            );
            return output::json(&json!({
                "endpoint": log.url,
                "baseUrl": first.url,
                "opsUrl": first.ops,
                "operatorToken": operator,
                "partnerToken": token,
                "members": members.collect::<Vec<_>>(),
                "etcd": listed.collect::<Vec<_>>(),
                "demo": demo,
            }));
        }
        output::line("A fleet of three members, with three etcd. Clients may use any member:")?;
        for member in members {
            output::line(&format!(
                "  {:<6} {}  operations {}  kill -9 {}",
                member.name, member.url, member.ops, member.pid
            ))?;
        }
        for etcd in etcd {
            let pid = etcd.process.0.id();
            output::line(&format!("  etcd   {}  kill -9 {pid}", etcd.url))?;
        }
        let config = first.config.display();
        output::line(&format!(
            "\nWho is the owner:   playgate --config {config} fleet status\n\
             A request:          curl -H 'Service-AccessToken: {token}' {url}/api/catalog/v1/livestreams\n\
             The console:        {ops}/console/ with the operator token {operator}\n\
             Kill the owner and repeat them. Start it again:\n\
             \x20                   playgate --config {config} serve\n\
             Hand over:          playgate --config {config} fleet handover\n\
             Ctrl-C ends and removes everything.",
            url = last.url,
            ops = last.ops,
        ))
    }
}

/// A command whose process ends with this one, however this one ends: it would go on in the background, and hold its ports
/// and its files.
fn ending_with_this(program: &str) -> Command {
    let this_process = getpid().as_raw_nonzero();
    let mut command = Command::new(THIS_PROGRAM);
    command.env(PARENT, this_process.to_string()).arg(program);
    command
}

/// Runs the program that the arguments name in place of this process, if [`PARENT`] is set, and lets the kernel kill it when
/// that process has ended. Not a command: it is no word for operators.
pub(crate) fn run_with_parent() -> Option<CommandResult> {
    // Not a setting: it marks a child of this program.
    let parent = std::env::var_os(PARENT)?;
    Some(replace_process(&parent.to_string_lossy()))
}

fn replace_process(parent: &str) -> CommandResult {
    let kill = set_parent_process_death_signal(Some(Signal::KILL));
    kill.map_err(|error| failed("prctl", &error.into()))?;
    // It may have ended before the call above.
    let is_there = getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == parent);
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next().filter(|_| is_there) else {
        return Ok(());
    };
    let mut command = Command::new(&program);
    let error = command.args(arguments).env_remove(PARENT).exec();
    Err(failed(&program.to_string_lossy(), &error))
}

/// Runs this program with a configuration and returns what it prints.
fn playgate(config: &Path, arguments: &[&str]) -> Result<String, Failure> {
    let done = Command::new(THIS_PROGRAM)
        .arg("--config")
        .arg(config)
        .args(arguments)
        .output()
        .map_err(|error| failed("playgate", &error))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(Failure::failed(format!(
        "playgate {}: {said}",
        arguments.join(" ")
    )))
}

fn config(
    folder: &Path,
    at: usize,
    endpoints: &[String],
    ports: &mut PortBlock,
) -> Result<(PathBuf, String), Failure> {
    let name = NAMES.get(at).copied().unwrap_or_default();
    let path = folder.join(format!("{name}.toml"));
    let listed = endpoints
        .iter()
        .map(|url| format!("\"{url}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let (public, ops) = (ports.address()?, ports.address()?);
    let text = format!(
        "listen = [\"{}\"]\ndata_dir = \"{}\"\nenvironment = \"staging\"\n\
         [ops]\nlisten = \"{}\"\n[origin]\nmedia_dir = \"{}\"\n\
         [fleet]\nendpoints = [{listed}]\nlisten = \"{}\"\n",
        public,
        folder.join(name).display(),
        ops,
        // All members serve the media files that the demo unpacked for the first.
        folder.join("one/media").display(),
        ports.address()?,
    );
    fs::write(&path, text).map_err(|error| Failure::file(&path, &error))?;
    Ok((path, format!("http://{ops}")))
}

fn start_etcd(folder: &Path, ports: &mut PortBlock) -> Result<Vec<TrialEtcd>, Failure> {
    // The wrapper that starts it has no words for this.
    if let Err(error) = Command::new("etcd").arg("--version").output() {
        return Err(failed("etcd", &error).hint("install etcd: `apt install etcd-server`"));
    }

    let mut members = Vec::new();
    for name in NAMES {
        let (client, peer) = (ports.address()?, ports.address()?);
        members.push((name, format!("http://{client}"), format!("http://{peer}")));
    }
    let cluster = members
        .iter()
        .map(|(name, _, peer)| format!("{name}={peer}"))
        .collect::<Vec<_>>()
        .join(",");
    let mut started = Vec::new();
    for (name, client, peer) in members {
        let log = folder.join(format!("etcd-{name}.log"));
        let log = fs::File::create(&log).map_err(|error| Failure::file(&log, &error))?;
        let spawned = ending_with_this("etcd")
            .args(["--name", name, "--data-dir"])
            .arg(folder.join(format!("etcd-{name}")))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &cluster])
            // Half of the defaults of etcd, so that a failover takes less time.
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        started.push(TrialEtcd {
            name,
            url: client,
            process: Running(spawned.map_err(|error| failed("etcd", &error))?),
        });
    }
    Ok(started)
}

/// Fills the first data directory as the demo does; returns the demo's line of JSON.
fn fill(data: &Path) -> Result<Value, Failure> {
    let demo = ending_with_this(THIS_PROGRAM)
        .arg("--data-dir")
        .arg(data)
        .args(["demo", "--json", "--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut demo = Running(demo.map_err(|error| failed("playgate demo", &error))?);
    let mut line = String::new();
    if let Some(output) = demo.0.stdout.take() {
        let read = BufReader::new(output).read_line(&mut line);
        read.map_err(|error| failed("playgate demo", &error))?;
    }
    let parsed = serde_json::from_str(&line)
        .map_err(|_| Failure::failed("the demo did not start: run `playgate demo` to see why"))?;
    // SIGTERM, so that the demo closes its store.
    if let Some(pid) = i32::try_from(demo.0.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::TERM);
    }
    demo.0
        .wait()
        .map_err(|error| failed("playgate demo", &error))?;
    Ok(parsed)
}

fn start_member(name: &'static str, config: &Path, ops: String) -> Result<TrialMember, Failure> {
    let log = config.with_extension("log");
    let log = fs::File::create(&log).map_err(|error| Failure::file(&log, &error))?;
    let spawned = ending_with_this(THIS_PROGRAM)
        .arg("--config")
        .arg(config)
        .arg("serve")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn();
    let mut process = Running(spawned.map_err(|error| failed("playgate serve", &error))?);
    let mut line = String::new();
    if let Some(output) = process.0.stdout.take() {
        let read = BufReader::new(output).read_line(&mut line);
        read.map_err(|error| failed("playgate serve", &error))?;
    }
    let url = line.trim().strip_prefix("listening on ").map(str::to_owned);
    let Some(url) = url else {
        let log = config.with_extension("log");
        let said = fs::read_to_string(log).unwrap_or_default();
        return Err(Failure::failed(format!(
            "member {name} did not start: {said}"
        )));
    };
    wait_until_served(config, &ops)?;
    Ok(TrialMember {
        name,
        config: config.to_owned(),
        url,
        ops,
        pid: process.0.id(),
        _process: process,
    })
}

/// Waits until the owner answers a command, and the member itself its operators.
fn wait_until_served(config: &Path, ops: &str) -> CommandResult {
    let began = Instant::now();
    loop {
        match playgate(config, &["partner", "list"]) {
            Ok(_) if is_open(ops).unwrap_or_default() => return Ok(()),
            Err(failure) if began.elapsed() > TIMEOUT => return Err(failure),
            Ok(_) if began.elapsed() > TIMEOUT => {
                return Err(Failure::failed(format!("{ops} does not answer")));
            }
            Ok(_) | Err(_) => std::thread::park_timeout(RETRY_INTERVAL),
        }
    }
}

/// Whether the services of a member are open; it may be unready for other reasons.
fn is_open(ops: &str) -> std::io::Result<bool> {
    let address = ops.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1) == Some("200"))
}

fn wait_for_signal() -> CommandResult {
    crate::process::wait(async {
        Signals::listen()?.next().await;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_ports_is_taken_once() {
        let mut block = PortBlock::claim().unwrap();
        let first = block.free.start - 1;
        // Also while none of its servers runs.
        assert!(PortBlock::claim_at(first).is_err());
        let mut addresses: Vec<_> = (1..BLOCK_PORTS).map(|_| block.address().unwrap()).collect();
        addresses.dedup();
        assert_eq!(addresses.len(), 15);
        assert!(block.address().is_err());
    }
}
