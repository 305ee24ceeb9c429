//! Livestreams and assets of the catalogue that no player can play: they are granted, and then do not
//! start.

use serde_json::Value;

use super::admin::{Admin, path, with_query};
use super::exit::Failure;
use super::output;
use crate::app;
use crate::config::Config;
use crate::domain::playback::Playability;
use crate::domain::playback::context::Playlists;
use crate::types::{Drm, Protocol};

/// Ids that are named; more are counted.
const SHOWN: usize = 5;

/// What cannot be played and why, with what to do about it.
///
/// # Errors
/// That the service does not tell its catalogue.
pub async fn unplayable(
    admin: &mut Admin,
    config: &Config,
) -> Result<Vec<(String, &'static str)>, Failure> {
    let target = with_query(path(&["catalog"]), &[("format", Some("json"))]);
    let catalogue = admin.get(&target).await?;
    let mut systems = app::license_systems(config);
    systems.extend(config.playback.clearkey.then_some(Drm::Clearkey));
    Ok(unplayable_assets(&catalogue, &systems))
}

fn unplayable_assets(catalogue: &Value, systems: &[Drm]) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for (member, name) in [("livestream", "livestreams"), ("asset", "assets")] {
        let items = catalogue[member].as_array().into_iter().flatten();
        let (mut silent, mut locked) = (Vec::new(), Vec::new());
        for item in items {
            let playability = playability(item, systems);
            let id = || item["id"].as_str().unwrap_or("?").to_owned();
            if playability.lacks_playlist() {
                silent.push(id());
            } else if !playability.can_play() {
                locked.push(id());
            }
        }
        for (ids, why, mend) in [
            (
                silent,
                "have no playlist, so they are granted and cannot play",
                "name `playlist` addresses in the catalogue (`playgate catalog import`), or take them out of it",
            ),
            (
                locked,
                "are encrypted, and no license server is configured for a system that could play them",
                "set `license.widevine.url`, `license.playready.url` or `license.fairplay.url`",
            ),
        ] {
            if !ids.is_empty() {
                let (count, first) = (ids.len(), output::first(&ids, SHOWN));
                found.push((format!("{count} {name} {why}: {first}"), mend));
            }
        }
    }
    found
}

fn playability(item: &Value, systems: &[Drm]) -> Playability {
    let playlists = item["playlist"].as_object().into_iter().flatten();
    let playlists = Playlists {
        // What the catalogue leaves out is encrypted.
        encrypted: item["encrypted"].as_bool().unwrap_or(true),
        protocols: playlists
            .filter_map(|(name, _)| Protocol::parse(name))
            .collect(),
    };
    Playability::new(&playlists, |drm| systems.contains(&drm))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_cannot_be_played_is_counted_and_named() {
        let catalogue = json!({
            "livestream": [
                {"id": "a"}, {"id": "b", "playlist": {}},
                {"id": "c", "playlist": {"dash": "loop:c.mpd"}},
                {"id": "d", "playlist": {"hls": "origin:d.m3u8"}, "encrypted": false},
            ],
            "asset": [{"id": "film", "playlist": {"hls": "origin:f.m3u8"}}],
        });
        let said = |systems: &[Drm]| -> Vec<String> {
            let found = unplayable_assets(&catalogue, systems).into_iter();
            found.map(|(said, _)| said).collect()
        };
        let bare = "2 livestreams have no playlist, so they are granted and cannot play: a, b";
        let locked = |what: &str| {
            format!(
                "1 {what} are encrypted, and no license server is configured for a system that could play them"
            )
        };
        assert_eq!(
            said(&[]),
            [
                bare.to_owned(),
                format!("{}: c", locked("livestreams")),
                format!("{}: film", locked("assets")),
            ]
        );
        assert_eq!(
            said(&[Drm::Clearkey]),
            [bare.to_owned(), format!("{}: film", locked("assets"))]
        );
        assert_eq!(said(&[Drm::Widevine, Drm::Fairplay]), [bare]);
    }
}
