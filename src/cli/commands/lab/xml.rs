//! XML for JUnit reports.

use playgate_types::html_escape::escape;

pub(super) const XML_HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

pub(super) fn escaped(text: &str) -> String {
    // XML escapes the same five characters as HTML, and allows no control characters.
    let text: String = text
        .chars()
        .filter(|c| !c.is_control() || *c == '\n')
        .collect();
    let mut out = String::new();
    escape(&text, &mut out);
    out
}
