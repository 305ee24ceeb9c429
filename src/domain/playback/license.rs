//! Checks license requests: by the entitlement that they name, or by a signed address.

use std::sync::Arc;

use crate::decision::DecisionTrace;
use playgate_types::{AssetId, Drm, SessionId, TokenHash, UnixSeconds, UserId};

use super::Playback;
use super::error::PlaybackError;
use super::heartbeat::{Grace, refused};
use super::model::{EndReason, RequestTime};
use super::session::{Liveness, Session};

#[derive(Clone, Copy, Debug)]
pub struct LicenseAttempt<'a> {
    pub user: &'a UserId,
    pub session: Option<SessionId>,
    pub token: Option<TokenHash>,
    /// Some players do not send it with license requests.
    pub device: Option<&'a str>,
    pub drm: Drm,
    pub kids: &'a [[u8; 16]],
    /// What the journal says of the keys.
    pub keys: &'a str,
    pub trace: &'a DecisionTrace,
}

impl Playback {
    pub fn license(
        &self,
        request: &LicenseAttempt<'_>,
        time: impl Into<RequestTime>,
    ) -> Result<Arc<Session>, PlaybackError> {
        let (trace, time) = (request.trace, time.into());
        // Errors take precedence in this order.
        let session = self.find(request.session.as_ref());
        let session = session.inspect_err(|error| refused(error, trace))?;
        self.trace_session(&session, trace, time);
        trace.step("keys", true, || request.keys.to_owned());
        let allowed = self.check_license(&session, request, time);
        allowed.inspect_err(|error| refused(error, trace))?;
        Ok(session)
    }

    fn check_license(
        &self,
        session: &Session,
        request: &LicenseAttempt<'_>,
        time: RequestTime,
    ) -> Result<(), PlaybackError> {
        let token_now = self.expiry.at(time.server);
        if session.liveness(token_now) == Liveness::Over {
            return Err(PlaybackError::SessionEnded(EndReason::Expired));
        }
        let device = &session.start.device.id;
        let entitlement = request
            .token
            .and_then(|hash| self.tokens.get(&hash))
            .filter(|held| held.entitlement.holds(token_now));
        let valid = entitlement.is_some_and(|held| {
            held.user == *request.user
                && held.entitlement.asset == session.start.asset
                && held
                    .entitlement
                    .device
                    .as_ref()
                    .is_none_or(|bound| bound == device)
        });
        let is_same_client = session.user == *request.user
            // Players that send no device id are identified by their session.
            && request.device.is_none_or(|sent| sent == device.as_str());
        if !valid || !is_same_client {
            return Err(PlaybackError::EntitlementInvalid);
        }
        self.check_keys(session, request.kids)?;
        if session.start.drm != request.drm {
            return Err(PlaybackError::DrmMismatch);
        }
        // A token that passed its unlock on to one session must not open a second one: the session itself
        // must be unlocked.
        self.check_program(session, Grace::OnlyLive, request.trace, time)
    }

    fn check_keys(&self, session: &Session, kids: &[[u8; 16]]) -> Result<(), PlaybackError> {
        let keys = self.context.key_ids(&session.start.asset);
        // Otherwise a license for a cheap asset would open any other.
        match kids.iter().all(|kid| keys.contains(kid)) {
            true => Ok(()),
            false => Err(PlaybackError::KeyNotAllowed),
        }
    }

    /// Returns the session that a license token names, also one that has ended.
    pub fn license_session(&self, token: &str, now: UnixSeconds) -> Option<Arc<Session>> {
        let id = self.signing.licenses.session(token, self.expiry.at(now))?;
        let present = self.sessions.get(&id);
        present.or_else(|| self.sessions.left.find(&id))
    }

    /// Returns the session that a [`Started::license_token`](super::Started) names. The token is valid for as long as the
    /// entitlement of the start.
    pub fn signed_session(
        &self,
        token: &str,
        now: UnixSeconds,
    ) -> Result<Arc<Session>, PlaybackError> {
        let at = self.expiry.at(now);
        let id = self.signing.licenses.session(token, at);
        let session = self.find(Some(&id.ok_or(PlaybackError::EntitlementInvalid)?))?;
        match session.liveness(at) {
            Liveness::Over => Err(PlaybackError::SessionEnded(EndReason::Expired)),
            Liveness::Alive | Liveness::Idle => Ok(session),
        }
    }

    /// Checks a license request whose address authorizes it: its key ids, and what the journal says of them.
    pub fn license_signed(
        &self,
        session: &Session,
        (kids, keys): (&[[u8; 16]], &str),
        trace: &DecisionTrace,
        time: RequestTime,
    ) -> Result<(), PlaybackError> {
        self.trace_session(session, trace, time);
        trace.step("keys", true, || keys.to_owned());
        let allowed = self
            .check_keys(session, kids)
            .and_then(|()| self.check_program(session, Grace::OnlyLive, trace, time));
        allowed.inspect_err(|error| refused(error, trace))
    }

    pub fn key_ids(&self, asset: &AssetId) -> Vec<[u8; 16]> {
        self.context.key_ids(asset)
    }

    pub fn clear_keys(
        &self,
        asset: &AssetId,
        kids: &[[u8; 16]],
    ) -> Result<Vec<([u8; 16], [u8; 16])>, PlaybackError> {
        kids.iter()
            .map(|kid| Some((*kid, self.context.content_key(asset, kid)?)))
            .collect::<Option<Vec<_>>>()
            // The catalogue has changed since [`Playback::license`] accepted the key ids.
            .ok_or(PlaybackError::KeyNotAllowed)
    }
}
