//! Reads `/metrics` of a server.

use std::net::SocketAddr;
use std::str::FromStr;

use crate::support::raw_http::{ask, request};

/// Returns the text of `/metrics`.
pub fn scrape(ops: SocketAddr) -> String {
    let answer = ask(ops, request("GET", "/metrics", &[], ""));
    String::from_utf8(answer.body).unwrap()
}

/// Returns the value of one series. `series` is a metric name, followed by its labels in braces if it has labels.
pub fn metric<T: FromStr>(text: &str, series: &str) -> T {
    let mut values = text
        .lines()
        .filter_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let value = values.next().and_then(|value| value.trim().parse().ok());
    value.unwrap_or_else(|| panic!("no value of {series} in\n{text}"))
}

/// Returns how many password hashes a function has computed: `argon2` or `foreign`.
pub fn password_hashes(text: &str, function: &str) -> u64 {
    let series = format!("playgate_password_hashes_total{{function=\"{function}\"}}");
    metric(text, &series)
}
