//! Renders the subset of Markdown that the descriptions use as HTML: paragraphs, `-` lists, tables and code
//! spans.

use playgate_types::html_escape::escape;

pub(super) fn blocks(text: &str, out: &mut String) {
    for block in text.split("\n\n").map(str::trim).filter(|b| !b.is_empty()) {
        if block.starts_with("| ") {
            table(block, out);
            continue;
        }
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

/// Renders a table. Its second line separates the head from the rows.
fn table(block: &str, out: &mut String) {
    out.push_str("<table>");
    let rows = block.lines().enumerate().filter(|(at, _)| *at != 1);
    for (at, row) in rows {
        let cell = if at == 0 { "th" } else { "td" };
        out.push_str("<tr>");
        for text in row.trim_matches(['|', ' ']).split(" | ") {
            out.push_str(&format!("<{cell}>"));
            inline(text.trim(), out);
            out.push_str(&format!("</{cell}>"));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>\n");
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
    fn tables_are_rendered_with_their_head() {
        let mut out = String::new();
        blocks("| A | B |\n| --- | --- |\n| `a` | < |", &mut out);
        assert_eq!(
            out,
            "<table><tr><th>A</th><th>B</th></tr>\
             <tr><td><code>a</code></td><td>&lt;</td></tr></table>\n"
        );
    }

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
