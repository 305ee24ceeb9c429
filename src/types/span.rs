//! Spans of time as people write them: `500ms`, `30s`, `15m`, `2h`, `7d`.

use std::time::Duration;

use super::Malformed;

/// Longest span: ten years. It keeps sums of instants in range.
const SPAN_MAX: Duration = Duration::from_secs(3_650 * 86_400);

const MALFORMED: Malformed =
    Malformed("must be a number with ms, s, m, h or d, such as 500ms, 8s or 2h");

pub fn parse_span(text: &str) -> Result<Duration, Malformed> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = text.strip_suffix(unit).unwrap_or_default();
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(MALFORMED),
    };
    let number: u64 = number.parse().map_err(|_| MALFORMED)?;
    let span = number.checked_mul(millis).map(Duration::from_millis);
    span.filter(|span| *span <= SPAN_MAX)
        .ok_or(Malformed("must be at most 3650d"))
}

pub fn format_span(span: Duration) -> String {
    match span.as_millis() {
        millis if millis % 1_000 == 0 => format!("{}s", span.as_secs()),
        millis => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (text, millis, written) in [
            ("500ms", 500, "500ms"),
            ("8s", 8_000, "8s"),
            ("15m", 900_000, "900s"),
            ("2h", 7_200_000, "7200s"),
            ("3650d", 315_360_000_000, "315360000s"),
        ] {
            let span = parse_span(text).unwrap();
            assert_eq!(span, Duration::from_millis(millis), "{text}");
            assert_eq!(format_span(span), written);
            assert_eq!(parse_span(written).unwrap(), span);
        }
        for bad in [
            "",
            "s",
            "8",
            "8 s",
            "-8s",
            "1.5s",
            "8S",
            "8sec",
            "3651d",
            "99999999999999999999d",
        ] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }
}
