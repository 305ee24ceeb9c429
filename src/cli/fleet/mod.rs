//! `playgate fleet`: several machines that serve as one.

mod member;
mod trial;

use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use data_encoding::HEXLOWER;
use tokio::runtime::{Builder, Runtime};

pub(super) use self::member::{FleetMember, membership};
use super::exit::{CommandResult, Exit, Failure};
use super::{Global, output, verify_subprocess};
use crate::app::{self, Ports, StoreOpener, open_store};
use crate::config::{Config, Loaded};
use crate::domain;
use crate::fleet::etcd::{EtcdLog, MemberRecord};
use crate::fleet::membership::{INVITED_FOR, Invitation, Membership, directory};
use crate::fleet::peers::{self, PeerError};
use crate::fleet::public_key;
use crate::ports::private_file;
use crate::store::replication::{Replication, SharedLog as _, SharedLogError};
use crate::store::{FleetAccess, FormatUpgrade, Join, Store};
use crate::types::VERSION;

const NAME_MAX: usize = 64;
/// A difference of clocks above which a new member is refused. Tokens and sessions end by the clock of the
/// owner, whichever that is.
const CLOCKS_MAX: i64 = 5;
const READ_BYTES: usize = 1024 * 1024;
const LEASE: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(super) enum FleetCommand {
    /// Make this data directory the first member of a new fleet
    Init {
        /// Name of this member
        #[arg(long, value_name = "NAME", value_parser = name)]
        name: String,
    },
    /// Print a word that lets one machine join within 24 hours
    Invite,
    /// Join a fleet, with an empty data directory
    Join {
        /// What `playgate fleet invite` printed on a member
        #[arg(value_name = "WORD")]
        word: String,
        /// Name of this member
        #[arg(long, value_name = "NAME", value_parser = name)]
        name: String,
    },
    /// Show the members, the owner and the log
    Status,
    /// Take this data directory out of its fleet; its data stays
    Leave {
        /// Remove the record of this member instead, whose machine is gone
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
    /// Start three members and three etcd on this machine, with sample data
    Try(trial::Trial),
}

fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > NAME_MAX || !text.chars().all(fits) {
        return Err(format!(
            "use 1 to {NAME_MAX} letters, digits, dots, dashes or underscores"
        ));
    }
    Ok(text.to_owned())
}

pub(super) fn run(command: FleetCommand, global: &Global) -> CommandResult {
    match command {
        FleetCommand::Init { name } => Fleet::load(global)?.init(name),
        FleetCommand::Invite => Fleet::load(global)?.invite(),
        FleetCommand::Join { word, name } => Fleet::load(global)?.join(&word, name),
        FleetCommand::Status => Fleet::load(global)?.status(),
        FleetCommand::Leave { name } => Fleet::load(global)?.leave(name.as_deref()),
        FleetCommand::Try(trial) => trial.run(),
    }
}

impl From<SharedLogError> for Failure {
    fn from(error: SharedLogError) -> Self {
        let failure = Self::failed(error.to_string());
        match error {
            SharedLogError::Unknown(_) => {
                failure.hint("check that etcd runs, and `fleet.endpoints`, `fleet.ca`")
            }
            SharedLogError::Refused(_) => failure.hint(
                "check `fleet.username` and `fleet.password`, and whether etcd has reached its quota (`etcdctl alarm list`)",
            ),
            SharedLogError::Foreign => failure.hint(
                "`fleet.endpoints` lead to an etcd without this fleet: to another one, or one that was emptied",
            ),
            SharedLogError::Truncated { .. } | SharedLogError::Damaged { .. } => failure,
        }
    }
}

impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Self {
        let failure = Self::failed(error.to_string());
        match error {
            PeerError::Connect { .. } => failure.hint(
                "check that the service of the inviting member runs, and its `fleet.listen` and `fleet.advertise`",
            ),
            PeerError::OtherKey { .. } => failure.hint("run `playgate fleet invite` on a member of the fleet"),
            PeerError::Refused { .. } | PeerError::File(_) => failure,
        }
    }
}

/// Of a command: its configuration, and a runtime for calls of etcd, which block.
struct Fleet {
    loaded: Loaded,
    ports: Ports,
    runtime: Runtime,
}

impl Fleet {
    fn load(global: &Global) -> Result<Self, Failure> {
        let loaded = global.load()?;
        if loaded.config.fleet.endpoints.is_empty() {
            return Err(Failure::usage("`fleet.endpoints` is not set").hint(
                "name the etcd of the fleet, such as endpoints = [\"http://10.0.0.1:2379\"]",
            ));
        }
        Ok(Self {
            ports: Ports::for_machine(&loaded.config),
            loaded,
            runtime: Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .map_err(|error| Failure::new(Exit::Fatal, error.to_string()))?,
        })
    }

    fn config(&self) -> &Config {
        &self.loaded.config
    }

    fn data_dir(&self) -> &Path {
        &self.config().server.data_dir
    }

