//! Renders the subset of CommonMark that the descriptions use as HTML: paragraphs, `-` lists and
//! code spans.

use crate::types::html_escape::escape;

pub(super) fn blocks(text: &str, out: &mut String) {
    for block in text.split("\n\n").map(str::trim).filter(|b| !b.is_empty()) {
        match block.strip_prefix("- ") {
            Some(list) => {
                out.push_str("<ul>");
                for item in list.split("\n- ") {
                    out.push_str("<li>");
                    inline(item, out);
                    out.push_str("</li>");
                }
                out.push_str("</ul>\n");
            }
            None => {
                out.push_str("<p>");
                inline(block, out);
                out.push_str("</p>\n");
            }
        }
    }
}

/// Renders code spans. Every second part between backticks is code.
pub(super) fn inline(text: &str, out: &mut String) {
    for (at, piece) in text.split('`').enumerate() {
        match at % 2 {
            0 => escape(piece, out),
            _ => {
                out.push_str("<code>");
                escape(piece, out);
                out.push_str("</code>");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_lists_and_code_spans_are_rendered() {
        let mut out = String::new();
        blocks("A `b<c`\nd.\n\n- one\n- two `x`\n\n<script>", &mut out);
        assert_eq!(
            out,
            "<p>A <code>b&lt;c</code>\nd.</p>\n\
             <ul><li>one</li><li>two <code>x</code></li></ul>\n\
             <p>&lt;script&gt;</p>\n"
        );
    }
}
