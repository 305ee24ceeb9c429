//! Commands that make a data directory that of a member: `fleet init`, `invite`, `join`, `reseed`.

use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io};

use data_encoding::HEXLOWER;
use serde_json::json;

use super::Fleet;
use crate::client::{fleet, read_secret};
use crate::output::{self, CommandResult, Exit, Failure};
use playgate_config::{ListenAddress, Provenance};
use playgate_fleet::etcd::{EtcdLog, MemberRecord};
use playgate_fleet::local_state::FleetState;
use playgate_fleet::membership::{INVITED_FOR, Invitation, Membership, directory};
use playgate_fleet::peer_keys::PeerKeys;
use playgate_fleet::recovery::PendingRecovery;
use playgate_fleet::{peers, public_key};
use playgate_ports::private_file;
use playgate_process::files::make_directory;
use playgate_store::replication::{SharedLog as _, SharedLogError};
use playgate_store::{FleetAccess, Join, check_unused};
use playgate_types::from_hex;

/// Maximum difference of clocks, in seconds, with which a machine may join. Tokens and sessions expire by the clock of
/// the owner, and every member can become the owner.
const CLOCKS_MAX: i64 = 5;
/// An owner reads the list of members every two seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(15);
/// The copy of the store, in the directory of the fleet.
const INCOMING: &str = "incoming.snapshot";
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const SUCCESSORS_MAX: usize = 100;

