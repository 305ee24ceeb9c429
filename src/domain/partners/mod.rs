//! Partners and their access tokens: authenticates the client application of a request.
//!
//! A token is shown once; only its hash is stored. Users of a partner are handled in `accounts`.

mod error;
mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use error::PartnersError;

use crate::ports::Entropy;
use crate::store::{Commit, Durability, MemoryTable, Schema, Store, StoreError, Txn};
use crate::types::text::check_visible;
use crate::types::{DurationUnit, PartnerId, Token, TokenHash, TokenInfo, UnixSeconds};
use tables::{PartnerRecord, PartnerTokenRecord, PartnersByName, TokensByPartner};

/// Maximum number of tokens of a partner: enough to rotate, few enough to list.
pub(crate) const TOKENS_MAX: usize = 100;
/// Maximum length of a name in characters.
const NAME_MAX: usize = 128;

#[must_use]
pub(crate) fn schema(schema: Schema) -> Schema {
    schema
        .with::<tables::Partners>()
        .with::<tables::PartnerTokens>()
}

/// A partner as shown to operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partner {
    pub id: PartnerId,
    pub name: String,
    pub created: UnixSeconds,
    /// Whether its tokens are rejected.
    pub disabled: bool,
    /// Duration unit of its players, if it differs from the configured one.
    pub duration_unit: Option<DurationUnit>,
    /// Tokens, oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// Changes to a partner; `None` keeps the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartnerUpdate {
    /// Whether its tokens are rejected.
    pub disabled: Option<bool>,
    /// Duration unit of its players; an inner `None` selects the configured one.
    pub duration_unit: Option<Option<DurationUnit>>,
}

#[derive(Clone)]
pub struct Partners {
    store: Store,
    entropy: Arc<dyn Entropy>,
    partners: Arc<MemoryTable<tables::Partners>>,
    tokens: Arc<MemoryTable<tables::PartnerTokens>>,
}

impl Partners {
    pub fn open(store: Store, entropy: Arc<dyn Entropy>) -> Result<Self, StoreError> {
        let partners = Arc::new(MemoryTable::default());
        let tokens = Arc::new(MemoryTable::default());
        store.attach::<tables::Partners>(Arc::clone(&partners) as _)?;
        store.attach::<tables::PartnerTokens>(Arc::clone(&tokens) as _)?;
        Ok(Self {
            store,
            entropy,
            partners,
            tokens,
        })
    }

    /// Authenticates an access token from memory. Returns `None` for unknown and revoked tokens and for
    /// disabled or removed partners.
    #[must_use]
    pub fn authenticate(&self, token: &TokenHash) -> Option<PartnerId> {
        let partner = self.tokens.get(token)?.partner;
        let known = self.partners.get(&partner)?;
        // Checked here and not at disabling, so that enabling the partner restores its tokens.
        (!known.disabled).then_some(partner)
    }

    /// Creates a partner with a first token, which is returned only here.
    ///
    /// # Errors
    /// [`PartnersError::NameMalformed`], [`PartnersError::NameInUse`].
    pub fn add(
        &self,
        name: &str,
        now: UnixSeconds,
    ) -> Result<Commit<(PartnerId, Token), PartnersError>, PartnersError> {
        let name = name.trim();
        let length = name.chars().take(NAME_MAX + 1).count();
        if length == 0 || length > NAME_MAX || check_visible(name).is_err() {
            return Err(PartnersError::NameMalformed);
        }
        let record = PartnerRecord {
            name: name.to_owned(),
            created: now,
            disabled: false,
            duration_unit: None,
        };
        let id = PartnerId::from_bytes(self.entropy.array());
        let token = Token::new_partner(self.entropy.array());
        let hash = token.hash();
        let added = self.change(move |txn| {
            if txn.find::<PartnersByName>(&record.name)?.is_some() {
                return Err(PartnersError::NameInUse);
            }
            txn.put::<tables::Partners>(&id, &record)?;
            insert_token(txn, &hash, id, now)?;
            Ok((id, token))
        });
        Ok(added)
    }

    #[must_use]
    pub fn name(&self, id: &PartnerId) -> Option<String> {
        Some(self.partners.get(id)?.name.clone())
    }

    /// Finds a partner by id or name.
    #[must_use]
    pub fn resolve(&self, text: &str) -> Option<PartnerId> {
        if let Ok(id) = PartnerId::parse(text)
            && self.partners.get(&id).is_some()
        {
            return Some(id);
        }
        let mut found = None;
        self.partners.for_each(|id, partner| {
            if partner.name == text {
                found = Some(*id);
            }
        });
        found
    }

    /// All partners, sorted by name.
    #[must_use]
    pub fn list(&self) -> Vec<Partner> {
        let mut partners = Vec::with_capacity(self.partners.len());
        self.partners.for_each(|id, record| {
            partners.push(Partner {
                id: *id,
                name: record.name.clone(),
                created: record.created,
                disabled: record.disabled,
                duration_unit: record.duration_unit,
                tokens: Vec::new(),
            });
        });
        self.tokens.for_each(|hash, token| {
            if let Some(partner) = partners.iter_mut().find(|p| p.id == token.partner) {
                partner.tokens.push(TokenInfo {
                    handle: hash.handle(),
                    created: token.created,
                });
            }
        });
        for partner in &mut partners {
            partner
                .tokens
                .sort_by(|a, b| (a.created, &a.handle).cmp(&(b.created, &b.handle)));
        }
        partners.sort_by(|a, b| a.name.cmp(&b.name));
        partners
    }

