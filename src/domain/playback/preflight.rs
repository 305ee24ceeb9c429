//! Preflight: checks identity, entitlement and limits, and creates the session. The current program is not
//! checked here but by license and heartbeat.

use std::borrow::Cow;
use std::sync::Arc;

use crate::decision::{DecisionStep, DecisionTrace};
use playgate_store::{Commit, Durability, Txn, WritePriority};
use playgate_types::{AssetId, Country, Drm, Protocol, SessionId, TokenHash, UnixSeconds, UserId};

use super::context::{Playable, Viewer};
use super::entitlement_token::HeldEntitlement;
use super::error::PlaybackError;
use super::heartbeat::refused;
use super::lifecycle::REMEMBERED_SECONDS;
use super::model::{
    Device, EndReason, Entitlement, PlayedAsset, Registered, RequestTime, SessionStart,
    StoredSession, add_unlock,
};
use super::playlist_url::{Playlist, UrlValues};
use super::session::Liveness;
use super::session_map::SessionMap;
use super::stream_limits::{self, StreamRequest};
use super::{Playback, tables};

#[derive(Clone, Debug)]
pub struct Start {
    pub viewer: Viewer,
    pub asset: AssetId,
    pub drm: Drm,
    pub protocol: Protocol,
    pub token: Option<TokenHash>,
    pub device: Device,
    pub trace: DecisionTrace,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    pub session: SessionId,
    pub playlist: Playlist,
    pub encrypted: bool,
    /// The part of the address for playback reports that names and authorizes the session.
    pub report_token: String,
    /// Of an encrypted asset.
    pub license_token: Option<String>,
}

/// Runs on the writer thread.
struct StartSession {
    user: UserId,
    session: SessionId,
    hash: TokenHash,
    memory: Arc<SessionMap>,
    settings: Arc<super::PlaybackSettings>,
    any_device: bool,
    stored: StoredSession,
    streams: Option<u32>,
    issued: UnixSeconds,
    now: UnixSeconds,
    at: UnixSeconds,
    trace: DecisionTrace,
}

impl Playback {
    /// `https`: whether `{base_url}` is an https address. Errors of request and entitlement are returned immediately,
    /// those of limits and playlist by the commit. No error leaves a change behind.
    pub fn preflight(
        &self,
        start: Start,
        https: bool,
        time: impl Into<RequestTime>,
    ) -> Result<Commit<Started, PlaybackError>, PlaybackError> {
        let trace = start.trace.clone();
        let prepared = self.prepare(start, https, time.into());
        prepared.inspect_err(|error| refused(error, &trace))
    }

    /// Whether there is a license server, for an encrypted asset, and a playlist.
    fn check_reachable(&self, asset: &AssetId, drm: Option<Drm>) -> Result<(), PlaybackError> {
        if let Some(drm) = drm.filter(|drm| !self.settings.has_licenses(*drm)) {
            return Err(PlaybackError::NoLicenseServer(drm));
        }
        match self.playability(asset) {
            Some(ways) if ways.lacks_playlist() => Err(PlaybackError::NoPlaylist),
            Some(_) | None => Ok(()),
        }
    }

    fn prepare(
        &self,
        start: Start,
        https: bool,
        time: RequestTime,
    ) -> Result<Commit<Started, PlaybackError>, PlaybackError> {
        let now = time.server;
        let Start {
            viewer,
            asset,
            drm,
            protocol,
            token,
            device,
            trace,
        } = start;
        let at = self.expiry.at(now);
        let playable = self.context.playable(&asset, protocol);
        self.check_pair(drm, protocol, playable.as_ref())?;
        // Must come before the token check: no token can exist for an unknown asset, so the error would blame
        // the entitlement.
        let playable = playable.ok_or(PlaybackError::AssetNotFound)?;
        let (hash, held) =
            self.usable_entitlement(token, &viewer, &asset, &device, time, &trace)?;
        let entitlement = &held.entitlement;
        let session = SessionId::from_bytes(self.entropy.array());
        let values = UrlValues {
            asset: &asset,
            session: &session,
            playing: &entitlement.playing,
            // Edges compare the expiry with the wall clock.
            expires: self.expiry.token_to_wall(entitlement.expires, now),
            now,
        };
        // Valid for as long as the server may know the session.
        let report_until = entitlement.expires + REMEMBERED_SECONDS;
        let report_token = self.signing.reports.sign(&session, report_until);
        let license_token = self.signing.licenses.sign(&session, entitlement.expires);
        let address = playable.address.as_deref();
        // A missing license server or playlist is reported after the limits, which the commit checks.
        let encrypted = playable.encrypted && drm != Drm::None;
        let playlist = self
            .check_reachable(&asset, encrypted.then_some(drm))
            .and_then(|()| self.playlist(address, protocol, https, &values));
        let transaction = StartSession {
            user: viewer.user,
            session,
            hash,
            memory: Arc::clone(&self.sessions),
            settings: Arc::clone(&self.settings),
            any_device: viewer.any_device,
            stored: StoredSession {
                start: SessionStart {
                    partner: viewer.partner,
                    asset,
                    playing: entitlement.playing.clone(),
                    device,
                    drm,
                    protocol,
                    since: now,
                },
                program: entitlement.program.clone(),
                unlocks: Vec::new(),
                seen: at,
            },
            streams: playable.streams,
            issued: self.expiry.token_to_wall(entitlement.issued, now),
            now,
            at,
            trace,
        };
        Ok(self
            .store
            .write_for(WritePriority::Session, Durability::Logged, move |txn| {
                let trace = transaction.trace.clone();
                let playlist = transaction.run(txn, playlist);
                let playlist = playlist.inspect_err(|error| refused(error, &trace))?;
                trace.session(session);
                Ok(Started {
                    session,
                    playlist,
                    encrypted,
                    report_token,
                    license_token: encrypted.then_some(license_token),
                })
            }))
    }

