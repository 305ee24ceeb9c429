//! A shared log in memory, for tests. It shows in the simplest form what every backend must guarantee.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Appended, Claim, Entry, MemberId, SharedLog, SharedLogError};

/// The log stores encoded entries, so that the tests cover the encoding too.
#[derive(Clone, Hash)]
pub(super) struct MemoryLog {
    pub(super) entries: VecDeque<Arc<[u8]>>,
    pub(super) head: u64,
    pub(super) owner: Option<(MemberId, u64)>,
    epochs: u64,
    /// Counts the appends, so that a defect that reuses a number is found.
    pub(super) appends: usize,
}

impl MemoryLog {
    /// Creates a log that continues a store with commits up to `head`.
    pub(super) fn new(head: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            head,
            owner: None,
            epochs: 0,
            appends: 0,
        }
    }

    pub(super) fn first(&self) -> u64 {
        self.head + 1 - self.entries.len() as u64
    }

    /// Ends the lease of the owner.
    pub(super) fn expire(&mut self) {
        self.owner = None;
    }

    pub(super) fn holds(&self, epoch: u64) -> bool {
        self.owner.is_some_and(|(_, held)| held == epoch)
    }

    pub(super) fn push(&mut self, entry: &Entry) {
        self.entries.push_back(entry.encode().unwrap().into());
        self.head = entry.number;
        self.appends += 1;
    }
}

impl SharedLog for MemoryLog {
    fn append(&mut self, entry: &Entry) -> Result<Appended, SharedLogError> {
        // The head is compared and not the slot: after a truncation the slot of an old number is free again.
        if self.head + 1 != entry.number || !self.holds(entry.epoch) {
            return Ok(Appended::Refused);
        }
        self.push(entry);
        Ok(Appended::Done)
    }

    fn read(&mut self, from: u64, bytes: usize) -> Result<Vec<Entry>, SharedLogError> {
        let Some(skipped) = from.checked_sub(self.first()) else {
            return Err(SharedLogError::Truncated {
                first: self.first(),
            });
        };
        let mut room = bytes;
        let mut found = Vec::new();
        let entries = self.entries.iter().skip(skipped.try_into().unwrap());
        for (number, encoded) in (from..).zip(entries) {
            if !found.is_empty() && room < encoded.len() {
                break;
            }
            room = room.saturating_sub(encoded.len());
            let entry =
                Entry::decode(encoded).map_err(|why| SharedLogError::Damaged { number, why })?;
            found.push(entry);
        }
        Ok(found)
    }

    fn head(&mut self) -> Result<u64, SharedLogError> {
        Ok(self.head)
    }

    fn claim(&mut self, member: MemberId) -> Result<Claim, SharedLogError> {
        Ok(match self.owner {
            Some((holder, epoch)) if holder == member => Claim::Held { epoch },
            Some((member, _)) => Claim::Other { member },
            None => {
                self.epochs += 1;
                self.owner = Some((member, self.epochs));
                Claim::Held { epoch: self.epochs }
            }
        })
    }

    fn resign(&mut self, member: MemberId) -> Result<(), SharedLogError> {
        self.owner.take_if(|(holder, _)| *holder == member);
        Ok(())
    }

    fn truncate(&mut self, below: u64) -> Result<(), SharedLogError> {
        while self.first() < below && self.entries.pop_front().is_some() {}
        Ok(())
    }
}
