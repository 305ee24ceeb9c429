//! Writes livestreams as an extended M3U playlist, as Kodi, Jellyfin and similar players read it.

use std::fmt::Write as _;

use playgate_domain::catalog::Livestream;

pub struct M3uEntry<'a> {
    pub livestream: &'a Livestream,
    pub address: String,
    /// The address of a past program, with `{utc}` where its start belongs.
    pub catchup: Option<String>,
}

/// Writes a playlist of livestreams with their addresses. `guide` is the address of the XMLTV file;
/// its channel ids are the `tvg-id`s of the entries.
pub fn list<'a>(guide: &str, entries: impl Iterator<Item = M3uEntry<'a>>) -> String {
    // Players read one of these two attributes.
    let mut out = format!("#EXTM3U url-tvg=\"{guide}\" x-tvg-url=\"{guide}\"\n");
    for M3uEntry {
        livestream,
        address,
        catchup,
    } in entries
    {
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
        if let Some(number) = livestream.number {
            let _ = write!(out, " tvg-chno=\"{number}\"");
        }
        if let Some(group) = &livestream.group {
            let _ = write!(out, " group-title=\"{}\"", quoted(group));
        }
        if let Some(source) = catchup {
            let days = livestream.catchup_days;
            let _ = write!(
                out,
                " catchup=\"default\" catchup-days=\"{days}\" catchup-source=\"{source}\""
            );
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
    use playgate_domain::schedule::Image;
    use playgate_types::LivestreamId;

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
        let mut second = livestream("b", "B");
        second.catchup_days = 7;
        second.number = Some(12);
        second.group = Some("News \"now\"".to_owned());
        let entries = [
            M3uEntry {
                livestream: &first,
                address: "http://x/a".to_owned(),
                catchup: None,
            },
            M3uEntry {
                livestream: &second,
                address: "http://x/b".to_owned(),
                catchup: Some("http://x/b?utc={utc}".to_owned()),
            },
        ];
        assert_eq!(
            list("http://x/xmltv?k=1", entries.into_iter()),
            "#EXTM3U url-tvg=\"http://x/xmltv?k=1\" x-tvg-url=\"http://x/xmltv?k=1\"\n\
             #EXTINF:-1 tvg-id=\"a'1\" tvg-name=\"One, 'two'\" \
             tvg-logo=\"https://cdn.example/a.png\",One, \"two\"\nhttp://x/a\n\
             #EXTINF:-1 tvg-id=\"b\" tvg-name=\"B\" tvg-chno=\"12\" group-title=\"News 'now'\" \
             catchup=\"default\" catchup-days=\"7\" catchup-source=\"http://x/b?utc={utc}\",B\nhttp://x/b\n"
        );
    }
}
