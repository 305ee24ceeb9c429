//! The tables of operators and of their tokens.

use serde::{Deserialize, Serialize};

use crate::store::{Entries, Index, Record, Table, TreeName};
use crate::types::{OperatorId, Role, TokenHash, UnixSeconds};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OperatorRecord {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) created: UnixSeconds,
    pub(super) token: TokenHash,
}

impl Record for OperatorRecord {}

/// Operators by id; mirrored.
pub(super) struct Operators;

impl Table for Operators {
    const NAME: TreeName = "operators";
    type Key = OperatorId;
    type Record = OperatorRecord;
    const INDEXES: &'static [TreeName] = &[OperatorsByName::NAME];

    fn index(key: &OperatorId, record: &OperatorRecord, entries: &mut Entries) {
        let OperatorRecord {
            name,
            role: _,
            created: _,
            // A table of its own leads from the token to the operator: a request looks there.
            token: _,
        } = record;
        entries.add::<OperatorsByName>(name, key);
    }
}

/// Keeps names unique.
pub(super) struct OperatorsByName;

impl Index for OperatorsByName {
    const NAME: TreeName = "operators.by_name";
    type Table = Operators;
    type Key = String;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OperatorTokenRecord {
    pub(super) operator: OperatorId,
}

impl Record for OperatorTokenRecord {}

/// Operators' tokens by their hash; mirrored.
pub(super) struct OperatorTokens;

impl Table for OperatorTokens {
    const NAME: TreeName = "operator_tokens";
    type Key = TokenHash;
    type Record = OperatorTokenRecord;
}
