//! Parses the `Range` header as players use it: one range of bytes.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangePart {
    Whole,
    Bytes(u64, u64),
    Beyond,
}

/// Parses `Range` for a body of `length` bytes. Malformed and multiple ranges are ignored, as RFC 9110
/// allows.
pub fn part(header: Option<&str>, length: u64) -> RangePart {
    // RFC 9110, 14.2: a range in another unit is ignored.
    let Some(spec) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else {
        return RangePart::Whole;
    };
    let Some((first, last)) = spec.trim().split_once('-') else {
        return RangePart::Whole;
    };
    match (number(first), number(last)) {
        (Some(Bound::At(first)), Some(last)) => {
            let last = match last {
                // RFC 9110, 14.1.1: a range that ends before it begins is invalid, and an invalid range is ignored.
                Bound::At(last) if last < first => return RangePart::Whole,
                Bound::At(last) => last.min(length.saturating_sub(1)),
                Bound::Open => length.saturating_sub(1),
            };
            if first < length {
                RangePart::Bytes(first, last)
            } else {
                RangePart::Beyond
            }
        }
        (Some(Bound::Open), Some(Bound::At(suffix))) => {
            // RFC 9110, 14.1.1: a suffix of no bytes, or of an empty file, cannot be satisfied.
            if suffix == 0 || length == 0 {
                RangePart::Beyond
            } else {
                // A suffix longer than the file is the whole file.
                RangePart::Bytes(length.saturating_sub(suffix), length - 1)
            }
        }
        // A list of ranges is ignored, too: players ask for one range, and many overlapping ones are an attack.
        _ => RangePart::Whole,
    }
}

enum Bound {
    Open,
    At(u64),
}

fn number(text: &str) -> Option<Bound> {
    if text.is_empty() {
        return Some(Bound::Open);
    }
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then_some(())?;
    // A number that overflows lies beyond any file.
    Some(Bound::At(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_served() {
        let of = |text| part(Some(text), 100);
        assert_eq!(of("bytes=0-9"), RangePart::Bytes(0, 9));
        assert_eq!(of("bytes=90-"), RangePart::Bytes(90, 99));
        assert_eq!(of("bytes=-10"), RangePart::Bytes(90, 99));
        assert_eq!(of("bytes=-1000"), RangePart::Bytes(0, 99));
        assert_eq!(of("bytes=50-1000"), RangePart::Bytes(50, 99));
        assert_eq!(
            of("bytes=99-99999999999999999999"),
            RangePart::Bytes(99, 99)
        );
    }

    #[test]
    fn ranges_outside_are_refused_and_malformed_ones_ignored() {
        let of = |text| part(Some(text), 100);
        for beyond in ["bytes=100-", "bytes=-0", "bytes=99999999999999999999-"] {
            assert_eq!(of(beyond), RangePart::Beyond, "{beyond}");
        }
        for odd in [
            "bytes=",
            "bytes=-",
            "bytes=9-0",
            "bytes=0-1,5-6",
            "items=0-1",
            "bytes=a-b",
            "bytes=+1-2",
            "",
        ] {
            assert_eq!(of(odd), RangePart::Whole, "{odd}");
        }
        assert_eq!(part(Some("bytes=0-"), 0), RangePart::Beyond);
        assert_eq!(part(None, 100), RangePart::Whole);
    }
}
