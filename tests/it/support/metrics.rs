//! Reads values from the text of `/metrics`.

use std::str::FromStr;

/// Returns the value of a series: the name of a metric, with its labels if it has any.
pub fn metric<T: FromStr>(text: &str, series: &str) -> T {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = values.next().and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no value of {series} in\n{text}"))
}
