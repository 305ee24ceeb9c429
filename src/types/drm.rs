//! DRM systems, streaming protocols and the supported combinations.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drm {
    Widevine,
    Fairplay,
    Playready,
    /// W3C EME Clear Key, for tests.
    Clearkey,
    None,
}

/// A streaming protocol, as `Service-Play-Protocol` names it. A trailing `s` requires https URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    Dash,
    Dashs,
    Hls,
    HlsAudio,
    Sstr,
    Sstrs,
}

impl Drm {
    pub const ALL: [Self; 5] = [
        Self::Widevine,
        Self::Fairplay,
        Self::Playready,
        Self::Clearkey,
        Self::None,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Widevine => "widevine",
            Self::Fairplay => "fairplay",
            Self::Playready => "playready",
            Self::Clearkey => "clearkey",
            Self::None => "none",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|drm| drm.as_str().eq_ignore_ascii_case(text))
    }

    pub const fn offered_with(self, protocol: Protocol) -> bool {
        // What players implement. Another pair would pass preflight and fail only when the license arrives.
        match (self, protocol) {
            (Self::None, _)
            | (
                Self::Widevine | Self::Playready | Self::Clearkey,
                Protocol::Dash | Protocol::Dashs,
            )
            | (Self::Playready, Protocol::Sstr | Protocol::Sstrs)
            | (Self::Fairplay, Protocol::Hls | Protocol::HlsAudio) => true,
            (Self::Widevine | Self::Playready | Self::Clearkey | Self::Fairplay, _) => false,
        }
    }
}

impl Protocol {
    pub const ALL: [Self; 6] = [
        Self::Dash,
        Self::Dashs,
        Self::Hls,
        Self::HlsAudio,
        Self::Sstr,
        Self::Sstrs,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dash => "dash",
            Self::Dashs => "dashs",
            Self::Hls => "hls",
            Self::HlsAudio => "hls-audio",
            Self::Sstr => "sstr",
            Self::Sstrs => "sstrs",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.as_str().eq_ignore_ascii_case(text))
    }

    pub const fn wants_https(self) -> bool {
        matches!(self, Self::Dashs | Self::Sstrs)
    }

    /// The protocol without the https requirement, as the catalogue lists it.
    pub const fn family(self) -> Self {
        match self {
            Self::Dashs => Self::Dash,
            Self::Sstrs => Self::Sstr,
            Self::Dash | Self::Hls | Self::HlsAudio | Self::Sstr => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_supported_combinations_are_fixed() {
        let offered = |drm: Drm| -> Vec<&str> {
            Protocol::ALL
                .iter()
                .filter(|p| drm.offered_with(**p))
                .map(|p| p.as_str())
                .collect()
        };
        assert_eq!(offered(Drm::Widevine), ["dash", "dashs"]);
        assert_eq!(offered(Drm::Fairplay), ["hls", "hls-audio"]);
        assert_eq!(offered(Drm::Playready), ["dash", "dashs", "sstr", "sstrs"]);
        assert_eq!(offered(Drm::Clearkey), ["dash", "dashs"]);
        assert_eq!(offered(Drm::None).len(), 6);
        assert_eq!(Drm::parse("WideVine"), Some(Drm::Widevine));
        assert_eq!(Protocol::parse("HLS-Audio"), Some(Protocol::HlsAudio));
        assert_eq!(Protocol::parse("rtsp"), None);
    }
}