    fn usable_entitlement(
        &self,
        token: Option<TokenHash>,
        viewer: &Viewer,
        asset: &AssetId,
        device: &Device,
        time: RequestTime,
        trace: &DecisionTrace,
    ) -> Result<(TokenHash, Arc<HeldEntitlement>), PlaybackError> {
        let found = token.and_then(|hash| Some((hash, self.tokens.get(&hash)?)));
        let wrong = match &found {
            None => {
                Some("no entitlement has this token: it is unknown, or was forgotten after its end")
            }
            Some((_, held)) => mismatch(held, viewer, asset, device, self.expiry.at(time.server)),
        };
        // Only the journal tells these apart: a client must not learn about the tokens of others.
        trace.step("token", wrong.is_none(), || {
            wrong.unwrap_or("belongs to this user, asset and device")
        });
        let (hash, held) = found
            .filter(|_| wrong.is_none())
            .ok_or(PlaybackError::EntitlementInvalid)?;
        let countries = &held.entitlement.countries;
        if !viewer.any_country && !allows_country(countries, viewer.country.as_ref()) {
            return Err(PlaybackError::GeoBlocked);
        }
        // The offer may have been revoked since the token was issued.
        if !self.context.still_entitled(viewer, asset, time.partner) {
            let finding = "no offer of the user includes the asset any more";
            trace.step("offer", false, || finding);
            return Err(PlaybackError::EntitlementInvalid);
        }
        Ok((hash, held))
    }

    fn check_pair(
        &self,
        drm: Drm,
        protocol: Protocol,
        playable: Option<&Playable>,
    ) -> Result<(), PlaybackError> {
        let why = if !drm.offered_with(protocol) {
            "this DRM system is not offered with this protocol"
        } else if drm == Drm::Clearkey && !self.settings.clearkey {
            "clearkey is not offered by this service"
        } else if drm == Drm::None && playable.is_some_and(|found| found.encrypted) {
            "the asset is encrypted, so `none` is not offered for it"
        } else {
            return Ok(());
        };
        Err(PlaybackError::DrmProtocolMismatch(why))
    }
}

/// Returns why an entitlement cannot be used for a start, if it cannot.
fn mismatch(
    held: &HeldEntitlement,
    viewer: &Viewer,
    asset: &AssetId,
    device: &Device,
    at: UnixSeconds,
) -> Option<&'static str> {
    let entitlement = &held.entitlement;
    let bound = entitlement.device.as_ref();
    if held.user != viewer.user || entitlement.partner != viewer.partner {
        Some("the entitlement belongs to another user")
    } else if entitlement.asset != *asset {
        Some("the entitlement is for another asset")
    } else if !entitlement.holds(at) {
        Some("the entitlement has expired")
    } else if bound.is_some_and(|bound| *bound != device.id) {
        // The first device that uses a token binds it.
        Some("the entitlement was used by another device before")
    } else {
        None
    }
}

fn allows_country(countries: &[Country], country: Option<&Country>) -> bool {
    // An empty list means everywhere. An unknown country is in no list.
    countries.is_empty() || country.is_some_and(|here| countries.contains(here))
}