    fn log(&self, fleet: [u8; 16]) -> Result<EtcdLog, Failure> {
        let settings = member::etcd(&self.config().fleet)?;
        let runtime = self.runtime.handle().clone();
        let mut log = EtcdLog::new(&settings, fleet, LEASE, runtime)?;
        let version = log.engine_version()?;
        check_version(&version)?;
        Ok(log)
    }

    fn own(&self) -> Result<Membership, Failure> {
        Membership::read(self.data_dir())?.ok_or_else(|| {
            let said = format!("{} belongs to no fleet", self.data_dir().display());
            Failure::new(Exit::NotFound, said)
                .hint("run `playgate fleet init` for the first member, or `playgate fleet join`")
        })
    }

    fn must_be_in_none(&self) -> CommandResult {
        match Membership::read(self.data_dir())? {
            // An attempt to join did not finish; it may be repeated.
            Some(_) if !app::has_store(self.config()) => Ok(()),
            Some(own) => Err(Failure::failed(format!(
                "{} is member {} of a fleet already",
                self.data_dir().display(),
                own.name
            ))),
            None => Ok(()),
        }
    }

    fn open(&self, fleet: FleetAccess) -> Result<Store, Failure> {
        let opener = StoreOpener {
            sync: !self.loaded.unsafe_no_sync,
            accept_loss: false,
            upgrade: FormatUpgrade::Refuse,
            fleet,
            examine: verify_subprocess::verify_in_subprocess(),
            on_failure: std::sync::Arc::new(|error| {
                output::print_note(&format!("error: {error}"));
            }),
        };
        Ok(open_store(self.config(), &self.ports, opener)?)
    }

    fn record(&self, membership: &Membership, applied: u64) -> MemberRecord {
        MemberRecord {
            id: membership.member_hex(),
            name: membership.name.clone(),
            address: member::address(&self.config().fleet),
            version: VERSION.to_owned(),
            applied,
            seen: self.ports.clock.now().0,
        }
    }

    fn init(&self, name: String) -> CommandResult {
        self.must_be_in_none()?;
        let store = self.open(FleetAccess::Refuse)?;
        let at = store.position()?;
        drop(store);
        let Some(at) = at else {
            return Err(Failure::failed("the history of the store is not known")
                .hint("start the service once without `fleet.endpoints`, and stop it"));
        };
        let membership = Membership {
            fleet: self.ports.entropy.array(),
            member: self.ports.entropy.array(),
            name,
            key: self.ports.entropy.array(),
        };
        let mut log = self.log(membership.fleet)?;
        log.create(at.number)?;
        log.register(&self.record(&membership, at.number))?;
        membership.write(self.data_dir())?;
        output::line(&format!(
            "fleet {} begins at commit {}; start the service, then run `playgate fleet invite`",
            HEXLOWER.encode(&membership.fleet),
            at.number
        ))
    }

    fn invite(&self) -> CommandResult {
        let own = self.own()?;
        let invitation = Invitation {
            public_key: public_key(&own.key)
                .ok_or_else(|| Failure::new(Exit::Fatal, "the key of the fleet is damaged"))?,
            secret: self.ports.entropy.array(),
            address: member::address(&self.config().fleet),
        };
        let until = self.ports.clock.now().0 + INVITED_FOR;
        invitation.record(self.data_dir(), until)?;
        output::line(&invitation.word())
    }

    fn join(&self, word: &str, name: String) -> CommandResult {
        self.must_be_in_none()?;
        let data = self.data_dir();
        if app::has_store(self.config()) {
            return Err(Failure::failed(format!("{} has a store", data.display())).hint(
                "a new member begins with an empty data directory: move this one away, or name another",
            ));
        }
        let invitation = Invitation::parse(word)?;
        let folder = directory(data);
        fs::create_dir_all(&folder).map_err(|error| Failure::file(&folder, &error))?;
        let snapshot = folder.join("incoming.snapshot");
        let format = domain::schema().format();
        let welcome = self.runtime.block_on(peers::join(
            &invitation,
            // Any key: that of the fleet comes with the answer.
            &self.ports.entropy.array(),
            format,
            &snapshot,
        ))?;
        let apart = welcome.now - self.ports.clock.now().0;
        if apart.abs() > CLOCKS_MAX {
            return Err(Failure::failed(format!(
                "the clock of this machine differs from that of {} by {apart} seconds",
                invitation.address
            ))
            .hint("synchronise the clocks, then run `playgate fleet invite` and `join` again"));
        }
        let membership = welcome
            .membership(self.ports.entropy.array(), name)
            .ok_or_else(|| Failure::failed("the answer of the member is damaged"))?;
        let mut log = self.log(membership.fleet)?;
        let record = self.record(&membership, 0);
        if !log.register(&record)? {
            return Err(
                Failure::failed(format!("the fleet has a member {}", record.name)).hint(
                    "choose another name; or if that machine is gone, run `playgate fleet leave --name NAME` on a member",
                ),
            );
        }
        let joined = self.install(&membership, &welcome, &snapshot);
        if joined.is_err() {
            // So that the name is free for the next attempt.
            let _ = log.unregister(&record);
        }
        let number = joined?;
        output::line(&format!(
            "joined as {} at commit {number}; start the service",
            record.name
        ))
    }

