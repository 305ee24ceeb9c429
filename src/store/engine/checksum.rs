//! An order-independent checksum of the pairs of a tree, with a count.
//!
//! It is stored with each commit, so that a start can detect lost, changed or reappeared pairs. It
//! protects against damage, not against an adversary.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    pub(crate) count: u64,
    sum: u64,
}

impl Digest {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        // Wrapping sums make the order irrelevant and a removal the exact inverse of an addition.
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(term(key, value));
    }

    pub(crate) fn remove(&mut self, key: &[u8], value: &[u8]) {
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(term(key, value));
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.count) << 64) | u128::from(self.sum)).to_be_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes = <[u8; 16]>::try_from(bytes).ok()?;
        let (count, sum) = bytes.split_first_chunk::<8>()?;
        Some(Self {
            count: u64::from_be_bytes(*count),
            sum: u64::from_be_bytes(<[u8; 8]>::try_from(sum).ok()?),
        })
    }
}

/// The contribution of one pair: two checksums, mixed so that sums do not cancel out.
fn term(key: &[u8], value: &[u8]) -> u64 {
    let of_value = crc32fast::hash(value);
    // Seeded with the checksum of the value, so that swapping two values changes the sum.
    let mut both = crc32fast::Hasher::new_with_initial(!of_value);
    both.update(key);
    let mut x = (u64::from(of_value) << 32) | u64::from(both.finalize());
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&[u8], &[u8])]) -> Digest {
        let mut digest = Digest::default();
        for (key, value) in pairs {
            digest.add(key, value);
        }
        digest
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let whole = of(&[(b"a", b"1"), (b"b", b"2")]);
        assert_eq!(whole, of(&[(b"b", b"2"), (b"a", b"1")]));
        for other in [
            of(&[(b"a", b"2"), (b"b", b"1")]),
            of(&[(b"a", b"1")]),
            of(&[(b"a", b"1"), (b"b", b"2"), (b"b", b"2")]),
            of(&[(b"a", b""), (b"b", b"2")]),
        ] {
            assert_ne!(whole, other);
        }
        let mut without = whole;
        without.remove(b"b", b"2");
        assert_eq!(without, of(&[(b"a", b"1")]));
        assert_eq!(Digest::from_bytes(&whole.to_bytes()), Some(whole));
    }
}
