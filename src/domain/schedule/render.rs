//! Renders a broadcast as JSON of the interface, once per import. Optional members are absent, never null.

use super::json_writer;
use super::model::{Broadcast, Image};
use super::rights::BroadcastRights;
use crate::types::UnixSeconds;

/// The beginning of every rendered broadcast.
pub(super) const BEFORE_ID: &[u8] = b"{\"id\":\"";
pub(super) const BEFORE_TITLE: &[u8] = b"\",\"title\":\"";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RenderedBroadcast {
    /// As JSON, after [`BEFORE_ID`].
    pub id: usize,
    /// As JSON, after the id and [`BEFORE_TITLE`].
    pub title: usize,
}

pub(super) fn broadcast(
    broadcast: &Broadcast,
    rights: &BroadcastRights,
    out: &mut Vec<u8>,
) -> RenderedBroadcast {
    // `text` also writes the quotes, which `BEFORE_ID` and `BEFORE_TITLE` include in part.
    let from = out.len();
    out.extend_from_slice(b"{\"id\":");
    json_writer::text(broadcast.id.as_str(), out);
    let id = out.len() - from - BEFORE_ID.len() - 1;
    let from = out.len();
    out.extend_from_slice(b",\"title\":");
    json_writer::text(&broadcast.metadata.title, out);
    let title = out.len() - from - BEFORE_TITLE.len();
    if let Some(description) = &broadcast.metadata.description {
        out.extend_from_slice(b",\"description\":");
        json_writer::text(description, out);
    }
    let metadata = &broadcast.metadata;
    if let Some(subtitle) = &metadata.subtitle {
        out.extend_from_slice(b",\"subtitle\":");
        json_writer::text(subtitle, out);
    }
    for (name, number) in [("season", metadata.season), ("episode", metadata.episode)] {
        if let Some(number) = number {
            // Numbers and times are written alike.
            member(name, UnixSeconds(number.into()), out);
        }
    }
    member("start", broadcast.start, out);
    member("stop", broadcast.stop, out);
    out.extend_from_slice(b",\"liveAvailable\":");
    json_writer::boolean(rights.live, out);
    if let Some((opens, closes)) = rights.catchup {
        out.extend_from_slice(b",\"catchupInterval\":{\"from\":");
        json_writer::number(opens.0, out);
        member("to", closes, out);
        out.push(b'}');
    }
    out.extend_from_slice(b",\"extendedRights\":{\"pause\":");
    json_writer::boolean(rights.pause, out);
    out.extend_from_slice(b",\"rewind\":");
    json_writer::boolean(rights.rewind, out);
    out.extend_from_slice(b",\"fastForward\":");
    json_writer::boolean(rights.fast_forward, out);
    out.push(b'}');
    images(&broadcast.metadata.images, out);
    if let Some(age) = broadcast.metadata.pg_age {
        out.extend_from_slice(b",\"pgAge\":");
        json_writer::number(age.into(), out);
    }
    out.push(b'}');
    RenderedBroadcast { id, title }
}

fn images(images: &[Image], out: &mut Vec<u8>) {
    for (at, image) in images.iter().enumerate() {
        let before: &[u8] = if at == 0 {
            b",\"images\":[{\"type\":"
        } else {
            b",{\"type\":"
        };
        out.extend_from_slice(before);
        json_writer::text(&image.kind, out);
        out.extend_from_slice(b",\"default\":");
        json_writer::boolean(image.default, out);
        out.extend_from_slice(b",\"filename\":");
        json_writer::text(&image.filename, out);
        out.extend_from_slice(b",\"embeddedText\":");
        json_writer::boolean(image.embedded_text, out);
        out.push(b'}');
    }
    if !images.is_empty() {
        out.push(b']');
    }
}

fn member(name: &str, at: UnixSeconds, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    json_writer::number(at.0, out);
}

/// Bytes that [`with_stream`] adds at most, without the livestream id.
pub(super) const STREAM_MOST: usize = 96;

