//! The part "Set up" of `docs/fleet.md`, command by command: three machines with TLS between all, client certificates and
//! a login of etcd, behind HAProxy. Addresses of loopback stand for those of the machines, and folders of the test for
//! those that the page names.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{program_of, send, until};
use crate::support::appliance::err;
use crate::support::certificates::openssl;
use crate::support::external_tools::{ExternalProxy, free_port, program};
use crate::support::process::{InTime as _, KilledOnDrop};
use crate::support::server::PASSWORD;

const PAGE: &str = include_str!("../../../docs/fleet.md");
const MACHINES: [usize; 3] = [1, 2, 3];
const ETCD_PASSWORD: &str = "a password of etcd\n";
/// Its answer to each question for a password, which is asked twice.
const TYPED: &str = "a password of etcd\na password of etcd\n";

/// Returns the code of a language in a part of the page, without the indentation of lists.
fn blocks(part: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let pieces = part.split(&fence).skip(1);
    let texts = pieces.map(|piece| piece.split_once("```").unwrap().0);
    texts
        .map(|text| {
            text.lines()
                .map(|line| line.trim().to_owned() + "\n")
                .collect()
        })
        .collect()
}

/// Returns the part below a heading.
fn part(heading: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("{heading}\n")).unwrap();
    let level = heading.split(' ').next().unwrap();
    rest.split_once(&format!("\n{level} "))
        .map_or(rest, |(part, _)| part)
}

/// Returns the commands of a block, each with its continuation lines.
fn commands(block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines();
    let typed = lines.filter_map(|line| line.strip_prefix("$ ").or(line.strip_prefix("# ")));
    typed.map(str::to_owned).collect()
}

/// The place of the machines: processes end with it.
struct Site {
    running: Vec<KilledOnDrop>,
    /// The first three numbers of the addresses.
    prefix: String,
    folder: TempDir,
}

impl Site {
    fn new() -> Self {
        let id = std::process::id();
        let folder = tempfile::tempdir().unwrap();
        let site = Self {
            running: Vec::new(),
            prefix: format!("127.{}.{}.", 1 + id % 250, 1 + id / 250 % 250),
            folder,
        };
        for at in MACHINES {
            for below in [
                "etc/etcd",
                "etc/playgate",
                "var/lib/etcd",
                "var/lib/playgate",
            ] {
                fs::create_dir_all(site.root(at).join(below)).unwrap();
            }
            site.install_programs(at);
        }
        site.make_certificates();
        site
    }

    /// What is below `/` on a machine.
    fn root(&self, at: usize) -> PathBuf {
        self.folder.path().join(format!("m{at}"))
    }

    fn address(&self, at: usize, port: u16) -> SocketAddr {
        format!("{}{at}:{port}", self.prefix).parse().unwrap()
    }

    fn config(&self, at: usize) -> PathBuf {
        self.root(at).join("etc/playgate/playgate.toml")
    }

