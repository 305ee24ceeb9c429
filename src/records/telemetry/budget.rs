//! Byte budgets of a user, a partner and the whole installation, so that a flooding client cannot fill the disk.
//!
//! Usage of users and partners is counted by UTC day, in memory. [`super::Telemetry::save_usage`] stores it
//! regularly, so that a restart does not reset the budgets.

use std::collections::{BTreeMap, HashMap};

use super::error::TelemetryError;
use super::model::Sender;
use super::tables::{UsageRecord, UsageRow};
use playgate_types::time::DAY;
use playgate_types::{LimitReached, PartnerId, UnixSeconds, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budgets {
    pub user_per_day: u64,
    /// Events of all users of a partner in a UTC day; `None` for no limit.
    pub partner_per_day: Option<u64>,
    pub total: u64,
}

/// Seconds that a client waits when the files reach their limit. A job frees space before then.
const MAKING_ROOM: i64 = 30;
/// Usage below this is not saved: a million users would mean a million records a day. A restart then forgives a
/// user about this much.
const SAVED_FROM: u64 = 1024 * 1024;

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

#[derive(Default)]
pub(super) struct Usage {
    day: i64,
    bytes: HashMap<Owner, u64>,
    /// Usage that the store does not have yet.
    unsaved: BTreeMap<Owner, u64>,
    /// Size of all files at the last measurement, plus the bytes written since.
    pub(super) total: u64,
}

impl Usage {
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

    pub(super) fn admit(
        &mut self,
        budgets: &Budgets,
        sender: &Sender,
        bytes: u64,
        now: UnixSeconds,
    ) -> Result<(), TelemetryError> {
        // A new UTC day begins; the size of the files carries over.
        if self.day != now.utc_day() {
            *self = Self {
                day: now.utc_day(),
                total: self.total,
                ..Self::default()
            };
        }
        let [user, partner] = owners(sender);
        let over = |owner, budget| self.used(owner).saturating_add(bytes) > budget;
        // The budgets of users and partners reset at midnight UTC, so a retry before then is pointless.
        let tomorrow = (now.utc_day() + 1) * DAY - now.0;
        let reached = |name, limit, window, retry_after| {
            Err(TelemetryError::OverBudget(LimitReached {
                name,
                limit: u32::try_from(limit).unwrap_or(u32::MAX),
                window,
                retry_after,
            }))
        };
        // The narrowest budget first: the answer then names the limit of the flooding client.
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

    pub(super) fn add(&mut self, sender: &Sender, bytes: u64) {
        for owner in owners(sender) {
            let used = self.bytes.entry(owner).or_default();
            *used = used.saturating_add(bytes);
            // Partners are few, so each one has a saved row whatever its usage.
            if *used >= SAVED_FROM || matches!(owner, Owner::Partner(_)) {
                self.unsaved.insert(owner, *used);
            }
        }
        self.total = self.total.saturating_add(bytes);
    }

    pub(super) fn take_unsaved(&mut self) -> (i64, Vec<(UsageRow, UsageRecord)>) {
        let rows = std::mem::take(&mut self.unsaved).into_iter();
        let day = self.day;
        let rows = rows.map(|(owner, bytes)| (owner.row(day), UsageRecord { bytes }));
        (day, rows.collect())
    }

    /// Puts rows back that could not be saved.
    pub(super) fn restore_unsaved(&mut self, day: i64, rows: Vec<(UsageRow, UsageRecord)>) {
        if day != self.day {
            return;
        }
        for (row, record) in rows {
            let owner = Owner::from_row(row);
            // Neither over a later value, nor for a user who was erased in the meantime.
            if self.bytes.contains_key(&owner) {
                self.unsaved.entry(owner).or_insert(record.bytes);
            }
        }
    }

    /// Forgets a user. Returns the key of the row that the store may have.
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
