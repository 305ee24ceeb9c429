//! Percent-encoding of values in paths, queries and forms.

use std::fmt::Write as _;

/// Percent-encodes a value for a path, a query or a form: everything but the unreserved characters of RFC 3986, 2.3.
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
