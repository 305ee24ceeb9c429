//! What the formats of hashes share: numbers in their texts, and the comparison of outputs.

pub(super) fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    // No early exit: the time must not reveal how many bytes match.
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Parses `name=number` parameters with exactly these names in this order.
pub(super) fn numbers<const N: usize>(list: &str, names: [&str; N]) -> Option<[u32; N]> {
    let mut fields = list.split(',');
    let mut found = [0; N];
    for (found, name) in found.iter_mut().zip(names) {
        *found = number(fields.next()?.strip_prefix(name)?)?;
    }
    fields.next().is_none().then_some(found)
}

/// Parses a number without a sign.
pub(super) fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}
