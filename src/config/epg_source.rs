//! EPG sources: a list of tables, allowed in the file only.

use chrono_tz::Tz;

use super::schema::Refusal;
use super::table_list::tables;
use super::value_parsers::{Read, Setting, duration, language, list, text, url, zone};
use crate::decode::{Node, ObjectMember, Value};
use crate::domain::catalog::Unrated;
use crate::domain::epg_sources::{EpgSource, GuideOptions};
use crate::domain::schedule::import::parsed_guide::ChannelMap;
use crate::ports::http_client::without_query;
use crate::types::LivestreamId;
use crate::types::time::HOUR;

impl Setting for EpgSource {
    fn show(&self) -> Option<String> {
        // Publishers put the customer's key into the query.
        Some(format!("{} ({})", self.name, without_query(&self.location)))
    }
}

pub(super) fn sources(raw: &Node) -> Result<Vec<EpgSource>, Refusal> {
    tables(raw, "source", |source| {
        let interval = source.read("interval", duration(60..=604_800));
        Some(EpgSource {
            name: source.required("name", text(64)).unwrap_or_default(),
            location: source.required("url", location).unwrap_or_default(),
            interval: interval.map_or(HOUR, |interval| {
                i64::try_from(interval.as_secs()).unwrap_or(i64::MAX)
            }),
            priority: source.number("priority", 0..=1_000).unwrap_or_default(),
            options: GuideOptions {
                zone: source.read("zone", zone).unwrap_or(Tz::UTC),
                ignore_offsets: source.boolean("ignore_offsets").unwrap_or_default(),
                languages: source.read("languages", list(language)).unwrap_or_default(),
                channels: source.read("channels", channel_map).unwrap_or_default(),
                unrated: source.read("unrated", Unrated::read),
            },
            create_livestreams: source.boolean("create_livestreams").unwrap_or_default(),
        })
    })
}

fn location(raw: &Node) -> Read<String> {
    let text = raw.text()?;
    let path = text.strip_prefix("file://").unwrap_or(text);
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(path.to_owned());
    }
    url(raw).map_err(|why| format!("{why}, or the absolute path of a file"))
}

fn channel_map(raw: &Node) -> Read<ChannelMap> {
    let Value::Table(members) = &raw.value else {
        return Err("must be a table of XMLTV channel ids to livestream ids".to_owned());
    };
    let pair = |member: &ObjectMember| {
        let id = LivestreamId::parse(member.node.text()?).map_err(|why| why.to_string())?;
        Ok((member.name.clone(), id.as_str().to_owned()))
    };
    members.iter().map(pair).collect()
}