impl StartSession {
    fn run(
        mut self,
        txn: &mut Txn<'_>,
        playlist: Result<Playlist, PlaybackError>,
    ) -> Result<Playlist, PlaybackError> {
        // Read again: another preflight may have bound the token to a device since.
        let mut entitlement = self.bound_entitlement(txn)?;
        let registered = self.register(txn)?;
        let sessions = stream_limits::sessions_of(txn, &self.memory, self.user)?;
        self.trace.steps(|| self.stream_steps(&sessions));
        let wanted = StreamRequest {
            device: &self.stored.start.device.id,
            place: stream_limits::place(&self.stored.start.playing, &self.stored.start.asset),
            total: self.settings.streams_total,
            here: self.settings.limit_here(self.streams),
        };
        let displaced = stream_limits::select_evictions(
            &sessions,
            &self.memory,
            &wanted,
            self.settings.when_full,
            self.at,
        )?;
        // The last check. All checks come before the first write, so an error leaves no change.
        let playlist = playlist?;
        let device = self.stored.start.device.id.clone();
        // One device is one stream, so the old session of the device ends.
        for (id, stored) in sessions
            .iter()
            .filter(|(_, stored)| stored.start.device.id == device)
        {
            self.inherit(*id, stored);
            stream_limits::end(txn, self.user, *id, EndReason::Replaced, self.now)?;
        }
        for id in displaced {
            stream_limits::end(txn, self.user, id, EndReason::Displaced, self.now)?;
        }
        if let Some(unlock) = entitlement.unlock.take() {
            add_unlock(&mut self.stored.unlocks, unlock);
        }
        if let Some(registered) = registered {
            let key = (self.user, self.stored.start.device.id.clone());
            txn.put::<tables::Devices>(&key, &registered)?;
        }
        // Binds the token to the device, and marks its unlock as consumed.
        txn.put::<tables::Entitlements>(&(self.user, self.hash), &entitlement)?;
        txn.insert::<tables::Sessions>(&(self.user, self.session), &self.stored)?;
        Ok(playlist)
    }

    /// The streams that run on other devices, as the limits count them.
    fn stream_steps(&self, sessions: &[(SessionId, StoredSession)]) -> Vec<DecisionStep> {
        let others = sessions
            .iter()
            .filter(|(_, stored)| stored.start.device.id != self.stored.start.device.id);
        let step = |(id, stored): &(SessionId, StoredSession)| {
            let life = self.memory.get(id).map(|session| session.liveness(self.at));
            let state = match life {
                Some(Liveness::Idle | Liveness::Over) => "without a slot",
                Some(Liveness::Alive) | None => "takes a slot",
            };
            DecisionStep {
                check: "stream".into(),
                subject: Some(id.to_string()),
                finding: format!(
                    "{state}: {} on {} {} since {}",
                    stored.start.asset,
                    stored.start.device.kind,
                    stored.start.device.model,
                    stored.start.since.in_utc()
                )
                .into(),
                passed: true,
            }
        };
        others.map(step).collect()
    }

    /// A session of another asset, or one that is over, passes nothing on.
    fn inherit(&mut self, id: SessionId, stored: &StoredSession) {
        // A session that is not in memory was created by a transaction of the same group just now.
        let running = self.memory.get(&id);
        let life = (running.as_ref()).map_or(Liveness::Alive, |session| session.liveness(self.at));
        if stored.start.asset != self.stored.start.asset || life == Liveness::Over {
            return;
        }
        // A fallback to another DRM system, or a retry, does not ask for the PIN again.
        for unlock in &stored.unlocks {
            add_unlock(&mut self.stored.unlocks, unlock.clone());
        }
        // The token that began the old session says where the player was then. A token that was issued later
        // says where the player is now.
        if life == Liveness::Alive && self.issued <= stored.start.since {
            self.stored.program.clone_from(&stored.program);
            if let (Some(session), PlayedAsset::Live { offset, .. }) =
                (running, &mut self.stored.start.playing)
            {
                *offset = session.offset(self.now).unwrap_or(*offset);
            }
        }
    }

    /// Reads the entitlement as earlier transactions of the group left it, and binds it to this device.
    fn bound_entitlement(&self, txn: &Txn<'_>) -> Result<Entitlement, PlaybackError> {
        let mut entitlement = txn
            .get::<tables::Entitlements>(&(self.user, self.hash))?
            .ok_or(PlaybackError::EntitlementInvalid)?;
        let device = &self.stored.start.device.id;
        if *entitlement.device.get_or_insert_with(|| device.clone()) != *device {
            return Err(PlaybackError::EntitlementInvalid);
        }
        Ok(entitlement)
    }

    fn register(&self, txn: &Txn<'_>) -> Result<Option<Registered>, PlaybackError> {
        let device = self.stored.start.device.clone();
        let key = (self.user, device.id.clone());
        let known = txn.get::<tables::Devices>(&key)?;
        let limit = self.settings.devices;
        // Only a new device needs the count: the scan is 3 % of the instructions of a preflight.
        let count = match known {
            Some(_) => None,
            None => Some(txn.scan::<tables::Devices>(&self.user, limit)?.len()),
        };
        let full = count.is_some_and(|count| count >= limit);
        self.trace
            .step("devices", !full || self.any_device, || match count {
                None => Cow::Borrowed("this one is registered"),
                Some(count) => {
                    format!("{count} of {limit} devices are registered; this one is new").into()
                }
            });
        if full {
            return match self.any_device {
                // The list keeps its usual length, and further devices are not recorded.
                true => Ok(None),
                false => Err(PlaybackError::DeviceLimitReached),
            };
        }
        Ok(Some(Registered {
            device,
            since: known.map_or(self.now, |known| known.since),
            latest: self.now,
        }))
    }
}