/// Appends a rendered broadcast with the members of a bulk lookup: the livestream and the window of
/// it that carries the broadcast. `livestream` is the id as JSON, including quotes.
pub(super) fn with_stream(
    prepared: &[u8],
    livestream: &[u8],
    (start, stop): (UnixSeconds, UnixSeconds),
    out: &mut Vec<u8>,
) {
    // The members are added before the closing brace.
    out.extend_from_slice(prepared.strip_suffix(b"}").unwrap_or(prepared));
    member("streamStart", start, out);
    member("streamStop", stop, out);
    out.extend_from_slice(b",\"streamId\":");
    out.extend_from_slice(livestream);
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::domain::schedule::model::Metadata;
    use crate::types::BroadcastId;

    fn parsed(broadcast_: &Broadcast, rights: &BroadcastRights) -> Value {
        let mut out = Vec::new();
        let RenderedBroadcast { id, title } = broadcast(broadcast_, rights, &mut out);
        // The recorded positions match the output.
        let rest = out.strip_prefix(BEFORE_ID).unwrap();
        assert_eq!(json_writer::read_text(&rest[..id]), broadcast_.id.as_str());
        let rest = rest[id..].strip_prefix(BEFORE_TITLE).unwrap();
        assert_eq!(
            json_writer::read_text(&rest[..title]),
            &*broadcast_.metadata.title
        );
        assert_eq!(rest[title], b'"');
        let mut long = Vec::new();
        let span = (UnixSeconds(5), UnixSeconds(25));
        with_stream(&out, b"\"tv \\\"1\\\"\"", span, &mut long);
        let long: Value = serde_json::from_slice(&long).unwrap();
        assert_eq!(long["streamId"], "tv \"1\"");
        assert_eq!(
            (&long["streamStart"], &long["streamStop"]),
            (&json!(5), &json!(25))
        );
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_broadcast_has_the_members_of_the_interface() {
        let image = |kind: &str, default| Image {
            kind: kind.into(),
            default,
            filename: "https://example.test/a?b=\"c\"".into(),
            embedded_text: !default,
        };
        let whole = Broadcast {
            id: BroadcastId::parse("b\"1").unwrap(),
            start: UnixSeconds(10),
            stop: UnixSeconds(20),
            metadata: Metadata {
                title: "A \"b\"\n\u{1}".into(),
                description: Some("D\\".into()),
                images: vec![image("three-four", true), image("square", false)],
                categories: vec!["News".into()],
                pg_age: Some(16),
                rating: Some("FSK:16".into()),
                subtitle: Some("S\"".into()),
                season: Some(2),
                episode: Some(5),
            },
        };
        let rights = BroadcastRights {
            live: true,
            catchup: Some((UnixSeconds(20), UnixSeconds(620))),
            start_over: false,
            pause: true,
            rewind: false,
            fast_forward: true,
        };
        assert_eq!(
            parsed(&whole, &rights),
            json!({
                "id": "b\"1", "title": "A \"b\"\n\u{1}", "description": "D\\",
                "subtitle": "S\"", "season": 2, "episode": 5, "start": 10, "stop": 20, "liveAvailable": true,
                "catchupInterval": {"from": 20, "to": 620},
                "extendedRights": {"pause": true, "rewind": false, "fastForward": true},
                "images": [
                    {"type": "three-four", "default": true,
                     "filename": "https://example.test/a?b=\"c\"", "embeddedText": false},
                    {"type": "square", "default": false,
                     "filename": "https://example.test/a?b=\"c\"", "embeddedText": true}
                ],
                "pgAge": 16
            })
        );
        let bare = Broadcast {
            metadata: Metadata {
                title: "T".into(),
                ..Metadata::default()
            },
            ..whole
        };
        assert_eq!(
            parsed(&bare, &BroadcastRights::default()),
            json!({
                "id": "b\"1", "title": "T", "start": 10, "stop": 20, "liveAvailable": false,
                "extendedRights": {"pause": false, "rewind": false, "fastForward": false}
            })
        );
    }
}
