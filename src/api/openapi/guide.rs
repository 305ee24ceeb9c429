//! Guides as pages of the server: documents of this repository, rendered as HTML. Partners read theirs on the public listener,
//! operators on that of operations, where alert rules lead.

use playgate_http::RouteSet;
use playgate_http::response::pages::fill;
use playgate_types::html_escape::{escape, escaped};

use super::STYLE;

const SKELETON: &str = include_str!("../../../data/pages/guide.html");

/// A name in the path, which is that of the document too, and the text.
type Guide = (&'static str, &'static str);

const OF_PARTNERS: [Guide; 2] = [
    ("clients", include_str!("../../../docs/clients.md")),
    ("lab", include_str!("../../../docs/lab.md")),
];
const OF_OPERATORS: [Guide; 5] = [
    ("support", include_str!("../../../docs/support.md")),
    ("operating", include_str!("../../../docs/operating.md")),
    ("alerts", include_str!("../../../docs/alerts.md")),
    ("quality", include_str!("../../../docs/quality.md")),
    ("fleet", include_str!("../../../docs/fleet.md")),
];

pub(super) const fn guides(set: RouteSet) -> &'static [Guide] {
    match set {
        RouteSet::Public => &OF_PARTNERS,
        RouteSet::Ops => &OF_OPERATORS,
    }
}

/// Renders a guide. `None` if there is none of this name.
pub(crate) fn guide(set: RouteSet, name: &str) -> Option<String> {
    let guides = guides(set);
    let (_, document) = guides.iter().find(|(known, _)| *known == name)?;
    let mut contents = String::new();
    for (other, document) in guides {
        let mark = match *other == name {
            true => " aria-current=\"page\"",
            false => "",
        };
        let text = escaped(title(document));
        contents.push_str(&format!("<li><a href=\"../{other}/\"{mark}>{text}</a>"));
        if *other == name {
            contents.push_str("<ul>");
            for (_, heading) in headings(document).filter(|(level, _)| *level == 2) {
                let (anchor, text) = (anchor(heading), escaped(heading));
                contents.push_str(&format!("<li><a href=\"#{anchor}\">{text}</a></li>"));
            }
            contents.push_str("</ul>");
        }
        contents.push_str("</li>\n");
    }
    Some(fill(
        SKELETON,
        &[
            ("{style}", STYLE),
            ("{title}", &escaped(title(document))),
            ("{contents}", &contents),
            ("{text}", &html(document, guides)),
        ],
    ))
}

/// The links to the guides from the page of the description.
pub(super) fn links(set: RouteSet) -> String {
    let links = guides(set).iter().map(|(name, document)| {
        let text = escaped(title(document));
        format!("<li><a href=\"docs/{name}/\">{text}</a></li>\n")
    });
    links.collect()
}

fn title(document: &str) -> &str {
    let first = document.lines().next().unwrap_or_default();
    first.trim_start_matches("# ")
}

fn headings(document: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    document.lines().filter_map(move |line| {
        in_code ^= line.trim_start().starts_with("```");
        (!in_code).then(|| heading(line)).flatten()
    })
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    Some((level, text.strip_prefix(' ')?)).filter(|_| (1..=6).contains(&level))
}

/// The anchor of a heading, as the hosts of repositories make it.
fn anchor(heading: &str) -> String {
    let plain = heading.to_lowercase().replace(' ', "-");
    plain
        .chars()
        .filter(|c| c.is_alphanumeric() || "-_".contains(*c))
        .collect()
}

/// Renders the Markdown of our documents: headings, paragraphs, lists, tables, code, links.
fn html(document: &str, guides: &[Guide]) -> String {
    let text = |text: &str, out: &mut String| inline(text, guides, out);
    let mut out = String::new();
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            // Code within a list is indented.
            let indent = line.len() - line.trim_start().len();
            let code = lines.by_ref().take_while(|line| line.trim() != "```");
            let code: Vec<&str> = code
                .map(|line| line.get(indent..).unwrap_or_default())
                .collect();
            match language {
                "mermaid" => states(&code, &mut out),
                _ => out.push_str(&format!("<pre>{}</pre>\n", escaped(&code.join("\n")))),
            }
        } else if let Some((level, words)) = heading(line) {
            out.push_str(&format!("<h{level} id=\"{}\">", anchor(words)));
            text(words, &mut out);
            out.push_str(&format!("</h{level}>\n"));
        } else if !line.trim().is_empty() {
            let mut block = vec![line];
            let goes_on = |next: &&str| {
                let next = next.trim_start();
                !next.is_empty() && !next.starts_with("```")
            };
            while let Some(next) = lines.next_if(goes_on) {
                block.push(next);
            }
            write_block(&block, &text, &mut out);
        }
    }
    out
}

