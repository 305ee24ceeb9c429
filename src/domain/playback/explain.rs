//! Explains to an operator whether the limits of a user allow a start.

use crate::accounts::User;
use crate::decision::DecisionStep;
use playgate_types::{AssetId, DeviceId, LivestreamId, UnixSeconds};

use super::context::Viewer;
use super::error::PlaybackError;
use super::session::{Liveness, Session};
use super::{Playback, WhenFull, stream_limits};

impl Playback {
    /// `None` if a tag of the user lifts the limit.
    pub fn device_limit(&self, user: &User) -> Option<u32> {
        let lifted = Viewer::new(user, None).any_device;
        (!lifted).then(|| u32::try_from(self.settings.devices).unwrap_or(u32::MAX))
    }

    /// The steps that a preflight would add after the entitlement: devices, running streams, and their limits.
    /// `livestream` is the one that a start would play live. Without `device` a device that is not registered is
    /// assumed. Reads the devices from disk.
    pub fn explain_start(
        &self,
        viewer: &Viewer,
        asset: &AssetId,
        livestream: Option<&LivestreamId>,
        device: Option<&DeviceId>,
        now: UnixSeconds,
    ) -> Result<Vec<DecisionStep>, PlaybackError> {
        let at = self.expiry.at(now);
        let mut steps = vec![self.device_step(viewer, device)?];
        let sessions = self.sessions.sessions_of_user(&viewer.user);
        let mut streams: Vec<_> = sessions
            .iter()
            // A start on the same device replaces its session, which then takes no slot.
            .filter(|session| Some(&session.start.device.id) != device)
            .filter(|session| session.liveness(at) == Liveness::Alive)
            .collect();
        streams.sort_by_key(|session| (session.start.since, session.id));
        steps.extend(streams.iter().map(|session| self.stream_step(session)));
        // The broadcast on air counts as its channel, as in `stream_limits::place`.
        let wanted = livestream.map_or(asset.as_str(), LivestreamId::as_str);
        let here = |session: &&&std::sync::Arc<Session>| {
            stream_limits::place(&session.start.playing, &session.start.asset) == wanted
        };
        let (count, count_here) = (streams.len(), streams.iter().filter(here).count());
        let total = self.settings.streams_total;
        let limit_here = self.settings.limit_here(self.streams_of(asset));
        let full = count >= total as usize || count_here >= limit_here as usize;
        // Under `displace` a full limit refuses no start.
        let displaces = self.settings.when_full == WhenFull::Displace;
        let end = if full && displaces {
            "; the oldest would end"
        } else {
            ""
        };
        steps.push(DecisionStep {
            check: "streams".into(),
            subject: None,
            finding: format!(
                "{count} of {total} streams run, {count_here} of {limit_here} of this asset{end}"
            )
            .into(),
            passed: !full || displaces,
        });
        Ok(steps)
    }

    fn device_step(
        &self,
        viewer: &Viewer,
        device: Option<&DeviceId>,
    ) -> Result<DecisionStep, PlaybackError> {
        let (registered, limit) = (self.devices_of(&viewer.user)?, self.settings.devices);
        let known = device.is_some_and(|id| registered.iter().any(|one| one.device.id == *id));
        let room = registered.len() < limit;
        let this = match (device, known) {
            (None, _) => "",
            (Some(_), true) => "; this one is",
            (Some(_), false) => "; this one is not",
        };
        let exempt = if viewer.any_device {
            "; a tag switches the limit off"
        } else {
            ""
        };
        Ok(DecisionStep {
            check: "devices".into(),
            subject: None,
            finding: format!(
                "{} of {limit} devices are registered{this}{exempt}",
                registered.len()
            )
            .into(),
            passed: known || room || viewer.any_device,
        })
    }

    /// The limit of the channel, if it has one.
    fn streams_of(&self, asset: &AssetId) -> Option<u32> {
        let playlists = self.context.playlists(asset);
        let protocols = playlists.map(|found| found.protocols).unwrap_or_default();
        let playable = protocols
            .first()
            .and_then(|protocol| self.context.playable(asset, *protocol));
        playable.and_then(|found| found.streams)
    }

    fn stream_step(&self, session: &Session) -> DecisionStep {
        let start = &session.start;
        let name = self.context.name(&start.asset);
        DecisionStep {
            check: "stream".into(),
            subject: Some(session.id.to_string()),
            finding: format!(
                "`{}` runs on {} {} since {}",
                name.as_deref().unwrap_or(start.asset.as_str()),
                start.device.kind,
                start.device.model,
                start.since.in_utc()
            )
            .into(),
            passed: true,
        }
    }
}
