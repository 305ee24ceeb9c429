//! The tables of partners and their tokens.

use serde::{Deserialize, Serialize};

use crate::store::{Entries, Index, Record, Table, TreeName, read_record};
use crate::types::{DurationUnit, PartnerId, TokenHash, UnixSeconds};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartnerRecord {
    pub(super) name: String,
    pub(super) created: UnixSeconds,
    pub(super) disabled: bool,
    /// Duration unit of its players, if it differs from the configured one.
    pub(super) duration_unit: Option<DurationUnit>,
}

impl Record for PartnerRecord {
    const VERSION: u8 = 2;

    /// Version 1 lacks `duration_unit`; a zero byte means `None`.
    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record(&[bytes, &[0]].concat()),
            _ => None,
        }
    }
}

/// Partners by id; kept in a memory table.
pub(super) struct Partners;

impl Table for Partners {
    const NAME: TreeName = "partners";
    type Key = PartnerId;
    type Record = PartnerRecord;
    const INDEXES: &'static [TreeName] = &[PartnersByName::NAME];

    fn index(key: &PartnerId, record: &PartnerRecord, entries: &mut Entries) {
        let PartnerRecord {
            name,
            created: _,
            disabled: _,
            duration_unit: _,
        } = record;
        entries.add::<PartnersByName>(name, key);
    }
}

/// Ensures unique names.
pub(super) struct PartnersByName;

impl Index for PartnersByName {
    const NAME: TreeName = "partners.by_name";
    type Table = Partners;
    type Key = String;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartnerTokenRecord {
    pub(super) partner: PartnerId,
    pub(super) created: UnixSeconds,
}

impl Record for PartnerTokenRecord {}

/// Access tokens by hash; kept in a memory table.
pub(super) struct PartnerTokens;

impl Table for PartnerTokens {
    const NAME: TreeName = "partner_tokens";
    type Key = TokenHash;
    type Record = PartnerTokenRecord;
    const INDEXES: &'static [TreeName] = &[TokensByPartner::NAME];

    fn index(key: &TokenHash, record: &PartnerTokenRecord, entries: &mut Entries) {
        let PartnerTokenRecord { partner, created } = record;
        entries.add::<TokensByPartner>(&(*partner, *created), key);
    }
}

/// Tokens of a partner, oldest first.
pub(super) struct TokensByPartner;

impl Index for TokensByPartner {
    const NAME: TreeName = "partner_tokens.by_partner";
    type Table = PartnerTokens;
    type Key = (PartnerId, UnixSeconds);
}
