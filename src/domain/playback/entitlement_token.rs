//! Issues entitlement tokens. A right that needs a PIN must be unlocked first, which the types enforce.

use std::sync::Arc;

use crate::store::{Commit, Durability, WritePriority};
use crate::types::{
    AssetId, BroadcastId, Country, EntitlementId, SessionId, Token, TokenKind, UnixSeconds, UserId,
};

use super::Playback;
use super::context::Viewer;
use super::error::PlaybackError;
use super::model::{Entitlement, Playing, add_unlock};
use super::session::{Liveness, Session};
use super::tables;

/// The right that the entitlement decision granted.
#[derive(Clone, Debug)]
pub struct GrantedRight {
    pub playing: Playing,
    /// The program at the playing position, and its stop time.
    pub program: Option<(BroadcastId, UnixSeconds)>,
    /// Whether the user must enter a PIN.
    pub pin_needed: bool,
    /// End of the right, if it has one.
    pub valid_until: Option<UnixSeconds>,
    /// Countries where the right applies; empty means everywhere.
    pub countries: Vec<Country>,
}

impl GrantedRight {
    /// What a PIN unlocks: the program, or the asset if it has no programs.
    fn unlocks(&self, asset: &AssetId) -> AssetId {
        self.program
            .as_ref()
            .map_or_else(|| asset.clone(), |(program, _)| AssetId::from(program))
    }
}

/// A right that may be turned into a token: no PIN is missing.
pub struct Issuable {
    viewer: Viewer,
    asset: AssetId,
    right: GrantedRight,
    session: Option<Arc<Session>>,
    /// Whether a PIN was entered just now.
    unlocked: bool,
}

/// A right that lacks its PIN. [`PinRequired::unlock`] is the only way to make it [`Issuable`].
pub struct PinRequired(Issuable);

impl PinRequired {
    /// Unlocks the right if `check` accepts the user's PIN; otherwise returns the error of `check`.
    pub fn unlock<E>(self, check: impl FnOnce(&UserId) -> Result<(), E>) -> Result<Issuable, E> {
        check(&self.0.viewer.user)?;
        Ok(Issuable {
            unlocked: true,
            ..self.0
        })
    }
}

/// Outcome of [`Playback::check_pin`].
pub enum PinCheck {
    Open(Issuable),
    Locked(PinRequired),
}

pub struct Issued {
    pub token: Token,
    /// First second at which the token is no longer valid.
    pub expires: UnixSeconds,
    /// For live: the program and its stop, when the player has to request the next token.
    pub program: Option<(BroadcastId, UnixSeconds)>,
}

impl Playback {
    /// Checks whether a granted right lacks a PIN. A program or asset that was unlocked in the named session
    /// needs none.
    ///
    /// A session that is unknown, has ended, belongs to another user or plays another asset is ignored: a
    /// player that changes the channel still sends its previous session.
    #[must_use]
    pub fn check_pin(
        &self,
        viewer: Viewer,
        asset: AssetId,
        right: GrantedRight,
        session: Option<&SessionId>,
        now: UnixSeconds,
    ) -> PinCheck {
        let at = self.expiry.at(now);
        let session = session
            .and_then(|id| self.sessions.get(id))
            .filter(|session| {
                session.user == viewer.user
                    && session.start.asset == asset
                    && session.liveness(at) != Liveness::Over
            });
        let unlocked_before = || {
            let subject = right.unlocks(&asset);
            session
                .as_ref()
                .is_some_and(|session| session.unlocked(subject.as_str()))
        };
        let open = !right.pin_needed || unlocked_before();
        let grant = Issuable {
            viewer,
            asset,
            right,
            session,
            unlocked: false,
        };
        if open {
            PinCheck::Open(grant)
        } else {
            PinCheck::Locked(PinRequired(grant))
        }
    }

    /// Issues the token, and adds program and unlock to the named session.
    pub fn issue(&self, grant: Issuable, now: UnixSeconds) -> Commit<Issued, PlaybackError> {
        let Issuable {
            viewer,
            asset,
            right,
            session,
            unlocked,
        } = grant;
        let unlock = unlocked.then(|| right.unlocks(&asset));
        let expires = right
            .valid_until
            .map_or(now + self.settings.token_life, |end| {
                end.min(now + self.settings.token_life)
            });
        let token = Token::new(TokenKind::Entitlement, self.entropy.array());
        let mut entitlement = Entitlement {
            id: EntitlementId::from_bytes(self.entropy.array()),
            partner: viewer.partner,
            asset,
            playing: right.playing,
            program: right.program.as_ref().map(|(program, _)| program.clone()),
            unlock: None,
            countries: right.countries,
            issued: self.expiry.at(now),
            expires: self.expiry.wall_to_token(expires, now),
            device: None,
        };
        let live = matches!(entitlement.playing, Playing::Live { .. });
        if let (Some(session), Playing::Live { offset, .. }) = (&session, &entitlement.playing) {
            session.shift(*offset);
        }
        let user = viewer.user;
        let surplus = self.tokens.surplus(&user);
        let session = session.map(|session| (session.user, session.id));
        let world = Arc::clone(&self.world);
        self.store
            .write_for(WritePriority::Session, Durability::Logged, move |txn| {
                if !world.exists(txn, &user)? {
                    return Err(PlaybackError::UserGone);
                }
                for old in &surplus {
                    txn.delete::<tables::Entitlements>(&(user, *old))?;
                }
                let stored = match &session {
                    Some(key) => txn.get::<tables::Sessions>(key)?.zip(Some(key)),
                    None => None,
                };
                match stored {
                    Some((mut stored, key)) => {
                        let changed = stored.program != entitlement.program || unlock.is_some();
                        stored.program.clone_from(&entitlement.program);
                        if let Some(unlock) = unlock {
                            add_unlock(&mut stored.unlocks, unlock);
                        }
                        if changed {
                            txn.put::<tables::Sessions>(key, &stored)?;
                        }
                    }
                    // There is no session yet, or it ended since: the first preflight consumes the unlock.
                    None => entitlement.unlock = unlock,
                }
                txn.put::<tables::Entitlements>(&(user, token.hash()), &entitlement)?;
                Ok(Issued {
                    token,
                    expires,
                    program: right.program.filter(|_| live),
                })
            })
    }
}
