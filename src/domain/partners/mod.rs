//! Partners and their access tokens: authenticates the client application of a request.
//!
//! A token is shown once; only its hash is stored. Users of a partner are handled in `accounts`.

mod tables;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::identities::{self, Identities, IdentityError, IdentityKind};
use playgate_store::{Commit, Schema, StoreError, Txn};
use playgate_types::{
    DurationUnit, PartnerId, PartnerKind, Token, TokenHash, TokenInfo, UnixSeconds,
};
use tables::PartnerRecord;

pub fn schema(schema: Schema) -> Schema {
    schema
        .with::<tables::PartnerTable>()
        .with::<tables::PartnerTokens>()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partner {
    pub id: PartnerId,
    pub name: String,
    pub created: UnixSeconds,
    pub disabled: bool,
    /// Duration unit of its players, if it differs from the configured one.
    pub duration_unit: Option<DurationUnit>,
    pub kind: PartnerKind,
    /// Oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// Changes to a partner; `None` keeps the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartnerUpdate {
    pub disabled: Option<bool>,
    /// Duration unit of its players; an inner `None` selects the configured one.
    pub duration_unit: Option<Option<DurationUnit>>,
}

pub type Partners = Identities<tables::PartnerTable>;

impl Partners {
    /// Authenticates an access token from memory. Returns `None` for unknown and revoked tokens and for
    /// disabled or removed partners.
    pub fn authenticate(
        &self,
        token: &TokenHash,
        now: UnixSeconds,
    ) -> Option<(PartnerId, PartnerKind)> {
        let (partner, record) = self.holder(token)?;
        // Disabling does not delete the tokens, so that enabling the partner restores them.
        if record.disabled {
            return None;
        }
        // Only an accepted token counts as used.
        self.record_use(token, now);
        Some((partner, record.kind))
    }

    /// Creates a partner with a first token, which is returned only here.
    ///
    /// # Errors
    /// [`IdentityError::NameMalformed`], [`IdentityError::NameInUse`].
    pub fn add(
        &self,
        name: &str,
        kind: PartnerKind,
        now: UnixSeconds,
    ) -> Result<Commit<(PartnerId, Token), IdentityError>, IdentityError> {
        self.insert(name, now, |name| PartnerRecord {
            name,
            created: now,
            disabled: false,
            duration_unit: None,
            kind,
        })
    }

    pub fn list(&self) -> Vec<Partner> {
        // One pass over all tokens, not one for each partner.
        let mut tokens = self.tokens_by_holder();
        let mut partners = Vec::with_capacity(self.records.len());
        self.records.for_each(|id, record| {
            partners.push(Partner {
                id: *id,
                name: record.name.clone(),
                created: record.created,
                disabled: record.disabled,
                duration_unit: record.duration_unit,
                kind: record.kind,
                tokens: tokens.remove(id).unwrap_or_default(),
            });
        });
        partners.sort_by(|a, b| a.name.cmp(&b.name));
        partners
    }

    pub fn kind(&self, id: &PartnerId) -> Option<PartnerKind> {
        Some(self.records.get(id)?.kind)
    }

    /// Returns a look-up of the duration unit of a partner. It holds no handle of the store, so that listeners of the
    /// store may keep it: the store would keep itself open through them.
    pub fn duration_units(&self) -> impl Fn(&PartnerId) -> Option<DurationUnit> + use<> {
        let records = Arc::clone(&self.records);
        move |id| records.get(id)?.duration_unit
    }

    /// Applies a change in one commit. The tokens of a disabled partner are rejected from the next request on.
    ///
    /// # Errors
    /// [`IdentityError::NotFound`].
    pub fn update(&self, id: PartnerId, update: PartnerUpdate) -> Commit<(), IdentityError> {
        self.change(move |txn| {
            // Read inside the transaction: two concurrent changes must not undo each other.
            let record = txn
                .get::<tables::PartnerTable>(&id)?
                .ok_or(IdentityError::NotFound(IdentityKind::Partner))?;
            let record = PartnerRecord {
                disabled: update.disabled.unwrap_or(record.disabled),
                duration_unit: update.duration_unit.unwrap_or(record.duration_unit),
                ..record
            };
            Ok(txn.put::<tables::PartnerTable>(&id, &record)?)
        })
    }

    pub fn set_disabled(&self, id: PartnerId, disabled: bool) -> Commit<(), IdentityError> {
        let update = PartnerUpdate {
            disabled: Some(disabled),
            ..PartnerUpdate::default()
        };
        self.update(id, update)
    }
}

/// The state of a partner as read in a write batch; memory may lag behind earlier batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartnerStatus {
    Active,
    Disabled,
    Unknown,
}

pub(crate) fn status(txn: &Txn<'_>, id: &PartnerId) -> Result<PartnerStatus, StoreError> {
    Ok(match txn.get::<tables::PartnerTable>(id)? {
        None => PartnerStatus::Unknown,
        Some(partner) if partner.disabled => PartnerStatus::Disabled,
        Some(_) => PartnerStatus::Active,
    })
}

#[cfg(test)]
pub fn seed(store: &playgate_store::Store, id: PartnerId, name: &str) {
    let record = PartnerRecord {
        name: name.to_owned(),
        created: UnixSeconds(0),
        disabled: false,
        duration_unit: None,
        kind: PartnerKind::Standard,
    };
    let batch = move |txn: &mut Txn<'_>| txn.put::<tables::PartnerTable>(&id, &record);
    store
        .write::<_, StoreError, _>(playgate_store::Durability::Durable, batch)
        .wait()
        .unwrap_or_else(|error| panic!("{error}"));
}

/// Removes a partner and its tokens, in the write batch that has checked that no user is left.
///
/// # Errors
/// [`IdentityError::NotFound`].
pub(crate) fn remove(txn: &mut Txn<'_>, id: &PartnerId) -> Result<(), IdentityError> {
    identities::remove::<tables::PartnerTable>(txn, id)
}