    /// `playgate` reads the configuration of its machine.
    fn install_programs(&self, at: usize) {
        let binary = program_of(&self.config(at));
        let script = format!(
            "#!/bin/sh\nexec {:?} --config {:?} \"$@\"\n",
            binary.get_program(),
            self.config(at)
        );
        let path = self.root(at).join("playgate");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// As the page asks for: each names the address of its machine, and is for servers and clients.
    fn make_certificates(&self) {
        let at = self.folder.path();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -batch";
        let authority = format!("req -x509 {key} -keyout ca.key -out ca.pem -days 30");
        openssl(at, &format!("{authority} -subj /CN=authority"));
        let client = ("client".to_owned(), None);
        let machines = MACHINES.map(|at| (format!("m{at}"), Some(format!("{}{at}", self.prefix))));
        for (name, address) in machines.into_iter().chain([client]) {
            let mut extensions = "extendedKeyUsage=serverAuth,clientAuth\n".to_owned();
            if let Some(address) = address {
                // Whoever calls from loopback has this address, and etcd compares it.
                extensions.push_str(&format!("subjectAltName=IP:{address},IP:127.0.0.1\n"));
            }
            fs::write(at.join("extensions"), extensions).unwrap();
            let request = format!("req {key} -keyout {name}.pem.key -out {name}.csr");
            // With a login, etcd refuses a client whose certificate has a common name.
            let subject = if name == "client" {
                "/O=playgate"
            } else {
                "/CN=etcd"
            };
            openssl(at, &format!("{request} -subj {subject}"));
            let sign = format!("x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial");
            openssl(
                at,
                &format!("{sign} -out {name}.crt -days 30 -extfile extensions"),
            );
        }
        for machine in MACHINES {
            let etc = self.root(machine).join("etc");
            let copies = [
                ("ca.pem".to_owned(), "etcd/ca.pem".to_owned()),
                (format!("m{machine}.crt"), format!("etcd/m{machine}.pem")),
                (
                    format!("m{machine}.pem.key"),
                    format!("etcd/m{machine}.key"),
                ),
                (
                    "client.crt".to_owned(),
                    "playgate/etcd-client.pem".to_owned(),
                ),
                (
                    "client.pem.key".to_owned(),
                    "playgate/etcd-client.key".to_owned(),
                ),
            ];
            for (from, to) in copies {
                fs::copy(at.join(from), etc.join(to)).unwrap();
            }
        }
    }

    /// Puts the addresses and folders of this test in place of those of the page.
    fn here(&self, at: usize, text: &str) -> String {
        let root = self.root(at);
        let mut text = text.replace("10.0.0.", &self.prefix);
        for folder in ["/etc/etcd/", "/etc/playgate/", "/var/lib/"] {
            text = text.replace(folder, &format!("{}{folder}", root.display()));
        }
        text
    }

    fn shell(&self, at: usize, script: &str) -> Command {
        let path = std::env::var_os("PATH").unwrap().into_string().unwrap();
        let program = program_of(&self.config(at));
        let mut shell = Command::new("bash");
        for (name, value) in program.get_envs() {
            match value {
                _ if name == "PLAYGATE_OPS_LISTEN" => shell.env_remove(name),
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell
            .env(
                "PATH",
                format!("{}:/usr/sbin:{path}", self.root(at).display()),
            )
            .args(["-ec", &self.here(at, script)]);
        shell
    }

    /// Runs a command that asks for `typed`. Returns what it prints.
    fn run(&self, at: usize, script: &str, typed: &str) -> Result<String, String> {
        let mut shell = self.shell(at, script);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = shell.stderr(Stdio::piped()).spawn().unwrap();
        let mut input = running.stdin.take().unwrap();
        // A command that asks nothing may have ended.
        let _ = input.write_all(typed.as_bytes());
        drop(input);
        let output = running.output_in_time();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(format!("{script}: {}", err(&output))),
        }
    }

    /// Runs a command that goes on until the end of the test.
    fn start(&mut self, at: usize, script: &str) {
        let log = File::create(self.root(at).join("log")).unwrap();
        let mut shell = self.shell(at, &format!("exec {script}"));
        let shell = shell.stdin(Stdio::null()).stdout(Stdio::null());
        let started = shell.stderr(log).spawn().unwrap();
        self.running.push(KilledOnDrop(started));
    }

    /// Starts etcd on all machines with the command of the page for the first, and the flags for client certificates.
    fn start_etcd(&mut self, command: &str, flags: &str) {
        let (before, cluster) = command.split_once("--initial-cluster ").unwrap();
        let (cluster, after) = cluster.split_once(' ').unwrap();
        for at in MACHINES {
            let of_machine = |text: &str| {
                let text = text.replace("10.0.0.1", &format!("10.0.0.{at}"));
                text.replace("--name m1", &format!("--name m{at}"))
                    .replace("/m1.", &format!("/m{at}."))
            };
            let (before, after) = (of_machine(before), of_machine(after));
            self.start(
                at,
                &format!("{before} --initial-cluster {cluster} {after} {flags}"),
            );
        }
    }

    /// Runs a command of the page with its `systemctl`, which stands for the process here.
    fn command(&mut self, at: usize, command: &str, typed: &str) -> String {
        match command {
            // Nothing runs before the first start.
            "systemctl stop playgate" => String::new(),
            "systemctl start playgate" => {
                self.start(at, "playgate serve");
                String::new()
            }
            _ => until(command, || {
                let done = self.run(at, command, typed);
                done.inspect_err(|why| println!("not yet: {why}")).ok()
            }),
        }
    }

    /// Signs up until it succeeds.
    fn until_signed_up(&self, partner: &str, at: SocketAddr, name: &str) {
        let mut number = 0;
        let headers = [("Service-AccessToken", partner)];
        until("a sign-up", || {
            number += 1;
            let email = format!("{name}-{number}@example.com");
            let body = json!({"identity": email, "accessKey": PASSWORD}).to_string();
            let (status, _) = send(at, "PUT", "/api/login/v2/auth/email", &headers, &body)?;
            (status == 200).then_some(())
        });
    }
}

/// Returns a configuration of the page, with `top` in the part before its first section.
fn configuration(top: &str, fleet: &str, more: &str) -> String {
    let (listen, section) = fleet.split_once("[fleet]").unwrap();
    let (_, more) = more.split_once("client_cert").unwrap();
    format!("{listen}{top}[fleet]{section}client_cert{more}")
}

/// Step 1. Returns the variables of etcdctl.
fn start_etcd_with_login(site: &mut Site, etcd: &str, login: &str, tls: &[String]) -> Vec<String> {
    let more = commands(&tls[0]).remove(0);
    let (_, flags) = more.split_once("… ").unwrap();
    site.start_etcd(&commands(etcd)[0], flags);
    let all = [commands(login), commands(&tls[1])].concat();
    let exported: Vec<_> = all
        .into_iter()
        .filter(|command| command.starts_with("export "))
        .collect();
    for command in commands(login) {
        let with_exports = [exported.clone(), vec![command]].concat().join("; ");
        // The first one may come before etcd has a leader.
        site.command(1, &with_exports, TYPED);
    }
    exported
}

/// Step 2.
fn configure(site: &Site, secrets: &str, fleet: &str, client: &str) {
    for at in MACHINES {
        for command in commands(secrets) {
            // A group of the package.
            let command = command.replace("-g playgate ", "");
            site.run(at, &command, ETCD_PASSWORD).unwrap();
        }
        let top = format!(
            "data_dir = \"/var/lib/playgate\"\nenvironment = \"staging\"\n[ops]\nlisten = \"10.0.0.{at}:9080\"\n\
             [limits]\nsign_up_per_address = 1000000\n"
        );
        let text = configuration(&top, fleet, client);
        let (before, rest) = text.split_once("endpoints = ").unwrap();
        let (endpoints, after) = rest.split_once('\n').unwrap();
        let of_machine = |text: &str| text.replace("10.0.0.1", &format!("10.0.0.{at}"));
        let text = format!(
            "{}endpoints = {endpoints}\n{}",
            of_machine(before),
            of_machine(after)
        );
        fs::write(site.config(at), site.here(at, &text)).unwrap();
    }
}

/// Steps 3 and 4. Returns the token of a partner.
fn start_members(site: &mut Site, begin: &str, join: &str) -> String {
    let mut word = String::new();
    for command in commands(begin) {
        word = site.command(1, &command, "");
    }
    let added = site.command(1, "playgate partner add test --json", "");
    let added: Value = serde_json::from_str(&added).unwrap();
    for (at, name) in [(2, "south"), (3, "west")] {
        if at == 3 {
            word = site.command(1, "playgate fleet invite", "");
        }
        for command in commands(join) {
            let command = command.replace("--name south", &format!("--name {name}"));
            site.command(at, &command, &word);
        }
    }
    added["accessToken"].as_str().unwrap().to_owned()
}

/// Step 5: the balancer of the page, at this address.
fn balance(site: &Site, program: &Path, backend: &str, address: SocketAddr) -> ExternalProxy {
    let backend = site.here(1, backend);
    let config = format!(
        "defaults\nmode http\ntimeout connect 5s\ntimeout client 75s\ntimeout server 40s\n\
         frontend viewers\nbind {address}\ndefault_backend playgate\n{backend}"
    );
    ExternalProxy::haproxy(program, &config, address)
}

#[test]
fn the_commands_of_the_page_set_a_fleet_up() {
    let (Some(_), Some(_), Some(haproxy)) =
        (program("etcd"), program("etcdctl"), program("haproxy"))
    else {
        return;
    };
    let (set_up, tls) = (part("## Set up"), part("### TLS towards etcd"));
    let consoles = blocks(set_up, "console");
    let [etcd, login, secrets, begin, join] = &consoles[..] else {
        panic!("{consoles:#?}");
    };
    let mut site = Site::new();
    let exported = start_etcd_with_login(&mut site, etcd, login, &blocks(tls, "console"));
    configure(
        &site,
        secrets,
        &blocks(set_up, "toml")[0],
        &blocks(tls, "toml")[0],
    );
    let partner = start_members(&mut site, begin, join);
    let balancer: SocketAddr = format!("127.0.0.1:{}", free_port()).parse().unwrap();
    let _haproxy = balance(&site, &haproxy, &blocks(set_up, "haproxy")[0], balancer);
    site.until_signed_up(&partner, balancer, "first");
    for at in MACHINES {
        until("a ready member", || {
            let (status, _) = send(site.address(at, 9080), "GET", "/readyz", &[], "")?;
            (status == 200).then_some(())
        });
    }

    // Step 6.
    let status = until("an owner", || {
        let status = site.run(2, "playgate fleet status", "").unwrap();
        status.contains(" owner ").then_some(status)
    });
    assert!(
        status.contains("north") && status.contains("west"),
        "{status}"
    );
    site.running[MACHINES.len()].kill().unwrap();
    site.until_signed_up(&partner, balancer, "next");
    site.command(1, "systemctl start playgate", "");
    etcd_is_mended(&site, &partner, balancer, &exported);
}

/// "etcd is full" of the page, on an etcd with TLS and a login.
fn etcd_is_mended(site: &Site, partner: &str, balancer: SocketAddr, exported: &[String]) {
    let (_, full) = PAGE.split_once("**etcd is full:**").unwrap();
    let remedy = commands(&blocks(full, "console")[0]);
    // In one shell, since an operator keeps variables and functions from one command to the next.
    let script = [exported, &remedy[..]].concat().join("\n");
    site.run(1, &script, TYPED).unwrap();
    site.until_signed_up(partner, balancer, "last");
    let without_login = [exported, &["etcdctl get playgate/".to_owned()]].concat();
    let refused = site.run(1, &without_login.join("\n"), "").unwrap_err();
    assert!(refused.contains("permission denied"), "{refused}");
}
