//! The report of a change of the catalogue, which is an answer and the details of a refusal.

use serde::Serialize;

use playgate_domain::catalog::{CatalogImported, MemberChange, ObjectChange, What};
use playgate_types::{Described, JsonType};

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogImportBody {
    /// Whether the import was held because of `doubts` and changed nothing.
    held: bool,
    /// Whether this was a dry run, which changes nothing.
    dry_run: bool,
    /// Number of added entries.
    added: usize,
    /// Number of changed entries.
    changed: usize,
    /// Number of removed entries.
    removed: usize,
    /// Number of unchanged entries.
    unchanged: usize,
    /// Reasons to hold the import. Also listed if `accept` overrode them, and for an undo.
    doubts: Vec<String>,
    /// All changes of entries.
    changes: Vec<ChangeBody>,
}

#[derive(Described, Serialize)]
pub(crate) struct ChangeBody {
    /// Kind of entry: `livestream`, `asset`, `offer`, `rule` or `broadcast`.
    kind: &'static str,
    /// Id of the entry. For a rule: its text.
    id: String,
    /// What happens to the entry.
    #[described(JsonType::OneOf(&["added", "changed", "removed"]))]
    change: &'static str,
    /// Changed members. Absent unless the entry is changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<MemberChangeBody>,
    /// Human-readable summary of the change.
    text: String,
}

#[derive(Described, Serialize)]
pub(crate) struct MemberChangeBody {
    /// Name of the changed member.
    member: &'static str,
    /// Previous value of the member.
    before: String,
    /// New value of the member.
    after: String,
}

impl CatalogImportBody {
    pub fn new(imported: CatalogImported, dry_run: bool) -> Self {
        let CatalogImported {
            difference,
            issues: doubts,
        } = imported;
        let lines: Vec<ChangeBody> = difference.changes.into_iter().map(line).collect();
        let count = |what| lines.iter().filter(|line| line.change == what).count();
        Self {
            held: false,
            dry_run,
            doubts: doubts.iter().map(ToString::to_string).collect(),
            added: count("added"),
            changed: count("changed"),
            removed: count("removed"),
            unchanged: difference.unchanged,
            changes: lines,
        }
    }
}

impl CatalogImportBody {
    pub fn held(imported: CatalogImported) -> Self {
        Self {
            held: true,
            ..Self::new(imported, false)
        }
    }
}

fn line(change: ObjectChange) -> ChangeBody {
    let text = change.to_string();
    let ObjectChange { kind, id, what } = change;
    let (change, members) = match what {
        What::Added => ("added", Vec::new()),
        What::Removed => ("removed", Vec::new()),
        What::Changed(members) => ("changed", members),
    };
    let member = |change: MemberChange| MemberChangeBody {
        member: change.member,
        before: change.before,
        after: change.after,
    };
    ChangeBody {
        kind: kind.as_str(),
        id,
        change,
        members: members.into_iter().map(member).collect(),
        text,
    }
}
