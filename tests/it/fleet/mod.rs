//! Fleets of three members and three etcd on this machine.
//!
//! | module | owns |
//! | --- | --- |
//! | `trial` | the fleet of `playgate fleet try` |
//! | `operations` | what operators see and do: health, mistakes, `reseed`, `dissolve` |
//! | `etcd_data` | data of etcd that grow, are lost or old; a copied member |
//! | `members` | each member by itself: probes, connections, whether it may be the owner |
//! | `claims` | who claims the log, and an owner whose claim has ended |
//! | `stale_reads` | what a member answers that may not be the owner any more |
//! | `standby_reads` | what a standby answers itself, and what it forwards |
//! | `partial_cuts` | a member that reaches some of the endpoints of etcd |
//! | `full_disk` | an owner that has no disk space |
//! | `full_etcd` | an etcd at its quota, and the commands of the page |
//! | `forwarding` | telemetry of all members, forwarded to a sink |
//! | `machines` | members and etcd on disks and in network namespaces that can be cut off |
//! | `joiner` | a fourth machine, whose member joins |
//! | `ledger` | clients, and what they were answered |
//! | `lost_machines` | two of three machines are gone |
//! | `viewer` | a viewer who plays |
//! | `purchases` | clients whose every step is at another member |
//! | `campaign` | faults while clients write and read |
//! | `faults` | these faults |
//! | `set_up_page` | the commands of the page, one by one |
//! | `rolling_upgrade` | members of an older version, upgraded in turn |
//! | `key_rotation` | a new key for members that run |
//! | `idle_cost` | what a fleet with nothing to do costs etcd |
//! | `formats` | a new store format, under the same faults |
//! | `figures` | what a change costs |

mod campaign;
mod claims;
#[allow(dead_code, reason = "the crash tests use the rest")]
#[path = "../../crash/harness/disk.rs"]
mod disk;
mod etcd_data;
mod faults;
mod figures;
mod formats;
mod forwarding;
mod full_disk;
mod full_etcd;
mod idle_cost;
mod joiner;
mod key_rotation;
mod ledger;
mod lost_machines;
mod machines;
mod members;
mod operations;
mod partial_cuts;
mod purchases;
mod rolling_upgrade;
mod set_up_page;
mod stale_reads;
mod standby_reads;
mod trial;
mod viewer;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::appliance::{binary, binary_at, err};
use crate::support::process::{self, InTime as _};
use crate::support::raw_http::request;
use crate::support::until::until_some as until;

/// A connection waits up to 10 seconds for an owner.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);

fn playgate(config: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = program_of(config);
    command
        .arg("--config")
        .arg(config)
        .args(arguments)
        .envs(installed(config));
    let output = command.output_in_time();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(err(&output)),
    }
}

/// Returns the path of a file about the version on the machine of this configuration.
fn version_file(config: &Path, kind: &str) -> PathBuf {
    let name = config.file_name().unwrap().to_str().unwrap();
    let (machine, _) = name.split_once('.').unwrap();
    config.with_file_name(format!("{machine}.{kind}"))
}

/// Returns the path of the file that sets the store format of the version on this machine.
fn format_file(config: &Path) -> PathBuf {
    version_file(config, "format")
}

/// Returns the path of the file that names the binary of this machine, where it is another one.
fn program_file(config: &Path) -> PathBuf {
    version_file(config, "program")
}

fn program_of(config: &Path) -> Command {
    match fs::read_to_string(program_file(config)) {
        Ok(program) => binary_at(program.as_ref()),
        Err(_) => binary(),
    }
}

/// Returns the variable that makes a debug build write that store format.
fn installed(config: &Path) -> Option<(&'static str, String)> {
    let format = fs::read_to_string(format_file(config)).ok()?;
    Some(("PLAYGATE_NEXT_FORMAT", format))
}

/// Copies the configuration without its fleet section.
fn single_node_config(config: &Path) -> PathBuf {
    let text = fs::read_to_string(config).unwrap();
    let (text, _) = text.split_once("[fleet]").unwrap();
    let single_node = config.with_extension("alone.toml");
    fs::write(&single_node, text).unwrap();
    single_node
}

/// Returns status and body, or `None` if the connection failed.
fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    send_within(RESPONSE_TIMEOUT, address, method, target, headers, body)
}

fn send_within(
    timeout: Duration,
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2)).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    let headers = [headers, &[("Connection", "close")][..]].concat();
    let text = request(method, target, &headers, body);
    stream.write_all(text.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.get(9..12)?.parse().ok()?, body.to_owned()))
}

fn post(
    address: SocketAddr,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Option<(u16, String)> {
    send(address, "POST", target, headers, body)
}
