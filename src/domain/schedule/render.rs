//! Renders a broadcast as JSON of the interface, once per import. Optional members are absent, never null.

use super::details::{Credit, Details, TypedImage};
use super::json_writer;
use super::model::{Broadcast, Image};
use super::rights::BroadcastRights;
use playgate_types::UnixSeconds;

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
    let typed = metadata.details.as_ref().map(|d| d.images.as_slice());
    images(&metadata.images, typed.unwrap_or_default(), out);
    if let Some(age) = broadcast.metadata.pg_age {
        out.extend_from_slice(b",\"pgAge\":");
        json_writer::number(age.into(), out);
    }
    let categories = metadata.categories.iter();
    list("categories", categories, out, |category, out| {
        json_writer::text(category, out);
    });
    if let Some(known) = &metadata.details {
        details(known, out);
    }
    out.push(b'}');
    RenderedBroadcast { id, title }
}

/// Writes a list as a member; an empty one is absent.
fn list<T>(
    name: &str,
    items: impl Iterator<Item = T>,
    out: &mut Vec<u8>,
    write: impl Fn(T, &mut Vec<u8>),
) {
    let mut is_empty = true;
    for item in items {
        if is_empty {
            begin(name, out);
            out.push(b'[');
        } else {
            out.push(b',');
        }
        is_empty = false;
        write(item, out);
    }
    if !is_empty {
        out.push(b']');
    }
}

/// An image of the guide, and what is known of it as an image of a purpose.
type AnyImage<'a> = (Option<&'a Image>, Option<&'a TypedImage>);

/// Writes the plain images and then those with a purpose. One that is both is written once.
fn images(plain: &[Image], typed: &[TypedImage], out: &mut Vec<u8>) {
    let typed_as = |image: &Image| typed.iter().find(|other| other.filename == image.filename);
    let is_plain = |image: &TypedImage| plain.iter().any(|o| o.filename == image.filename);
    let both = plain.iter().map(|image| (Some(image), typed_as(image)));
    let rest = typed.iter().filter(|image| !is_plain(image));
    let all = both.chain(rest.map(|image| (None, Some(image))));
    // The first image is the default where no plain one is.
    let is_default =
        |at: usize, image: Option<&Image>| image.map_or(at == 0, |image| image.default);
    let all = all
        .enumerate()
        .map(|(at, any)| (is_default(at, any.0), any));
    list("images", all, out, |(is_default, any), out| {
        image(is_default, any, out);
    });
}

fn image(is_default: bool, (plain, typed): AnyImage<'_>, out: &mut Vec<u8>) {
    let kind = plain.map(|image| &*image.kind);
    let filename = plain.map(|image| &*image.filename);
    out.extend_from_slice(b"{\"type\":");
    json_writer::text(
        kind.or(typed.map(TypedImage::kind)).unwrap_or_default(),
        out,
    );
    out.extend_from_slice(b",\"default\":");
    json_writer::boolean(is_default, out);
    out.extend_from_slice(b",\"filename\":");
    let filename = filename.or(typed.map(|image| &*image.filename));
    json_writer::text(filename.unwrap_or_default(), out);
    out.extend_from_slice(b",\"embeddedText\":");
    json_writer::boolean(plain.is_some_and(|image| image.embedded_text), out);
    if let Some(purpose) = typed.and_then(|image| image.purpose) {
        text_member("purpose", purpose.as_str(), out);
    }
    if let Some(size) = typed.and_then(|image| image.size) {
        begin("size", out);
        json_writer::number(size.into(), out);
    }
    out.push(b'}');
}

fn details(details: &Details, out: &mut Vec<u8>) {
    if let Some(date) = &details.date {
        text_member("date", date, out);
    }
    for (name, flag) in [
        ("new", details.is_new),
        ("live", details.is_live),
        ("premiere", details.is_premiere),
    ] {
        // Absent where the guide says nothing: that a programme is not new is more than it says.
        if flag {
            begin(name, out);
            json_writer::boolean(true, out);
        }
    }
    if let Some(previous) = &details.previously_shown {
        begin("previouslyShown", out);
        let (start, channel) = (previous.start.as_deref(), previous.channel.as_deref());
        object(&[("start", start), ("channel", channel)], out);
        out.push(b'}');
    }
    list("credits", details.credits.iter(), out, credit);
}

