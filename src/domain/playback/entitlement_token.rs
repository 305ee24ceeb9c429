//! Issues entitlement tokens. A right that needs a PIN must be unlocked first, which the types enforce.

use std::sync::Arc;

use crate::store::{Commit, Durability, WritePriority};
use crate::types::{
    AssetId, BroadcastId, Country, EntitlementId, SessionId, Token, TokenKind, UnixSeconds, UserId,
};

use super::Playback;
use super::context::Viewer;
use super::error::PlaybackError;
use super::model::{Entitlement, PlayedAsset, add_unlock};
use super::session::{Liveness, Session};
use super::tables;

#[derive(Clone, Debug)]
pub struct GrantedRight {
    pub playing: PlayedAsset,
    pub program: Option<(BroadcastId, UnixSeconds)>,
    pub pin_needed: bool,
    pub valid_until: Option<UnixSeconds>,
    pub countries: Vec<Country>,
}

impl GrantedRight {
    fn unlocks(&self, asset: &AssetId) -> AssetId {
        self.program
            .as_ref()
            // The PIN counts for the program only, or a viewer could go on to the next one.
            .map_or_else(|| asset.clone(), |(program, _)| AssetId::from(program))
    }
}

/// An entitlement for which no PIN is missing.
pub struct Issuable {
    viewer: Viewer,
    asset: AssetId,
    right: GrantedRight,
    session: Option<Arc<Session>>,
    unlocked: bool,
}

/// [`PinRequired::unlock`] is the only way to make it [`Issuable`].
pub struct PinRequired(Issuable);

impl PinRequired {
    pub fn unlock<E>(self, check: impl FnOnce(&UserId) -> Result<(), E>) -> Result<Issuable, E> {
        check(&self.0.viewer.user)?;
        Ok(Issuable {
            unlocked: true,
            ..self.0
        })
    }
}

pub enum PinCheck {
    Open(Issuable),
    Locked(PinRequired),
}

pub struct Issued {
    pub token: Token,
    /// The first second at which the token is no longer valid.
    pub expires: UnixSeconds,
    /// For live: the program and its stop, when the player has to request the next token.
    pub program: Option<(BroadcastId, UnixSeconds)>,
}

impl Playback {
    /// A program or asset that was unlocked in the named session needs no PIN.
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
                // Anything else is ignored: a player that changes the channel still sends its previous session.
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

    /// Adds program and unlock to the named session.
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
        let live = matches!(entitlement.playing, PlayedAsset::Live { .. });
        if let (Some(session), PlayedAsset::Live { offset, .. }) = (&session, &entitlement.playing)
        {
            // The player restarts at the new position, so the last heartbeat's is out of date.
            session.shift(*offset);
        }
        let user = viewer.user;
        let surplus = self.tokens.tokens_over_limit(&user);
        let session = session.map(|session| (session.user, session.id));
        let context = Arc::clone(&self.context);
        self.store
            .write_for(WritePriority::Session, Durability::Logged, move |txn| {
                // In the transaction: the account may be erased concurrently, and its tokens would survive.
                if !context.exists(txn, &user)? {
                    return Err(PlaybackError::UserGone);
                }
                // Bounds the memory of a client that requests tokens without end.
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
                        // The common case, a token for the same program, writes no session.
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
