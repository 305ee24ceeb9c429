//! The table of grants, and its copy in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use dashmap::DashMap;

use super::model::Grant;
use playgate_store::{Changed, CommitListener, Record, Schema, Table, TreeName};
use playgate_types::UserId;

pub fn schema(schema: Schema) -> Schema {
    schema.with::<GrantTable>()
}

/// Grants by user and number. The numbers follow the order of granting.
pub(super) struct GrantTable;

impl Record for Grant {}

impl Table for GrantTable {
    const NAME: TreeName = "entitlement.grants";
    type Key = (UserId, u32);
    type Record = Grant;
}

#[derive(Default)]
pub(super) struct GrantsInMemory(DashMap<UserId, BTreeMap<u32, Arc<Grant>>>);

impl GrantsInMemory {
    pub(super) fn of(&self, user: &UserId) -> Vec<Arc<Grant>> {
        self.0
            .get(user)
            .map(|grants| grants.values().cloned().collect())
            .unwrap_or_default()
    }
}

impl GrantsInMemory {
    pub(super) fn for_each(&self, mut each: impl FnMut(&BTreeMap<u32, Arc<Grant>>)) {
        for grants in &self.0 {
            each(grants.value());
        }
    }
}

impl CommitListener<GrantTable> for GrantsInMemory {
    fn apply(&self, changes: Vec<Changed<GrantTable>>) {
        for Changed {
            key: (user, number),
            record,
        } in changes
        {
            if let Some(grant) = record {
                let mut grants = self.0.entry(user).or_default();
                grants.insert(number, Arc::new(grant));
            } else {
                if let Some(mut grants) = self.0.get_mut(&user) {
                    grants.remove(&number);
                }
                // Users without grants are most users, so empty maps are not kept.
                self.0.remove_if(&user, |_, grants| grants.is_empty());
            }
        }
    }
}
