//! The index of a finished segment: its bounds, and a Bloom filter over the values that readers filter by. It is a file
//! next to the segment. If it is missing or damaged, the segment is read instead.

use std::collections::HashSet;

use ring::digest;

use super::record::JournalRecord;
use playgate_segment_log::{append_checksum, without_checksum};
use playgate_types::{AssetId, PartnerId, SessionId, UserId};

/// Start of the file. The last byte is the version.
const MARK: [u8; 4] = *b"PGi\x02";
/// Of an index without the statuses of its records.
const MARK_V1: [u8; 4] = *b"PGi\x01";
/// With ten bits for each value and five probes, the false positive rate is about 1 %.
const BITS_PER_KEY: usize = 10;
const PROBES: u64 = 5;

/// Hash of a value that readers filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct IndexKey(u64);

impl IndexKey {
    fn new(kind: u8, value: &[u8]) -> Self {
        // Not the hash of the standard library: this one is stored, so it must be the same in every version.
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(&[kind]);
        context.update(value);
        let hash = context.finish();
        let first = hash.as_ref().first_chunk::<8>().copied();
        Self(u64::from_le_bytes(first.unwrap_or_default()))
    }

    pub(super) fn of_id(id: &str) -> Self {
        Self::new(0, id.as_bytes())
    }

    pub(super) fn of_user(user: &UserId) -> Self {
        Self::new(1, user.as_bytes())
    }

    pub(super) fn of_partner(partner: &PartnerId) -> Self {
        Self::new(2, partner.as_bytes())
    }

    pub(super) fn of_session(session: &SessionId) -> Self {
        Self::new(3, session.as_bytes())
    }

    pub(super) fn of_asset(asset: &AssetId) -> Self {
        Self::new(4, asset.as_str().as_bytes())
    }

    pub(super) fn of_route(route: &str) -> Self {
        Self::new(5, route.as_bytes())
    }

    pub(super) fn of_code(code: &str) -> Self {
        Self::new(6, code.as_bytes())
    }

    pub(super) fn of_status(status: u16) -> Self {
        Self::new(7, &status.to_le_bytes())
    }

    /// A class such as 4xx.
    pub(super) fn of_class(class: u16) -> Self {
        Self::new(8, &class.to_le_bytes())
    }

    fn bits(self, bits: u64) -> impl Iterator<Item = u64> {
        // Double hashing. An odd step is never a multiple of the number of bits, which is even.
        let (first, step) = (self.0 & 0xffff_ffff, (self.0 >> 32) | 1);
        (0..PROBES).map(move |probe| first.wrapping_add(probe.wrapping_mul(step)) % bits)
    }
}

#[derive(Default)]
pub(super) struct SegmentKeys(HashSet<IndexKey>);

impl SegmentKeys {
    pub(super) fn add(&mut self, record: &JournalRecord) {
        let keys = [
            Some(IndexKey::of_id(&record.id)),
            record.user.as_ref().map(IndexKey::of_user),
            record.partner.as_ref().map(IndexKey::of_partner),
            record.session.as_ref().map(IndexKey::of_session),
            record.asset.as_ref().map(IndexKey::of_asset),
            Some(IndexKey::of_route(&record.route)),
            record.code.as_deref().map(IndexKey::of_code),
            Some(IndexKey::of_status(record.status)),
            Some(IndexKey::of_class(record.status / 100)),
        ];
        self.0.extend(keys.into_iter().flatten());
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentBounds {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) first_at: i64,
    pub(super) last_at: i64,
    /// Number of records in the segment. If fewer can be read, it is damaged.
    pub(super) count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentIndex {
    pub(super) bounds: SegmentBounds,
    bloom: Vec<u8>,
    pub(super) has_statuses: bool,
}

impl SegmentIndex {
    pub(super) fn new(bounds: SegmentBounds, keys: &SegmentKeys) -> Self {
        // At least 8 bytes: the number of bits is a divisor and must not be 0.
        let mut bloom = vec![0; (keys.0.len() * BITS_PER_KEY).div_ceil(8).max(8)];
        let bits = bloom.len() as u64 * 8;
        for bit in keys.0.iter().flat_map(|key| key.bits(bits)) {
            let at = usize::try_from(bit / 8).unwrap_or(0);
            if let Some(byte) = bloom.get_mut(at) {
                *byte |= 1 << (bit % 8);
            }
        }
        Self {
            bounds,
            bloom,
            has_statuses: true,
        }
    }

    pub(super) fn may_contain(&self, key: IndexKey) -> bool {
        let bits = self.bloom.len() as u64 * 8;
        key.bits(bits).all(|bit| {
            let at = usize::try_from(bit / 8).unwrap_or(0);
            self.bloom
                .get(at)
                .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
        })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let bounds = &self.bounds;
        let mut bytes = MARK.to_vec();
        bytes.extend(bounds.first.to_le_bytes());
        bytes.extend(bounds.last.to_le_bytes());
        bytes.extend(bounds.first_at.to_le_bytes());
        bytes.extend(bounds.last_at.to_le_bytes());
        bytes.extend(bounds.count.to_le_bytes());
        bytes.extend(&self.bloom);
        append_checksum(&mut bytes);
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (mark, body) = without_checksum(bytes)?.split_first_chunk::<4>()?;
        let has_statuses = match *mark {
            MARK => true,
            MARK_V1 => false,
            _ => return None,
        };
        let (first, body) = body.split_first_chunk::<8>()?;
        let (last, body) = body.split_first_chunk::<8>()?;
        let (first_at, body) = body.split_first_chunk::<8>()?;
        let (last_at, body) = body.split_first_chunk::<8>()?;
        let (count, bloom) = body.split_first_chunk::<8>()?;
        let bounds = SegmentBounds {
            first: u64::from_le_bytes(*first),
            last: u64::from_le_bytes(*last),
            first_at: i64::from_le_bytes(*first_at),
            last_at: i64::from_le_bytes(*last_at),
            count: u64::from_le_bytes(*count),
        };
        (!bloom.is_empty()).then(|| Self {
            bounds,
            bloom: bloom.to_vec(),
            has_statuses,
        })
    }
}
