//! Byte sizes, as `64MiB` or a plain number.

use std::ops::RangeInclusive;

use super::setting::{Read, Setting};
use playgate_decode::{Node, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(pub u64);

pub(super) const MIB: u64 = 1024 * 1024;

const SIZES: [(u64, &str); 5] = [
    (1, ""),
    (1024, "KiB"),
    (MIB, "MiB"),
    (1024 * MIB, "GiB"),
    (1024 * 1024 * MIB, "TiB"),
];

impl Setting for ByteSize {
    fn show(&self) -> Option<String> {
        // The largest unit without a remainder, so that the shown text reads back as the same size.
        let mut units = SIZES.into_iter().rev();
        let (unit, name) = units
            .find(|(unit, _)| self.0 != 0 && self.0.is_multiple_of(*unit))
            .unwrap_or((1, ""));
        Some(format!("{}{name}", self.0 / unit))
    }
}

pub(super) fn byte_size(range: RangeInclusive<u64>) -> impl Fn(&Node) -> Read<ByteSize> {
    move |raw| {
        let bytes = match &raw.value {
            Value::Integer(bytes) => u64::try_from(*bytes).ok(),
            _ => spelled_bytes(raw.text()?),
        };
        let least = ByteSize(*range.start()).show().unwrap_or_default();
        bytes
            .filter(|bytes| range.contains(bytes))
            .map(ByteSize)
            .ok_or_else(|| {
                format!("must be a size of at least {least}, such as \"64MiB\" or \"10GiB\"")
            })
    }
}

fn spelled_bytes(text: &str) -> Option<u64> {
    // The empty unit fits any text, so it is tried last.
    let (digits, unit) = SIZES
        .into_iter()
        .rev()
        .find_map(|(unit, name)| Some((text.strip_suffix(name)?, unit)))?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse::<u64>().ok()?.checked_mul(unit))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_in_the_largest_exact_unit() {
        for (text, bytes, shown) in [
            ("1048576", MIB, "1MiB"),
            ("64MiB", 64 * MIB, "64MiB"),
            ("10GiB", 10_240 * MIB, "10GiB"),
            ("1500KiB", 1_500 * 1024, "1500KiB"),
            ("1048577", MIB + 1, "1048577"),
        ] {
            let read = byte_size(MIB..=u64::MAX)(&Node::loose(text));
            assert_eq!(read, Ok(ByteSize(bytes)));
            assert_eq!(ByteSize(bytes).show().as_deref(), Some(shown));
        }
        for bad in [
            "",
            "MiB",
            "-1",
            "1MB",
            "1.5GiB",
            "1048575",
            "99999999999TiB",
        ] {
            let read = byte_size(MIB..=u64::MAX)(&Node::loose(bad));
            assert!(read.unwrap_err().contains("at least 1MiB"), "{bad}");
        }
    }
}
