//! Bounds the requests to license servers.

use std::time::Duration;

use crate::worker_pool::fair_queue::Turn;
use crate::worker_pool::slots::{NoSlot, Slot, SlotLimits, Slots};
use playgate_types::{Drm, SessionId};

/// Of each license server. A player asks for the keys of sound and picture at the same time; more requests of one session
/// would keep those of others from a slow server.
const SLOTS: SlotLimits = SlotLimits {
    running: 256,
    of_session: 2,
    behind: 8,
    waiting: 256,
};
/// By then the player gives up, or asks again.
const SLOT_WAIT: Duration = Duration::from_secs(5);

/// The requests to each license server.
pub struct LicenseSlots {
    widevine: Slots<SessionId>,
    playready: Slots<SessionId>,
    fairplay: Slots<SessionId>,
}

impl Default for LicenseSlots {
    fn default() -> Self {
        Self {
            widevine: Slots::new(SLOTS),
            playready: Slots::new(SLOTS),
            fairplay: Slots::new(SLOTS),
        }
    }
}

impl LicenseSlots {
    /// Returns a slot, or `None` for licenses that need none.
    ///
    /// # Errors
    /// Too many requests wait, or the slot was not free in time.
    pub async fn acquire(
        &self,
        drm: Drm,
        session: SessionId,
        turn: Turn,
    ) -> Result<Option<Slot<SessionId>>, NoSlot> {
        let slots = match drm {
            Drm::Widevine => &self.widevine,
            Drm::Playready => &self.playready,
            Drm::Fairplay => &self.fairplay,
            // Playgate issues these licenses itself.
            Drm::Clearkey | Drm::None => return Ok(None),
        };
        let acquired = tokio::time::timeout(SLOT_WAIT, slots.acquire(session, turn)).await;
        acquired.unwrap_or(Err(NoSlot::All)).map(Some)
    }
}
