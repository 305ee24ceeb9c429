//! The sources of guides: a list of tables, which the file alone can hold.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono_tz::Tz;

use super::kinds::{Read, Setting, duration, flag, language, list, number, text, url, zone};
use super::raw::Raw;
use crate::ports::web::without_query;

/// A guide that is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuideSource {
    /// Its name in reports.
    pub name: String,
    /// Where it is: an http or https address, or the absolute path of a file.
    pub url: String,
    /// How often it is fetched.
    pub interval: Duration,
    /// The zone of times that name none.
    pub zone: Tz,
    /// Whether all times are local in that zone, whatever offset they name.
    pub ignore_offsets: bool,
    /// The languages that titles are taken in, the best first.
    pub languages: Vec<String>,
    /// Which source wins where two have the same livestream: the higher.
    pub priority: u32,
    /// XMLTV channel ids to livestream ids; others map to themselves.
    pub channels: BTreeMap<String, String>,
}

impl Setting for GuideSource {
    fn show(&self) -> Option<String> {
        Some(format!("{} ({})", self.name, without_query(&self.url)))
    }
}

pub(super) fn sources(raw: &Raw) -> Read<Vec<GuideSource>> {
    if matches!(raw, Raw::Loose(_)) {
        return Err("can be set in the file alone".to_owned());
    }
    let (mut sources, mut wrong) = (Vec::new(), Vec::new());
    for item in raw.items() {
        match source(&item) {
            Ok(source) => sources.push(source),
            Err(why) => wrong.push(why),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    let mut names: Vec<&str> = sources.iter().map(|source| source.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err("has two sources of the same name".to_owned());
    }
    Ok(sources)
}

fn source(raw: &Raw) -> Read<GuideSource> {
    const MEMBERS: [&str; 8] = [
        "name",
        "url",
        "interval",
        "zone",
        "ignore_offsets",
        "languages",
        "priority",
        "channels",
    ];
    let Raw::Table(members) = raw else {
        return Err("must be a list of tables".to_owned());
    };
    let mut wrong = Vec::new();
    for unknown in members
        .keys()
        .filter(|name| !MEMBERS.contains(&name.as_str()))
    {
        let nearest = MEMBERS
            .into_iter()
            .min_by_key(|known| strsim::osa_distance(unknown, known))
            .unwrap_or_default();
        wrong.push(format!(
            "has an unknown member `{unknown}`; the nearest is `{nearest}`"
        ));
    }
    // All mistakes at once: whoever writes a list of sources mends it in one go.
    for needed in ["name", "url"] {
        if !members.contains_key(needed) {
            wrong.push(format!("has a source without `{needed}`"));
        }
    }
    let wrong = &mut wrong;
    let read = GuideSource {
        name: member(members, "name", text(64), wrong).unwrap_or_default(),
        url: member(members, "url", place, wrong).unwrap_or_default(),
        interval: member(members, "interval", duration(60..=604_800), wrong)
            .unwrap_or(Duration::from_secs(3_600)),
        zone: member(members, "zone", zone, wrong).unwrap_or(Tz::UTC),
        ignore_offsets: member(members, "ignore_offsets", flag, wrong).unwrap_or_default(),
        languages: member(members, "languages", list(language), wrong).unwrap_or_default(),
        priority: member(members, "priority", number(0..=1_000), wrong).unwrap_or_default(),
        channels: member(members, "channels", channel_map, wrong).unwrap_or_default(),
    };
    if wrong.is_empty() {
        Ok(read)
    } else {
        Err(wrong.join("; "))
    }
}

/// An address of the web or an absolute path, also as `file:///…`.
fn place(raw: &Raw) -> Read<String> {
    let text = raw.text()?;
    let path = text.strip_prefix("file://").unwrap_or(text);
    if path.starts_with('/') && !path.contains('\0') {
        return Ok(path.to_owned());
    }
    url(raw).map_err(|why| format!("{why}, or the absolute path of a file"))
}

fn member<T>(
    members: &BTreeMap<String, Raw>,
    name: &str,
    read: impl Fn(&Raw) -> Read<T>,
    wrong: &mut Vec<String>,
) -> Option<T> {
    match members.get(name).map(read)? {
        Ok(value) => Some(value),
        Err(why) => {
            wrong.push(format!("has a source whose `{name}` {why}"));
            None
        }
    }
}

fn channel_map(raw: &Raw) -> Read<BTreeMap<String, String>> {
    let Raw::Table(pairs) = raw else {
        return Err("must be a table of XMLTV channel ids to livestream ids".to_owned());
    };
    let pair = |(from, to): (&String, &Raw)| {
        let id = crate::types::LivestreamId::parse(to.text()?).map_err(|why| why.to_string())?;
        Ok((from.clone(), id.as_str().to_owned()))
    };
    pairs.iter().map(pair).collect()
}
