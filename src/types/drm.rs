//! DRM systems, streaming protocols and the pairs of them that are offered.

use serde::{Deserialize, Serialize};

/// A DRM system as `Service-Play-DRM` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drm {
    /// Widevine Modular.
    Widevine,
    /// FairPlay Streaming.
    Fairplay,
    /// PlayReady.
    Playready,
    /// W3C EME Clear Key, for labs.
    Clearkey,
    /// No protection: for assets that the catalogue marks as not encrypted.
    None,
}

/// A streaming protocol as `Service-Play-Protocol` names it; a trailing `s` asks for https addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// MPEG-DASH.
    Dash,
    /// MPEG-DASH with https addresses.
    Dashs,
    /// HTTP Live Streaming.
    Hls,
    /// HTTP Live Streaming, sound only.
    HlsAudio,
    /// Microsoft Smooth Streaming.
    Sstr,
    /// Microsoft Smooth Streaming with https addresses.
    Sstrs,
}

impl Drm {
    /// Every system, in the order of the documentation.
    pub const ALL: [Self; 5] = [
        Self::Widevine,
        Self::Fairplay,
        Self::Playready,
        Self::Clearkey,
        Self::None,
    ];

    /// The value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Widevine => "widevine",
            Self::Fairplay => "fairplay",
            Self::Playready => "playready",
            Self::Clearkey => "clearkey",
            Self::None => "none",
        }
    }

    /// Reads a header value, without regard to case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|drm| drm.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether the pair is offered. The interface document leaves the columns of its matrix open;
    /// the decisions fill them with what players support.
    #[must_use]
    pub const fn offered_with(self, protocol: Protocol) -> bool {
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
    /// Every protocol, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::Dash,
        Self::Dashs,
        Self::Hls,
        Self::HlsAudio,
        Self::Sstr,
        Self::Sstrs,
    ];

    /// The value on the wire.
    #[must_use]
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

    /// Reads a header value, without regard to case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.as_str().eq_ignore_ascii_case(text))
    }

    /// Whether the addresses must be https.
    #[must_use]
    pub const fn wants_https(self) -> bool {
        matches!(self, Self::Dashs | Self::Sstrs)
    }

    /// The protocol without regard to the scheme of its addresses: what a catalogue lists.
    #[must_use]
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
    fn the_matrix_is_that_of_the_decisions() {
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
