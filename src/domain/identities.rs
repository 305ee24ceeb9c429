//! Identities that hold access tokens: the common part of partners and operators.
//!
//! Names are unique. A token is shown once; only its hash is stored. The last use of a token is kept in memory and
//! written by a job, so that no request waits for it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use dashmap::DashMap;
use serde::{Deserialize, Serialize};

use playgate_ports::Entropy;
use playgate_store::{Commit, Durability, Index, MemoryTable, Store, StoreError, Table, Txn};
use playgate_types::text::check_visible;
use playgate_types::{Token, TokenHash, TokenInfo, UnixSeconds};

const NAME_MAX: usize = 128;
/// Maximum length of a token's label in characters.
const LABEL_MAX: usize = 64;
/// Resolution of the last use of a token in seconds. It is fine enough to tell whether an old token is still in use,
/// and a busy token writes to the shared map and to the store only once in this time.
const USE_RESOLUTION: u64 = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityKind {
    Partner,
    Operator,
}

impl IdentityKind {
    /// Maximum number of tokens of an identity: enough to rotate, few enough to list.
    pub const fn tokens_max(self) -> usize {
        match self {
            Self::Partner => 100,
            Self::Operator => 20,
        }
    }
}

impl fmt::Display for IdentityKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Partner => "partner",
            Self::Operator => "operator",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("a name has 1 to 128 visible characters")]
    NameMalformed,
    #[error("a label has at most 64 visible characters")]
    LabelMalformed,
    #[error("another {0} has this name")]
    NameInUse(IdentityKind),
    #[error("no such {0}")]
    NotFound(IdentityKind),
    #[error("this {0} has no such token")]
    TokenNotFound(IdentityKind),
    #[error("no {0} may have more than {max} tokens", max = .0.tokens_max())]
    TooManyTokens(IdentityKind),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord<Id> {
    pub(super) holder: Id,
    pub(super) created: UnixSeconds,
    /// Operators recognise the token by it. It may be empty.
    pub(super) label: String,
    /// The last use that was stored. [`Identities::uses`] may have a newer one.
    pub(super) used: Option<UnixSeconds>,
}

impl<Id> TokenRecord<Id> {
    pub(super) fn new(holder: Id, created: UnixSeconds) -> Self {
        Self {
            holder,
            created,
            label: String::new(),
            used: None,
        }
    }
}

pub trait IdentityTable: Table<Key: Copy + Hash, Record: Clone> {
    const KIND: IdentityKind;
    /// Ensures unique names.
    type ByName: Index<Table = Self, Key = String>;
    type Tokens: Table<Key = TokenHash, Record = TokenRecord<Self::Key>>;

    fn name(record: &Self::Record) -> &str;
    fn parse_id(text: &str) -> Option<Self::Key>;
    fn new_id(random: [u8; 16]) -> Self::Key;
    fn new_token(entropy: &dyn Entropy) -> Token;

    /// The tokens of an identity as read in a write batch; memory may lag behind earlier batches.
    fn tokens(txn: &Txn<'_>, id: &Self::Key) -> Result<Vec<TokenHash>, StoreError>;
}

#[derive(Clone)]
pub struct Identities<I: IdentityTable> {
    store: Store,
    entropy: Arc<dyn Entropy>,
    pub(super) records: Arc<MemoryTable<I>>,
    pub(super) tokens: Arc<MemoryTable<I::Tokens>>,
    /// Last uses since the start, at most [`USE_RESOLUTION`] old.
    uses: Arc<DashMap<TokenHash, UnixSeconds>>,
}

impl<I: IdentityTable> Identities<I> {
    pub fn open(store: Store, entropy: Arc<dyn Entropy>) -> Result<Self, StoreError> {
        let records = Arc::new(MemoryTable::default());
        let tokens = Arc::new(MemoryTable::default());
        store.attach_memory_table::<I>(Arc::clone(&records))?;
        store.attach_memory_table::<I::Tokens>(Arc::clone(&tokens))?;
        Ok(Self {
            store,
            entropy,
            records,
            tokens,
            uses: Arc::default(),
        })
    }

