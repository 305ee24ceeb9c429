//! `playgate fleet try`: a whole fleet on one machine, to watch a failover.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli::demo::TempDataDir;
use crate::cli::exit::{CommandResult, Exit, Failure};
use crate::cli::output;
use crate::cli::reexec::THIS_PROGRAM;
use crate::cli::signals::Signals;
use crate::ports::{Entropy, SystemEntropy};

const NAMES: [&str; 3] = ["one", "two", "three"];
const TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Starts three etcd (from PATH) and three members on loopback, with the data of the demo in a temporary
/// directory. Prints their addresses and how to kill one, and runs until Ctrl-C.
#[derive(Args)]
pub(in crate::cli) struct Trial {
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
    _process: Running,
    pid: u32,
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
        let endpoints = etcd.iter().map(|(_, url)| url.clone()).collect::<Vec<_>>();
        let first = config(&folder, 0, &endpoints, &mut ports)?;
        // Before `fleet init`: a member of a fleet cannot be filled by the demo, which opens the store itself.
        let demo = fill(&folder.join("one"))?;
        playgate(&first, &["fleet", "init", "--name", "one"])?;
        let mut members = vec![start_member("one", &first)?];
        for (at, name) in NAMES.into_iter().enumerate().skip(1) {
            let word = playgate(&first, &["fleet", "invite"])?;
            let own = config(&folder, at, &endpoints, &mut ports)?;
            playgate(&own, &["fleet", "join", word.trim(), "--name", name])?;
            members.push(start_member(name, &own)?);
        }
        self.announce(&members, &etcd, &demo)?;
        wait_for_signal()
    }

    fn announce(
        &self,
        members: &[TrialMember],
        etcd: &[(Running, String)],
        demo: &Value,
    ) -> CommandResult {
        let token = demo.get("partnerToken").and_then(Value::as_str);
        let token = token.unwrap_or_default();
        if self.json {
            let members = members.iter().map(|member| {
                serde_json::json!({
                    "name": member.name, "url": member.url, "pid": member.pid, "config": member.config,
                })
            });
            let etcd = etcd
                .iter()
                .map(|(process, url)| serde_json::json!({ "url": url, "pid": process.0.id() }));
            return output::json(&serde_json::json!({
                "members": members.collect::<Vec<_>>(),
                "etcd": etcd.collect::<Vec<_>>(),
                "partnerToken": token,
                "demo": demo,
            }));
        }
        output::line("Three members on one log. Each answers for the fleet:")?;
        for member in members {
            output::line(&format!(
                "  {:<6} {}  kill -9 {}",
                member.name, member.url, member.pid
            ))?;
        }
        for (process, url) in etcd {
            output::line(&format!("  etcd   {url}  kill -9 {}", process.0.id()))?;
        }
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return Ok(());
        };
        let config = first.config.display();
        output::line(&format!(
            "\nWho is the owner:   playgate --config {config} fleet status\n\
             A request:          curl -H 'Service-AccessToken: {token}' {}/livestreams\n\
             Kill the owner and repeat both. Start it again:\n\
             \x20                   playgate --config {config} serve\n\
             Ctrl-C ends and removes everything.",
            last.url
        ))
    }
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
) -> Result<PathBuf, Failure> {
    let name = NAMES.get(at).copied().unwrap_or_default();
    let path = folder.join(format!("{name}.toml"));
    let listed = endpoints
        .iter()
        .map(|url| format!("\"{url}\""))
        .collect::<Vec<_>>()
        .join(", ");
    let text = format!(
        "listen = [\"{}\"]\ndata_dir = \"{}\"\nenvironment = \"staging\"\n\
         [ops]\nlisten = \"{}\"\n[origin]\nmedia_dir = \"{}\"\n\
         [fleet]\nendpoints = [{listed}]\nlisten = \"{}\"\n",
        ports.address()?,
        folder.join(name).display(),
        ports.address()?,
        // All members serve the media files that the demo unpacked for the first.
        folder.join("one/media").display(),
        ports.address()?,
    );
    fs::write(&path, text).map_err(|error| Failure::file(&path, &error))?;
    Ok(path)
}

fn start_etcd(folder: &Path, ports: &mut PortBlock) -> Result<Vec<(Running, String)>, Failure> {
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
        let spawned = Command::new("etcd")
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
        let child = spawned.map_err(|error| {
            failed("etcd", &error).hint("install etcd: `apt install etcd-server`")
        })?;
        started.push((Running(child), client));
    }
    Ok(started)
}

/// Fills the first data directory as the demo does; returns the demo's line of JSON.
fn fill(data: &Path) -> Result<Value, Failure> {
    let demo = Command::new(THIS_PROGRAM)
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

fn start_member(name: &'static str, config: &Path) -> Result<TrialMember, Failure> {
    let log = config.with_extension("log");
    let log = fs::File::create(&log).map_err(|error| Failure::file(&log, &error))?;
    let spawned = Command::new(THIS_PROGRAM)
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
    wait_until_served(config)?;
    Ok(TrialMember {
        name,
        config: config.to_owned(),
        url,
        pid: process.0.id(),
        _process: process,
    })
}

/// Waits until the owner answers a command.
fn wait_until_served(config: &Path) -> CommandResult {
    let began = Instant::now();
    loop {
        match playgate(config, &["partner", "list"]) {
            Ok(_) => return Ok(()),
            Err(failure) if began.elapsed() > TIMEOUT => return Err(failure),
            Err(_) => std::thread::park_timeout(RETRY_INTERVAL),
        }
    }
}

fn wait_for_signal() -> CommandResult {
    crate::cli::wait(async {
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
