//! The livestreams as an extended M3U playlist, as Kodi, Jellyfin and the like read it.

use std::fmt::Write as _;
use std::sync::Arc;

use crate::domain::catalog::{Livestream, Location};
use crate::types::Protocol;

/// The playlist.
///
/// Decision: livestreams with a plain address of an HLS or DASH manifest. One at the built-in origin,
/// or at an address with placeholders, is reached through preflight alone.
#[must_use]
pub fn list<'a>(livestreams: impl Iterator<Item = &'a Arc<Livestream>>) -> String {
    let mut out = String::from("#EXTM3U\n");
    for livestream in livestreams {
        let Some(address) = address(livestream) else {
            continue;
        };
        let (id, name) = (livestream.id.as_str(), &livestream.name);
        let logo = livestream.images.iter().find(|image| image.default);
        let logo = logo.or(livestream.images.first());
        // Writing to a String does not fail.
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

fn address(livestream: &Livestream) -> Option<&str> {
    [Protocol::Hls, Protocol::Dash]
        .into_iter()
        .find_map(|protocol| match livestream.playlist.location(protocol)? {
            Location::Address(address) if !address.contains('{') => Some(address),
            Location::Address(_) | Location::Origin(_) => None,
        })
}

/// An attribute's value: the form has no escape for a quote.
fn quoted(text: &str) -> String {
    one_line(text).replace('"', "'")
}

fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::schedule::Image;
    use crate::types::LivestreamId;

    #[test]
    fn livestreams_with_a_plain_address_are_listed() {
        let livestream = |id: &str, name: &str, addresses: &[(Protocol, &str)]| {
            let id = LivestreamId::parse(id).unwrap();
            let mut livestream = Livestream::new(id, name.to_owned());
            for (protocol, address) in addresses {
                livestream
                    .playlist
                    .0
                    .insert(*protocol, (*address).to_owned());
            }
            livestream
        };
        let mut first = livestream(
            "a\"1",
            "One,\n\"two\"",
            &[
                (Protocol::Dash, "https://cdn.example/a.mpd"),
                (Protocol::Hls, "https://cdn.example/a.m3u8"),
            ],
        );
        first.images.push(Image {
            kind: "square".into(),
            default: true,
            filename: "https://cdn.example/a.png".into(),
            embedded_text: false,
        });
        let dash = livestream("b", "B", &[(Protocol::Dash, "http://cdn.example/b.mpd")]);
        let origin = livestream("c", "C", &[(Protocol::Dash, "origin:c/c.mpd")]);
        let template = livestream("d", "D", &[(Protocol::Hls, "https://x.example/{session}")]);
        let none = livestream("e", "E", &[]);
        let all = [first, dash, origin, template, none].map(Arc::new);
        assert_eq!(
            list(all.iter()),
            "#EXTM3U\n\
             #EXTINF:-1 tvg-id=\"a'1\" tvg-name=\"One, 'two'\" \
             tvg-logo=\"https://cdn.example/a.png\",One, \"two\"\nhttps://cdn.example/a.m3u8\n\
             #EXTINF:-1 tvg-id=\"b\" tvg-name=\"B\",B\nhttp://cdn.example/b.mpd\n"
        );
    }
}
