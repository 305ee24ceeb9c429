//! Livestreams from an extended M3U playlist, as the text of a catalogue file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::m3u_entry::{self, Attributes};
use super::m3u_guide::GuideRemarks;
use playgate_types::LivestreamId;
use playgate_types::slug::slug;

const HEAD: &str = "#EXTM3U";
const ENTRY: &str = "#EXTINF:";

/// Tags of an HLS playlist, which is the address of one channel and no list of channels.
const OF_ONE_STREAM: [&str; 2] = ["#EXT-X-TARGETDURATION", "#EXT-X-STREAM-INF"];

/// Some lists begin with an entry.
pub(super) fn is_m3u(text: &str) -> bool {
    let text = text.trim_start();
    tagged(text, HEAD).or(tagged(text, ENTRY)).is_some()
}

/// What follows a tag, in capitals or not.
fn tagged<'a>(line: &'a str, tag: &str) -> Option<&'a str> {
    let (begin, rest) = line.split_at_checked(tag.len())?;
    begin.eq_ignore_ascii_case(tag).then_some(rest)
}

/// Mistakes and remarks that are listed; the rest is counted.
const LISTED_MAX: usize = 20;

/// The livestreams of a playlist, and what a person should know about them.
pub(super) struct ReadPlaylist {
    pub(super) catalog: String,
    pub(super) remarks: Vec<String>,
}

/// Formats that a list of channels for other players has and no client of ours plays, by the end of the path.
const FILES: [&str; 8] = [
    ".ts", ".mp4", ".mkv", ".avi", ".flv", ".mp3", ".aac", ".mpg",
];

/// Converts the entries to livestreams. Addresses for catch-up are left out, because their templates differ between
/// players. All mistakes are reported together.
pub(super) fn to_catalog(text: &str) -> Result<ReadPlaylist, String> {
    let mut livestreams: BTreeMap<String, Value> = BTreeMap::new();
    let mut list = Entries::default();
    let mut heading: Option<(u64, &str)> = None;
    let mut group = None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if OF_ONE_STREAM.iter().any(|tag| tagged(line, tag).is_some()) {
            return Err("this is the HLS playlist of one stream: its address belongs into `playlist.hls` of a livestream".to_owned());
        } else if let Some(head) = tagged(line, HEAD) {
            // Nothing of it is needed, so that an open quote in it is no mistake.
            let head = m3u_entry::read(head).map(|(attributes, _)| attributes);
            list.guide.read_head(&head.unwrap_or_default());
        } else if let Some(entry) = tagged(line, ENTRY) {
            if let Some((before, _)) = heading.replace((number, entry)) {
                list.wrong(before, "the address is missing");
            }
        } else if let Some(name) = tagged(line, "#EXTGRP:") {
            group = Some(name.trim().to_owned());
        } else if !line.is_empty() && !line.starts_with('#') {
            let Some((at, entry)) = heading.take() else {
                list.wrong(number, "no #EXTINF before it");
                continue;
            };
            list.add(&mut livestreams, at, (entry, line), group.take());
        }
    }
    if let Some((at, _)) = heading {
        list.wrong(at, "the address is missing");
    }
    if !list.mistakes.is_empty() {
        return Err(joined(list.mistakes).join("; "));
    }
    let all: Vec<&Value> = livestreams.values().collect();
    let mut remarks = joined(list.remarks);
    remarks.extend(list.guide.remarks());
    Ok(ReadPlaylist {
        catalog: json!({"livestream": all}).to_string(),
        remarks,
    })
}

