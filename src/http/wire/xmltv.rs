//! Writes the schedule as XMLTV, chunk by chunk. Parsing XMLTV is part of the domain's EPG import.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;

use crate::domain::catalog::Livestream;
use crate::domain::schedule::{Broadcast, Image, Schedule};
use crate::http::response::body::BodyPiece;
use crate::types::UnixSeconds;

/// Writes livestreams as XMLTV: first the channels, then the programmes of each that are within the span.
pub(crate) fn pieces(
    schedule: Arc<Schedule>,
    livestreams: Vec<Arc<Livestream>>,
    (from, to): (UnixSeconds, UnixSeconds),
) -> impl Iterator<Item = BodyPiece> {
    let head = Bytes::from(channels(&livestreams));
    let bodies = livestreams.into_iter().map(move |livestream| {
        // Livestreams are written one at a time, on demand: the whole guide may have hundreds of megabytes.
        let mut broadcasts = schedule.broadcasts(&livestream.id)?;
        broadcasts.retain(|broadcast| broadcast.start < to && from < broadcast.stop);
        Ok(programmes(livestream.id.as_str(), &broadcasts).into())
    });
    let end = Bytes::from_static(b"</tv>\n");
    iter::once(Ok(head))
        .chain(bodies)
        .chain(iter::once(Ok(end)))
}

fn channels(livestreams: &[Arc<Livestream>]) -> String {
    let mut out = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tv SYSTEM \"xmltv.dtd\">\n\
         <tv generator-info-name=\"Playgate\">\n",
    );
    for livestream in livestreams {
        attributes(&mut out, "  <channel", &[("id", livestream.id.as_str())]);
        out.push_str(">\n");
        element(&mut out, "display-name", &livestream.name);
        icons(&mut out, &livestream.images);
        out.push_str("  </channel>\n");
    }
    out
}

fn programmes(channel: &str, broadcasts: &[Broadcast]) -> String {
    let mut out = String::new();
    for Broadcast {
        id: _,
        start,
        stop,
        metadata,
    } in broadcasts
    {
        let (start, stop) = (time(*start), time(*stop));
        let times = [("start", &*start), ("stop", &*stop), ("channel", channel)];
        attributes(&mut out, "  <programme", &times);
        out.push_str(">\n");
        // The order of elements is fixed by the XMLTV definition.
        element(&mut out, "title", &metadata.title);
        if let Some(subtitle) = &metadata.subtitle {
            element(&mut out, "sub-title", subtitle);
        }
        if let Some(description) = &metadata.description {
            element(&mut out, "desc", description);
        }
        for category in &metadata.categories {
            element(&mut out, "category", category);
        }
        icons(&mut out, &metadata.images);
        episode(&mut out, metadata.season, metadata.episode);
        rating(&mut out, metadata.rating.as_deref(), metadata.pg_age);
        out.push_str("  </programme>\n");
    }
    out
}

/// Writes season and episode, which XMLTV counts from 0.
fn episode(out: &mut String, season: Option<u16>, episode: Option<u16>) {
    if season.is_none() && episode.is_none() {
        return;
    }
    let number = |number: Option<u16>| match number {
        Some(number) => number.saturating_sub(1).to_string(),
        None => String::new(),
    };
    attributes(out, "    <episode-num", &[("system", "xmltv_ns")]);
    let value = format!("{}.{}.", number(season), number(episode));
    text(out, ">", &value, "</episode-num>\n");
}

fn rating(out: &mut String, rating: Option<&str>, age: Option<u8>) {
    let age = age.map(|age| age.to_string());
    let (system, value) = match (rating, &age) {
        // Stored as `system:value`, or as a value of no known system.
        (Some(rating), _) => match rating.split_once(':') {
            Some((system, value)) => (Some(system), value),
            None => (None, rating),
        },
        (None, Some(age)) => (None, age.as_str()),
        (None, None) => return,
    };
    let system = system.filter(|system| !system.is_empty());
    let system = system.map(|system| ("system", system));
    attributes(out, "    <rating", system.as_slice());
    out.push('>');
    text(out, "<value>", value, "</value></rating>\n");
}

