//! Whose records are erased: those of a user or of a partner.

use super::index::IndexKey;
use super::record::JournalRecord;
use playgate_types::{PartnerId, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ErasureSubject {
    User(UserId),
    Partner(PartnerId),
}

impl ErasureSubject {
    pub(super) fn of(record: &JournalRecord) -> impl Iterator<Item = Self> + use<> {
        let user = record.user.map(Self::User);
        user.into_iter().chain(record.partner.map(Self::Partner))
    }

    pub(super) fn key(self) -> IndexKey {
        match self {
            Self::User(user) => IndexKey::of_user(&user),
            Self::Partner(partner) => IndexKey::of_partner(&partner),
        }
    }

    pub(super) fn owns(self, record: &JournalRecord) -> bool {
        match self {
            Self::User(user) => record.user == Some(user),
            Self::Partner(partner) => record.partner == Some(partner),
        }
    }
}
