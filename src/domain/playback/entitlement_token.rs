//! Entitlement tokens and the unlocks that go with them.

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

/// What the decision on rights has granted.
#[derive(Clone, Debug)]
pub struct GrantedRight {
    /// What the asset is.
    pub playing: Playing,
    /// The program at the playing position, and when it stops.
    pub program: Option<(BroadcastId, UnixSeconds)>,
    /// Whether the user has to give a PIN for it.
    pub pin_needed: bool,
    /// The end of the right, if it has one.
    pub valid_until: Option<UnixSeconds>,
    /// Where the right holds; empty means everywhere.
    pub countries: Vec<Country>,
}

impl GrantedRight {
    /// What a PIN unlocks: the program, or the asset where there is no program.
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
    /// A PIN was given just now.
    unlocked: bool,
}

/// A right that lacks the PIN. There is one way out of it.
pub struct PinRequired(Issuable);

impl PinRequired {
    /// Unlocks the right if `check` takes the user's PIN.
    ///
    /// # Errors
    /// What `check` says.
    pub fn unlock<E>(self, check: impl FnOnce(&UserId) -> Result<(), E>) -> Result<Issuable, E> {
        check(&self.0.viewer.user)?;
        Ok(Issuable {
            unlocked: true,
            ..self.0
        })
    }
}

/// Whether a PIN is missing.
pub enum PinCheck {
    /// None is.
    Open(Issuable),
    /// One is.
    Locked(PinRequired),
}

/// A token for its owner.
pub struct Issued {
    /// The Entitlement Token.
    pub token: Token,
    /// From when on it is worthless.
    pub expires: UnixSeconds,
    /// For live: the program and its stop, when the player has to ask again.
    pub program: Option<(BroadcastId, UnixSeconds)>,
}

impl Playback {
    /// Says whether a granted right lacks a PIN. What was unlocked in the named session needs none.
    ///
    /// Decision: a session that is unknown, has ended, is another user's or plays another asset is
    /// taken as none named: a player that changes the channel still sends its last one.
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

    /// Issues the token, and adds program and unlock to the session that was named.
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
            expires: self.expiry.from_wall(expires, now),
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
                    // No session yet, or it ended meanwhile: the first preflight takes the unlock.
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