    /// Adds a token to a partner; it is returned only here.
    ///
    /// # Errors
    /// [`PartnersError::NotFound`], [`PartnersError::TooManyTokens`].
    pub fn add_token(
        &self,
        id: PartnerId,
        now: UnixSeconds,
    ) -> Commit<(TokenInfo, Token), PartnersError> {
        let token = Token::new_partner(self.entropy.array());
        let hash = token.hash();
        self.change(move |txn| {
            if txn.get::<tables::Partners>(&id)?.is_none() {
                return Err(PartnersError::NotFound);
            }
            if tokens_of(txn, &id)?.len() >= TOKENS_MAX {
                return Err(PartnersError::TooManyTokens);
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
    /// [`PartnersError::TokenNotFound`].
    pub fn revoke_token(&self, id: PartnerId, token: &str) -> Commit<(), PartnersError> {
        let token = token.to_ascii_lowercase();
        self.change(move |txn| {
            let hash = tokens_of(txn, &id)?
                .into_iter()
                .find(|hash| hash.handle() == token)
                .ok_or(PartnersError::TokenNotFound)?;
            Ok(txn.delete::<tables::PartnerTokens>(&hash)?)
        })
    }

    /// The partner's duration unit, if it differs from the configured one.
    #[must_use]
    pub fn duration_unit(&self, id: &PartnerId) -> Option<DurationUnit> {
        self.partners.get(id)?.duration_unit
    }

    /// Applies a change in one commit. The tokens of a disabled partner are rejected from the next request on.
    ///
    /// # Errors
    /// [`PartnersError::NotFound`].
    pub fn update(&self, id: PartnerId, update: PartnerUpdate) -> Commit<(), PartnersError> {
        self.change(move |txn| {
            let record = txn
                .get::<tables::Partners>(&id)?
                .ok_or(PartnersError::NotFound)?;
            let record = PartnerRecord {
                disabled: update.disabled.unwrap_or(record.disabled),
                duration_unit: update.duration_unit.unwrap_or(record.duration_unit),
                ..record
            };
            Ok(txn.put::<tables::Partners>(&id, &record)?)
        })
    }

    /// Disables or enables a partner; takes effect on the next request.
    ///
    /// # Errors
    /// [`PartnersError::NotFound`].
    pub fn set_disabled(&self, id: PartnerId, disabled: bool) -> Commit<(), PartnersError> {
        let update = PartnerUpdate {
            disabled: Some(disabled),
            ..PartnerUpdate::default()
        };
        self.update(id, update)
    }

    fn change<T: Send + 'static>(
        &self,
        batch: impl FnOnce(&mut Txn<'_>) -> Result<T, PartnersError> + Send + 'static,
    ) -> Commit<T, PartnersError> {
        self.store.write(Durability::Durable, batch)
    }
}

/// The state of a partner as read in a write batch; memory may lag behind earlier batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartnerStatus {
    Active,
    Disabled,
    /// The partner does not exist or was removed.
    Unknown,
}

/// Reads the state of a partner in the write batch that depends on it.
pub(crate) fn standing(txn: &Txn<'_>, id: &PartnerId) -> Result<PartnerStatus, StoreError> {
    Ok(match txn.get::<tables::Partners>(id)? {
        None => PartnerStatus::Unknown,
        Some(partner) if partner.disabled => PartnerStatus::Disabled,
        Some(_) => PartnerStatus::Active,
    })
}

/// Stores a partner with a given id, for tests of other modules.
#[cfg(test)]
pub fn seed(store: &Store, id: PartnerId, name: &str) {
    let record = PartnerRecord {
        name: name.to_owned(),
        created: UnixSeconds(0),
        disabled: false,
        duration_unit: None,
    };
    let batch = move |txn: &mut Txn<'_>| txn.put::<tables::Partners>(&id, &record);
    store
        .write::<_, StoreError, _>(Durability::Durable, batch)
        .wait()
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Removes a partner and its tokens, in the write batch that has checked that no user is left.
///
/// # Errors
/// [`PartnersError::NotFound`].
pub(crate) fn remove(txn: &mut Txn<'_>, id: &PartnerId) -> Result<(), PartnersError> {
    if txn.get::<tables::Partners>(id)?.is_none() {
        return Err(PartnersError::NotFound);
    }
    for hash in tokens_of(txn, id)? {
        txn.delete::<tables::PartnerTokens>(&hash)?;
    }
    Ok(txn.delete::<tables::Partners>(id)?)
}

fn insert_token(
    txn: &mut Txn<'_>,
    hash: &TokenHash,
    partner: PartnerId,
    created: UnixSeconds,
) -> Result<(), PartnersError> {
    let record = PartnerTokenRecord { partner, created };
    Ok(txn.put::<tables::PartnerTokens>(hash, &record)?)
}

fn tokens_of(txn: &Txn<'_>, id: &PartnerId) -> Result<Vec<TokenHash>, StoreError> {
    let tokens = txn.scan_index::<TokensByPartner>(id, TOKENS_MAX)?;
    Ok(tokens.into_iter().map(|(_, hash)| hash).collect())
}
