//! Devices and networks that have logged in to an account.
//!
//! Their guesses are counted apart from those of strangers, so that a stranger's guesses, or those of other viewers behind the
//! same address, do not keep the owner out. Only a login, a sign-up or a completed reset makes a client known. An account
//! remembers a fixed number of clients, which bounds the guesses from all of them.

use std::net::IpAddr;

use ring::digest;
use serde::{Deserialize, Serialize};

use super::attempt_limits::{AttemptKind, AttemptSubject, network_bits};
use super::tables::Throttles;
use super::{Accounts, Inner};
use playgate_store::{Record, StoreError, Table, TreeName, Txn};
use playgate_types::{Email, PartnerId};

/// Networks, and as many devices, that an account remembers.
pub(super) const KNOWN_MAX: usize = 8;

/// Hashes, which have one length. They hide no IPv4 address from somebody who tries all of them. The newest is first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownClients {
    networks: Vec<u64>,
    devices: Vec<u64>,
}

impl Record for KnownClients {}

/// Also held in memory, because every attempt looks it up. The key is a hash of partner and e-mail address.
pub(super) struct KnownClientTable;

impl Table for KnownClientTable {
    const NAME: TreeName = "known_clients";
    type Key = [u8; 16];
    type Record = KnownClients;
}

impl KnownClients {
    pub(super) fn add(&mut self, from: IpAddr, device: Option<&str>) {
        move_to_front(&mut self.networks, network_mark(from));
        if let Some(device) = device {
            move_to_front(&mut self.devices, device_mark(device));
        }
    }

    fn marks(&self) -> impl Iterator<Item = u64> {
        self.networks.iter().chain(&self.devices).copied()
    }
}

fn move_to_front(marks: &mut Vec<u64>, mark: u64) {
    marks.retain(|known| *known != mark);
    marks.insert(0, mark);
    marks.truncate(KNOWN_MAX);
}

fn network_mark(from: IpAddr) -> u64 {
    mark(b"network", &network_bits(from).to_be_bytes())
}

fn device_mark(device: &str) -> u64 {
    mark(b"device", device.as_bytes())
}

fn mark(kind: &[u8], value: &[u8]) -> u64 {
    let mut context = digest::Context::new(&digest::SHA256);
    context.update(kind);
    context.update(&[0]);
    context.update(value);
    let hash = context.finish();
    let first = hash.as_ref().first_chunk();
    first.map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// The key of an account, also of an address that has none.
fn key(partner: &PartnerId, email: &Email) -> [u8; 16] {
    AttemptSubject::account(AttemptKind::LoginAccount, partner, email).id()
}

fn counter(partner: &PartnerId, email: &Email, mark: u64) -> AttemptSubject {
    AttemptSubject::known_client(partner, email, mark)
}

impl Accounts {
    /// Returns what a guess at the password of an account counts for.
    ///
    /// A stranger's guess counts for the account and for the address: an attacker may guess at one account from many
    /// addresses, or at many accounts from one. A guess from a known network counts for the account's count of that network,
    /// and for the guesses at all accounts known there, which have a higher limit. A guess from a known device counts for that
    /// device alone: an attacker would have to know the device of each account.
    pub(super) fn guesses(
        &self,
        partner: PartnerId,
        email: &Email,
        from: IpAddr,
        device: Option<&str>,
    ) -> Vec<AttemptSubject> {
        // Looked up for every address, with or without an account.
        let known = self.0.known_clients.get(&key(&partner, email));
        let knows = |marks: fn(&KnownClients) -> &Vec<u64>, mark: u64| {
            let known = known.as_deref();
            known.is_some_and(|known| marks(known).contains(&mark))
        };
        let device = device.map(device_mark);
        if let Some(mark) = device.filter(|mark| knows(|known| &known.devices, *mark)) {
            return vec![counter(&partner, email, mark)];
        }
        let network = network_mark(from);
        let (account, kind) = if knows(|known| &known.networks, network) {
            let account = counter(&partner, email, network);
            (account, AttemptKind::LoginKnownAddress)
        } else {
            let account = AttemptSubject::account(AttemptKind::LoginAccount, &partner, email);
            (account, AttemptKind::LoginAddress)
        };
        let address = self.address_subject(kind, Some(&partner), from);
        let share = address.and_then(|address| address.share_of(&partner, email));
        std::iter::once(account)
            .chain(address)
            .chain(share)
            .collect()
    }
}

impl Inner {
    /// Makes a client known after it has proved the password, or has set one with the link of a reset.
    pub(super) fn remember_client(
        &self,
        txn: &mut Txn<'_>,
        (partner, email): (&PartnerId, &Email),
        from: IpAddr,
        device: Option<&str>,
    ) -> Result<(), StoreError> {
        let key = key(partner, email);
        let before = txn.get::<KnownClientTable>(&key)?.unwrap_or_default();
        let mut known = before.clone();
        known.add(from, device);
        if known == before {
            return Ok(());
        }
        txn.put::<KnownClientTable>(&key, &known)
    }
}

/// Lifts the locks of an account, for strangers and for known clients.
pub(super) fn lift_locks(
    txn: &mut Txn<'_>,
    partner: &PartnerId,
    email: &Email,
) -> Result<(), StoreError> {
    let account = AttemptSubject::account(AttemptKind::LoginAccount, partner, email);
    txn.delete::<Throttles>(&account.key())?;
    let known = txn.get::<KnownClientTable>(&key(partner, email))?;
    for mark in known.unwrap_or_default().marks() {
        txn.delete::<Throttles>(&counter(partner, email, mark).key())?;
    }
    Ok(())
}

/// Known clients stay known under the new address of an account.
pub(super) fn move_account(
    txn: &mut Txn<'_>,
    partner: &PartnerId,
    old: &Email,
    new: &Email,
) -> Result<(), StoreError> {
    if let Some(known) = txn.get::<KnownClientTable>(&key(partner, old))? {
        txn.delete::<KnownClientTable>(&key(partner, old))?;
        txn.put::<KnownClientTable>(&key(partner, new), &known)?;
    }
    Ok(())
}

pub(super) fn forget_account(
    txn: &mut Txn<'_>,
    partner: &PartnerId,
    email: &Email,
) -> Result<(), StoreError> {
    lift_locks(txn, partner, email)?;
    txn.delete::<KnownClientTable>(&key(partner, email))
}