fn write_block(lines: &[&str], inline: &dyn Fn(&str, &mut String), out: &mut String) {
    let first = lines.first().copied().unwrap_or_default();
    if first.starts_with('|') {
        write_table(lines, inline, out);
    } else if let Some((number, _)) = item(first) {
        // Code may split a numbered list. The second part continues the numbers.
        let (begin, end) = match number {
            Some(number) => (format!("<ol start=\"{number}\">\n"), "</ol>\n"),
            None => ("<ul>\n".to_owned(), "</ul>\n"),
        };
        let mut items: Vec<String> = Vec::new();
        for line in lines {
            match (item(line), items.last_mut()) {
                (Some((_, text)), _) => items.push(text.to_owned()),
                // Continues the entry before it.
                (None, Some(last)) => last.push_str(&format!("\n{}", line.trim())),
                (None, None) => {}
            }
        }
        out.push_str(&begin);
        for text in items {
            out.push_str("<li>");
            inline(&text, out);
            out.push_str("</li>\n");
        }
        out.push_str(end);
    } else {
        out.push_str("<p>");
        inline(&lines.join("\n"), out);
        out.push_str("</p>\n");
    }
}

/// The number and the text of an entry of a list. Lists within lists become one.
fn item(line: &str) -> Option<(Option<u32>, &str)> {
    let line = line.trim_start();
    if let Some(text) = line.strip_prefix("- ") {
        return Some((None, text));
    }
    let (number, text) = line.split_once(". ")?;
    Some((Some(number.parse().ok()?), text))
}

