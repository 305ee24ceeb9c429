//! What one user, one partner and all together may have kept: a client that floods must not fill the
//! disk that everybody plays from.
//!
//! Users and partners are counted by UTC day. The counts are in memory, and in the store at most
//! [`super::Telemetry::save_usage`]'s interval later, so that a restart does not give a new budget.

use std::collections::{BTreeMap, HashMap};

use super::error::TelemetryError;
use super::model::Sender;
use super::tables::{UsageRecord, UsageRow};
use crate::types::time::DAY;
use crate::types::{LimitReached, PartnerId, UnixSeconds, UserId};

/// The budgets, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    /// Events of one user in a UTC day.
    pub user_per_day: u64,
    /// Events of one partner's users in a UTC day, where that is limited.
    pub partner_per_day: Option<u64>,
    /// What all files may take.
    pub total: u64,
}

/// How long a client waits when all files together are full: a task makes room before.
const MAKING_ROOM: i64 = 30;
/// Users below this are not saved: a million of them would be a million records a day, and what a
/// restart forgives them is little.
const SAVED_FROM: u64 = 1024 * 1024;

/// Whose bytes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Owner {
    User([u8; 16]),
    Partner([u8; 16]),
}

impl Owner {
    const fn row(self, day: i64) -> UsageRow {
        match self {
            Self::User(id) => (day, 0, id),
            Self::Partner(id) => (day, 1, id),
        }
    }

    const fn from_row((_, kind, id): UsageRow) -> Self {
        match kind {
            0 => Self::User(id),
            _ => Self::Partner(id),
        }
    }
}

/// What was kept today, and what all files take.
#[derive(Default)]
pub(super) struct Usage {
    day: i64,
    bytes: HashMap<Owner, u64>,
    /// What the store has not.
    unsaved: BTreeMap<Owner, u64>,
    /// Bytes of all files, as of the last look and with what was written since.
    pub(super) total: u64,
}

impl Usage {
    /// Goes on with what was saved of the day.
    pub(super) fn begin(now: UnixSeconds, rows: Vec<(UsageRow, UsageRecord)>) -> Self {
        let bytes = rows.into_iter();
        Self {
            day: now.utc_day(),
            bytes: bytes
                .map(|(row, record)| (Owner::from_row(row), record.bytes))
                .collect(),
            ..Self::default()
        }
    }

    /// Whether so much more of a sender may be kept.
    pub(super) fn admit(
        &mut self,
        budgets: &Budgets,
        sender: &Sender,
        bytes: u64,
        now: UnixSeconds,
    ) -> Result<(), TelemetryError> {
        if self.day != now.utc_day() {
            *self = Self {
                day: now.utc_day(),
                total: self.total,
                ..Self::default()
            };
        }
        let [user, partner] = owners(sender);
        let over = |owner, budget| self.used(owner).saturating_add(bytes) > budget;
        let tomorrow = (now.utc_day() + 1) * DAY - now.0;
        let reached = |name, limit, window, retry_after| {
            Err(TelemetryError::OverBudget(LimitReached {
                name,
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
                window,
                retry_after,
            }))
        };
        if over(user, budgets.user_per_day) {
            return reached("telemetry-user", budgets.user_per_day, DAY, tomorrow);
        }
        if let Some(budget) = budgets
            .partner_per_day
            .filter(|budget| over(partner, *budget))
        {
            return reached("telemetry-partner", budget, DAY, tomorrow);
        }
        if self.total.saturating_add(bytes) > budgets.total {
            return reached("telemetry-total", budgets.total, MAKING_ROOM, MAKING_ROOM);
        }
        Ok(())
    }

    /// Counts what was kept.
    pub(super) fn add(&mut self, sender: &Sender, bytes: u64) {
        for owner in owners(sender) {
            let used = self.bytes.entry(owner).or_default();
            *used = used.saturating_add(bytes);
            if *used >= SAVED_FROM || matches!(owner, Owner::Partner(_)) {
                self.unsaved.insert(owner, *used);
            }
        }
        self.total = self.total.saturating_add(bytes);
    }

    /// The rows that the store lacks, and the day that they are of.
    pub(super) fn take_unsaved(&mut self) -> (i64, Vec<(UsageRow, UsageRecord)>) {
        let rows = std::mem::take(&mut self.unsaved).into_iter();
        let day = self.day;
        let rows = rows.map(|(owner, bytes)| (owner.row(day), UsageRecord { bytes }));
        (day, rows.collect())
    }

    /// Forgets a user; returns the row that the store may have.
    pub(super) fn forget(&mut self, user: &UserId) -> UsageRow {
        let owner = Owner::User(*user.as_bytes());
        self.bytes.remove(&owner);
        self.unsaved.remove(&owner);
        owner.row(self.day)
    }

    fn used(&self, owner: Owner) -> u64 {
        self.bytes.get(&owner).copied().unwrap_or_default()
    }
}

fn owners(sender: &Sender) -> [Owner; 2] {
    let user: &UserId = &sender.user;
    let partner: &PartnerId = &sender.partner;
    [
        Owner::User(*user.as_bytes()),
        Owner::Partner(*partner.as_bytes()),
    ]
}
