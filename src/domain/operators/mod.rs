//! Operators of the administration interface, their roles and tokens.
//!
//! What a role may do is said by the table of routes, not here.

mod error;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use error::OperatorsError;

use crate::ports::Entropy;
use crate::store::{Durability, MemoryTable, Schema, Store, StoreError};
use crate::types::{OperatorId, Role, Token, TokenHash, TokenKind, UnixSeconds};
use tables::{OperatorRecord, OperatorTokenRecord, OperatorsByName};

/// The longest name, in characters.
const NAME_MAX: usize = 128;

/// Adds this module's tables.
#[must_use]
pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<tables::Operators>()
        .with::<tables::OperatorTokens>()
}

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The operator's id.
    pub id: OperatorId,
    /// The name, unique.
    pub name: String,
    /// What the operator may do.
    pub role: Role,
    /// When it was made.
    pub created: UnixSeconds,
}

/// The operators of an appliance.
#[derive(Clone)]
pub struct Operators {
    store: Store,
    entropy: Arc<dyn Entropy>,
    operators: Arc<MemoryTable<tables::Operators>>,
    tokens: Arc<MemoryTable<tables::OperatorTokens>>,
}

fn operator(id: &OperatorId, record: &OperatorRecord) -> Operator {
    Operator {
        id: *id,
        name: record.name.clone(),
        role: record.role,
        created: record.created,
    }
}

impl Operators {
    /// The operators of a store.
    ///
    /// # Errors
    /// That the store failed.
    pub fn open(store: Store, entropy: Arc<dyn Entropy>) -> Result<Self, StoreError> {
        let operators = Arc::new(MemoryTable::default());
        let tokens = Arc::new(MemoryTable::default());
        store.attach::<tables::Operators>(Arc::clone(&operators) as _)?;
        store.attach::<tables::OperatorTokens>(Arc::clone(&tokens) as _)?;
        Ok(Self {
            store,
            entropy,
            operators,
            tokens,
        })
    }

    /// The operator of a token, from memory.
    #[must_use]
    pub fn authenticate(&self, token: &TokenHash) -> Option<Operator> {
        let id = self.tokens.get(token)?.operator;
        self.operators.get(&id).map(|record| operator(&id, &record))
    }

    /// Makes an operator with a token, which is shown this once.
    ///
    /// # Errors
    /// [`OperatorsError::NameMalformed`], [`OperatorsError::NameInUse`].
    pub fn add(
        &self,
        name: &str,
        role: Role,
        now: UnixSeconds,
    ) -> Result<(OperatorId, Token), OperatorsError> {
        let name = name.trim();
        let length = name.chars().take(NAME_MAX + 1).count();
        if length == 0 || length > NAME_MAX || name.chars().any(char::is_control) {
            return Err(OperatorsError::NameMalformed);
        }
        let id = OperatorId::from_bytes(self.entropy.array());
        let token = Token::new(TokenKind::Operator, self.entropy.array());
        let record = OperatorRecord {
            name: name.to_owned(),
            role,
            created: now,
            token: token.hash(),
        };
        self.store
            .write(Durability::Durable, move |txn| {
                if txn.find::<OperatorsByName>(&record.name)?.is_some() {
                    return Err(OperatorsError::NameInUse);
                }
                let entry = OperatorTokenRecord { operator: id };
                txn.put::<tables::OperatorTokens>(&record.token, &entry)?;
                Ok(txn.put::<tables::Operators>(&id, &record)?)
            })
            .wait()?;
        Ok((id, token))
    }

    /// The operator that a person names by id or by name.
    #[must_use]
    pub fn resolve(&self, text: &str) -> Option<OperatorId> {
        let id = OperatorId::parse(text).ok();
        self.list()
            .into_iter()
            .find(|operator| Some(operator.id) == id || operator.name == text)
            .map(|operator| operator.id)
    }

    /// Every operator, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Operator> {
        let mut operators = Vec::with_capacity(self.operators.len());
        self.operators
            .for_each(|id, record| operators.push(operator(id, record)));
        operators.sort_by(|a, b| a.name.cmp(&b.name));
        operators
    }

    /// Removes an operator; the token is refused on the very next request.
    ///
    /// # Errors
    /// [`OperatorsError::NotFound`].
    pub fn revoke(&self, id: OperatorId) -> Result<(), OperatorsError> {
        self.store
            .write(Durability::Durable, move |txn| {
                let record = txn
                    .get::<tables::Operators>(&id)?
                    .ok_or(OperatorsError::NotFound)?;
                txn.delete::<tables::OperatorTokens>(&record.token)?;
                Ok(txn.delete::<tables::Operators>(&id)?)
            })
            .wait()
    }
}
