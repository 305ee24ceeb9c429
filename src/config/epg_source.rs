//! EPG sources: a list of tables, allowed in the file only.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono_tz::Tz;

use super::schema::Refusal;
use super::table_list::tables;
use super::value_parsers::{Read, Setting, duration, language, list, text, url, zone};
use crate::decode::{Member, Node, Value};
use crate::domain::catalog::Unrated;
use crate::ports::http_client::without_query;
use crate::types::LivestreamId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpgSource {
    pub name: String,
    /// An HTTP URL or the absolute path of a file.
    pub url: String,
    pub interval: Duration,
    pub zone: Tz,
    /// Treats all times as local to `zone`, whatever offset they have.
    pub ignore_offsets: bool,
    /// Preferred languages of titles, best first.
    pub languages: Vec<String>,
    /// Where two sources have the same livestream, the higher priority wins.
    pub priority: u32,
    /// Maps XMLTV channel ids to livestream ids; others map to themselves.
    pub channels: BTreeMap<String, String>,
    /// Rating given to unrated programmes at import.
    pub unrated: Option<Unrated>,
    pub create_livestreams: bool,
}

impl Setting for EpgSource {
    fn show(&self) -> Option<String> {
        // Publishers put the customer's key into the query.
        Some(format!("{} ({})", self.name, without_query(&self.url)))
    }
}

pub(super) fn sources(raw: &Node) -> Result<Vec<EpgSource>, Refusal> {
    tables(raw, "source", |source| {
        Some(EpgSource {
            name: source.required("name", text(64)).unwrap_or_default(),
            url: source.required("url", place).unwrap_or_default(),
            interval: source
                .read("interval", duration(60..=604_800))
                .unwrap_or(Duration::from_secs(3_600)),
            zone: source.read("zone", zone).unwrap_or(Tz::UTC),
            ignore_offsets: source.boolean("ignore_offsets").unwrap_or_default(),
            languages: source.read("languages", list(language)).unwrap_or_default(),
            priority: source.number("priority", 0..=1_000).unwrap_or_default(),
            channels: source.read("channels", channel_map).unwrap_or_default(),
            unrated: source.read("unrated", Unrated::read),
            create_livestreams: source.boolean("create_livestreams").unwrap_or_default(),
        })
    })
}

fn place(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let path = text.strip_prefix("file://").unwrap_or(text);
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(path.to_owned());
    }
    url(raw).map_err(|why| format!("{why}, or the absolute path of a file"))
}

fn channel_map(raw: &Node) -> Read<BTreeMap<String, String>> {
    let Value::Table(members) = &raw.value else {
        return Err("must be a table of XMLTV channel ids to livestream ids".to_owned());
    };
    let pair = |member: &Member| {
        let id = LivestreamId::parse(member.node.text()?).map_err(|why| why.to_string())?;
        Ok((member.name.clone(), id.as_str().to_owned()))
    };
    members.iter().map(pair).collect()
}
