//! The tables of partners and their tokens.

use serde::{Deserialize, Serialize};

use crate::identities::{IdentityKind, IdentityTable, TokenRecord};
use playgate_ports::Entropy;
use playgate_store::{Entries, Index, Record, StoreError, Table, TreeName, Txn, read_record};
use playgate_types::{DurationUnit, PartnerId, PartnerKind, Token, TokenHash, UnixSeconds};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartnerRecord {
    pub(super) name: String,
    pub(super) created: UnixSeconds,
    pub(super) disabled: bool,
    pub(super) duration_unit: Option<DurationUnit>,
    pub(super) kind: PartnerKind,
}

impl Record for PartnerRecord {
    const VERSION: u8 = 3;

    /// Version 1 lacks `duration_unit`, version 2 `kind`. Zero bytes mean `None` and `Standard`.
    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record(&[bytes, &[0, 0]].concat()),
            2 => read_record(&[bytes, &[0]].concat()),
            _ => None,
        }
    }
}

#[derive(Clone)]
pub struct PartnerTable;

impl IdentityTable for PartnerTable {
    const KIND: IdentityKind = IdentityKind::Partner;
    type ByName = PartnersByName;
    type Tokens = PartnerTokens;

    fn name(record: &PartnerRecord) -> &str {
        &record.name
    }

    fn parse_id(text: &str) -> Option<PartnerId> {
        PartnerId::parse(text).ok()
    }

    fn new_id(random: [u8; 16]) -> PartnerId {
        PartnerId::from_bytes(random)
    }

    fn new_token(entropy: &dyn Entropy) -> Token {
        Token::new_partner(entropy.array())
    }

    fn tokens(txn: &Txn<'_>, id: &PartnerId) -> Result<Vec<TokenHash>, StoreError> {
        // `add_token` enforces this maximum, so the scan finds all tokens.
        let tokens = txn.scan_index::<TokensByPartner>(id, Self::KIND.tokens_max())?;
        Ok(tokens.into_iter().map(|(_, hash)| hash).collect())
    }
}

impl Table for PartnerTable {
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
            kind: _,
        } = record;
        entries.add::<PartnersByName>(name, key);
    }
}

pub struct PartnersByName;

impl Index for PartnersByName {
    const NAME: TreeName = "partners.by_name";
    type Table = PartnerTable;
    type Key = String;
}

impl Record for TokenRecord<PartnerId> {
    const VERSION: u8 = 2;

    /// Version 1 lacks label and last use; zero bytes mean an empty text and `None`.
    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record(&[bytes, &[0, 0]].concat()),
            _ => None,
        }
    }
}

/// Access tokens by hash; kept in a memory table.
#[derive(Clone)]
pub struct PartnerTokens;

impl Table for PartnerTokens {
    const NAME: TreeName = "partner_tokens";
    type Key = TokenHash;
    type Record = TokenRecord<PartnerId>;
    const INDEXES: &'static [TreeName] = &[TokensByPartner::NAME];

    fn index(key: &TokenHash, record: &TokenRecord<PartnerId>, entries: &mut Entries) {
        let TokenRecord {
            holder,
            created,
            label: _,
            used: _,
        } = record;
        entries.add::<TokensByPartner>(&(*holder, *created), key);
    }
}

pub(super) struct TokensByPartner;

impl Index for TokensByPartner {
    const NAME: TreeName = "partner_tokens.by_partner";
    type Table = PartnerTokens;
    type Key = (PartnerId, UnixSeconds);
}