impl Fleet {
    fn must_be_in_none(&self) -> CommandResult {
        match Membership::read(self.data_dir())? {
            // An attempt to join did not finish; it may be repeated.
            Some(_) if !playgate_app::has_store(self.config()) => Ok(()),
            Some(membership) => Err(Failure::failed(format!(
                "{} is member {} of a fleet already",
                self.data_dir().display(),
                membership.name
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn init(&self, name: String, json: bool) -> CommandResult {
        self.must_be_in_none()?;
        let store = self.open(FleetAccess::Refuse)?;
        let at = store.position()?;
        // Releases the lock of the store: the service is started next.
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
        // The membership is written last: until then this is a single node, and `init` can be repeated.
        log.create(at.number)?;
        log.register(&self.record(&membership, at.number))?;
        membership.write(self.data_dir())?;
        let (fleet, commit) = (HEXLOWER.encode(&membership.fleet), at.number);
        let report = json!({"result": "created", "fleet": fleet, "commit": commit});
        let text = format!(
            "fleet {fleet} begins at commit {commit}; start the service, then run `playgate fleet invite`"
        );
        output::result(&text, &report, json)
    }

    pub(super) fn invite(&self, json: bool) -> CommandResult {
        let membership = self.membership()?;
        if PeerKeys::open(&membership, self.data_dir())?
            .next()
            .is_some()
        {
            return Err(Failure::failed("the key of the fleet is being changed")
                .hint("run `playgate fleet rotate-key` to its end"));
        }
        self.must_be_reached()?;
        let invitation = Invitation {
            public_key: public_key(&membership.key)
                .ok_or_else(|| Failure::new(Exit::Fatal, "the key of the fleet is damaged"))?,
            secret: self.ports.entropy.array(),
            address: fleet::address(&self.config().fleet),
        };
        let until = self.ports.clock.now().0 + INVITED_FOR;
        invitation.record(self.data_dir(), until)?;
        let word = invitation.word();
        let report = json!({"word": word, "expires": until});
        output::result(&word, &report, json)
    }

    /// Refuses an invitation to an address that no other machine reaches. It is said here, because the other machine would
    /// only find that nobody answers. A fleet on one machine names the address.
    fn must_be_reached(&self) -> CommandResult {
        let config = &self.config().fleet;
        let listens = self
            .loaded
            .effective
            .iter()
            .find(|one| one.key == "fleet.listen");
        let is_default = listens.is_none_or(|one| one.origin == Provenance::Default);
        let is_any = match &config.listen {
            ListenAddress::Tcp { host, .. } => is_any_address(host),
            ListenAddress::Unix(_) | ListenAddress::Passed(_) => false,
        };
        let (what, key, example) = match (is_default, is_any) {
            _ if config.advertise.is_some() => return Ok(()),
            (false, false) => return Ok(()),
            (true, _) => (
                "the default of `fleet.listen`",
                "listen",
                "listen = \"10.0.0.1:7080\"",
            ),
            (false, true) => (
                "which stands for every address of this machine",
                "advertise",
                "advertise = \"10.0.0.1:7080\"",
            ),
        };
        let listen = &config.listen;
        Err(Failure::usage(format!("other machines do not reach {listen}, {what}")).hint(format!(
            "set `fleet.{key}` to an address of this machine, such as {example} under [fleet], and restart the service"
        )))
    }

    pub(super) fn join(&self, word: &str, name: String, json: bool) -> CommandResult {
        self.must_be_in_none()?;
        let data = self.data_dir();
        if playgate_app::has_store(self.config()) {
            return Err(Failure::failed(format!("{} has a store", data.display())).hint(
                "a new member begins with an empty data directory: move this one away, or name another",
            ));
        }
        let read = match word {
            "-" => read_secret::read(Path::new(word))?,
            given => given.to_owned(),
        };
        let invitation = Invitation::parse(read.trim())?;
        let folder = directory(data);
        make_directory(data, true)
            .and_then(|()| private_file::make_directory(&folder))
            .map_err(|error| Failure::file(&folder, &error))?;
        let snapshot = folder.join(INCOMING);
        let joined = self.join_by(&invitation, name, &snapshot, json);
        remove_copy(&snapshot);
        joined
    }

    fn join_by(
        &self,
        invitation: &Invitation,
        name: String,
        snapshot: &Path,
        json: bool,
    ) -> CommandResult {
        let format = playgate_records::schema().format();
        let welcome = self.runtime.block_on(peers::join(
            invitation,
            // Any seed will do: the key of the fleet comes with the answer.
            &self.ports.entropy.array(),
            format,
            snapshot,
        ))?;
        let again = "run `playgate fleet invite` and `join` again";
        self.check_clock(&welcome, &invitation.address, again)?;
        let membership = welcome
            .membership(self.ports.entropy.array(), name)
            .ok_or_else(|| Failure::failed("the answer of the member is damaged"))?;
        let mut log = self.log(membership.fleet)?;
        // Registered before the store is installed: a second member of this name is refused with nothing to undo.
        let record = self.record(&membership, 0);
        self.register(&mut log, &record)?;
        let joined = self.install(&membership, &welcome, snapshot, false);
        if joined.is_err() {
            // Frees the name for the next attempt.
            let _ = log.unregister(&record);
        }
        let number = joined?;
        let name = &record.name;
        let report = json!({"result": "joined", "name": name, "commit": number});
        let text = format!("joined as {name} at commit {number}; start the service");
        output::result(&text, &report, json)
    }

    /// Registers a member, and waits until the owner knows it.
    fn register(&self, log: &mut EtcdLog, record: &MemberRecord) -> CommandResult {
        if !log.register(record)? {
            return Err(
                Failure::failed(format!("the fleet has a member {}", record.name)).hint(
                    "choose another name; or if that machine is gone, run `playgate fleet leave --name NAME` on a member",
                ),
            );
        }
        Self::wait_until_known(log, record).inspect_err(|_| {
            // Frees the name for the next attempt.
            let _ = log.unregister(record);
        })
    }

    /// Returns the membership in the fleet that continues the own one after `fleet recover` on another member.
    fn successor_of(&self, membership: &Membership) -> Result<(Membership, EtcdLog), Failure> {
        let mut membership = membership.clone();
        if let Some(pending) = PendingRecovery::read(self.data_dir(), membership.fleet) {
            // The own recovery was not completed, perhaps because another member was faster.
            membership.fleet = pending.from;
        }
        for _ in 0..SUCCESSORS_MAX {
            let mut log = self.log(membership.fleet)?;
            match log.head() {
                Err(SharedLogError::Recovered { .. }) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok((membership, log)),
            }
            let next = log.successor()?;
            membership.fleet = next
                .and_then(|next| from_hex(&next.fleet))
                .ok_or_else(|| Failure::failed("etcd names a fleet that is not readable"))?;
        }
        Err(Failure::failed(
            "the fleet was recovered too often to follow",
        ))
    }

    /// Refuses to replace a store that has commits which the fleet lacks.
    fn keep_newer(&self, membership: &Membership, head: Option<u64>) -> CommandResult {
        let state = FleetState::read(self.data_dir(), &HEXLOWER.encode(&membership.fleet));
        let commit = state.map_or(0, |state| state.commit);
        match head {
            Some(head) if head < commit => Err(Failure::failed(format!(
                "this member has commits up to {commit}, and the fleet ends at {head}: changes that only this member has would be replaced"
            ))
            .hint("to keep them, stop all members, run `playgate fleet recover` here, and `playgate fleet reseed` on the others; to lose them, move this data directory away, run `playgate fleet leave --name NAME` on another member, and join again")),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until the owner knows this member. While etcd does not answer, the owner still serves reads if every
    /// member that it knows has promised not to take over.
    fn wait_until_known(log: &mut EtcdLog, new: &MemberRecord) -> CommandResult {
        let until = Instant::now() + NOTICED_WITHIN;
        while Instant::now() < until {
            // The record of an owner of an older version names no members, and that version asks for no promises.
            let knows =
                |owner: MemberRecord| owner.knows.is_empty() || owner.knows.contains(&new.id);
            if log.owner_record()?.is_some_and(knows) {
                return Ok(());
            }
            std::thread::park_timeout(RETRY_INTERVAL);
        }
        Err(Failure::failed("no owner has noticed this member").hint(
            "find out with `playgate fleet status` why the fleet has no owner; then run `playgate fleet invite` and `join` again",
        ))
    }

    pub(super) fn reseed(&self, json: bool) -> CommandResult {
        let before = self.membership()?;
        let (membership, mut log) = self.successor_of(&before)?;
        let roster = log.roster()?;
        if membership.fleet == before.fleet
            && roster.head.is_some()
            && roster.member(&membership.member_hex()).is_none()
        {
            return Err(Failure::failed("this member was removed from its fleet")
                .hint("move its data directory away, and run `playgate fleet join`"));
        }
        self.keep_newer(&before, roster.head)?;
        let owner = log.owner_record()?.ok_or_else(|| {
            Failure::failed("no member is the owner").hint(
                "start the service on the member with the highest commit (`playgate fleet status`)",
            )
        })?;
        if owner.id == membership.member_hex() {
            return Err(
                Failure::failed("this member is the owner: others take copies of it")
                    .hint("stop its service; another member takes over"),
            );
        }
        // A store that another process uses must not be replaced. Checked first, because the copy may be large.
        check_unused(self.data_dir())?;
        let is_new = roster.member(&membership.member_hex()).is_none();
        if is_new {
            self.register(&mut log, &self.record(&membership, 0))?;
        }
        let snapshot = directory(self.data_dir()).join(INCOMING);
        let installed = self.install_copy(&membership, &owner, &snapshot);
        remove_copy(&snapshot);
        if is_new && installed.is_err() {
            // Frees the name for the next attempt.
            let _ = log.unregister(&self.record(&membership, 0));
        }
        let number = installed?;
        let (name, from) = (&membership.name, &owner.name);
        let report = json!({"result": "reseeded", "name": name, "from": from, "commit": number});
        let text =
            format!("{name} continues with a copy of {from} at commit {number}; start the service");
        output::result(&text, &report, json)
    }

    fn install_copy(
        &self,
        membership: &Membership,
        owner: &MemberRecord,
        snapshot: &Path,
    ) -> Result<u64, Failure> {
        let client = fleet::peer_client(self.config(), membership)?;
        let format = playgate_records::schema().format();
        let copied = client.copy(&owner.address, format, snapshot);
        let welcome = self.runtime.block_on(copied)?;
        let again = "run `playgate fleet reseed` again";
        self.check_clock(&welcome, &owner.address, again)?;
        self.install(membership, &welcome, snapshot, true)
    }

    fn check_clock(&self, welcome: &peers::Welcome, address: &str, again: &str) -> CommandResult {
        // Expiry and leases compare times of several machines.
        let apart = welcome.now - self.ports.clock.now().0;
        if apart.abs() <= CLOCKS_MAX {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "the clock of this machine differs from that of {address} by {apart} seconds"
        ))
        .hint(format!(
            "synchronise the clocks (`timedatectl set-ntp true`), then {again}"
        )))
    }

    fn install(
        &self,
        membership: &Membership,
        welcome: &peers::Welcome,
        snapshot: &Path,
        replace: bool,
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
        // Written before the store: without the membership, the store would open as that of a single node.
        membership.write(data)?;
        let join = Join {
            directory: data,
            snapshot,
            schema: &playgate_records::schema(),
            instance: self.ports.entropy.array(),
            replace,
        };
        Ok(join.run()?.number)
    }
}

fn is_any_address(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    address.is_ok_and(|address| address.is_unspecified())
}

/// Removes the received copy, also after a failure: it has personal data.
fn remove_copy(snapshot: &Path) {
    match fs::remove_file(snapshot) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, "failed to remove {}", snapshot.display());
        }
        _ => {}
    }
}
