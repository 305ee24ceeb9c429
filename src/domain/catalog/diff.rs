//! The changes of an import, as a readable diff.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::model::{Asset, Livestream, Offer, Pack, Window};
use super::rules::{Effects, Rule, TimeWindow};
use super::snapshot::CatalogContents;

const SHOWN_MAX: usize = 120;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogDiff {
    pub changes: Vec<ObjectChange>,
    pub unchanged: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectChange {
    pub kind: ObjectKind,
    pub id: String,
    pub what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Livestream,
    Asset,
    Offer,
    Rule,
    Broadcast,
    Key,
}

impl ObjectKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Livestream => "livestream",
            Self::Asset => "asset",
            Self::Offer => "offer",
            Self::Rule => "rule",
            Self::Broadcast => "broadcast",
            Self::Key => "key",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    Added,
    Removed,
    Changed(Vec<MemberChange>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberChange {
    pub member: &'static str,
    /// The old value, shortened; empty if there was none.
    pub before: String,
    pub after: String,
}

impl fmt::Display for ObjectChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.what {
            What::Added => '+',
            What::Removed => '-',
            What::Changed(_) => '~',
        };
        write!(f, "{sign} {} {}", self.kind.as_str(), self.id)?;
        if let What::Changed(members) = &self.what {
            for (at, change) in members.iter().enumerate() {
                let MemberChange {
                    member,
                    before,
                    after,
                } = change;
                let lead = if at == 0 { ": " } else { "; " };
                // Quoted, so that an empty value is visible.
                write!(f, "{lead}{member} {before:?} -> {after:?}")?;
            }
        }
        Ok(())
    }
}

impl CatalogDiff {
    pub(super) fn between(old: &CatalogContents, new: &CatalogContents) -> Self {
        let mut difference = Self::default();
        // The kinds in the order of a catalogue file.
        difference.maps(
            ObjectKind::Livestream,
            &old.livestreams,
            &new.livestreams,
            |row| livestream(row),
        );
        difference.maps(ObjectKind::Asset, &old.assets, &new.assets, |row| {
            asset(row)
        });
        difference.maps(ObjectKind::Offer, &old.offers, &new.offers, |row| {
            offer(row)
        });
        difference.rules(&old.rules, &new.rules);
        difference.maps(
            ObjectKind::Broadcast,
            &old.broadcasts,
            &new.broadcasts,
            effects,
        );
        // Keys are compared sealed and never shown.
        difference.maps(ObjectKind::Key, &old.keys, &new.keys, |_| Vec::new());
        difference
    }

    fn maps<K: Ord + fmt::Display, V: PartialEq>(
        &mut self,
        kind: ObjectKind,
        old: &BTreeMap<K, V>,
        new: &BTreeMap<K, V>,
        members: impl Fn(&V) -> ObjectMembers,
    ) {
        let mut add = |id: &K, what| {
            let id = id.to_string();
            self.changes.push(ObjectChange { kind, id, what });
        };
        let mut unchanged = 0;
        for (id, row) in new {
            match old.get(id) {
                None => add(id, What::Added),
                Some(before) if before == row => unchanged += 1,
                Some(before) => add(
                    id,
                    What::Changed(changed_members(members(before), members(row))),
                ),
            }
        }
        // Removals last, so that a reader sees at the end what the import takes away.
        for id in old.keys().filter(|id| !new.contains_key(id)) {
            add(id, What::Removed);
        }
        self.unchanged += unchanged;
    }

    fn rules(&mut self, old: &[Arc<Rule>], new: &[Arc<Rule>]) {
        // Rules have no ids and their order matters, so they are compared by content and position.
        if old == new {
            self.unchanged += new.len();
            return;
        }
        let mut add = |rule: &Rule, what| {
            let id = rule.to_string();
            let kind = ObjectKind::Rule;
            self.changes.push(ObjectChange { kind, id, what });
        };
        // A rule may occur more than once: each occurrence is matched with one of the other list.
        let mut unmatched: Vec<Option<&Arc<Rule>>> = old.iter().map(Some).collect();
        let mut match_old = |rule| {
            let at = unmatched.iter().position(|other| *other == Some(rule))?;
            unmatched.get_mut(at)?.take();
            Some(at)
        };
        let places: Vec<Option<usize>> = new.iter().map(&mut match_old).collect();
        for (rule, _) in new.iter().zip(&places).filter(|(_, old)| old.is_none()) {
            add(rule, What::Added);
        }
        for rule in unmatched.into_iter().flatten() {
            add(rule, What::Removed);
        }
        let mut unchanged = 0;
        for (after, (rule, before)) in new.iter().zip(places).enumerate() {
            match before {
                None => {}
                Some(before) if before == after => unchanged += 1,
                Some(before) => {
                    let moved = MemberChange {
                        member: "place",
                        before: (before + 1).to_string(),
                        after: (after + 1).to_string(),
                    };
                    add(rule, What::Changed(vec![moved]));
                }
            }
        }
        self.unchanged += unchanged;
    }
}

