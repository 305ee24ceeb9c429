//! Operators of the administration interface, their roles and tokens.
//!
//! The permissions of a role are defined in the route table, not here.

mod tables;
#[cfg(test)]
mod tests;

use crate::identities::{self, Identities, IdentityError};
use playgate_store::{Commit, Schema};
use playgate_types::{OperatorId, Role, Token, TokenHash, TokenInfo, UnixSeconds};
use tables::OperatorRecord;

pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<tables::OperatorTable>()
        .with::<tables::OperatorTokens>()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub id: OperatorId,
    pub name: String,
    pub role: Role,
    pub created: UnixSeconds,
}

pub type Operators = Identities<tables::OperatorTable>;

fn operator(id: &OperatorId, record: &OperatorRecord) -> Operator {
    Operator {
        id: *id,
        name: record.name.clone(),
        role: record.role,
        created: record.created,
    }
}

impl Operators {
    pub fn authenticate(&self, token: &TokenHash, now: UnixSeconds) -> Option<Operator> {
        let (id, record) = self.holder(token)?;
        self.record_use(token, now);
        Some(operator(&id, &record))
    }

    /// Creates an operator with a first token, which is returned only here.
    ///
    /// # Errors
    /// [`IdentityError::NameMalformed`], [`IdentityError::NameInUse`].
    pub fn add(
        &self,
        name: &str,
        role: Role,
        now: UnixSeconds,
    ) -> Result<Commit<(OperatorId, Token), IdentityError>, IdentityError> {
        self.insert(name, now, |name| OperatorRecord {
            name,
            role,
            created: now,
        })
    }

    pub fn list(&self) -> Vec<Operator> {
        let mut operators = Vec::with_capacity(self.records.len());
        self.records
            .for_each(|id, record| operators.push(operator(id, record)));
        operators.sort_by(|a, b| a.name.cmp(&b.name));
        operators
    }

    pub fn tokens_of(&self, id: OperatorId) -> Vec<TokenInfo> {
        self.tokens_by_holder().remove(&id).unwrap_or_default()
    }

    pub fn revoke(&self, id: OperatorId) -> Commit<(), IdentityError> {
        self.change(move |txn| identities::remove::<tables::OperatorTable>(txn, &id))
    }
}