    pub(super) fn holder(&self, token: &TokenHash) -> Option<(I::Key, Arc<I::Record>)> {
        // Two reads and not one transaction: if the holder is removed in between, the token is unknown.
        let id = self.tokens.get(token)?.holder;
        Some((id, self.records.get(&id)?))
    }

    pub(super) fn record_use(&self, token: &TokenHash, now: UnixSeconds) {
        let recent = |used: UnixSeconds| used.0.abs_diff(now.0) < USE_RESOLUTION;
        // Read first: a write locks the entry, which all requests with this token share.
        if !self.uses.get(token).is_some_and(|used| recent(*used)) {
            self.uses.insert(*token, now);
        }
    }

    /// Writes the last uses that the store does not have, in one commit; returns their number.
    pub fn save_uses(&self) -> Result<usize, IdentityError> {
        // Entries stay until the store has them, so that a failed commit loses no use.
        let mut unsaved = Vec::new();
        self.uses.retain(|hash, used| {
            let token = self.tokens.get(hash);
            // Otherwise the token was revoked, or its use is in the store.
            let is_unsaved = token.is_some_and(|token| token.used != Some(*used));
            if is_unsaved {
                unsaved.push((*hash, *used));
            }
            is_unsaved
        });
        if unsaved.is_empty() {
            return Ok(0);
        }
        let batch = move |txn: &mut Txn<'_>| -> Result<usize, IdentityError> {
            for (hash, used) in &unsaved {
                // The token may have been revoked in the meantime.
                if let Some(token) = txn.get::<I::Tokens>(hash)? {
                    let used = Some(*used);
                    txn.put::<I::Tokens>(hash, &TokenRecord { used, ..token })?;
                }
            }
            Ok(unsaved.len())
        };
        // Not durable: a power cut may lose the last uses, which nothing depends on.
        self.store.write(Durability::Logged, batch).wait()
    }

    /// Creates an identity with a first token, which is returned only here.
    ///
    /// # Errors
    /// [`IdentityError::NameMalformed`], [`IdentityError::NameInUse`].
    pub(super) fn insert(
        &self,
        name: &str,
        now: UnixSeconds,
        record: impl FnOnce(String) -> I::Record,
    ) -> Result<Commit<(I::Key, Token), IdentityError>, IdentityError> {
        let name = name.trim();
        // Counted only as far as the limit: the input may be long.
        let length = name.chars().take(NAME_MAX + 1).count();
        if length == 0 || length > NAME_MAX || check_visible(name).is_err() {
            return Err(IdentityError::NameMalformed);
        }
        let name = name.to_owned();
        let record = record(name.clone());
        let id = I::new_id(self.entropy.array());
        let token = I::new_token(&*self.entropy);
        Ok(self.change(move |txn| {
            // In the write batch: of two concurrent requests with one name, the second must fail.
            if txn.find::<I::ByName>(&name)?.is_some() {
                return Err(IdentityError::NameInUse(I::KIND));
            }
            txn.put::<I>(&id, &record)?;
            txn.put::<I::Tokens>(&token.hash(), &TokenRecord::new(id, now))?;
            Ok((id, token))
        }))
    }

    pub fn name(&self, id: &I::Key) -> Option<String> {
        Some(I::name(&*self.records.get(id)?).to_owned())
    }

    pub fn resolve(&self, text: &str) -> Option<I::Key> {
        // An id wins over a name, since a name may look like the id of another.
        if let Some(id) = I::parse_id(text)
            && self.records.get(&id).is_some()
        {
            return Some(id);
        }
        // A scan of all names: only operators use them, and there are few identities.
        let mut found = None;
        self.records.for_each(|id, record| {
            if I::name(record) == text {
                found = Some(*id);
            }
        });
        found
    }

