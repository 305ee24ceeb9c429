//! Finds livestreams and assets that are granted but that no player can play.

use serde_json::Value;

use crate::client::Admin;
use crate::output::members::elements;
use crate::output::{self, Failure};
use playgate_config::Config;
use playgate_domain::playback::Playability;
use playgate_domain::playback::context::AssetDelivery;
use playgate_types::{Drm, Protocol};

/// Maximum number of ids listed; the rest is counted.
const IDS_SHOWN: usize = 5;

pub(crate) async fn unplayable(
    admin: &mut Admin,
    config: &Config,
) -> Result<Vec<(String, &'static str)>, Failure> {
    let catalogue = admin.catalog().await?;
    let mut systems = playgate_app::license_systems(config);
    systems.extend(config.playback.clearkey.then_some(Drm::Clearkey));
    Ok(unplayable_assets(&catalogue, &systems))
}

fn unplayable_assets(catalogue: &Value, systems: &[Drm]) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for (member, name) in [("livestream", "livestreams"), ("asset", "assets")] {
        let (mut silent, mut locked) = (Vec::new(), Vec::new());
        for item in elements(catalogue, member) {
            let playability = playability(item, systems);
            let id = || item["id"].as_str().unwrap_or("?").to_owned();
            if playability.lacks_playlist() {
                silent.push(id());
            } else if !playability.can_play() {
                locked.push(id());
            }
        }
        for (ids, why, fix) in [
            (
                silent,
                "have no playlist, so they cannot be played",
                "add `playlist` addresses in the catalogue (`playgate catalog import`), or remove the items",
            ),
            (
                locked,
                "are encrypted, but no license server is configured for their DRM systems",
                "set `license.widevine.url`, `license.playready.url` or `license.fairplay.url`",
            ),
        ] {
            if !ids.is_empty() {
                let (count, first) = (ids.len(), output::first(&ids, IDS_SHOWN));
                found.push((format!("{count} {name} {why}: {first}"), fix));
            }
        }
    }
    found
}

fn playability(item: &Value, systems: &[Drm]) -> Playability {
    let playlists = item["playlist"].as_object().into_iter().flatten();
    let playlists = AssetDelivery {
        // Encrypted unless the catalogue says otherwise.
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
    fn unplayable_items_are_counted_and_listed() {
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
        let no_playlist = "2 livestreams have no playlist, so they cannot be played: a, b";
        let locked = |what: &str| {
            format!(
                "1 {what} are encrypted, but no license server is configured for their DRM systems"
            )
        };
        assert_eq!(
            said(&[]),
            [
                no_playlist.to_owned(),
                format!("{}: c", locked("livestreams")),
                format!("{}: film", locked("assets")),
            ]
        );
        assert_eq!(
            said(&[Drm::Clearkey]),
            [
                no_playlist.to_owned(),
                format!("{}: film", locked("assets"))
            ]
        );
        assert_eq!(said(&[Drm::Widevine, Drm::Fairplay]), [no_playlist]);
    }
}
