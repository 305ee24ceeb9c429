//! Decimal numbers as clients print them.

use super::Malformed;

/// The whole part of a decimal number with optional sign, fraction and exponent: Kotlin and Java print `1.7957E9`.
///
/// Clamped and not rejected beyond 64 bits: a player reacts to a rejected heartbeat by stopping.
pub fn whole_part(text: &str) -> Result<i64, Malformed> {
    // Fast path: nearly all numbers are plain, and every heartbeat has four of them.
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    const EXPECTED: Malformed = Malformed("must be a decimal number, such as 1500 or -0.5");
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let is_negative = whole.starts_with('-');
    let digits = whole.strip_prefix(['-', '+']).unwrap_or(whole);
    let power = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    let is_decimal = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_decimal(digits) || !is_decimal(fraction) || !is_decimal(power) {
        return Err(EXPECTED);
    }
    // A larger exponent is beyond 64 bits, or below 1, whatever the digits are.
    let power: i64 = power.parse().unwrap_or(i64::MAX).min(1_000);
    let power = if exponent.starts_with('-') {
        -power
    } else {
        power
    };
    let moved = shifted(digits, fraction, power);
    let limit = if is_negative { i64::MIN } else { i64::MAX };
    let sign = if is_negative { "-" } else { "" };
    // Only digits are left, so parsing can fail only by overflow.
    Ok(format!("{sign}{moved}").parse().unwrap_or(limit))
}

/// Moves the decimal point to the right, and cuts off what is behind it.
fn shifted(digits: &str, fraction: &str, power: i64) -> String {
    let mut moved = digits.to_owned();
    match usize::try_from(power) {
        Ok(power) => {
            let behind = fraction.chars().chain(std::iter::repeat('0'));
            moved.extend(behind.take(power));
        }
        Err(_) => {
            let places = usize::try_from(power.unsigned_abs()).unwrap_or(usize::MAX);
            moved.truncate(moved.len().saturating_sub(places));
        }
    }
    if moved.is_empty() {
        moved.push('0');
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_numbers_are_truncated_and_clamped() {
        for (text, value) in [
            ("0", 0),
            ("-5", -5),
            ("+5", 5),
            ("-0.5", 0),
            (&"9".repeat(4_000), i64::MAX),
            ("1700000000.25", 1_700_000_000),
            ("007", 7),
            ("99999999999999999999", i64::MAX),
            ("-99999999999999999999.5", i64::MIN),
            ("1.7957E9", 1_795_700_000),
            ("1.795424651238E12", 1_795_424_651_238),
            ("1e3", 1_000),
            ("-2.5e+2", -250),
            ("12345e-2", 123),
            ("1e-9", 0),
            ("1e99999999999999999999", i64::MAX),
            ("-1e1000", i64::MIN),
            ("0e1000", 0),
        ] {
            assert_eq!(whole_part(text), Ok(value), "{text}");
        }
        for bad in [
            "", "-", ".", "1.", ".5", "NaN", "inf", "+", "+-1", "1 ", " 1", "0x1", "1_0", "1,5",
            "1.5.5", "-.5", "1.-5", "\u{661}", "e5", "1e", "1e+", "1e5.5", "1e5e5",
        ] {
            assert!(whole_part(bad).is_err(), "{bad}");
        }
    }
}