fn joined(mut lines: Vec<String>) -> Vec<String> {
    let more = lines.len().saturating_sub(LISTED_MAX);
    lines.truncate(LISTED_MAX);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

#[derive(Default)]
struct Entries {
    mistakes: Vec<String>,
    remarks: Vec<String>,
    guide: GuideRemarks,
}

impl Entries {
    fn wrong(&mut self, line: u64, what: &str) {
        self.mistakes.push(format!("line {line}: {what}"));
    }

    fn remark(&mut self, line: u64, what: &str) {
        self.remarks.push(format!("line {line}: {what}"));
    }

    fn add(
        &mut self,
        livestreams: &mut BTreeMap<String, Value>,
        at: u64,
        (entry, address): (&str, &str),
        group: Option<String>,
    ) {
        // Kodi's headers: clients of ours send none.
        let (address, headers) = address.split_once('|').unwrap_or((address, ""));
        let scheme = address
            .split_once("://")
            .map(|(scheme, _)| scheme.to_ascii_lowercase());
        if !matches!(scheme.as_deref(), Some("http" | "https")) {
            let scheme = scheme.unwrap_or_else(|| "no scheme".to_owned());
            return self.remark(at, &format!("skipped: an address with {scheme} cannot be played, only HLS and DASH over http and https"));
        }
        let path = address
            .split(['?', '#'])
            .next()
            .unwrap_or_default()
            .to_ascii_lowercase();
        if let Some(end) = FILES.iter().find(|end| path.ends_with(*end)) {
            return self.remark(
                at,
                &format!("skipped: a `{end}` file cannot be played, only HLS and DASH"),
            );
        }
        let mut given = match livestream(entry, address, group) {
            Ok(given) => given,
            Err(what) => return self.wrong(at, what),
        };
        for what in given.left_out {
            self.remark(at, &what);
        }
        if !headers.is_empty() {
            self.remark(at, "the headers behind `|` are left out: players send none");
        }
        if livestreams.contains_key(&given.id) {
            let free = (2..).map(|n: u32| format!("{}-{n}", given.id));
            let id = free
                .into_iter()
                .find(|id| !livestreams.contains_key(id))
                .unwrap_or_default();
            self.remark(
                at,
                &format!("`{}` occurs twice; this one is `{id}`", given.id),
            );
            if let Some(members) = given.livestream.as_object_mut() {
                members.insert("id".to_owned(), id.clone().into());
            }
            given.id = id;
        }
        self.guide.read((at, &given.id), &given.attributes);
        livestreams.insert(given.id, given.livestream);
    }
}

struct Entry {
    id: String,
    attributes: Attributes,
    livestream: Value,
    left_out: Vec<String>,
}

fn livestream(entry: &str, address: &str, group: Option<String>) -> Result<Entry, &'static str> {
    let (attributes, title) = m3u_entry::read(entry)?;
    let given = |name: &str| {
        attributes
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    };
    let name = Some(title)
        .filter(|title| !title.is_empty())
        .or(given("tvg-name"));
    // An id that no livestream can have is replaced by one that is made of the name.
    let tvg_id = given("tvg-id").filter(|id| LivestreamId::parse(id).is_ok());
    let id = match (tvg_id, name) {
        (Some(tvg_id), _) => tvg_id.to_owned(),
        (None, Some(name)) => match id_of(name) {
            // A name of signs alone.
            id if id.is_empty() => "channel".to_owned(),
            id => id,
        },
        (None, None) => return Err("it has neither a tvg-id nor a name"),
    };
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
    let mut left_out = Vec::new();
    // Other programs have other names for the same.
    let mut number = |names: [&str; 2]| {
        let (name, text) = names
            .into_iter()
            .find_map(|name| Some((name, given(name)?)))?;
        let number = text.parse::<u16>().ok();
        if number.is_none() {
            left_out.push(format!(
                "`{name}` is no whole number up to 65535 and is left out"
            ));
        }
        number.map(Value::from)
    };
    let logo = given("tvg-logo")
        .map(|logo| json!([{"type": "square", "filename": logo, "default": true}]));
    for (member, value) in [
        ("images", logo),
        ("number", number(["tvg-chno", "channel-number"])),
        (
            "group",
            given("group-title")
                .map(Value::from)
                .or(group.map(Value::from)),
        ),
        ("catchup_days", number(["catchup-days", "tvg-rec"])),
    ] {
        if let (Some(members), Some(value)) = (livestream.as_object_mut(), value) {
            members.insert(member.to_owned(), value);
        }
    }
    Ok(Entry {
        id,
        livestream,
        attributes,
        left_out,
    })
}

/// An id from a name. One in Latin letters is without those that have accents, as the first version made it: a list that
/// is imported again must give the same livestreams.
fn id_of(name: &str) -> String {
    let id = slug(name);
    let plain = name.split(|c: char| !c.is_ascii_alphanumeric());
    let plain: Vec<String> = (plain.filter(|word| !word.is_empty()))
        .map(str::to_ascii_lowercase)
        .collect();
    match id.is_ascii() && !plain.is_empty() {
        true => plain.join("-"),
        false => id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Value {
        serde_json::from_str(&to_catalog(text).unwrap().catalog).unwrap()
    }

    #[test]
    fn entries_become_livestreams() {
        let text = "#EXTM3U url-tvg=\"http://x/guide\"\r\n\
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
                "#EXTINF:-1 tvg-name=\"One,One\nhttp://x/a\nhttp://x/b\n",
                "line 2: a quote is not closed; add a `\"` behind the value; line 4: no #EXTINF",
            ),
        ] {
            let error = to_catalog(&format!("#EXTM3U\n{entries}")).err().unwrap();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn one_stream_is_no_list_of_channels() {
        for tag in ["#EXT-X-TARGETDURATION:6", "#EXT-X-STREAM-INF:BANDWIDTH=1"] {
            let error = to_catalog(&format!("#EXTM3U\n{tag}\n#EXTINF:6,\na.ts\n"));
            assert!(error.err().unwrap().contains("`playlist.hls`"));
        }
    }

    #[test]
    fn what_can_be_taken_is_taken_and_the_rest_is_told() {
        let text = "#EXTM3U\n\
            #EXTINF:-1,Первый канал\nhttp://x/1.m3u8\n\
            #EXTINF:-1,***\nhttp://x/2.m3u8|User-Agent=Test\n\
            #extinf:-1 tvg-id=a tvg-shift='1' tvg-chno=5.1,A\nhttp://x/3.m3u8\n\
            #EXTINF:-1 tvg-id=\"a\",A HD\nhttp://x/4.m3u8\n\
            #EXTINF:-1,Multicast\nudp://@239.1.1.1:5000\n\
            #EXTINF:-1,Stream\nhttp://x/live/1.ts\n";
        let playlist = to_catalog(text).unwrap();
        let catalog: Value = serde_json::from_str(&playlist.catalog).unwrap();
        let ids: Vec<&str> = catalog["livestream"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids, ["a", "a-2", "channel", "первый-канал"]);
        assert_eq!(
            catalog["livestream"][2]["playlist"]["hls"],
            "http://x/2.m3u8"
        );
        let lines: Vec<&str> = playlist
            .remarks
            .iter()
            .map(|line| line.split(' ').nth(1).unwrap())
            .collect();
        assert_eq!(
            lines,
            ["4:", "6:", "8:", "10:", "12:", "moves"],
            "{:?}",
            playlist.remarks
        );
    }
}
