//! Livestreams from an extended M3U playlist, as the text of a catalogue file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::types::LivestreamId;

const HEAD: &str = "#EXTM3U";

const BYTE_ORDER_MARK: char = '\u{feff}';

pub(super) fn is_m3u(text: &str) -> bool {
    text.trim_start_matches(BYTE_ORDER_MARK).starts_with(HEAD)
}

/// Converts the entries to livestreams. Addresses for catch-up are left out, because their templates differ between
/// players.
pub(super) fn to_catalog(text: &str) -> Result<String, String> {
    let mut livestreams: BTreeMap<String, Value> = BTreeMap::new();
    let mut heading: Option<(u64, &str)> = None;
    let mut group = None;
    let text = text.trim_start_matches(BYTE_ORDER_MARK);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if let Some(entry) = line.strip_prefix("#EXTINF:") {
            heading = Some((number, entry));
        } else if let Some(name) = line.strip_prefix("#EXTGRP:") {
            group = Some(name.trim().to_owned());
        } else if !line.is_empty() && !line.starts_with('#') {
            let (at, entry) = heading
                .take()
                .ok_or_else(|| format!("line {number}: no #EXTINF before it"))?;
            let (id, livestream) = livestream(entry, line, group.take())
                .ok_or_else(|| format!("line {at}: it has neither a tvg-id nor a name"))?;
            // Refused, because nothing shows which of the two is meant.
            if livestreams.insert(id.clone(), livestream).is_some() {
                return Err(format!(
                    "line {at}: `{id}` occurs twice; give each a tvg-id"
                ));
            }
        }
    }
    if let Some((at, _)) = heading {
        return Err(format!("line {at}: the address is missing"));
    }
    let all: Vec<&Value> = livestreams.values().collect();
    Ok(json!({"livestream": all}).to_string())
}

/// Parses the text after `#EXTINF:`, which is `duration name="value" …,title`.
fn livestream(entry: &str, address: &str, group: Option<String>) -> Option<(String, Value)> {
    let mut attributes = BTreeMap::new();
    let mut rest = entry;
    while let Some((before, after)) = rest.split_once("=\"") {
        let (value, more) = after.split_once('"')?;
        let name = before.rsplit([' ', '\t']).next().unwrap_or_default();
        attributes.insert(name.to_ascii_lowercase(), value.trim());
        rest = more;
    }
    // Found after the attributes: titles and attributes may both contain commas.
    let title = rest.split_once(',').map_or("", |(_, title)| title.trim());
    let given = |name: &str| {
        attributes
            .get(name)
            .copied()
            .filter(|value| !value.is_empty())
    };
    let name = Some(title)
        .filter(|title| !title.is_empty())
        .or(given("tvg-name"));
    // An id that no livestream can have is replaced by one that is made of the name.
    let own = given("tvg-id").filter(|id| LivestreamId::parse(id).is_ok());
    let id = own
        .map(str::to_owned)
        .or_else(|| Some(slug(name?)).filter(|id| !id.is_empty()))?;
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let protocol = if path.ends_with(".mpd") {
        "dash"
    } else {
        "hls"
    };
    // A playlist carries no keys: its streams are taken to be unprotected.
    let mut livestream = json!({
        "id": id,
        "name": name.unwrap_or(&id),
        "encrypted": false,
        "playlist": {protocol: address},
    });
    let number = |name: &str| given(name).and_then(|text| text.parse::<u16>().ok());
    let logo = given("tvg-logo")
        .map(|logo| json!([{"type": "square", "filename": logo, "default": true}]));
    for (member, value) in [
        ("images", logo),
        ("number", number("tvg-chno").map(Value::from)),
        (
            "group",
            given("group-title")
                .map(Value::from)
                .or(group.map(Value::from)),
        ),
        (
            "catchup_days",
            number("catchup-days")
                .or(number("tvg-rec"))
                .map(Value::from),
        ),
    ] {
        if let (Some(members), Some(value)) = (livestream.as_object_mut(), value) {
            members.insert(member.to_owned(), value);
        }
    }
    Some((id, livestream))
}

/// An id from a name: lower-case letters and digits, with dashes between words.
fn slug(name: &str) -> String {
    let words = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words
        .map(str::to_ascii_lowercase)
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str(&to_catalog(text).unwrap()).unwrap()
    }

    #[test]
    fn entries_become_livestreams() {
        let text = "\u{feff}#EXTM3U url-tvg=\"http://x/guide\"\r\n\
            #EXTINF:-1 tvg-id=\"one\" tvg-logo=\"https://i/1.png\" tvg-chno=\"5\" group-title=\"News, sport\" \
            catchup=\"default\" catchup-days=\"7\",One, \"two\"\r\n\
            #EXTVLCOPT:http-user-agent=x\r\nhttps://c.example/one.mpd?a=.m3u8\r\n\
            #EXTINF:-1,Två & Three HD\n#EXTGRP:Films\nhttps://c.example/three\n";
        assert!(is_m3u(text));
        let one = json!({
            "id": "one", "name": "One, \"two\"", "encrypted": false, "number": 5, "group": "News, sport",
            "catchup_days": 7, "playlist": {"dash": "https://c.example/one.mpd?a=.m3u8"},
            "images": [{"type": "square", "filename": "https://i/1.png", "default": true}],
        });
        let three = json!({
            "id": "tv-three-hd", "name": "Två & Three HD", "encrypted": false, "group": "Films",
            "playlist": {"hls": "https://c.example/three"},
        });
        assert_eq!(read(text), json!({"livestream": [one, three]}));
    }

    #[test]
    fn a_faulty_entry_is_named_by_its_line() {
        for (entries, why) in [
            ("http://x/a\n", "line 2: no #EXTINF"),
            ("#EXTINF:-1,A\n", "line 2: the address is missing"),
            ("#EXTINF:-1,\nhttp://x/a\n", "line 2: it has neither"),
            (
                "#EXTINF:-1,A\nhttp://x/a\n#EXTINF:-1,a\nhttp://x/b\n",
                "line 4: `a` occurs twice",
            ),
        ] {
            let error = to_catalog(&format!("#EXTM3U\n{entries}")).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
