//! Builds playlist URLs: those of the built-in origin, and those of other servers from templates. A template
//! is filled in before it is signed.

use std::fmt::Write as _;

use crate::catalog::Location;
use crate::lab::PlaylistFault;
use playgate_media::loop_channel::{self, ManifestRange};
use playgate_types::{AssetId, MediaPath, Protocol, SessionId, UnixSeconds};

use super::Playback;
use super::error::PlaybackError;
use super::model::PlayedAsset;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Playlist {
    /// The part after `{base_url}`, percent-encoded.
    Origin(String),
    Absolute(String),
}

pub(super) struct UrlValues<'a> {
    pub(super) asset: &'a AssetId,
    pub(super) session: &'a SessionId,
    pub(super) playing: &'a PlayedAsset,
    pub(super) expires: UnixSeconds,
    pub(super) now: UnixSeconds,
}

pub const ORIGIN_PATH: &str = "/origin/v1/";

impl Playback {
    /// A protocol with a trailing `s` accepts https URLs only.
    pub(super) fn playlist(
        &self,
        address: Option<&str>,
        protocol: Protocol,
        https: bool,
        values: &UrlValues<'_>,
    ) -> Result<Playlist, PlaybackError> {
        let ours = |path: MediaPath| {
            let expires = self.expiry.wall_to_token(values.expires, values.now);
            let began = self.expiry.at(values.now);
            let origin = &self.signing.origin;
            let token = origin.sign_for(&path, expires, values.session, began);
            let address = origin_target(&token, path.as_str());
            (Playlist::Origin(address), https)
        };
        // Validation of the catalogue rejects locations that cannot be parsed.
        let location = address.and_then(|address| Location::parse(address).ok());
        let found = location.and_then(|location| match location {
            Location::Origin(path) => MediaPath::parse(path).map(ours),
            Location::Loop(path) => {
                let span = span(values.playing, protocol, values.now)?;
                loop_channel::manifest(path, span).map(ours)
            }
            Location::Address(template) => {
                // Filled in before it is signed: the signature must cover the final path.
                let filled = fill(template, values);
                let signed = self.signing.signed(filled, values.now, values.expires)?;
                Some((Playlist::Absolute(signed), template.starts_with("https://")))
            }
        });
        let (playlist, secure) = found.ok_or(PlaybackError::ProtocolNotAvailable)?;
        // A page served over https must not load a stream over http.
        if protocol.wants_https() && !secure {
            return Err(PlaybackError::ProtocolNotAvailable);
        }
        Ok(playlist)
    }

    /// Without `{base_url}`. Valid until the wall clock shows `expires`.
    pub fn origin_address(
        &self,
        path: &MediaPath,
        expires: UnixSeconds,
        now: UnixSeconds,
    ) -> String {
        let token = self
            .signing
            .origin
            .sign(path, self.expiry.wall_to_token(expires, now));
        origin_target(&token, path.as_str())
    }

    /// The address of the origin with a fault of the lab. `None` if its token is not valid now.
    pub fn faulty_address(
        &self,
        token: &str,
        path: &MediaPath,
        fault: PlaylistFault,
        now: UnixSeconds,
    ) -> Option<String> {
        Some(match fault {
            PlaylistFault::Expired => self.origin_address(path, now - 1, now),
            PlaylistFault::Missing => {
                let (directory, file) = path
                    .as_str()
                    .rsplit_once('/')
                    .unwrap_or(("", path.as_str()));
                origin_target(token, &format!("{directory}/missing-{file}"))
            }
            // Signed again for a valid token only: a lab must not extend the access.
            PlaylistFault::Stale => {
                let at = self.expiry.at(now);
                let token = self.signing.origin.sign_stale(token, path, at, now)?;
                origin_target(&token, path.as_str())
            }
        })
    }
}

fn origin_target(token: &str, path: &str) -> String {
    let mut target = format!("{ORIGIN_PATH}{token}/");
    encode_into(&mut target, path.trim_start_matches('/'), true);
    target
}