/// Names and values of an object. All objects of a kind list the same names in the same order.
type ObjectMembers = Vec<(&'static str, String)>;

fn changed_members(before: ObjectMembers, after: ObjectMembers) -> Vec<MemberChange> {
    before
        .into_iter()
        // Pairs equal names: both lists have the same order.
        .zip(after)
        .filter(|(before, after)| before != after)
        .map(|((member, before), (_, after))| MemberChange {
            member,
            before: shorten(before),
            after: shorten(after),
        })
        .collect()
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

fn option(value: Option<impl fmt::Display>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn list(values: impl IntoIterator<Item = impl fmt::Display>) -> String {
    let texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    texts.join(", ")
}

fn window(window: &Window) -> String {
    let end = |at: Option<playgate_types::UnixSeconds>| {
        let time = at.and_then(|at| chrono::DateTime::from_timestamp(at.0, 0));
        option(time.map(|time| time.format("%Y-%m-%dT%H:%M:%SZ")))
    };
    match window {
        Window {
            from: None,
            to: None,
        } => String::new(),
        Window { from, to } => format!("{} to {}", end(*from), end(*to)),
    }
}

fn playlist(playlists: &super::Playlists) -> String {
    let entries = playlists.0.iter();
    list(entries.map(|(protocol, location)| format!("{} {location}", protocol.as_str())))
}

fn images(images: &[crate::schedule::Image]) -> String {
    list(images.iter().map(|image| {
        let default = if image.default { " default" } else { "" };
        let text = if image.embedded_text {
            " embeddedText"
        } else {
            ""
        };
        format!("{} {}{default}{text}", image.kind, image.filename)
    }))
}

fn livestream(row: &Livestream) -> ObjectMembers {
    let extended = &row.extended;
    vec![
        ("name", row.name.clone()),
        ("images", images(&row.images)),
        ("zone", option(row.own_zone)),
        ("live_rights", row.live_rights.to_string()),
        ("catchup_days", row.catchup_days.to_string()),
        ("start_over", row.start_over.to_string()),
        (
            "extended_rights",
            format!(
                "pause {}, rewind {}, fastForward {}",
                extended.pause, extended.rewind, extended.fast_forward
            ),
        ),
        ("verify_age", row.verify_age.to_string()),
        ("unrated", option(row.unrated)),
        ("number", option(row.number)),
        ("group", option(row.group.as_deref())),
        ("streams", option(row.streams)),
        ("playlist", playlist(&row.playlist)),
        ("encrypted", row.encrypted.to_string()),
        ("keys", list(&row.keys)),
    ]
}

fn asset(row: &Asset) -> ObjectMembers {
    vec![
        ("title", row.title.clone()),
        ("images", images(&row.images)),
        ("pg_age", option(row.pg_age)),
        ("available", window(&row.available)),
        ("encrypted", row.encrypted.to_string()),
        ("keys", list(&row.keys)),
        ("playlist", playlist(&row.playlist)),
        ("streams", option(row.streams)),
    ]
}

fn offer(row: &Offer) -> ObjectMembers {
    let pack = match &row.pack {
        Pack::All => "all".to_owned(),
        Pack::Listed {
            livestreams,
            assets,
        } => {
            let ids = livestreams.iter().map(|id| id.as_str());
            list(ids.chain(assets.iter().map(|id| id.as_str())))
        }
    };
    vec![
        ("type", row.kind.as_str().to_owned()),
        ("pack", pack),
        (
            "countries",
            list(row.countries.iter().map(|one| one.as_str())),
        ),
        ("sale", window(&row.sale)),
        ("duration_days", option(row.duration_days)),
    ]
}

fn effects(row: &Effects) -> ObjectMembers {
    vec![
        ("live", option(row.live)),
        ("catchup", option(row.catchup)),
        ("catchup_days", option(row.catchup_days)),
        ("start_over", option(row.start_over)),
        ("pause", option(row.pause)),
        ("rewind", option(row.rewind)),
        ("fastForward", option(row.fast_forward)),
    ]
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = &self.condition;
        let when = condition.when.map(|when| match when {
            TimeWindow::Window(one) => window(&one),
            TimeWindow::Hours(hours) => hours.texts().join(" to "),
        });
        let rating = condition
            .rating
            .map(|(least, most)| format!("{least} to {most}"));
        let mut members = vec![
            ("livestream", list(&condition.livestreams)),
            ("window", option(when)),
            (
                "title",
                option(condition.title.as_ref().map(super::Glob::as_str)),
            ),
            (
                "category",
                option(condition.category.as_ref().map(super::Glob::as_str)),
            ),
            ("rating", option(rating)),
        ];
        // Rights are switches, in the words of the command line.
        let switch = |value: String| match value.as_str() {
            "true" => "on".to_owned(),
            "false" => "off".to_owned(),
            _ => value,
        };
        let effects = effects(&self.effects).into_iter();
        members.extend(effects.map(|(member, value)| (member, switch(value))));
        // An empty value means that the rule does not set the member.
        let given = members.into_iter().filter(|(_, value)| !value.is_empty());
        let text = list(given.map(|(member, value)| format!("{member} {value}")));
        match text.char_indices().nth(SHOWN_MAX) {
            // A client names a rule by its text, so that long rules with the same beginning must differ.
            Some((end, _)) => {
                let sum = crc32fast::hash(text.as_bytes());
                write!(f, "{}… #{sum:08x}", text.get(..end).unwrap_or_default())
            }
            None => f.write_str(&text),
        }
    }
}
