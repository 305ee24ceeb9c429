//! Escapes text for HTML.

/// Appends a text, escaped for element content and for quoted attribute values.
pub fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // HTML 4 has no `&apos;`.
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
}

/// Returns a text, escaped as by [`escape`].
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(text, &mut out);
    out
}