fn write_table(lines: &[&str], inline: &dyn Fn(&str, &mut String), out: &mut String) {
    out.push_str("<table>");
    // The second line separates the head from the rows.
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| *at != 1) {
        out.push_str("<tr>");
        let line = line.trim().trim_start_matches('|').trim_end_matches('|');
        // A bar within code is escaped.
        for text in line.replace("\\|", "\u{1}").split('|') {
            let text = text.trim();
            // An empty corner names nothing: a screen reader would announce it as the head of each row.
            let cell = if at == 0 && !text.is_empty() {
                "th"
            } else {
                "td"
            };
            out.push_str(&format!("<{cell}>"));
            inline(&text.replace('\u{1}', "|"), out);
            out.push_str(&format!("</{cell}>"));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// Renders a state diagram as a table: the page has no script that could draw it.
fn states(lines: &[&str], out: &mut String) {
    out.push_str("<table><tr><th>State</th><th>What happens</th><th>Next state</th></tr>\n");
    let shown = |state: &str| match state.trim() {
        "[*]" => "–".to_owned(),
        other => escaped(other),
    };
    for line in lines {
        let Some((from, rest)) = line.split_once("-->") else {
            continue;
        };
        let (to, what) = rest.split_once(':').unwrap_or((rest, ""));
        let row = format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            shown(from),
            escaped(what.trim()),
            shown(to)
        );
        out.push_str(&row);
    }
    out.push_str("</table>\n");
}

/// Renders code spans, links and emphasis. Every second part between backticks is code.
fn inline(text: &str, guides: &[Guide], out: &mut String) {
    for (at, piece) in text.split('`').enumerate() {
        match at % 2 {
            0 => linked(piece, guides, out),
            _ => out.push_str(&format!("<code>{}</code>", escaped(piece))),
        }
    }
}

fn linked(mut piece: &str, guides: &[Guide], out: &mut String) {
    while let Some((before, label, target, after)) = link(piece) {
        // A picture is not on the server, and its description takes its place.
        emphasised(before.trim_end_matches('!'), out);
        match address(target, guides) {
            Some(address) => {
                out.push_str(&format!(
                    "<a href=\"{}\">{}</a>",
                    escaped(&address),
                    escaped(label)
                ));
            }
            // A document that is not on the server.
            None => emphasised(label, out),
        }
        piece = after;
    }
    emphasised(piece, out);
}

fn link(piece: &str) -> Option<(&str, &str, &str, &str)> {
    let (text, rest) = piece.split_once("](")?;
    let (before, label) = text.rsplit_once('[')?;
    let (target, after) = rest.split_once(')')?;
    Some((before, label, target, after))
}

/// The address on the server of what a document links to.
fn address(target: &str, guides: &[Guide]) -> Option<String> {
    let (path, fragment) = match target.split_once('#') {
        Some((path, fragment)) => (path, format!("#{fragment}")),
        None => (target, String::new()),
    };
    match path.strip_suffix(".md") {
        _ if path.starts_with("https://") => Some(target.to_owned()),
        None if path.is_empty() => Some(fragment),
        Some(name) if guides.iter().any(|(known, _)| *known == name) => {
            Some(format!("../{name}/{fragment}"))
        }
        // The rules of the interface are in the introduction of the reference.
        Some("interface") if guides == OF_PARTNERS => Some("../../docs".to_owned()),
        _ => None,
    }
}

/// Renders `**strong**` and `*emphasis*`.
fn emphasised(text: &str, out: &mut String) {
    for (at, strong) in text.split("**").enumerate() {
        out.push_str(if at % 2 == 1 { "<strong>" } else { "" });
        for (at, part) in strong.split('*').enumerate() {
            out.push_str(if at % 2 == 1 { "<em>" } else { "" });
            escape(part, out);
            out.push_str(if at % 2 == 1 { "</em>" } else { "" });
        }
        out.push_str(if at % 2 == 1 { "</strong>" } else { "" });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_guide_is_a_page_with_its_headings_and_sound_links() {
        for set in [RouteSet::Public, RouteSet::Ops] {
            let made = |(name, _): &Guide| (*name, guide(set, name).unwrap());
            are_sound(&guides(set).iter().map(made).collect::<Vec<_>>());
        }
        assert!(
            guide(RouteSet::Public, "operating").is_none() && guide(RouteSet::Ops, "").is_none()
        );
    }

    fn are_sound(pages: &[(&str, String)]) {
        let ids = |page: &str| -> BTreeSet<String> {
            let ids = page.split("id=\"").skip(1);
            ids.map(|rest| rest.split('"').next().unwrap().to_owned())
                .collect()
        };
        for (name, page) in pages {
            for word in [
                "<script", "src=\"", "style=\"", "```", "{text}", "](", "\u{1}",
            ] {
                assert!(!page.contains(word), "{name}: {word}");
            }
            let links = page
                .split("href=\"")
                .skip(1)
                .map(|rest| rest.split('"').next().unwrap());
            for link in links {
                let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
                let target = match path {
                    "" => page,
                    "../../docs" => continue,
                    other if other.starts_with("https://") => continue,
                    other => {
                        let named = pages
                            .iter()
                            .find(|(name, _)| other == format!("../{name}/"));
                        &named.unwrap_or_else(|| panic!("{name}: {link}")).1
                    }
                };
                assert!(
                    fragment.is_empty() || ids(target).contains(fragment),
                    "{name}: {link}"
                );
            }
        }
    }

    #[test]
    fn every_alert_has_a_runbook() {
        let rules = include_str!("../../../packaging/playgate-alerts.yml");
        let page = guide(RouteSet::Ops, "alerts").unwrap();
        let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
        assert!(alerts.len() > 30);
        for alert in alerts {
            let name = alert.lines().next().unwrap().to_lowercase();
            assert!(
                alert.contains(&format!("}}}}/docs/alerts/#{name}'")),
                "{name}"
            );
            assert!(
                page.contains(&format!("<h3 id=\"{name}\">")),
                "docs/alerts.md lacks {name}"
            );
        }
    }

    #[test]
    fn markdown_of_documents_is_rendered() {
        let text = "# A *b*\n\nOne `<c>` and [two](lab.md#x), [three](operating.md).\nFour **five**\n\n- six\n  seven\n- eight\n\n| A | B |\n| --- | --- |\n| `a\\|b` | c |\n\n1. nine\n\n```sh\na < b\n\nc\n```\nten\n";
        assert_eq!(
            html(text, guides(RouteSet::Public)),
            "<h1 id=\"a-b\">A <em>b</em></h1>\n\
             <p>One <code>&lt;c&gt;</code> and <a href=\"../lab/#x\">two</a>, three.\nFour <strong>five</strong></p>\n\
             <ul>\n<li>six\nseven</li>\n<li>eight</li>\n</ul>\n\
             <table><tr><th>A</th><th>B</th></tr>\n<tr><td><code>a|b</code></td><td>c</td></tr>\n</table>\n\
             <ol start=\"1\">\n<li>nine</li>\n</ol>\n\
             <pre>a &lt; b\n\nc</pre>\n<p>ten</p>\n"
        );
        let mut out = String::new();
        states(
            &["stateDiagram-v2", "  [*] --> Entitled: entitlement 200"],
            &mut out,
        );
        assert!(out.contains("<td>–</td><td>entitlement 200</td><td>Entitled</td>"));
    }
}
