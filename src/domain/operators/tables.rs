//! The tables of operators and their tokens.

use serde::{Deserialize, Serialize};

use crate::identities::{IdentityKind, IdentityTable, TokenRecord};
use playgate_ports::Entropy;
use playgate_store::{All, Entries, Index, Record, StoreError, Table, TreeName, Txn, read_record};
use playgate_types::{OperatorId, Role, Token, TokenHash, TokenKind, UnixSeconds};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorRecord {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) created: UnixSeconds,
}

impl Record for OperatorRecord {
    const VERSION: u8 = 2;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record::<v1::OperatorRecord>(bytes).map(|old| Self {
                name: old.name,
                role: old.role,
                created: old.created,
            }),
            _ => None,
        }
    }
}

#[derive(Clone)]
pub struct OperatorTable;

impl IdentityTable for OperatorTable {
    const KIND: IdentityKind = IdentityKind::Operator;
    type ByName = OperatorsByName;
    type Tokens = OperatorTokens;

    fn name(record: &OperatorRecord) -> &str {
        &record.name
    }

    fn parse_id(text: &str) -> Option<OperatorId> {
        OperatorId::parse(text).ok()
    }

    fn new_id(random: [u8; 16]) -> OperatorId {
        OperatorId::from_bytes(random)
    }

    fn new_token(entropy: &dyn Entropy) -> Token {
        Token::new(TokenKind::Operator, entropy.array())
    }

    fn tokens(txn: &Txn<'_>, id: &OperatorId) -> Result<Vec<TokenHash>, StoreError> {
        let tokens = txn.scan::<OperatorTokens>(&All, usize::MAX)?;
        let of_operator = tokens.into_iter().filter(|(_, token)| token.holder == *id);
        Ok(of_operator.map(|(hash, _)| hash).collect())
    }
}

impl Table for OperatorTable {
    const NAME: TreeName = "operators";
    type Key = OperatorId;
    type Record = OperatorRecord;
    const INDEXES: &'static [TreeName] = &[OperatorsByName::NAME];

    fn index(key: &OperatorId, record: &OperatorRecord, entries: &mut Entries) {
        let OperatorRecord {
            name,
            role: _,
            created: _,
        } = record;
        entries.add::<OperatorsByName>(name, key);
    }
}

pub struct OperatorsByName;

impl Index for OperatorsByName {
    const NAME: TreeName = "operators.by_name";
    type Table = OperatorTable;
    type Key = String;
}

impl Record for TokenRecord<OperatorId> {
    const VERSION: u8 = 3;

    fn upgrade(version: u8, bytes: &[u8]) -> Option<Self> {
        match version {
            1 => read_record::<v1::OperatorTokenRecord>(bytes)
                // Version 1 did not store the time of creation.
                .map(|old| Self::new(old.operator, UnixSeconds::default())),
            // Version 2 lacks label and last use; zero bytes mean an empty text and `None`.
            2 => read_record(&[bytes, &[0, 0]].concat()),
            _ => None,
        }
    }
}

/// Operator tokens by hash; kept in a memory table. There is no index by operator: the tokens of an
/// installation are few enough to scan.
#[derive(Clone)]
pub struct OperatorTokens;

impl Table for OperatorTokens {
    const NAME: TreeName = "operator_tokens";
    type Key = TokenHash;
    type Record = TokenRecord<OperatorId>;
}

/// Record formats of version 1, in which an operator had one token.
mod v1 {
    use super::{Deserialize, OperatorId, Role, TokenHash, UnixSeconds};

    #[derive(Deserialize)]
    pub(super) struct OperatorRecord {
        pub(super) name: String,
        pub(super) role: Role,
        pub(super) created: UnixSeconds,
        #[expect(dead_code, reason = "the table of tokens has it too")]
        token: TokenHash,
    }

    #[derive(Deserialize)]
    pub(super) struct OperatorTokenRecord {
        pub(super) operator: OperatorId,
    }
}
