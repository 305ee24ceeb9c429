//! Entitlement tokens: issues them, and holds those that may be valid in memory. A right that needs a PIN must be
//! unlocked first, which the types enforce.

use std::collections::BTreeSet;
use std::sync::Arc;

use dashmap::DashMap;
use foldhash::quality::RandomState;

use super::context::Viewer;
use super::error::PlaybackError;
use super::model::{Entitlement, PlayedAsset, PlayedBroadcast, RequestTime, add_unlock};
use super::session::{Liveness, Session};
use super::{Playback, tables};
use crate::entitlement::{self, Decision};
use playgate_store::{Changed, Commit, CommitListener, Durability, WritePriority};
use playgate_types::{
    AssetId, BroadcastId, Country, EntitlementId, SessionId, Token, TokenHash, TokenKind,
    UnixSeconds, UserId,
};

#[derive(Clone, Debug)]
pub struct GrantedRight {
    pub playing: PlayedAsset,
    pub program: Option<(BroadcastId, UnixSeconds)>,
    pub pin_needed: bool,
    pub valid_until: Option<UnixSeconds>,
    pub countries: Vec<Country>,
}

impl GrantedRight {
    pub fn from_decision(granted: Decision, now: UnixSeconds) -> Self {
        use entitlement::Playing as Decided;
        let (playing, program) = match granted.playing {
            Decided::Live {
                livestream,
                program,
                at,
            } => {
                let playing = PlayedAsset::Live {
                    livestream: livestream.id.clone(),
                    // At most a day back: the offset was validated when it was parsed.
                    offset: i32::try_from(at.since(now)).unwrap_or(0),
                };
                (playing, program)
            }
            Decided::Catchup {
                livestream,
                program,
            } => match program.id() {
                Some(broadcast) => {
                    let played = PlayedBroadcast {
                        livestream: livestream.id.clone(),
                        broadcast,
                        start: program.start(),
                        stop: program.stop(),
                    };
                    (PlayedAsset::Catchup(Box::new(played)), Some(program))
                }
                // Unreachable: ids are validated before they are stored.
                None => (PlayedAsset::Vod, None),
            },
            Decided::Vod { .. } => (PlayedAsset::Vod, None),
        };
        Self {
            playing,
            program: program.and_then(|program| Some((program.id()?, program.stop()))),
            pin_needed: granted.pin_needed,
            valid_until: granted.valid_until,
            countries: granted.countries,
        }
    }

    fn unlocks(&self, asset: &AssetId) -> AssetId {
        self.program
            .as_ref()
            // The PIN counts for the program only, or a viewer could go on to the next one.
            .map_or_else(|| asset.clone(), |(program, _)| AssetId::from(program))
    }
}

/// An entitlement that needs no further PIN.
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
    pub fn check_pin(
        &self,
        viewer: Viewer,
        asset: AssetId,
        right: GrantedRight,
        session: Option<&SessionId>,
        time: impl Into<RequestTime>,
    ) -> PinCheck {
        let at = self.expiry.at(time.into().server);
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

    /// Issues the token, and adds program and unlock to the named session.
    pub fn issue(
        &self,
        grant: Issuable,
        time: impl Into<RequestTime>,
    ) -> Commit<Issued, PlaybackError> {
        let RequestTime {
            partner: now,
            server,
        } = time.into();
        let Issuable {
            viewer,
            asset,
            right,
            session,
            unlocked,
        } = grant;
        let unlock = unlocked.then(|| right.unlocks(&asset));
        // Never beyond the end of the right.
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
            issued: self.expiry.at(server),
            // The end of the right is in the time of the partner.
            expires: self
                .expiry
                .wall_to_token(expires + server.since(now), server),
            device: None,
        };
        let live = matches!(entitlement.playing, PlayedAsset::Live { .. });
        if let (Some(session), PlayedAsset::Live { offset, .. }) = (&session, &entitlement.playing)
        {
            // The player restarts at the new position, so the last heartbeat's is out of date.
            session.shift(*offset);
        }
        let user = viewer.user;
        // Read before the transaction: two concurrent requests may delete the same token, which is not an error, and
        // exceed the limit by one.
        let surplus = self.tokens.tokens_over_limit(&user);
        let session = session.map(|session| (session.user, session.id));
        let context = Arc::clone(&self.context);
        self.store
            .write_for(WritePriority::Session, Durability::Logged, move |txn| {
                // In the transaction: the account may be erased concurrently, and its tokens would survive.
                if !context.exists(txn, &user) {
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
                txn.insert::<tables::Entitlements>(&(user, token.hash()), &entitlement)?;
                Ok(Issued {
                    token,
                    expires,
                    program: right.program.filter(|_| live),
                })
            })
    }
}

/// Per user. Beyond it the oldest token is dropped, which bounds memory. A viewer who changes the channel every minute
/// reaches it in half a day.
pub(crate) const TOKENS_MAX: usize = 512;

pub(crate) struct HeldEntitlement {
    pub user: UserId,
    pub entitlement: Entitlement,
}

#[derive(Default)]
pub(crate) struct TokenMap {
    pub(super) by_hash: DashMap<TokenHash, Arc<HeldEntitlement>, RandomState>,
    /// Ordered by issue time: a user at the limit drops the oldest with each new one, which must not
    /// require a scan.
    by_user: DashMap<UserId, BTreeSet<(UnixSeconds, TokenHash)>, RandomState>,
}

impl TokenMap {
    pub(crate) fn get(&self, hash: &TokenHash) -> Option<Arc<HeldEntitlement>> {
        self.by_hash.get(hash).map(|held| Arc::clone(&held))
    }

    pub(crate) fn tokens_of_user(&self, user: &UserId) -> Vec<TokenHash> {
        self.oldest(user, usize::MAX)
    }

    fn oldest(&self, user: &UserId, count: usize) -> Vec<TokenHash> {
        let tokens = self.by_user.get(user);
        let tokens = tokens.iter().flat_map(|tokens| tokens.iter());
        tokens.take(count).map(|(_, hash)| *hash).collect()
    }

    /// Returns the oldest tokens of a user that have to be deleted before another one is issued.
    pub(crate) fn tokens_over_limit(&self, user: &UserId) -> Vec<TokenHash> {
        let count = self.by_user.get(user).map_or(0, |tokens| tokens.len());
        self.oldest(user, (count + 1).saturating_sub(TOKENS_MAX))
    }

    /// `at` is in token time.
    pub(crate) fn expired(&self, at: UnixSeconds) -> Vec<(UserId, TokenHash)> {
        self.by_hash
            .iter()
            .filter(|held| !held.entitlement.holds(at))
            .map(|held| (held.user, *held.key()))
            .collect()
    }
}

impl CommitListener<tables::Entitlements> for TokenMap {
    fn apply(&self, changes: Vec<Changed<tables::Entitlements>>) {
        for Changed { key, record } in changes {
            let (user, hash) = key;
            match record {
                Some(entitlement) => {
                    let issued = entitlement.issued;
                    let held = Arc::new(HeldEntitlement { user, entitlement });
                    // The issue time never changes.
                    if self.by_hash.insert(hash, held).is_none() {
                        self.by_user.entry(user).or_default().insert((issued, hash));
                    }
                }
                None => {
                    let Some((_, held)) = self.by_hash.remove(&hash) else {
                        continue;
                    };
                    if let Some(mut tokens) = self.by_user.get_mut(&user) {
                        tokens.remove(&(held.entitlement.issued, hash));
                    }
                    // Checked again under the lock of the map: a token may have been added since.
                    self.by_user.remove_if(&user, |_, left| left.is_empty());
                }
            }
        }
    }
}