/// A live HLS playlist reaches back an hour. An earlier start gets a playlist that begins there and grows, which keeps it
/// short where nobody looks further back.
const HLS_BACK_SECONDS: i64 = 3_600;
/// As far as DASH reaches.
const GROWTH_SECONDS: i64 = 25 * 3_600;

fn span(playing: &PlayedAsset, protocol: Protocol, now: UnixSeconds) -> Option<ManifestRange> {
    match playing {
        PlayedAsset::Live { offset, .. }
            if protocol == Protocol::Hls && i64::from(-*offset) > HLS_BACK_SECONDS =>
        {
            let start = now + i64::from(*offset);
            Some(ManifestRange::Window {
                start,
                stop: start + GROWTH_SECONDS,
            })
        }
        PlayedAsset::Live { .. } => Some(ManifestRange::Live),
        PlayedAsset::Catchup(played) => Some(ManifestRange::Window {
            start: played.start,
            stop: played.stop,
        }),
        PlayedAsset::Vod => None,
    }
}

/// Fills in `{asset}`, `{session}`, `{expires}`, and for catch-up `{start}` and `{stop}`.
fn fill(template: &str, values: &UrlValues<'_>) -> String {
    let mut filled = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, after)) = tail.split_once('}') else {
            filled.push('{');
            rest = tail;
            continue;
        };
        // Unknown placeholders are kept for servers further down the line.
        if !substitute(&mut filled, name, values) {
            filled.push('{');
            rest = tail;
            continue;
        }
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn substitute(filled: &mut String, name: &str, values: &UrlValues<'_>) -> bool {
    let window = match values.playing {
        PlayedAsset::Catchup(played) => Some((&played.start, &played.stop)),
        PlayedAsset::Live { .. } | PlayedAsset::Vod => None,
    };
    // Writing to a string cannot fail.
    let _ = match (name, window) {
        ("asset", _) => {
            encode_into(filled, values.asset.as_str(), false);
            Ok(())
        }
        ("session", _) => write!(filled, "{}", values.session),
        ("expires", _) => write!(filled, "{}", values.expires),
        ("start", Some((start, _))) => write!(filled, "{start}"),
        ("stop", Some((_, stop))) => write!(filled, "{stop}"),
        // Outside of catch-up the window is empty, so that one template serves both.
        ("start" | "stop", None) => Ok(()),
        _ => return false,
    };
    true
}

/// All bytes but the unreserved characters of RFC 3986, and `/` if `slashes` is set.
fn encode_into(out: &mut String, text: &str, slashes: bool) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if slashes => out.push('/'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::playback::model::PlayedBroadcast;
    use playgate_types::{BroadcastId, LivestreamId};

    #[test]
    fn templates_are_filled_in() {
        let asset = AssetId::parse("a b&c").unwrap();
        let session = SessionId::from_bytes([0; 16]);
        let catchup = PlayedAsset::Catchup(Box::new(PlayedBroadcast {
            livestream: LivestreamId::parse("news").unwrap(),
            broadcast: BroadcastId::parse("b").unwrap(),
            start: UnixSeconds(10),
            stop: UnixSeconds(20),
        }));
        let filled = |template: &str, playing: &PlayedAsset| {
            fill(
                template,
                &UrlValues {
                    asset: &asset,
                    session: &session,
                    playing,
                    expires: UnixSeconds(99),
                    now: UnixSeconds(9),
                },
            )
        };
        for (template, expected) in [
            ("https://c/x.mpd", "https://c/x.mpd"),
            ("https://c/{asset}.mpd", "https://c/a%20b%26c.mpd"),
            ("{expires}-{start}-{stop}", "99-10-20"),
            ("{session}", "AAAAAAAAAAAAAAAAAAAAAA"),
            ("{other}{{asset}", "{other}{a%20b%26c"),
            ("open {", "open {"),
        ] {
            assert_eq!(filled(template, &catchup), expected);
        }
        assert_eq!(filled("[{start}]", &PlayedAsset::Vod), "[]");
    }
}
