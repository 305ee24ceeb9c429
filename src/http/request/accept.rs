//! Parses the weights (`q=`) of `Accept-*` headers.

/// Returns the weight among the parameters of a list element, in thousandths; 1,000 without one.
pub(crate) fn quality<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u16 {
    let given = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then_some(value.trim())
    });
    // An invalid weight means not acceptable: RFC 9110 allows `0` to `1` with up to three decimals.
    given.map_or(1_000, |text| thousandths(text).unwrap_or(0))
}

fn thousandths(text: &str) -> Option<u16> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let plain = decimals.len() <= 3 && decimals.bytes().all(|b| b.is_ascii_digit());
    match whole {
        // `0.5` is 500: the decimals are padded to thousandths.
        "0" if plain => format!("{decimals:0<3}").parse().ok(),
        "1" if plain => Some(1_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_thousandths() {
        let of = |text: &str| quality(text.split(';').skip(1));
        for (text, weight) in [
            ("de", 1_000),
            ("de;q=1", 1_000),
            ("de; Q=0.5", 500),
            ("de;level=1;q=0.05", 50),
            ("de;q=0", 0),
            ("de;q=0.000", 0),
            ("de;q=", 0),
            ("de;q=2", 0),
            ("de;q=0.1234", 0),
            ("de;q=-1", 0),
        ] {
            assert_eq!(of(text), weight, "{text}");
        }
    }
}
