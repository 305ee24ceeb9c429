//! The inputs of the figures: sessions, heartbeats, refused licenses and events of players.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::telemetry::PlayerEvent;
use crate::telemetry::dimensions::{Dimension, Labels, SharedLabels};
use playgate_domain::playback::Session;
use playgate_types::{Country, PartnerId, SessionId, UnixSeconds, UserId};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenedSession {
    pub session: SessionId,
    pub user: UserId,
    pub partner: PartnerId,
    pub device: Arc<str>,
    pub at: UnixSeconds,
    pub labels: SharedLabels,
}

impl OpenedSession {
    pub fn new(session: &Session, country: Option<Country>) -> Self {
        let start = &session.start;
        let livestream = start.playing.livestream().map_or("", |id| id.as_str());
        let labels = Labels::default()
            .with(Dimension::Asset, start.asset.as_str())
            .with(Dimension::Livestream, livestream)
            .with(Dimension::Platform, &start.device.platform)
            .with(Dimension::DeviceType, &start.device.kind)
            .with(Dimension::DeviceModel, &start.device.model)
            .with(Dimension::Partner, &start.partner.to_string())
            .with(Dimension::Protocol, start.protocol.as_str())
            .with(Dimension::Drm, start.drm.as_str())
            .with(
                Dimension::Country,
                country.as_ref().map_or("", Country::as_str),
            );
        Self {
            session: session.id,
            user: session.user,
            partner: start.partner,
            device: Arc::clone(start.device.id.as_shared()),
            at: start.since,
            labels: SharedLabels::from(&labels),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum QualityInput {
    Opened(Box<OpenedSession>),
    Beat {
        session: SessionId,
        at: UnixSeconds,
        position: i64,
        bitrate: u64,
    },
    /// `stopped`: ended by its player, not by expiry or another session.
    Ended {
        session: SessionId,
        at: UnixSeconds,
        stopped: bool,
    },
    LicenseRefused {
        user: UserId,
        session: SessionId,
        at: UnixSeconds,
    },
    Event {
        user: UserId,
        partner: PartnerId,
        received: UnixSeconds,
        event: Box<PlayerEvent>,
    },
    Erased(UserId),
    /// Closes the views that ended long enough ago. Ticks are logged, so that a replay closes views at the same place.
    Tick(UnixSeconds),
}
