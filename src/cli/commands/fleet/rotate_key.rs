//! `playgate fleet rotate-key`: gives all members a new key while they run.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde_json::json;

use super::Fleet;
use crate::client::fleet;
use crate::output::{self, CommandResult, Exit, Failure};
use playgate_fleet::etcd::MemberRecord;
use playgate_fleet::peer_keys::{KeyStep, NextKey, PeerKeys};
use playgate_fleet::peers::{PeerClient, PeerError};
use playgate_fleet::public_key;

impl Fleet {
    pub(super) fn rotate_key(&self, as_json: bool) -> CommandResult {
        let membership = self.membership()?;
        let members = self.log(membership.fleet)?.members()?;
        if !members
            .iter()
            .any(|member| member.id == membership.member_hex())
        {
            return Err(Failure::failed("this member was removed from its fleet"));
        }
        // A rotation that was interrupted goes on with its key.
        let begun = PeerKeys::open(&membership, self.data_dir())?.next();
        let seed = begun.map_or_else(|| self.ports.entropy.array(), |begun| begun.seed);
        let public = public_key(&seed)
            .map(|public| HEXLOWER.encode(&public))
            .ok_or_else(|| Failure::new(Exit::Fatal, "the new key cannot be used"))?;
        // Once one member presents the new key, all accept it, and some may accept no other.
        let is_presented = begun.is_some_and(|begun| begun.is_presented);
        let before = client(membership.key, seed, is_presented)?;
        let after = client(membership.key, seed, true)?;
        let offer = KeyStep::Offer(HEXLOWER.encode(&seed));
        if let Err(failure) = self.all(&before, &members, &offer) {
            if !is_presented {
                // Without all members the key must not be used, and a member that joins needs one that is settled.
                let _ = self.all(&before, &members, &KeyStep::Withdraw(public));
            }
            return Err(failure);
        }
        self.all(&before, &members, &KeyStep::Present(public.clone()))?;
        self.all(&after, &members, &KeyStep::Retire(public))?;
        let count = members.len();
        let text = format!(
            "{count} members have a new key; invitations that were not used yet are void: run `playgate fleet invite` again"
        );
        let report = json!({ "result": "rotated", "members": count });
        output::result(&text, &report, as_json)
    }

    /// Sends a step to every member, and reports each one that has not taken it.
    fn all(&self, client: &PeerClient, members: &[MemberRecord], step: &KeyStep) -> CommandResult {
        let taken = members.iter().map(|member| {
            let sent = self
                .runtime
                .block_on(client.rotate_key(&member.address, step));
            sent.map_err(|error| format!("member {}: {}", member.name, why(&error)))
        });
        let failed: Vec<_> = taken.filter_map(Result::err).collect();
        if failed.is_empty() {
            return Ok(());
        }
        Err(Failure::failed(failed.join("; ")).hint(
            "start the service of each member, and run `playgate fleet rotate-key` again; if a machine is gone for good, first run `playgate fleet leave --name NAME`",
        ))
    }
}

fn why(error: &PeerError) -> String {
    match error {
        PeerError::Refused { why, .. } => why.clone(),
        PeerError::OtherKey { address } => format!("{address} has another key"),
        PeerError::Connect { .. } | PeerError::Busy { .. } | PeerError::File(_) => {
            error.to_string()
        }
    }
}

fn client(current: [u8; 32], seed: [u8; 32], is_presented: bool) -> Result<PeerClient, Failure> {
    let next = NextKey { seed, is_presented };
    fleet::client_with(Arc::new(PeerKeys::new(current, Some(next))))
}
