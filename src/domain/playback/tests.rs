//! Tests of the playback rules with a small fake of the other domains.

mod entitling;
mod limits;
mod running;
mod walk;
mod world;

use std::sync::Arc;

use playgate_ports::SeededEntropy;
use playgate_store::{Schema, Store, Table as _};
use playgate_types::{
    AssetId, Country, DeviceId, Drm, LivestreamId, PartnerId, Protocol, SessionId, Token,
    UnixSeconds, UserId,
};

use super::model::{
    EndedSession, Entitlement, PlayedAsset, PlayedBroadcast, SessionStart, StoredSession,
};
use super::playlist_url::ORIGIN_PATH;
use super::*;
use crate::decision::DecisionTrace;
use world::Small;

/// Start time of most tests: not a full hour or day.
const NOW: UnixSeconds = UnixSeconds(1_800_000_123);

fn asset(id: &str) -> AssetId {
    AssetId::parse(id).unwrap()
}

fn user(n: u8) -> UserId {
    UserId::from_bytes([n; 16])
}

fn viewer(n: u8) -> Viewer {
    Viewer {
        user: user(n),
        partner: PartnerId::from_bytes([9; 16]),
        country: Country::parse("SE").ok(),
        any_country: false,
        any_device: false,
    }
}

fn device(id: &str) -> Device {
    Device {
        id: DeviceId::parse(id).unwrap(),
        platform: "linux".into(),
        kind: "tv".into(),
        model: format!("Model {id}").into(),
    }
}

fn live(offset: i32) -> GrantedRight {
    GrantedRight {
        playing: PlayedAsset::Live {
            livestream: LivestreamId::parse("news").unwrap(),
            offset,
        },
        program: None,
        pin_needed: false,
        valid_until: None,
        countries: Vec::new(),
    }
}

fn vod() -> GrantedRight {
    GrantedRight {
        playing: PlayedAsset::Vod,
        ..live(0)
    }
}

struct Lab {
    playback: Playback,
    world: Arc<Small>,
    store: Store,
}

impl Lab {
    fn new() -> Self {
        Self::with(PlaybackSettings {
            clearkey: true,
            ..PlaybackSettings::default()
        })
    }

    fn with(settings: PlaybackSettings) -> Self {
        let store = Store::in_memory(schema(Schema::default()));
        let world = Arc::new(Small::default());
        let playback = Self::open(&store, settings, &world);
        Self {
            playback,
            world,
            store,
        }
    }

    fn open(store: &Store, settings: PlaybackSettings, world: &Arc<Small>) -> Playback {
        Self::open_again(store, settings, world, 1)
    }

    /// A different seed gives different tokens and ids, as in another process.
    fn open_again(
        store: &Store,
        settings: PlaybackSettings,
        world: &Arc<Small>,
        seed: u64,
    ) -> Playback {
        Playback::open(
            store,
            Arc::new(SeededEntropy::new(seed)),
            settings,
            Signing::new(&[3; 32], Vec::new()),
            world.clone(),
            Arc::default(),
        )
        .unwrap()
    }

    /// A token of a right that needs no PIN.
    fn token(&self, viewer: &Viewer, id: &str, right: GrantedRight, now: UnixSeconds) -> Token {
        self.issued(viewer, id, right, None, now).token
    }

    fn issued(
        &self,
        viewer: &Viewer,
        id: &str,
        right: GrantedRight,
        session: Option<&SessionId>,
        now: UnixSeconds,
    ) -> Issued {
        match self
            .playback
            .check_pin(viewer.clone(), asset(id), right, session, now)
        {
            PinCheck::Open(grant) => self.playback.issue(grant, now).wait().unwrap(),
            PinCheck::Locked(_) => panic!("a PIN is asked for"),
        }
    }

    /// A token of a right for which the PIN is entered.
    fn unlocked(
        &self,
        viewer: &Viewer,
        id: &str,
        right: GrantedRight,
        session: Option<&SessionId>,
        now: UnixSeconds,
    ) -> Token {
        match self
            .playback
            .check_pin(viewer.clone(), asset(id), right, session, now)
        {
            PinCheck::Open(_) => panic!("no PIN is asked for"),
            PinCheck::Locked(locked) => {
                let grant = locked.unlock(|_| Ok::<(), ()>(())).unwrap();
                self.playback.issue(grant, now).wait().unwrap().token
            }
        }
    }

    fn start(viewer: &Viewer, id: &str, token: &Token, on: &str) -> Start {
        Start {
            viewer: viewer.clone(),
            asset: asset(id),
            drm: Drm::Clearkey,
            protocol: Protocol::Dash,
            token: Some(token.hash()),
            device: device(on),
            trace: DecisionTrace::off(),
        }
    }

    fn preflight(&self, start: Start, now: UnixSeconds) -> Result<Started, PlaybackError> {
        self.playback.preflight(start, false, now)?.wait()
    }

    /// Requests entitlement and preflight of an unencrypted asset.
    fn play(&self, viewer: &Viewer, id: &str, on: &str, now: UnixSeconds) -> Player {
        self.try_play(viewer, id, on, now).unwrap()
    }

