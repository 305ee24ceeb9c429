//! Keys of tables and indexes. They are encoded by hand so that byte order equals logical order and
//! each part is self-delimiting, which allows prefix scans.

use playgate_types::{AssetId, DeviceId};
use playgate_types::{
    BroadcastId, Email, EntitlementId, LivestreamId, LoginId, MailId, OfferId, OperatorId,
    PartnerId, SessionId, TokenHash, TvDay, UnixSeconds, UserId,
};

/// Invariants, checked by property tests: `read(write(k)) == k`, and `a < b` exactly when the bytes
/// of `a` sort before those of `b`.
pub trait Key: Clone + Ord + Send + Sync + Sized + 'static {
    fn write(&self, out: &mut Vec<u8>);

    /// Decodes a value from the start of the input and advances it; `None` if the bytes are
    /// invalid.
    fn read(input: &mut &[u8]) -> Option<Self>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        self.write(&mut out);
        out
    }

    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let key = Self::read(&mut bytes)?;
        bytes.is_empty().then_some(key)
    }
}

/// The leading part of a key `K`: [`All`], its first component, its first two, …
pub trait PrefixOf<K> {
    fn prefix_bytes(&self) -> Vec<u8>;
}

#[derive(Clone, Copy, Debug)]
pub struct All;

impl<K> PrefixOf<K> for All {
    fn prefix_bytes(&self) -> Vec<u8> {
        Vec::new()
    }
}

fn read_array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = input.split_first_chunk::<N>()?;
    *input = tail;
    Some(*head)
}

macro_rules! unsigned_key {
    ($($int:ty),+) => {$(
        impl Key for $int {
            fn write(&self, out: &mut Vec<u8>) {
                // Big-endian, so that bytes sort as numbers do.
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                read_array(input).map(Self::from_be_bytes)
            }
        }
    )+};
}

macro_rules! signed_key {
    ($($int:ty),+) => {$(
        impl Key for $int {
            fn write(&self, out: &mut Vec<u8>) {
                // Flipping the sign bit lets negative numbers sort first.
                out.extend_from_slice(&(*self ^ Self::MIN).to_be_bytes());
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                read_array(input).map(|bytes| Self::from_be_bytes(bytes) ^ Self::MIN)
            }
        }
    )+};
}

unsigned_key!(u8, u16, u32, u64);
signed_key!(i32, i64);

impl<const N: usize> Key for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        read_array(input)
    }
}

/// Text ends with two zero bytes. A zero inside the text is escaped as `00 ff`, which sorts after the end.
impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        write_text(self, out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let mut text = Vec::new();
        loop {
            match read_array::<1>(input)? {
                // Any other byte after a zero is not written by `write_text`: the key is damaged.
                [0] => match read_array::<1>(input)? {
                    [0] => return Self::from_utf8(text).ok(),
                    [0xff] => text.push(0),
                    _ => return None,
                },
                [byte] => text.push(byte),
            }
        }
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        out.push(byte);
        if byte == 0 {
            out.push(0xff);
        }
    }
    // Two zeros sort before every escaped zero, so a text sorts before its extensions.
    out.extend_from_slice(&[0, 0]);
}

macro_rules! text_key {
    ($($name:ty),+) => {$(
        impl Key for $name {
            fn write(&self, out: &mut Vec<u8>) {
                write_text(self.as_str(), out);
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                // Parsing again rejects a damaged key before it becomes a checked type.
                Self::parse(&String::read(input)?).ok()
            }
        }
    )+};
}

text_key!(LivestreamId, AssetId, BroadcastId, OfferId, DeviceId, Email);

macro_rules! bytes_key {
    ($($name:ty),+) => {$(
        impl Key for $name {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(self.as_bytes());
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                read_array(input).map(Self::from_bytes)
            }
        }
    )+};
}

bytes_key!(
    PartnerId,
    UserId,
    LoginId,
    SessionId,
    EntitlementId,
    MailId,
    OperatorId,
    TokenHash
);

impl Key for UnixSeconds {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        i64::read(input).map(Self)
    }
}

impl Key for TvDay {
    fn write(&self, out: &mut Vec<u8>) {
        self.number().write(out);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        Self::from_number(i32::read(input)?)
    }
}

macro_rules! tuple_key {
    ($($part:ident . $at:tt),+) => {
        impl<$($part: Key),+> Key for ($($part,)+) {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$at.write(out);)+
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                Some(($($part::read(input)?,)+))
            }
        }
    };
}

tuple_key!(A.0, B.1);
tuple_key!(A.0, B.1, C.2);
tuple_key!(A.0, B.1, C.2, D.3);

macro_rules! prefixes {
    ($(($($part:ident),+): $prefix:ty),+ $(,)?) => {$(
        impl<$($part: Key),+> PrefixOf<($($part,)+)> for $prefix {
            fn prefix_bytes(&self) -> Vec<u8> {
                self.to_bytes()
            }
        }
    )+};
}

prefixes! {
    (A, B): A,
    (A, B, C): A,
    (A, B, C): (A, B),
    (A, B, C, D): A,
    (A, B, C, D): (A, B),
    (A, B, C, D): (A, B, C),
}

/// Returns the smallest byte string that sorts after all strings with this prefix; `None` if there is none.
pub(super) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    // A trailing 0xff cannot be incremented; the range then ends with the next shorter prefix. A prefix
    // of only 0xff has no end.
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check<K: Key + std::fmt::Debug>(a: &K, b: &K) {
        assert_eq!(K::from_bytes(&a.to_bytes()).as_ref(), Some(a));
        assert_eq!(a.cmp(b), a.to_bytes().cmp(&b.to_bytes()), "{a:?} {b:?}");
    }

    proptest! {
        #[test]
        fn numbers_keep_their_order(a: i64, b: i64, c: u32, d: u32, e: i32, f: i32) {
            check(&a, &b);
            check(&c, &d);
            check(&e, &f);
            check(&UnixSeconds(a), &UnixSeconds(b));
        }

        #[test]
        fn texts_keep_their_order(a in "[\0\u{1}a-c\u{ff}]{0,6}", b in "[\0\u{1}a-c\u{ff}]{0,6}") {
            check(&a, &b);
        }

        #[test]
        fn tuples_keep_their_order(
            a in ("[\0a]{0,3}", any::<i8>(), "[\0a]{0,3}"),
            b in ("[\0a]{0,3}", any::<i8>(), "[\0a]{0,3}"),
        ) {
            let key = |(x, y, z): (String, i8, String)| (x, i64::from(y), z);
            check(&key(a), &key(b));
        }

        #[test]
        fn prefix_range_ends_where_the_next_begins(prefix: Vec<u8>, rest: Vec<u8>, other: Vec<u8>) {
            let inside = [prefix.clone(), rest].concat();
            if let Some(end) = after_prefix(&prefix) {
                prop_assert!(inside < end);
                let within = other >= prefix && other < end;
                prop_assert_eq!(within, other.starts_with(&prefix));
            } else {
                prop_assert!(prefix.iter().all(|byte| *byte == 0xff));
            }
        }
    }

    #[test]
    fn malformed_keys_are_rejected() {
        assert_eq!(String::from_bytes(b"abc"), None);
        assert_eq!(String::from_bytes(b"a\0\x01"), None);
        assert_eq!(LivestreamId::from_bytes(b"a,b\0\0"), None);
        assert_eq!(u32::from_bytes(&[1, 2, 3]), None);
        assert_eq!(u32::from_bytes(&[1, 2, 3, 4, 5]), None);
    }
}
