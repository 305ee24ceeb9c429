//! The report of a change of the catalogue, which is an answer and the details of a refusal.

use serde::Serialize;

use playgate_domain::catalog::{CatalogImported, MemberChange, ObjectChange, What};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportReply {
    held: bool,
    dry_run: bool,
    added: usize,
    changed: usize,
    removed: usize,
    unchanged: usize,
    doubts: Vec<String>,
    changes: Vec<ChangeLine>,
}

#[derive(Serialize)]
pub(crate) struct ChangeLine {
    kind: &'static str,
    id: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<ChangedMember>,
    text: String,
}

#[derive(Serialize)]
pub(crate) struct ChangedMember {
    member: &'static str,
    before: String,
    after: String,
}

impl ImportReply {
    pub fn new(imported: CatalogImported, dry_run: bool) -> Self {
        let CatalogImported {
            difference,
            issues: doubts,
        } = imported;
        let lines: Vec<ChangeLine> = difference.changes.into_iter().map(line).collect();
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

impl ImportReply {
    pub fn held(imported: CatalogImported) -> Self {
        Self {
            held: true,
            ..Self::new(imported, false)
        }
    }
}

fn line(change: ObjectChange) -> ChangeLine {
    let text = change.to_string();
    let ObjectChange { kind, id, what } = change;
    let (change, members) = match what {
        What::Added => ("added", Vec::new()),
        What::Removed => ("removed", Vec::new()),
        What::Changed(members) => ("changed", members),
    };
    let member = |change: MemberChange| ChangedMember {
        member: change.member,
        before: change.before,
        after: change.after,
    };
    ChangeLine {
        kind: kind.as_str(),
        id,
        change,
        members: members.into_iter().map(member).collect(),
        text,
    }
}
