//! Checks whether an asset can be played at all, independent of any user: by which protocols and DRM systems.
//! Operators see it before a viewer is granted an asset that cannot start.

use playgate_types::{AssetId, Drm, Protocol};

use super::Playback;
use super::context::AssetDelivery;

const SYSTEMS: [Drm; 4] = [Drm::Widevine, Drm::Playready, Drm::Fairplay, Drm::Clearkey];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playability {
    /// Protocols with a playlist, and the DRM systems that can play it.
    protocols: Vec<(Protocol, Vec<Drm>)>,
}

impl Playability {
    /// `has_licenses` returns whether licenses of a DRM system can be issued.
    pub fn new(playlists: &AssetDelivery, has_licenses: impl Fn(Drm) -> bool) -> Self {
        let systems = |protocol: Protocol| -> Vec<Drm> {
            if !playlists.encrypted {
                return vec![Drm::None];
            }
            let offered = |drm: &Drm| drm.offered_with(protocol) && has_licenses(*drm);
            SYSTEMS.into_iter().filter(offered).collect()
        };
        let protocols = playlists.protocols.iter();
        Self {
            protocols: protocols.map(|one| (*one, systems(*one))).collect(),
        }
    }

    pub fn can_play(&self) -> bool {
        self.protocols
            .iter()
            .any(|(_, systems)| !systems.is_empty())
    }

    pub fn lacks_playlist(&self) -> bool {
        self.protocols.is_empty()
    }

    /// For operators: the ways to play the asset, or what is missing.
    pub fn describe(&self) -> String {
        if self.lacks_playlist() {
            return "no playlist: the catalogue names none for dash, hls or sstr".to_owned();
        }
        let described = self.protocols.iter().map(|(protocol, systems)| {
            let name = protocol.as_str();
            match systems.as_slice() {
                [] => format!(
                    "{name}: no license server for {}",
                    required_systems(*protocol)
                ),
                [Drm::None] => format!("{name}: not encrypted"),
                some => format!("{name}: {}", names(some)),
            }
        });
        described.collect::<Vec<_>>().join("; ")
    }
}

/// One of them is enough.
fn required_systems(protocol: Protocol) -> String {
    let offered: Vec<Drm> = SYSTEMS
        .into_iter()
        // ClearKey is for tests and no license server offers it.
        .filter(|drm| *drm != Drm::Clearkey && drm.offered_with(protocol))
        .collect();
    names(&offered)
}

fn names(systems: &[Drm]) -> String {
    let names: Vec<_> = systems.iter().map(|drm| drm.as_str()).collect();
    names.join(", ")
}

impl Playback {
    /// `None` if the asset does not exist.
    pub fn playability(&self, asset: &AssetId) -> Option<Playability> {
        let playlists = self.context.playlists(asset)?;
        Some(Playability::new(&playlists, |drm| {
            self.settings.has_licenses(drm)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn playability(encrypted: bool, protocols: &[Protocol], servers: &[Drm]) -> Playability {
        let playlists = AssetDelivery {
            encrypted,
            protocols: protocols.to_vec(),
        };
        Playability::new(&playlists, |drm| servers.contains(&drm))
    }

    #[test]
    fn an_asset_needs_a_playlist_and_a_license_server() {
        use Protocol::{Dash, Hls};
        for (encrypted, protocols, servers, can_play, described) in [
            (
                false,
                &[][..],
                &[Drm::Widevine][..],
                false,
                "no playlist: the catalogue names none for dash, hls or sstr",
            ),
            (false, &[Dash], &[], true, "dash: not encrypted"),
            (
                true,
                &[Dash, Hls],
                &[],
                false,
                "dash: no license server for widevine, playready; hls: no license server for fairplay",
            ),
            (
                true,
                &[Dash, Hls],
                &[Drm::Widevine, Drm::Clearkey],
                true,
                "dash: widevine, clearkey; hls: no license server for fairplay",
            ),
        ] {
            let found = playability(encrypted, protocols, servers);
            assert_eq!(found.can_play(), can_play, "{described}");
            assert_eq!(found.describe(), described);
        }
    }
}
