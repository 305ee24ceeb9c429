//! `playgate fleet`: several machines that serve as one.

mod begin;
mod end;
mod handover;
mod problems;
mod recover;
mod rotate_key;
mod status;
mod trial;

pub(crate) use trial::run_with_parent;

use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use tokio::runtime::{Builder, Runtime};

use crate::client::{fleet, open_for_command};
use crate::global::Global;
use crate::output::{CommandResult, Exit, Failure};
use playgate_app::Ports;
use playgate_config::{Config, Loaded};
use playgate_fleet::etcd::{EtcdLog, MemberRecord};
use playgate_fleet::membership::Membership;
use playgate_store::{FleetAccess, Store};
use playgate_types::VERSION;

const NAME_MAX: usize = 64;
const LEASE: Duration = Duration::from_secs(2);

#[derive(Subcommand)]
pub(crate) enum FleetCommand {
    /// Make this data directory the first member of a new fleet
    Init {
        /// Name of this member
        #[arg(long, value_name = "NAME", value_parser = name)]
        name: String,
        /// Print {"result","fleet","commit"}
        #[arg(long)]
        json: bool,
    },
    /// Print a word that lets one machine join within 24 hours
    Invite {
        /// Print {"word","expires"}
        #[arg(long)]
        json: bool,
    },
    /// Join a fleet, with an empty data directory
    Join {
        /// What `playgate fleet invite` printed on a member; `-` reads it from standard input, where `ps` does not show it
        #[arg(value_name = "WORD")]
        word: String,
        /// Name of this member
        #[arg(long, value_name = "NAME", value_parser = name)]
        name: String,
        /// Print {"result","name","commit"}
        #[arg(long)]
        json: bool,
    },
    /// Show the members, the owner and the log; while etcd does not answer, what this member knows
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Let another member become the owner, before maintenance of the present one
    Handover {
        /// Name of the next owner; default: the standby with the newest state
        #[arg(long, value_name = "NAME", value_parser = name)]
        to: Option<String>,
        /// Print {"result","from","to"}
        #[arg(long)]
        json: bool,
    },
    /// Replace the store of this member by a copy of the owner's, after it was away too long or damaged
    Reseed {
        /// Print {"result","name","from","commit"}
        #[arg(long)]
        json: bool,
    },
    /// Give all members a new key while they run, after a machine that had the key was lost
    RotateKey {
        /// Print {"result","members"}
        #[arg(long)]
        json: bool,
    },
    /// Take this data directory out of its fleet; its data stays
    Leave {
        /// Remove the record of this member instead, whose machine is gone
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// Print {"result","name","commit"}
        #[arg(long)]
        json: bool,
    },
    /// End the fleet: this member continues as a single node, and no other one can serve
    Dissolve {
        /// Confirm
        #[arg(long)]
        yes: bool,
        /// Print {"result","name","commit"}
        #[arg(long)]
        json: bool,
    },
    /// Continue with the data of this member after those of etcd are lost; needs no etcd
    Recover {
        /// Skip the confirmation; required without a terminal
        #[arg(long)]
        yes: bool,
        /// Print {"result","name","commit","fleet"}
        #[arg(long)]
        json: bool,
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

pub(crate) fn run(command: FleetCommand, global: &Global) -> CommandResult {
    match command {
        FleetCommand::Init { name, json } => Fleet::load(global)?.init(name, json),
        FleetCommand::Invite { json } => Fleet::load(global)?.invite(json),
        FleetCommand::Join { word, name, json } => Fleet::load(global)?.join(&word, name, json),
        FleetCommand::Status { json } => Fleet::load(global)?.status(json),
        FleetCommand::Handover { to, json } => Fleet::load(global)?.handover(to.as_deref(), json),
        FleetCommand::Reseed { json } => Fleet::load(global)?.reseed(json),
        FleetCommand::RotateKey { json } => Fleet::load(global)?.rotate_key(json),
        FleetCommand::Recover { yes, json } => Fleet::load_any(global)?.recover(yes, json),
        FleetCommand::Dissolve { yes, json } => Fleet::load(global)?.dissolve(yes, json),
        FleetCommand::Leave { name, json } => Fleet::load(global)?.leave(name.as_deref(), json),
        FleetCommand::Try(trial) => trial.run(),
    }
}

/// What a fleet command needs: its configuration, and a runtime for calls of etcd, which block.
struct Fleet {
    loaded: Loaded,
    ports: Ports,
    runtime: Runtime,
}

impl Fleet {
    fn load(global: &Global) -> Result<Self, Failure> {
        let fleet = Self::load_any(global)?;
        if fleet.config().fleet.endpoints.is_empty() {
            return Err(Failure::usage("`fleet.endpoints` is not set").hint(
                "name the etcd of the fleet, such as endpoints = [\"http://10.0.0.1:2379\"]",
            ));
        }
        Ok(fleet)
    }

    /// Also for a configuration without a fleet.
    fn load_any(global: &Global) -> Result<Self, Failure> {
        let loaded = global.load()?;
        Ok(Self {
            ports: Ports::for_machine(&loaded.config),
            loaded,
            runtime: Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .map_err(Failure::fatal)?,
        })
    }

    fn config(&self) -> &Config {
        &self.loaded.config
    }

    fn data_dir(&self) -> &Path {
        &self.config().server.data_dir
    }

    fn log(&self, fleet: [u8; 16]) -> Result<EtcdLog, Failure> {
        let settings = fleet::etcd(&self.config().fleet)?;
        let runtime = self.runtime.handle().clone();
        let mut log = EtcdLog::new(&settings, fleet, LEASE, runtime)?;
        let version = log.engine_version()?;
        check_version(&version)?;
        Ok(log)
    }

    fn membership(&self) -> Result<Membership, Failure> {
        Membership::read(self.data_dir())?.ok_or_else(|| {
            let said = format!("{} belongs to no fleet", self.data_dir().display());
            Failure::new(Exit::NotFound, said)
                .hint("run `playgate fleet init` for the first member, or `playgate fleet join`")
        })
    }

    fn open(&self, fleet: FleetAccess) -> Result<Store, Failure> {
        Ok(open_for_command(&self.loaded, &self.ports, fleet)?)
    }

    fn record(&self, membership: &Membership, applied: u64) -> MemberRecord {
        MemberRecord {
            id: membership.member_hex(),
            name: membership.name.clone(),
            address: fleet::address(&self.config().fleet),
            version: VERSION.to_owned(),
            applied,
            seen: self.ports.clock.now().0,
            may_own: self.config().fleet.may_own,
            tables: Some(playgate_records::schema().count()),
            ..MemberRecord::default()
        }
    }
}

/// Refuses versions of etcd that lack a needed feature or can lose data.
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