    fn try_play(
        &self,
        viewer: &Viewer,
        id: &str,
        on: &str,
        now: UnixSeconds,
    ) -> Result<Player, PlaybackError> {
        let right = if id.starts_with("film") {
            vod()
        } else {
            live(0)
        };
        let token = self.token(viewer, id, right, now);
        let started = self.preflight(Self::start(viewer, id, &token, on), now)?;
        Ok(Player {
            session: started.session,
            token,
            user: viewer.user,
            device: on.to_owned(),
        })
    }

    fn beat_at(
        &self,
        player: &Player,
        position: i64,
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        let heartbeat = Heartbeat {
            login: None,
            user: &player.user,
            session: Some(player.session),
            token: Some(player.token.hash()),
            device: &player.device,
            beat: Beat {
                position,
                bitrate: 1,
                width: 2,
                height: 3,
            },
            trace: &DecisionTrace::off(),
        };
        self.beaten(&heartbeat, now)
    }

    fn beat(&self, player: &Player, now: UnixSeconds) -> Result<(), PlaybackError> {
        self.beat_at(player, now.0, now)
    }

    fn beaten(&self, heartbeat: &Heartbeat<'_>, now: UnixSeconds) -> Result<(), PlaybackError> {
        match self.playback.heartbeat(heartbeat, now)? {
            HeartbeatOutcome::Counted => Ok(()),
            HeartbeatOutcome::Reviving(commit) => commit.wait(),
        }
    }

    fn license(
        &self,
        player: &Player,
        drm: Drm,
        kids: &[[u8; 16]],
        now: UnixSeconds,
    ) -> Result<(), PlaybackError> {
        let request = LicenseAttempt {
            keys: "",
            user: &player.user,
            session: Some(player.session),
            token: Some(player.token.hash()),
            device: None,
            drm,
            kids,
            trace: &DecisionTrace::off(),
        };
        self.playback.license(&request, now).map(|_| ())
    }
}

/// A player with a session.
struct Player {
    session: SessionId,
    token: Token,
    user: UserId,
    device: String,
}

/// The bytes of a record as stored, without checksum and version.
fn body<R: playgate_store::Record>(record: &R) -> String {
    let options = bincode::config::standard()
        .with_little_endian()
        .with_variable_int_encoding();
    let bytes = bincode::serde::encode_to_vec(record, options).unwrap();
    assert!(playgate_store::read_record::<R>(&bytes).is_some());
    data_encoding::HEXLOWER.encode(&bytes)
}

#[test]
fn record_bytes_are_stable() {
    let entitlement = Entitlement {
        id: playgate_types::EntitlementId::from_bytes([1; 16]),
        partner: PartnerId::from_bytes([3; 16]),
        asset: asset("news"),
        playing: live(-5).playing,
        program: None,
        unlock: Some(asset("b")),
        countries: vec![Country::parse("SE").unwrap()],
        issued: UnixSeconds(10),
        expires: UnixSeconds(20),
        device: Some(DeviceId::parse("d").unwrap()),
    };
    assert_eq!(
        body(&entitlement),
        format!(
            "{}{}046e65777300046e65777309000101620153451428010164",
            "01".repeat(16),
            "03".repeat(16)
        )
    );
    let stored = StoredSession {
        start: SessionStart {
            partner: PartnerId::from_bytes([3; 16]),
            asset: asset("f"),
            playing: PlayedAsset::Vod,
            device: device("d"),
            drm: Drm::Clearkey,
            protocol: Protocol::Dash,
            since: UnixSeconds(1),
        },
        program: None,
        unlocks: vec![asset("f")],
        seen: UnixSeconds(2),
    };
    assert_eq!(
        body(&stored),
        format!(
            "{}016602016405{}0274760{}03000200010166{}",
            "03".repeat(16),
            "6c696e7578",
            "74d6f64656c2064",
            "04"
        )
    );
    let ended = EndedSession {
        reason: EndReason::Displaced,
        at: UnixSeconds(3),
    };
    assert_eq!(body(&ended), "0206");
    let registered = Registered {
        device: device("d"),
        since: UnixSeconds(1),
        latest: UnixSeconds(2),
    };
    assert_eq!(
        body(&registered),
        "0164056c696e7578027476074d6f64656c20640204"
    );
}

#[test]
fn an_ended_session_is_recorded_before_it_leaves_the_session_map() {
    assert!(tables::EndedSessions::NAME < tables::Sessions::NAME);
}

#[test]
fn a_restart_renews_liveness_and_revives_no_ended_session() {
    let lab = Lab::new();
    let runs = lab.play(&viewer(1), "news", "tv", NOW);
    let stopped = lab.play(&viewer(1), "news", "phone", NOW);
    let stop = |now| {
        lab.playback
            .stop(&user(1), Some(&stopped.session), EndReason::Stopped, now)
    };
    stop(NOW).unwrap().wait().unwrap();
    let later = NOW + 10_000;
    let playback = Lab::open(&lab.store, PlaybackSettings::default(), &lab.world);
    playback.refresh(later);
    let again = Lab {
        playback,
        world: lab.world.clone(),
        store: lab.store.clone(),
    };
    assert_eq!(again.playback.streams(later + 34), 1);
    assert_eq!(again.beat(&runs, later + 34), Ok(()));
    assert_eq!(
        again.beat(&stopped, later),
        Err(PlaybackError::SessionEnded(EndReason::Stopped))
    );
    assert!(
        again
            .store
            .verify()
            .unwrap()
            .tables
            .iter()
            .all(|t| t.is_sound())
    );
}
