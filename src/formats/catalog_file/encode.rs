//! Encodes the catalogue as a file that can be imported again.
//!
//! Decision: only the ids of content keys are written, because exports are sent by mail. An import keeps
//! the keys that the store already has.

use std::fmt::Write as _;

use chrono::DateTime;
use serde::ser::{SerializeMap as _, Serializer};
use serde::{Serialize, ser};
use serde_json::Value;

use playgate_domain::catalog::{
    Asset, CatalogSnapshot, Effects, KeyId, Livestream, Offer, Pack, Playlists, Rule, TimeWindow,
    Unrated, Window,
};
use playgate_domain::schedule::Image;
use playgate_types::{BroadcastId, UnixSeconds};

enum Encoder {
    Text(String),
    Integer(i64),
    Boolean(bool),
    Time(UnixSeconds),
    List(Vec<Encoder>),
    Table(TableWriter),
}

type TableWriter = Vec<(&'static str, Encoder)>;

pub fn to_toml(snapshot: &CatalogSnapshot) -> String {
    let mut text = String::new();
    for (name, tables) in sections(snapshot) {
        for table in tables {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str("[[");
            text.push_str(name);
            text.push_str("]]\n");
            for (member, value) in table {
                text.push_str(member);
                text.push_str(" = ");
                toml(&value, &mut text);
                text.push('\n');
            }
        }
    }
    if text.is_empty() {
        // Importing an empty file is an error, since it may be the result of a failed export.
        text.push_str("livestream = []\n");
    }
    text
}

pub fn to_json(snapshot: &CatalogSnapshot) -> String {
    let sections = sections(snapshot).into_iter();
    let root = sections.map(|(name, tables)| {
        let tables = tables.into_iter().map(Encoder::Table).collect();
        (name, Encoder::List(tables))
    });
    // Cannot fail: it has only string keys, and values that JSON can represent.
    serde_json::to_string_pretty(&Encoder::Table(root.collect())).unwrap_or_default()
}

pub fn rule_to_json(row: &Rule) -> serde_json::Result<Value> {
    serde_json::to_value(Encoder::Table(rule(row)))
}

pub fn rights_to_json(row: &Effects) -> serde_json::Result<Value> {
    let mut table = TableWriter::new();
    effects(&mut table, row);
    serde_json::to_value(Encoder::Table(table))
}

fn sections(snapshot: &CatalogSnapshot) -> Vec<(&'static str, Vec<TableWriter>)> {
    vec![
        (
            "livestream",
            snapshot.livestreams().map(|row| livestream(row)).collect(),
        ),
        ("asset", snapshot.assets().map(|row| asset(row)).collect()),
        ("offer", snapshot.offers().map(|row| offer(row)).collect()),
        ("rule", snapshot.rules().map(|row| rule(row)).collect()),
        (
            "broadcast",
            snapshot
                .broadcasts()
                .map(|(id, row)| broadcast(id, row))
                .collect(),
        ),
    ]
}

fn unrated(unrated: Unrated) -> Encoder {
    match unrated {
        Unrated::Age(age) => Encoder::Integer(age.into()),
        Unrated::Pin | Unrated::Allow => Encoder::Text(unrated.to_string()),
    }
}

fn livestream(row: &Livestream) -> TableWriter {
    let extended = &row.extended;
    let mut table = vec![("id", text(row.id.as_str())), ("name", text(&row.name))];
    images(&mut table, &row.images);
    // Not the default zone: a later change of `schedule.zone` must reach this livestream.
    table.extend(row.own_zone.map(|zone| ("zone", text(zone.name()))));
    table.extend([
        ("live_rights", Encoder::Boolean(row.live_rights)),
        ("catchup_days", Encoder::Integer(row.catchup_days.into())),
        ("start_over", Encoder::Boolean(row.start_over)),
        (
            "extended_rights",
            Encoder::Table(vec![
                ("pause", Encoder::Boolean(extended.pause)),
                ("rewind", Encoder::Boolean(extended.rewind)),
                ("fastForward", Encoder::Boolean(extended.fast_forward)),
            ]),
        ),
        ("verify_age", Encoder::Boolean(row.verify_age)),
    ]);
    table.extend(
        row.unrated
            .map(|unrated| ("unrated", self::unrated(unrated))),
    );
    table.extend(
        row.number
            .map(|number| ("number", Encoder::Integer(number.into()))),
    );
    table.extend(row.group.as_deref().map(|group| ("group", text(group))));
    protection(
        &mut table,
        row.encrypted,
        &row.keys,
        row.streams,
        &row.playlist,
    );
    table
}

fn asset(row: &Asset) -> TableWriter {
    let mut table = vec![("id", text(row.id.as_str())), ("title", text(&row.title))];
    images(&mut table, &row.images);
    table.extend(
        row.pg_age
            .map(|age| ("pg_age", Encoder::Integer(age.into()))),
    );
    window(&mut table, "available", &row.available);
    protection(
        &mut table,
        row.encrypted,
        &row.keys,
        row.streams,
        &row.playlist,
    );
    table
}

fn protection(
    table: &mut TableWriter,
    encrypted: bool,
    keys: &[KeyId],
    streams: Option<u32>,
    playlist: &Playlists,
) {
    table.push(("encrypted", Encoder::Boolean(encrypted)));
    if !keys.is_empty() {
        // Only the id: exports are sent by mail. An import keeps the key that the store already has.
        let key = |id: &KeyId| Encoder::Table(vec![("kid", Encoder::Text(id.to_string()))]);
        table.push(("keys", Encoder::List(keys.iter().map(key).collect())));
    }
    table.extend(streams.map(|streams| ("streams", Encoder::Integer(streams.into()))));
    // Absent members are left out everywhere, so that an export imports without a change.
    if !playlist.0.is_empty() {
        let entries = playlist.0.iter();
        let entries = entries.map(|(protocol, location)| (protocol.as_str(), text(location)));
        table.push(("playlist", Encoder::Table(entries.collect())));
    }
}

fn images(table: &mut TableWriter, images: &[Image]) {
    if images.is_empty() {
        return;
    }
    let image = |image: &Image| {
        Encoder::Table(vec![
            ("type", text(&image.kind)),
            ("default", Encoder::Boolean(image.default)),
            ("filename", text(&image.filename)),
            ("embeddedText", Encoder::Boolean(image.embedded_text)),
        ])
    };
    table.push(("images", Encoder::List(images.iter().map(image).collect())));
}

fn window(table: &mut TableWriter, name: &'static str, window: &Window) {
    let ends = [("from", window.from), ("to", window.to)];
    let ends: TableWriter = ends
        .into_iter()
        .filter_map(|(name, at)| Some((name, Encoder::Time(at?))))
        .collect();
    if !ends.is_empty() {
        table.push((name, Encoder::Table(ends)));
    }
}

fn offer(row: &Offer) -> TableWriter {
    let pack = match &row.pack {
        Pack::All => text("all"),
        Pack::Listed {
            livestreams,
            assets,
        } => Encoder::Table(vec![
            (
                "livestreams",
                texts(livestreams.iter().map(|id| id.as_str())),
            ),
            ("assets", texts(assets.iter().map(|id| id.as_str()))),
        ]),
    };
    let mut table = vec![
        ("id", text(row.id.as_str())),
        ("type", text(row.kind.as_str())),
        ("pack", pack),
        (
            "countries",
            texts(row.countries.iter().map(|one| one.as_str())),
        ),
    ];
    window(&mut table, "sale", &row.sale);
    let duration = row.duration_days.map(|days| Encoder::Integer(days.into()));
    table.extend(duration.map(|days| ("duration_days", days)));
    table
}

fn rule(row: &Rule) -> TableWriter {
    let condition = &row.condition;
    let mut table = TableWriter::new();
    match condition.livestreams.as_slice() {
        [] => {}
        [one] => table.push(("livestream", text(one.as_str()))),
        more => table.push(("livestream", texts(more.iter().map(|id| id.as_str())))),
    }
    match condition.when {
        None => {}
        Some(TimeWindow::Window(one)) => window(&mut table, "window", &one),
        Some(TimeWindow::Hours(hours)) => {
            let [from, to] = hours.texts().map(Encoder::Text);
            table.push(("window", Encoder::Table(vec![("from", from), ("to", to)])));
        }
    }
    let globs = [
        ("title", &condition.title),
        ("category", &condition.category),
    ];
    for (name, glob) in globs {
        table.extend(glob.as_ref().map(|glob| (name, text(glob.as_str()))));
    }
    if let Some((least, most)) = condition.rating {
        let bounds = [("from", least), ("to", most)];
        let bounds = bounds.map(|(name, age)| (name, Encoder::Integer(age.into())));
        table.push(("rating", Encoder::Table(bounds.into())));
    }
    effects(&mut table, &row.effects);
    table
}

fn broadcast(id: &BroadcastId, row: &Effects) -> TableWriter {
    let mut table = vec![("id", text(id.as_str()))];
    effects(&mut table, row);
    table
}

fn effects(table: &mut TableWriter, row: &Effects) {
    // An absent member leaves the right as earlier rules have set it.
    let given = |members: &[(&'static str, Option<bool>)]| -> TableWriter {
        let members = members.iter();
        members
            .filter_map(|(name, value)| Some((*name, Encoder::Boolean((*value)?))))
            .collect()
    };
    table.extend(given(&[("live", row.live), ("catchup", row.catchup)]));
    let days = row.catchup_days.map(|days| Encoder::Integer(days.into()));
    table.extend(days.map(|days| ("catchup_days", days)));
    table.extend(given(&[("start_over", row.start_over)]));
    let extended = given(&[
        ("pause", row.pause),
        ("rewind", row.rewind),
        ("fastForward", row.fast_forward),
    ]);
    if !extended.is_empty() {
        table.push(("extended_rights", Encoder::Table(extended)));
    }
}

fn text(text: &str) -> Encoder {
    Encoder::Text(text.to_owned())
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> Encoder {
    Encoder::List(values.map(text).collect())
}

fn time(at: UnixSeconds) -> Option<String> {
    let time = DateTime::from_timestamp(at.0, 0)?;
    let year = chrono::Datelike::year(&time);
    // RFC 3339 has years of four digits; other times are written as numbers.
    (0..=9999)
        .contains(&year)
        .then(|| time.format("%Y-%m-%dT%H:%M:%SZ").to_string())
}

fn toml(value: &Encoder, text: &mut String) {
    match value {
        Encoder::Text(value) => quoted(value, text),
        Encoder::Integer(number) => text.push_str(&number.to_string()),
        Encoder::Boolean(value) => text.push_str(if *value { "true" } else { "false" }),
        Encoder::Time(at) => text.push_str(&time(*at).unwrap_or_else(|| at.to_string())),
        Encoder::List(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                toml(value, text);
            }
            text.push(']');
        }
        Encoder::Table(members) => {
            text.push_str("{ ");
            for (at, (name, value)) in members.iter().enumerate() {
                text.push_str(if at == 0 { "" } else { ", " });
                text.push_str(name);
                text.push_str(" = ");
                toml(value, text);
            }
            text.push_str(" }");
        }
    }
}

fn quoted(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            control if control.is_control() => {
                // Writing to a `String` cannot fail.
                let _ = write!(text, "\\u{:04X}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}

impl Serialize for Encoder {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => to.serialize_str(text),
            Self::Integer(number) => to.serialize_i64(*number),
            Self::Boolean(value) => to.serialize_bool(*value),
            Self::Time(at) => match time(*at) {
                Some(text) => to.serialize_str(&text),
                // RFC 3339 has only years of four digits; the reader takes seconds as well.
                None => to.serialize_i64(at.0),
            },
            Self::List(values) => to.collect_seq(values),
            Self::Table(members) => {
                let mut map = to.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                ser::SerializeMap::end(map)
            }
        }
    }
}
