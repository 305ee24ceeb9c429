//! Writes livestreams as an extended M3U playlist, as Kodi, Jellyfin and similar players read it.

use std::fmt::Write as _;

use crate::domain::catalog::Livestream;

/// Writes a playlist of livestreams with their addresses. `guide` is the address of the XMLTV file;
/// its channel ids are the `tvg-id`s of the entries.
#[must_use]
pub(crate) fn list<'a>(
    guide: &str,
    entries: impl Iterator<Item = (&'a Livestream, String)>,
) -> String {
    // Players read one of these two attributes.
    let mut out = format!("#EXTM3U url-tvg=\"{guide}\" x-tvg-url=\"{guide}\"\n");
    for (livestream, address) in entries {
        let (id, name) = (livestream.id.as_str(), &livestream.name);
        let logo = livestream.images.iter().find(|image| image.default);
        let logo = logo.or(livestream.images.first());
        // Writing to a `String` cannot fail.
        let _ = write!(
            out,
            "#EXTINF:-1 tvg-id=\"{}\" tvg-name=\"{}\"",
            quoted(id),
            quoted(name)
        );
        if let Some(logo) = logo {
            let _ = write!(out, " tvg-logo=\"{}\"", quoted(&logo.filename));
        }
        let _ = writeln!(out, ",{}\n{address}", one_line(name));
    }
    out
}

fn quoted(text: &str) -> String {
    // M3U has no escape for a quote, and players end the value at the first one.
    one_line(text).replace('"', "'")
}

fn one_line(text: &str) -> String {
    // A line end in a name would begin a new entry of the list.
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::Image;
    use crate::types::LivestreamId;

    #[test]
    fn entry_has_two_lines_for_any_name() {
        let livestream = |id: &str, name: &str| {
            Livestream::new(LivestreamId::parse(id).unwrap(), name.to_owned())
        };
        let mut first = livestream("a\"1", "One,\n\"two\"");
        first.images.push(Image {
            kind: "square".into(),
            default: true,
            filename: "https://cdn.example/a.png".into(),
            embedded_text: false,
        });
        let second = livestream("b", "B");
        let entries = [
            (&first, "http://x/a".to_owned()),
            (&second, "http://x/b".to_owned()),
        ];
        assert_eq!(
            list("http://x/xmltv?k=1", entries.into_iter()),
            "#EXTM3U url-tvg=\"http://x/xmltv?k=1\" x-tvg-url=\"http://x/xmltv?k=1\"\n\
             #EXTINF:-1 tvg-id=\"a'1\" tvg-name=\"One, 'two'\" \
             tvg-logo=\"https://cdn.example/a.png\",One, \"two\"\nhttp://x/a\n\
             #EXTINF:-1 tvg-id=\"b\" tvg-name=\"B\",B\nhttp://x/b\n"
        );
    }
}