    fn install(
        &self,
        membership: &Membership,
        welcome: &peers::Welcome,
        snapshot: &Path,
    ) -> Result<u64, Failure> {
        let data = self.data_dir();
        let keys = data.join("keys");
        for (name, content) in &welcome.keys {
            // A name that another machine sent must not lead out of the directory.
            if name.contains('/') {
                continue;
            }
            private_file::write(&keys, name, content.as_bytes())
                .map_err(|error| Failure::file(&keys.join(name), &error))?;
        }
        // Before the store: without the membership it would open as that of a single node.
        membership.write(data)?;
        let join = Join {
            directory: data,
            snapshot,
            schema: &domain::schema(),
            instance: self.ports.entropy.array(),
        };
        let at = join.run()?;
        let _ = fs::remove_file(snapshot);
        Ok(at.number)
    }

    fn status(&self) -> CommandResult {
        let own = self.own()?;
        let mut log = self.log(own.fleet)?;
        let head = log.head()?;
        let owner = log.owner()?.map(|owner| HEXLOWER.encode(&owner));
        let now = self.ports.clock.now().0;
        output::line(&format!(
            "fleet {}  commit {head}  etcd {}, {} MiB in use",
            HEXLOWER.encode(&own.fleet),
            log.engine_version()?,
            log.engine_bytes()? / (1024 * 1024)
        ))?;
        for member in log.members()? {
            let role = match owner.as_deref() == Some(&*member.id) {
                true => "owner",
                false => "standby",
            };
            output::line(&format!(
                "{:<20} {role:<8} {:<24} {:<12} {} behind, seen {} s ago",
                member.name,
                member.address,
                member.version,
                head.saturating_sub(member.applied),
                (now - member.seen).max(0)
            ))?;
        }
        Ok(())
    }

    fn leave(&self, name: Option<&str>) -> CommandResult {
        let own = self.own()?;
        let mut log = self.log(own.fleet)?;
        let members = log.members()?;
        if let Some(name) = name {
            let gone = members.iter().find(|member| member.name == name);
            let gone = gone.ok_or_else(|| {
                Failure::new(Exit::NotFound, format!("the fleet has no member {name}"))
            })?;
            if gone.id == own.member_hex() {
                return Err(Failure::usage("this is that member; omit --name"));
            }
            log.unregister(gone)?;
            return output::line(&format!(
                "removed {name}; its service ends if it still runs"
            ));
        }
        let head = log.head()?;
        // Takes the lock, so it fails while the service runs.
        self.catch_up(&own, head)?;
        // From here on the store is another one.
        let store = self.open(FleetAccess::Leave)?;
        let at = store.position()?.map_or(0, |at| at.number);
        drop(store);
        let record = self.record(&own, at);
        let last = members.iter().all(|member| member.id == record.id);
        match last {
            true if at == head => log.dissolve()?,
            true | false => log.unregister(&record)?,
        }
        Membership::remove(self.data_dir())?;
        output::line(&format!(
            "left the fleet with {at} of {head} commits; remove `fleet.endpoints` before the next start"
        ))
    }
}

impl Fleet {
    /// Applies what the log has and the store has not.
    fn catch_up(&self, own: &Membership, head: u64) -> CommandResult {
        let store = self.open(FleetAccess::Member)?;
        let entropy = std::sync::Arc::clone(&self.ports.entropy);
        let joined = store.replicate(Replication {
            fleet: own.fleet,
            member: own.member,
            log: Box::new(self.log(own.fleet)?),
            nonce: Box::new(move || entropy.array()),
            patience: LEASE,
        });
        let mut log = self.log(own.fleet)?;
        let mut at = match joined {
            Ok(status) => status.position.number,
            Err(error) => {
                // The store can be read up to its last commit. Whoever needs more has to join again.
                output::print_note(&format!("warning: this member cannot follow: {error}"));
                return Ok(());
            }
        };
        while at < head {
            let entries = log.read(at + 1, READ_BYTES, Duration::ZERO)?;
            at = store.advance(None, entries)?.position.number;
        }
        Ok(())
    }
}

/// Refuses versions of etcd that lack what is used, or can lose data.
fn check_version(version: &str) -> CommandResult {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    let mut part = || parts.next().flatten();
    let found = (part(), part(), part());
    let (Some(major), Some(minor), Some(patch)) = found else {
        return Err(Failure::failed(format!("etcd {version} is not known")));
    };
    match (major, minor, patch) {
        (3, 5, 0..=2) => Err(
            Failure::failed(format!("etcd {version} can lose data in a crash"))
                .hint("install 3.5.16 or later"),
        ),
        (3, 4.., _) => Ok(()),
        _ => Err(Failure::failed(format!("etcd {version} is not supported"))
            .hint("install 3.4 or a later 3.x")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_etcd_that_lose_data_are_refused() {
        for good in ["3.4.23", "3.5.3", "3.5.16", "3.6.0"] {
            assert!(check_version(good).is_ok(), "{good}");
        }
        for bad in ["3.5.0", "3.5.2", "3.3.27", "2.3.0", "", "4.0.0"] {
            assert!(check_version(bad).is_err(), "{bad}");
        }
    }
}
