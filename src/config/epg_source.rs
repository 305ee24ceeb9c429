//! EPG sources: a list of tables, allowed in the file only.

use std::path::Path;

use super::schema::{Refusal, read_secret};
use super::setting::{Read, Setting};
use super::table_list::tables;
use super::value_parsers::{duration, language, list, text, url, zone};
use playgate_decode::{Node, ObjectMember, TableDecoder, Value};
use playgate_domain::catalog::Unrated;
use playgate_domain::epg_sources::{EpgSource, GuideOptions};
use playgate_domain::schedule::import::parsed_guide::{ChannelMap, ChannelTarget};
use playgate_ports::FetchOptions;
use playgate_ports::http_client::without_query;
use playgate_types::time::HOUR;
use playgate_types::{LivestreamId, Zone};

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
                zone: source.read("zone", zone).unwrap_or(Zone::utc()),
                ignore_offsets: source.boolean("ignore_offsets").unwrap_or_default(),
                languages: source.read("languages", list(language)).unwrap_or_default(),
                channels: source.read("channels", channel_map).unwrap_or_default(),
                unrated: source.read("unrated", Unrated::read),
                shift: source.read("shift", shift).unwrap_or_default(),
                rating_system: source.read("rating_system", text(100)),
            },
            create_livestreams: source.boolean("create_livestreams").unwrap_or_default(),
            request: request(source),
        })
    })
}

fn request(source: &TableDecoder<'_>) -> FetchOptions {
    let mut options = FetchOptions::default();
    source.read("headers", |raw| {
        let Value::Table(members) = &raw.value else {
            return Err("must be a table of names and values of headers".to_owned());
        };
        members
            .iter()
            .try_for_each(|member| options.add_header(&member.name, member.node.text()?))
    });
    source.read("user_agent", |raw| options.set_user_agent(raw.text()?));
    let user = source.read("username", |raw| Ok(raw.text()?.to_owned()));
    let password = match (source.node("password"), source.node("password_file")) {
        (Some(_), Some(node)) => {
            source.wrong(
                "password_file",
                node,
                "is set twice, here and by `password`: remove one",
            );
            None
        }
        (None, Some(_)) => source.read("password_file", |raw| {
            let text = read_secret(Path::new(raw.text()?), true);
            text.map_err(|why| format!("cannot be used: {why}"))
        }),
        _ => source.read("password", |raw| Ok(raw.text()?.to_owned())),
    };
    match (user, password) {
        (None, None) => {}
        (Some(user), password) => {
            let set = options.set_credentials(&user, &password.unwrap_or_default());
            if let (Err(why), Some(node)) = (set, source.node("username")) {
                source.wrong("username", node, &why);
            }
        }
        (None, Some(_)) => source.report("`password` needs a `username`"),
    }
    if let Some(timeout) = source.read("timeout", duration(1..=3_600)) {
        options.set_timeout(timeout);
    }
    options
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
        let target = target(&member.node).map_err(|why| format!("`{}` {why}", member.name))?;
        Ok((member.name.clone(), target))
    };
    members.iter().map(pair).collect()
}

/// A livestream id, a list of them, or `{ livestreams = […], shift = "1h" }`.
fn target(raw: &Node) -> Read<ChannelTarget> {
    let Value::Table(members) = &raw.value else {
        let livestreams = livestreams(raw)?;
        return Ok(ChannelTarget {
            livestreams,
            shift: 0,
        });
    };
    let mut target = ChannelTarget::default();
    for member in members {
        match &*member.name {
            "livestreams" | "livestream" => target.livestreams = livestreams(&member.node)?,
            "shift" => target.shift = shift(&member.node)?,
            other => {
                return Err(format!(
                    "has the unknown key `{other}`; there are `livestreams` and `shift`"
                ));
            }
        }
    }
    if target.livestreams.is_empty() {
        return Err("names no livestream; add `livestreams`".to_owned());
    }
    Ok(target)
}

fn livestreams(raw: &Node) -> Read<Vec<String>> {
    let one = |node: &Node| {
        let id = LivestreamId::parse(node.text().map_err(|_| MAPPED.to_owned())?);
        Ok(id
            .map_err(|why| format!("is mapped wrongly: {why}"))?
            .as_str()
            .to_owned())
    };
    let Value::List(items) = &raw.value else {
        return one(raw).map(|id| vec![id]);
    };
    let ids: Vec<String> = items.iter().map(one).collect::<Read<_>>()?;
    match ids.is_empty() {
        true => Err(MAPPED.to_owned()),
        false => Ok(ids),
    }
}

const MAPPED: &str = "must be a livestream id, a list of them, or a table such as { livestreams = [\"one\"], shift = \"1h\" }";

/// Seconds of a text such as `1h`, `-30m` or `+1h30m`.
fn shift(raw: &Node) -> Read<i64> {
    const WRONG: &str = "must be a time such as \"1h\" or \"-30m\", of at most 7 days";
    let text = raw.text().map_err(|_| WRONG.to_owned())?.trim();
    let (sign, rest) = match text.split_at_checked(1) {
        Some(("-", rest)) => (-1, rest),
        Some(("+", rest)) => (1, rest),
        _ => (1, text),
    };
    let mut seconds = 0_i64;
    let mut rest = rest;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest
            .get(..digits)
            .and_then(|n| n.parse().ok())
            .ok_or(WRONG)?;
        let unit = match rest.get(digits..digits + 1) {
            Some("h") => 3_600,
            Some("m") => 60,
            Some("s") => 1,
            Some("d") => 86_400,
            // Without a unit it would be guessed: 1 may be a second or an hour. 0 is 0.
            None if number == 0 && seconds == 0 => 0,
            _ => return Err(WRONG.to_owned()),
        };
        seconds = number
            .checked_mul(unit)
            .and_then(|n| n.checked_add(seconds))
            .ok_or(WRONG)?;
        rest = rest.get(digits + 1..).unwrap_or_default();
    }
    match text.is_empty() || seconds > 7 * 86_400 {
        true => Err(WRONG.to_owned()),
        false => Ok(sign * seconds),
    }
}