fn credit(credit: &Credit, out: &mut Vec<u8>) {
    let (kind, name) = (Some(credit.kind.as_str()), Some(&*credit.name));
    let role = credit.role.as_deref();
    object(&[("kind", kind), ("name", name), ("role", role)], out);
    if credit.guest {
        begin("guest", out);
        json_writer::boolean(true, out);
    }
    out.push(b'}');
}

/// Writes an object of texts without its closing brace.
fn object(members: &[(&str, Option<&str>)], out: &mut Vec<u8>) {
    let before = out.len();
    for (name, value) in members {
        if let Some(value) = value {
            text_member(name, value, out);
        }
    }
    // The first member has a comma, which the brace replaces.
    match out.get_mut(before) {
        Some(comma) => *comma = b'{',
        None => out.push(b'{'),
    }
}

fn text_member(name: &str, text: &str, out: &mut Vec<u8>) {
    begin(name, out);
    json_writer::text(text, out);
}

/// Writes the name of a member that is not the first.
fn begin(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn member(name: &str, at: UnixSeconds, out: &mut Vec<u8>) {
    begin(name, out);
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
    use crate::schedule::details::{CreditKind, ImagePurpose, PreviousShowing};
    use crate::schedule::model::Metadata;
    use playgate_types::BroadcastId;

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
                details: None,
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
                "pgAge": 16, "categories": ["News"]
            })
        );
        let title_only = Broadcast {
            metadata: Metadata {
                title: "T".into(),
                ..Metadata::default()
            },
            ..whole
        };
        assert_eq!(
            parsed(&title_only, &BroadcastRights::default()),
            json!({
                "id": "b\"1", "title": "T", "start": 10, "stop": 20, "liveAvailable": false,
                "extendedRights": {"pause": false, "rewind": false, "fastForward": false}
            })
        );
    }

    /// The members of a broadcast that others do not have.
    fn own_members(images: Vec<Image>, details: Details) -> Value {
        let metadata = Metadata {
            title: "T".into(),
            images,
            details: details.boxed(),
            ..Metadata::default()
        };
        let given = Broadcast {
            id: BroadcastId::parse("b").unwrap(),
            start: UnixSeconds(10),
            stop: UnixSeconds(20),
            metadata,
        };
        let mut value = parsed(&given, &BroadcastRights::default());
        let members = value.as_object_mut().unwrap();
        for name in [
            "id",
            "title",
            "start",
            "stop",
            "liveAvailable",
            "extendedRights",
        ] {
            members.remove(name).unwrap();
        }
        value
    }

    #[test]
    fn details_are_members_of_their_own() {
        let typed = |filename: &str, purpose, size| TypedImage {
            filename: filename.into(),
            purpose,
            size,
            is_upright: None,
        };
        let whole = Details {
            date: Some("2026-11".into()),
            is_new: true,
            is_live: true,
            is_premiere: true,
            previously_shown: Some(PreviousShowing {
                start: None,
                channel: Some("one".into()),
            }),
            credits: vec![
                Credit {
                    kind: CreditKind::Actor,
                    name: "A \"B\"".into(),
                    role: Some("C".into()),
                    guest: true,
                },
                Credit {
                    kind: CreditKind::Director,
                    name: "D".into(),
                    role: None,
                    guest: false,
                },
            ],
            images: vec![
                typed("p", Some(ImagePurpose::Poster), Some(2)),
                typed("b", Some(ImagePurpose::Backdrop), None),
            ],
        };
        let icon = Image {
            kind: "square".into(),
            default: false,
            filename: "b".into(),
            embedded_text: false,
        };
        assert_eq!(
            own_members(vec![icon], whole),
            json!({
                "images": [
                    {"type": "square", "default": false, "filename": "b", "embeddedText": false, "purpose": "backdrop"},
                    {"type": "three-four", "default": false, "filename": "p", "embeddedText": false,
                     "purpose": "poster", "size": 2}
                ],
                "date": "2026-11", "new": true, "live": true, "premiere": true,
                "previouslyShown": {"channel": "one"},
                "credits": [
                    {"kind": "actor", "name": "A \"B\"", "role": "C", "guest": true},
                    {"kind": "director", "name": "D"}
                ]
            })
        );
        let images_only = Details {
            previously_shown: Some(PreviousShowing::default()),
            images: vec![typed("s", None, None)],
            ..Details::default()
        };
        assert_eq!(
            own_members(Vec::new(), images_only),
            json!({
                "images": [{"type": "sixteen-nine", "default": true, "filename": "s", "embeddedText": false}],
                "previouslyShown": {}
            })
        );
    }
}
