//! Replaces key files by their content, since the server must not open files named by a client.

use data_encoding::HEXLOWER;

use super::{OpenKeyFile, without_mark};
use playgate_decode::{Mistake, Node, ObjectMember, Parsed, Span, Value};
use playgate_domain::catalog::ContentKey;
use playgate_types::Malformed;

/// Replaces every `key_file = "path"` by `key = "hex"`. All other text is unchanged, so that the server's
/// errors have the line numbers of the user's file.
///
/// # Errors
/// Key files that cannot be read. Other errors are left to [`parse`](super::parse).
pub fn inline_key_files(text: &str, open: OpenKeyFile<'_>) -> Result<String, Vec<Mistake>> {
    let text = without_mark(text);
    let Parsed { root, .. } = playgate_decode::parse(text);
    let name = if playgate_decode::is_json(text) {
        "\"key\""
    } else {
        "key"
    };
    let mut edits: Vec<(Span, String)> = Vec::new();
    let mut problems = Vec::new();
    for member in key_files(&root) {
        // `parse` reports a path of another type, with the other mistakes of the file.
        let Value::Text(path) = &member.node.value else {
            continue;
        };
        let content = open(path).map_err(|error| error.to_string());
        let key = content.and_then(|content| {
            ContentKey::read_file(&content).map_err(|Malformed(why)| why.to_owned())
        });
        match key {
            Ok(key) => {
                let hex = HEXLOWER.encode(key.reveal());
                edits.push((member.name_span, name.to_owned()));
                edits.push((member.node.span, format!("\"{hex}\"")));
            }
            Err(why) => problems.push(Mistake {
                line: member.node.span.line,
                message: format!("key file `{path}`: {why}"),
            }),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    // From the end, so that the earlier positions stay valid.
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    for (span, new) in edits {
        text.replace_range(span.start..span.end, &new);
    }
    Ok(text)
}

fn key_files(root: &[ObjectMember]) -> impl Iterator<Item = &ObjectMember> {
    root.iter()
        .filter(|member| matches!(member.name.as_str(), "livestream" | "asset"))
        .flat_map(|member| tables(&member.node))
        .flatten()
        .filter(|member| member.name == "keys")
        .flat_map(|member| tables(&member.node))
        .flatten()
        .filter(|member| member.name == "key_file")
}

fn tables(node: &Node) -> impl Iterator<Item = &[ObjectMember]> {
    let nodes = match &node.value {
        Value::List(nodes) => nodes.as_slice(),
        _ => &[],
    };
    nodes.iter().filter_map(|node| match &node.value {
        Value::Table(members) => Some(members.as_slice()),
        _ => None,
    })
}
