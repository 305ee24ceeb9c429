//! Writes the schedule as XMLTV, chunk by chunk. Parsing XMLTV is part of the domain's EPG import.

use std::iter;
use std::sync::Arc;

use bytes::Bytes;

use playgate_domain::catalog::Livestream;
use playgate_domain::schedule::ScheduleError;
use playgate_domain::schedule::{
    Broadcast, CreditKind, Details, Image, ImagePurpose, Schedule, TypedImage,
};
use playgate_types::UnixSeconds;

/// Writes livestreams as XMLTV: first the channels, then the programmes of each that are within the span.
pub fn pieces(
    schedule: Arc<Schedule>,
    livestreams: Vec<Arc<Livestream>>,
    (from, to): (UnixSeconds, UnixSeconds),
) -> impl Iterator<Item = Result<Bytes, ScheduleError>> {
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
        let details = metadata.details.as_deref();
        if let Some(details) = details {
            credits(&mut out, details);
        }
        for category in &metadata.categories {
            element(&mut out, "category", category);
        }
        icons(&mut out, &metadata.images);
        episode(&mut out, metadata.season, metadata.episode);
        if let Some(details) = details {
            showings(&mut out, details);
        }
        rating(&mut out, metadata.rating.as_deref(), metadata.pg_age);
        typed_images(&mut out, details.map_or(&[], |d| d.images.as_slice()));
        out.push_str("  </programme>\n");
    }
    out
}

/// Writes credits and date.
fn credits(out: &mut String, details: &Details) {
    let mut credits: Vec<_> = details.credits.iter().collect();
    // The XMLTV definition has the kinds in this order.
    credits.sort_by_key(|credit| credit.kind);
    for (at, credit) in credits.iter().enumerate() {
        if at == 0 {
            out.push_str("    <credits>\n");
        }
        let (name, role) = (credit.kind.as_str(), credit.role.as_deref());
        attributes(out, &format!("      <{name}"), &[]);
        // Only actors have them in XMLTV.
        if credit.kind == CreditKind::Actor {
            attributes(out, "", role.map(|role| ("role", role)).as_slice());
            let guest = credit.guest.then_some(("guest", "yes"));
            attributes(out, "", guest.as_slice());
        }
        text(out, ">", &credit.name, &format!("</{name}>\n"));
    }
    if !credits.is_empty() {
        out.push_str("    </credits>\n");
    }
    if let Some(date) = &details.date {
        element(out, "date", &date.replace('-', ""));
    }
}

/// Writes the elements that recorders decide by.
fn showings(out: &mut String, details: &Details) {
    if let Some(previous) = &details.previously_shown {
        let start = previous.start.as_deref().map(|start| {
            let digits = start.replace(['-', ':', 'T'], "");
            digits.replace('Z', " +0000")
        });
        let start = start.as_deref().map(|start| ("start", start));
        attributes(out, "    <previously-shown", start.as_slice());
        let channel = previous.channel.as_deref();
        let channel = channel.map(|channel| ("channel", channel));
        attributes(out, "", channel.as_slice());
        out.push_str("/>\n");
    }
    for (name, flag) in [
        ("premiere", details.is_premiere),
        ("new", details.is_new),
        // Not in the definition; grabbers write it and recorders read it.
        ("live", details.is_live),
    ] {
        if flag {
            attributes(out, &format!("    <{name}"), &[]);
            out.push_str("/>\n");
        }
    }
}

fn typed_images(out: &mut String, images: &[TypedImage]) {
    for image in images {
        let orient = image
            .is_upright
            .map(|is_upright| if is_upright { "P" } else { "L" });
        let size = image.size.map(|size| size.to_string());
        let given = [
            ("type", image.purpose.map(ImagePurpose::as_str)),
            ("size", size.as_deref()),
            ("orient", orient),
        ];
        out.push_str("    <image");
        for (name, value) in given {
            let attribute = value.map(|value| (name, value));
            attributes(out, "", attribute.as_slice());
        }
        text(out, ">", &image.filename, "</image>\n");
    }
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
    use playgate_domain::schedule::{Credit, Metadata, PreviousShowing};
    use playgate_types::{BroadcastId, LivestreamId};

    fn details() -> Details {
        let credit = |kind, name: &str, guest: bool| Credit {
            kind,
            name: name.into(),
            role: guest.then(|| "<R>".into()),
            guest,
        };
        Details {
            date: Some("2026-11".into()),
            is_new: true,
            is_live: true,
            is_premiere: true,
            previously_shown: Some(PreviousShowing {
                start: Some("2020-01-31T20:00:00Z".into()),
                channel: Some("x".into()),
            }),
            credits: vec![
                credit(CreditKind::Guest, "G", true),
                credit(CreditKind::Actor, "A", true),
                credit(CreditKind::Director, "D & E", false),
            ],
            images: vec![TypedImage {
                filename: "https://i.example/p?a&b".into(),
                purpose: Some(ImagePurpose::Poster),
                size: Some(3),
                is_upright: Some(true),
            }],
        }
    }

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
        metadata.details = Some(Box::new(details()));
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
    <credits>
      <director>D &amp; E</director>
      <actor role="&lt;R&gt;" guest="yes">A</actor>
      <guest>G</guest>
    </credits>
    <date>202611</date>
    <category>c</category>
    <icon src="https://i.example/?a&amp;b" width="400" height="400"/>
    <episode-num system="xmltv_ns">2.1.</episode-num>
    <previously-shown start="20200131200000 +0000" channel="x"/>
    <premiere/>
    <new/>
    <live/>
    <rating system="FSK"><value>12</value></rating>
    <image type="poster" size="3" orient="P">https://i.example/p?a&amp;b</image>
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
