//! The filter of journal queries.

use super::index::{IndexKey, SegmentIndex};
use super::record::JournalRecord;
use super::segment::SegmentSummary;
use playgate_types::{AssetId, Malformed, PartnerId, SessionId, UnixSeconds, UserId};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalFilter {
    pub id: Option<String>,
    pub partner: Option<PartnerId>,
    pub user: Option<UserId>,
    pub session: Option<SessionId>,
    pub asset: Option<AssetId>,
    /// Names of routes, any of which selects; empty for all.
    pub routes: Vec<&'static str>,
    pub status: Option<StatusFilter>,
    pub code: Option<String>,
    /// Bounds of the time, the upper one exclusive.
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
    pub before: Option<u64>,
    /// Only records with a greater number.
    pub after: Option<u64>,
}

/// A status such as 403, a class such as 4xx, or `answered` or `refused`, which are two classes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    Exact(u16),
    Class(u16),
    Answered,
    Refused,
}

impl StatusFilter {
    pub fn parse(text: &str) -> Result<Self, Malformed> {
        let text = text.trim().to_ascii_lowercase();
        match text.as_str() {
            "answered" => return Ok(Self::Answered),
            "refused" => return Ok(Self::Refused),
            _ => {}
        }
        let class = text.strip_suffix("xx").and_then(|class| class.parse().ok());
        let status = match class {
            Some(class @ 2..=5) => Some(Self::Class(class)),
            _ => text
                .parse()
                .ok()
                // No request is answered with an informational status.
                .filter(|status| (200..=599).contains(status))
                .map(Self::Exact),
        };
        status.ok_or(Malformed(
            "must be a status from 200 to 599, such as 403, a class from 2xx to 5xx, answered or refused",
        ))
    }

    /// The keys that a segment has, one of them at least, if it contains a selected record.
    fn keys(self) -> impl Iterator<Item = IndexKey> {
        let keys = match self {
            Self::Exact(status) => [Some(IndexKey::of_status(status)), None],
            Self::Class(class) => [Some(IndexKey::of_class(class)), None],
            Self::Answered => [2, 3].map(|class| Some(IndexKey::of_class(class))),
            Self::Refused => [4, 5].map(|class| Some(IndexKey::of_class(class))),
        };
        keys.into_iter().flatten()
    }

    const fn selects(self, status: u16) -> bool {
        match self {
            Self::Exact(exact) => exact == status,
            Self::Class(class) => class == status / 100,
            Self::Answered => status < 400,
            Self::Refused => status >= 400,
        }
    }
}

impl JournalFilter {
    pub fn selects(&self, record: &JournalRecord) -> bool {
        // An absent condition selects every record.
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, is: Option<&T>) -> bool {
            wanted.is_none() || wanted == is
        }
        is(self.id.as_ref(), Some(&record.id))
            && is(self.partner.as_ref(), record.partner.as_ref())
            && is(self.user.as_ref(), record.user.as_ref())
            && is(self.session.as_ref(), record.session.as_ref())
            && is(self.asset.as_ref(), record.asset.as_ref())
            && (self.routes.is_empty() || self.routes.contains(&&*record.route))
            && is(self.code.as_deref(), record.code.as_deref())
            && self
                .status
                .is_none_or(|status| status.selects(record.status))
            && self
                .from
                .is_none_or(|from| record.at_millis >= millis(from))
            && self.to.is_none_or(|to| record.at_millis < millis(to))
            && self.before.is_none_or(|before| record.number < before)
            && self.after.is_none_or(|after| record.number > after)
    }

    /// Whether a segment can contain a selected record, by its bounds.
    pub(super) fn reaches(&self, segment: &SegmentSummary) -> bool {
        self.from.is_none_or(|from| segment.last_at >= millis(from))
            && self.to.is_none_or(|to| segment.first_at < millis(to))
            && self.before.is_none_or(|before| segment.first < before)
            && self.after.is_none_or(|after| segment.last > after)
    }

    /// Whether an index can exclude segments.
    pub(super) fn has_keys(&self) -> bool {
        self.status.is_some() || !self.routes.is_empty() || self.keys().next().is_some()
    }

    /// Whether a segment with this index can contain a selected record.
    pub(super) fn may_be_in(&self, index: &SegmentIndex) -> bool {
        let mut routes = self.routes.iter().map(|route| IndexKey::of_route(route));
        let status = self.status.filter(|_| index.has_statuses);
        self.keys().all(|key| index.may_contain(key))
            && status.is_none_or(|status| status.keys().any(|key| index.may_contain(key)))
            && (self.routes.is_empty() || routes.any(|route| index.may_contain(route)))
    }

    /// Returns the values of conditions that only one value meets.
    fn keys(&self) -> impl Iterator<Item = IndexKey> {
        let keys = [
            self.id.as_deref().map(IndexKey::of_id),
            self.user.as_ref().map(IndexKey::of_user),
            self.partner.as_ref().map(IndexKey::of_partner),
            self.session.as_ref().map(IndexKey::of_session),
            self.asset.as_ref().map(IndexKey::of_asset),
            self.code.as_deref().map(IndexKey::of_code),
        ];
        keys.into_iter().flatten()
    }
}

const fn millis(seconds: UnixSeconds) -> i64 {
    seconds.0.saturating_mul(1_000)
}