    /// The tokens of every identity, oldest first.
    pub(super) fn tokens_by_holder(&self) -> HashMap<I::Key, Vec<TokenInfo>> {
        let mut held: HashMap<_, Vec<TokenInfo>> = HashMap::new();
        self.tokens.for_each(|hash, token| {
            let mut info = info(hash, token);
            // The use in memory is newer than the stored one, which is written once in a while.
            info.used = self.uses.get(hash).map(|used| *used).or(token.used);
            held.entry(token.holder).or_default().push(info);
        });
        for tokens in held.values_mut() {
            // The handle decides between tokens of the same second, so that the order is stable.
            tokens.sort_by(|a, b| (a.created, &a.handle).cmp(&(b.created, &b.handle)));
        }
        held
    }

    /// Adds a token, which is returned only here.
    ///
    /// # Errors
    /// [`IdentityError::LabelMalformed`], [`IdentityError::NotFound`], [`IdentityError::TooManyTokens`].
    pub fn add_token(
        &self,
        id: I::Key,
        label: &str,
        now: UnixSeconds,
    ) -> Result<Commit<(TokenInfo, Token), IdentityError>, IdentityError> {
        let label = label.trim();
        if label.chars().take(LABEL_MAX + 1).count() > LABEL_MAX
            || (!label.is_empty() && check_visible(label).is_err())
        {
            return Err(IdentityError::LabelMalformed);
        }
        let record = TokenRecord {
            label: label.to_owned(),
            ..TokenRecord::new(id, now)
        };
        let token = I::new_token(&*self.entropy);
        Ok(self.change(move |txn| {
            // The identity may have been removed in the meantime; its token would outlive it.
            if txn.get::<I>(&id)?.is_none() {
                return Err(IdentityError::NotFound(I::KIND));
            }
            // In the write batch: two concurrent requests must not exceed the limit together.
            if I::tokens(txn, &id)?.len() >= I::KIND.tokens_max() {
                return Err(IdentityError::TooManyTokens(I::KIND));
            }
            txn.put::<I::Tokens>(&token.hash(), &record)?;
            Ok((info(&token.hash(), &record), token))
        }))
    }

    /// Revokes a token by its handle; the next request with it is rejected.
    ///
    /// # Errors
    /// [`IdentityError::TokenNotFound`].
    pub fn revoke_token(&self, id: I::Key, handle: &str) -> Commit<(), IdentityError> {
        // Handles are hexadecimal digits, and an operator may type them in upper case.
        let handle = handle.to_ascii_lowercase();
        self.change(move |txn| {
            let hash = I::tokens(txn, &id)?
                .into_iter()
                .find(|hash| hash.handle() == handle)
                .ok_or(IdentityError::TokenNotFound(I::KIND))?;
            Ok(txn.delete::<I::Tokens>(&hash)?)
        })
    }

    pub(super) fn change<T: Send + 'static>(
        &self,
        batch: impl FnOnce(&mut Txn<'_>) -> Result<T, IdentityError> + Send + 'static,
    ) -> Commit<T, IdentityError> {
        self.store.write(Durability::Durable, batch)
    }
}

/// Removes an identity; its tokens are rejected from the next request on.
///
/// # Errors
/// [`IdentityError::NotFound`].
pub(super) fn remove<I: IdentityTable>(
    txn: &mut Txn<'_>,
    id: &I::Key,
) -> Result<(), IdentityError> {
    if txn.get::<I>(id)?.is_none() {
        return Err(IdentityError::NotFound(I::KIND));
    }
    // With the holder, in one commit: a token without its holder could never be revoked.
    for hash in I::tokens(txn, id)? {
        txn.delete::<I::Tokens>(&hash)?;
    }
    Ok(txn.delete::<I>(id)?)
}

fn info<Id>(hash: &TokenHash, record: &TokenRecord<Id>) -> TokenInfo {
    TokenInfo {
        handle: hash.handle(),
        created: record.created,
        label: record.label.clone(),
        used: record.used,
    }
}