fn icons(out: &mut String, images: &[Image]) {
    for image in images {
        attributes(out, "    <icon", &[("src", &image.filename)]);
        // XMLTV has no type of image. Importers, including ours, derive it from the proportions.
        let (width, height) = match &*image.kind {
            "three-four" => ("300", "400"),
            "square" => ("400", "400"),
            _ => ("", ""),
        };
        if !width.is_empty() {
            attributes(out, "", &[("width", width), ("height", height)]);
        }
        out.push_str("/>\n");
    }
}

fn element(out: &mut String, name: &str, content: &str) {
    text(
        out,
        &format!("    <{name}>"),
        content,
        &format!("</{name}>\n"),
    );
}

fn text(out: &mut String, before: &str, content: &str, after: &str) {
    out.push_str(before);
    escape(out, content);
    out.push_str(after);
}

fn attributes(out: &mut String, open: &str, attributes: &[(&str, &str)]) {
    out.push_str(open);
    for (name, value) in attributes {
        out.push(' ');
        text(out, &format!("{name}=\""), value, "\"");
    }
}

fn escape(out: &mut String, content: &str) {
    for c in content.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML parsers replace these in attributes by spaces unless they are escaped.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            // XML cannot contain these, even escaped: one of them would make the whole file unreadable.
            '\0'..' ' | '\u{fffe}' | '\u{ffff}' => {}
            other => out.push(other),
        }
    }
}

fn time(at: UnixSeconds) -> String {
    chrono::DateTime::from_timestamp(at.0, 0)
        .map(|time| time.format("%Y%m%d%H%M%S +0000").to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::Metadata;
    use crate::types::{BroadcastId, LivestreamId};

    #[test]
    fn livestream_and_its_programmes_are_exported() {
        let id = LivestreamId::parse("a&\"b").unwrap();
        let livestream = Livestream::new(id, "<One>".to_owned());
        let mut metadata = Metadata {
            title: "T & \u{1}t".into(),
            description: Some("d\nd".into()),
            subtitle: Some("Part <2>".into()),
            season: Some(3),
            episode: Some(2),
            categories: vec!["c".into()],
            rating: Some("FSK:12".into()),
            pg_age: Some(12),
            ..Metadata::default()
        };
        metadata.images.push(Image {
            kind: "square".into(),
            default: true,
            filename: "https://i.example/?a&b".into(),
            embedded_text: false,
        });
        let broadcast = |start: i64, metadata: &Metadata| Broadcast {
            id: BroadcastId::parse("b").unwrap(),
            start: UnixSeconds(start),
            stop: UnixSeconds(start + 60),
            metadata: metadata.clone(),
        };
        let aged = Metadata {
            title: "A".into(),
            pg_age: Some(16),
            ..Metadata::default()
        };
        let list = [
            broadcast(1_787_356_800, &metadata),
            broadcast(1_787_356_860, &aged),
        ];
        let written = channels(&[Arc::new(livestream)]) + &programmes("a&\"b", &list) + "</tv>\n";
        assert_eq!(
            written,
            r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tv SYSTEM "xmltv.dtd">
<tv generator-info-name="Playgate">
  <channel id="a&amp;&quot;b">
    <display-name>&lt;One&gt;</display-name>
  </channel>
  <programme start="20260822000000 +0000" stop="20260822000100 +0000" channel="a&amp;&quot;b">
    <title>T &amp; t</title>
    <sub-title>Part &lt;2&gt;</sub-title>
    <desc>d&#10;d</desc>
    <category>c</category>
    <icon src="https://i.example/?a&amp;b" width="400" height="400"/>
    <episode-num system="xmltv_ns">2.1.</episode-num>
    <rating system="FSK"><value>12</value></rating>
  </programme>
  <programme start="20260822000100 +0000" stop="20260822000200 +0000" channel="a&amp;&quot;b">
    <title>A</title>
    <rating><value>16</value></rating>
  </programme>
</tv>
"#
        );
    }
}
