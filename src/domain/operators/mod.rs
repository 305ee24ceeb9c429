//! Operators of the administration interface, their roles and tokens.
//!
//! The permissions of a role are defined in the route table, not here.

mod error;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use error::OperatorsError;

use crate::ports::Entropy;
use crate::store::{All, Commit, Durability, MemoryTable, Schema, Store, StoreError, Txn};
use crate::types::text::check_visible;
use crate::types::{OperatorId, Role, Token, TokenHash, TokenInfo, TokenKind, UnixSeconds};
use tables::{OperatorRecord, OperatorTokenRecord, OperatorsByName};

/// Maximum number of tokens of an operator: enough to rotate, few enough to list.
pub(crate) const TOKENS_MAX: usize = 20;
/// Maximum length of a name in characters.
const NAME_MAX: usize = 128;

#[must_use]
pub(crate) fn schema(schema: Schema) -> Schema {
    schema
        .with::<tables::Operators>()
        .with::<tables::OperatorTokens>()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    pub id: OperatorId,
    pub name: String,
    pub role: Role,
    pub created: UnixSeconds,
}

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

    /// Authenticates an operator token from memory.
    #[must_use]
    pub fn authenticate(&self, token: &TokenHash) -> Option<Operator> {
        let id = self.tokens.get(token)?.operator;
        self.operators.get(&id).map(|record| operator(&id, &record))
    }

    /// Creates an operator with a first token, which is returned only here.
    ///
    /// # Errors
    /// [`OperatorsError::NameMalformed`], [`OperatorsError::NameInUse`].
    pub fn add(
        &self,
        name: &str,
        role: Role,
        now: UnixSeconds,
    ) -> Result<Commit<(OperatorId, Token), OperatorsError>, OperatorsError> {
        let name = name.trim();
        let length = name.chars().take(NAME_MAX + 1).count();
        if length == 0 || length > NAME_MAX || check_visible(name).is_err() {
            return Err(OperatorsError::NameMalformed);
        }
        let id = OperatorId::from_bytes(self.entropy.array());
        let token = Token::new(TokenKind::Operator, self.entropy.array());
        let record = OperatorRecord {
            name: name.to_owned(),
            role,
            created: now,
        };
        let hash = token.hash();
        let added = self.change(move |txn| {
            if txn.find::<OperatorsByName>(&record.name)?.is_some() {
                return Err(OperatorsError::NameInUse);
            }
            txn.put::<tables::Operators>(&id, &record)?;
            insert_token(txn, &hash, id, now)?;
            Ok((id, token))
        });
        Ok(added)
    }

    /// Finds an operator by id or name.
    #[must_use]
    pub fn resolve(&self, text: &str) -> Option<OperatorId> {
        let id = OperatorId::parse(text).ok();
        self.list()
            .into_iter()
            .find(|operator| Some(operator.id) == id || operator.name == text)
            .map(|operator| operator.id)
    }

    #[must_use]
    pub fn name(&self, id: OperatorId) -> Option<String> {
        self.operators.get(&id).map(|record| record.name.clone())
    }

    /// All operators, sorted by name.
    #[must_use]
    pub fn list(&self) -> Vec<Operator> {
        let mut operators = Vec::with_capacity(self.operators.len());
        self.operators
            .for_each(|id, record| operators.push(operator(id, record)));
        operators.sort_by(|a, b| a.name.cmp(&b.name));
        operators
    }

    /// The tokens of an operator, oldest first.
    #[must_use]
    pub fn tokens(&self, id: OperatorId) -> Vec<TokenInfo> {
        let mut tokens = Vec::new();
        self.tokens.for_each(|hash, token| {
            if token.operator == id {
                tokens.push(TokenInfo {
                    handle: hash.handle(),
                    created: token.created,
                });
            }
        });
        tokens.sort_by(|a, b| (a.created, &a.handle).cmp(&(b.created, &b.handle)));
        tokens
    }

    /// Adds a token to an operator; it is returned only here.
    ///
    /// # Errors
    /// [`OperatorsError::NotFound`], [`OperatorsError::TooManyTokens`].
    pub fn add_token(
        &self,
        id: OperatorId,
        now: UnixSeconds,
    ) -> Commit<(TokenInfo, Token), OperatorsError> {
        let token = Token::new(TokenKind::Operator, self.entropy.array());
        let hash = token.hash();
        self.change(move |txn| {
            if txn.get::<tables::Operators>(&id)?.is_none() {
                return Err(OperatorsError::NotFound);
            }
            if tokens_of(txn, id)?.len() >= TOKENS_MAX {
                return Err(OperatorsError::TooManyTokens);
            }
            insert_token(txn, &hash, id, now)?;
            let info = TokenInfo {
                handle: hash.handle(),
                created: now,
            };
            Ok((info, token))
        })
    }

    /// Revokes a token by its handle; the next request with it is rejected.
    ///
    /// # Errors
    /// [`OperatorsError::TokenNotFound`].
    pub fn revoke_token(&self, id: OperatorId, handle: &str) -> Commit<(), OperatorsError> {
        let handle = handle.to_ascii_lowercase();
        self.change(move |txn| {
            let hash = tokens_of(txn, id)?
                .into_iter()
                .find(|hash| hash.handle() == handle)
                .ok_or(OperatorsError::TokenNotFound)?;
            Ok(txn.delete::<tables::OperatorTokens>(&hash)?)
        })
    }

    /// Removes an operator; their tokens are rejected from the next request on.
    ///
    /// # Errors
    /// [`OperatorsError::NotFound`].
    pub fn revoke(&self, id: OperatorId) -> Commit<(), OperatorsError> {
        self.change(move |txn| {
            if txn.get::<tables::Operators>(&id)?.is_none() {
                return Err(OperatorsError::NotFound);
            }
            for hash in tokens_of(txn, id)? {
                txn.delete::<tables::OperatorTokens>(&hash)?;
            }
            Ok(txn.delete::<tables::Operators>(&id)?)
        })
    }

    fn change<T: Send + 'static>(
        &self,
        batch: impl FnOnce(&mut Txn<'_>) -> Result<T, OperatorsError> + Send + 'static,
    ) -> Commit<T, OperatorsError> {
        self.store.write(Durability::Durable, batch)
    }
}

fn insert_token(
    txn: &mut Txn<'_>,
    hash: &TokenHash,
    operator: OperatorId,
    created: UnixSeconds,
) -> Result<(), OperatorsError> {
    let record = OperatorTokenRecord { operator, created };
    Ok(txn.put::<tables::OperatorTokens>(hash, &record)?)
}

fn tokens_of(txn: &Txn<'_>, id: OperatorId) -> Result<Vec<TokenHash>, StoreError> {
    let tokens = txn.scan::<tables::OperatorTokens>(&All, usize::MAX)?;
    let own = tokens.into_iter().filter(|(_, token)| token.operator == id);
    Ok(own.map(|(hash, _)| hash).collect())
}
