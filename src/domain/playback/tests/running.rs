//! Tests of heartbeats, licenses, ends and sweeps.

use super::world::{KEY, program};
use super::*;
use crate::decision::DecisionTrace;
use crate::playback::session_map::SessionMap;
use playgate_store::{Changed, CommitListener as _};
use playgate_types::{BroadcastId, TokenKind, time::DAY};

/// `news`: a program with live rights, one without, one that needs a PIN; half an hour each.
fn guide(lab: &Lab) {
    let mut blackout = program("blackout", NOW, NOW + 1_800);
    blackout.rights.live = false;
    let adult = program("adult", NOW + 1_800, NOW + 3_600);
    *lab.world.programs.lock() = vec![program("open", NOW - 1_800, NOW), blackout, adult];
    lab.world.pins.lock().insert("adult".to_owned());
}

type Change<T> = fn(&mut T, &Others);

/// Values of other users and sessions, for the tables of errors.
struct Others {
    stranger: Player,
    phone: Player,
    elsewhere: Token,
    later: Token,
}

fn others(lab: &Lab) -> Others {
    Others {
        stranger: lab.play(&viewer(2), "film", "tv", NOW),
        phone: lab.play(&viewer(1), "film", "phone", NOW),
        elsewhere: lab.token(&viewer(1), "film-2", vod(), NOW),
        later: lab.token(&viewer(1), "film", vod(), NOW + 5),
    }
}

#[test]
fn heartbeat_errors_have_their_precedence() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    let others = others(&lab);
    let good = Heartbeat {
        login: None,
        user: &player.user,
        session: Some(player.session),
        token: Some(player.token.hash()),
        device: "tv",
        beat: Beat::default(),
        trace: &DecisionTrace::off(),
    };
    let mismatch = || Err(PlaybackError::SessionMismatch);
    let not_found = || Err(PlaybackError::SessionNotFound);
    let invalid = || Err(PlaybackError::EntitlementInvalid);
    let cases: [(Result<(), PlaybackError>, Change<Heartbeat<'_>>); 11] = [
        (Ok(()), |_, _| ()),
        (Ok(()), |h, o| h.token = Some(o.later.hash())),
        (not_found(), |h, _| h.session = None),
        (not_found(), |h, _| {
            h.session = Some(SessionId::from_bytes([0; 16]));
            h.token = None;
            h.device = "";
        }),
        (invalid(), |h, _| h.token = None),
        (invalid(), |h, _| {
            h.token = Some(Token::new(TokenKind::Entitlement, [0; 32]).hash());
            h.device = "x";
        }),
        (mismatch(), |h, _| h.device = "phone"),
        (mismatch(), |h, o| h.token = Some(o.elsewhere.hash())),
        (mismatch(), |h, o| {
            h.session = Some(o.stranger.session);
        }),
        (invalid(), |h, o| h.token = Some(o.stranger.token.hash())),
        (mismatch(), |h, o| h.token = Some(o.phone.token.hash())),
    ];
    for (n, (expected, change)) in (0..).zip(cases) {
        let mut heartbeat = good;
        change(&mut heartbeat, &others);
        assert_eq!(lab.beaten(&heartbeat, NOW + n), expected, "case {n}");
    }
    let stop = lab
        .playback
        .stop(&user(1), Some(&player.session), EndReason::Stopped, NOW);
    stop.unwrap().wait().unwrap();
    let ended = Err(PlaybackError::SessionEnded(EndReason::Stopped));
    let no_token = Heartbeat {
        login: None,
        token: None,
        ..good
    };
    assert_eq!(lab.beaten(&no_token, NOW + 20), ended);
}

#[test]
fn expired_token_ends_playback_at_the_next_heartbeat() {
    let lab = Lab::new();
    let right = GrantedRight {
        valid_until: Some(NOW + 20),
        ..vod()
    };
    let token = lab.token(&viewer(1), "film", right, NOW);
    let started = lab.preflight(Lab::start(&viewer(1), "film", &token, "tv"), NOW);
    let player = Player {
        session: started.unwrap().session,
        token,
        user: user(1),
        device: "tv".to_owned(),
    };
    assert_eq!(lab.beat(&player, NOW + 19), Ok(()));
    assert_eq!(
        lab.beat(&player, NOW + 20),
        Err(PlaybackError::EntitlementExpired)
    );
}

#[test]
fn heartbeat_rate_is_limited() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    let passed = |at: UnixSeconds| (0..50).filter(|_| lab.beat(&player, at).is_ok()).count();
    assert_eq!(passed(NOW), 10);
    assert_eq!(passed(NOW + 1), 2);
    assert_eq!(passed(NOW + 4), 6);
    assert_eq!(passed(NOW + 30), 10);
    let over = lab.beat(&player, NOW + 30);
    let told = matches!(over, Err(PlaybackError::TooManyBeats(limit)) if limit.limit == 10 && limit.window == 5);
    assert!(told, "{over:?}");
    // Heartbeats of another user do not count.
    let stranger = lab.play(&viewer(2), "film", "tv", NOW + 30);
    let foreign = Player {
        session: player.session,
        ..stranger
    };
    for _ in 0..50 {
        assert_eq!(
            lab.beat(&foreign, NOW + 40),
            Err(PlaybackError::SessionMismatch)
        );
    }
    assert_eq!(passed(NOW + 40), 10);
    // A clock that is set back locks no session out.
    assert_eq!(passed(NOW - DAY), 10);
}

#[test]
fn the_program_at_the_playing_position_is_checked() {
    let lab = Lab::new();
    guide(&lab);
    let none = Err(PlaybackError::NoLiveRights { by_default: true });
    let pin = Err(PlaybackError::PinCodeRequired);
    let at = NOW + 900;
    let player = lab.play(&viewer(1), "news", "tv", at);
    let cases = [
        ("at the live point", at.0, at, none.clone()),
        ("in milliseconds", at.0 * 1_000, at + 1, none.clone()),
        (
            "time-shifted into a program with rights",
            NOW.0 - 1,
            at + 2,
            Ok(()),
        ),
        (
            "the same in milliseconds",
            (NOW.0 - 1) * 1_000 + 999,
            at + 3,
            Ok(()),
        ),
        (
            "further back than time-shift reaches",
            at.0 - 90_001 + 4,
            at + 4,
            none.clone(),
        ),
        ("far in the future", at.0 + 3_000, at + 5, none.clone()),
        ("nonsense", i64::MIN, at + 6, none.clone()),
        ("nonsense", i64::MAX, at + 7, none.clone()),
        ("zero", 0, at + 8, none.clone()),
        ("a gap in the guide", NOW.0 - 1_801, at + 9, Ok(())),
        (
            "over now, and so in its catch-up",
            NOW.0 + 1_799,
            NOW + 1_800,
            Ok(()),
        ),
    ];
    // A heartbeat refused for its program still counts: the session stays open.
    for (what, position, now, expected) in cases {
        if now == NOW + 1_800 {
            lab.playback.refresh(NOW + 1_790);
        }
        assert_eq!(lab.beat_at(&player, position, now), expected, "{what}");
    }
    assert_eq!(lab.beat(&player, NOW + 1_829), Ok(()));
    assert_eq!(lab.beat(&player, NOW + 1_830), pin);
    assert_eq!(lab.playback.streams(NOW + 1_864), 1);
    let right = GrantedRight {
        program: Some((BroadcastId::parse("adult").unwrap(), NOW + 3_600)),
        pin_needed: true,
        ..live(0)
    };
    lab.unlocked(
        &viewer(1),
        "news",
        right,
        Some(&player.session),
        NOW + 1_831,
    );
    assert_eq!(lab.beat(&player, NOW + 1_831), Ok(()));
    // The blackout has ended and has catch-up rights: the viewer may go back into it.
    let back = (NOW + 1_000).0;
    assert_eq!(lab.beat_at(&player, back, NOW + 1_832), Ok(()));
}

#[test]
fn without_default_live_rights_the_error_says_so() {
    let lab = Lab::new();
    guide(&lab);
    let play = |id: &str| {
        let right = GrantedRight {
            playing: PlayedAsset::Live {
                livestream: LivestreamId::parse(id).unwrap(),
                offset: 0,
            },
            ..live(0)
        };
        let token = lab.token(&viewer(1), id, right, NOW);
        let started = lab.preflight(Lab::start(&viewer(1), id, &token, id), NOW);
        Player {
            session: started.unwrap().session,
            token,
            user: user(1),
            device: id.to_owned(),
        }
    };
    let none = PlaybackError::NoLiveRights { by_default: false };
    assert_eq!(lab.beat(&play("never"), NOW + 20), Err(none));
    // A livestream removed from the catalogue during playback has no rights.
    let gone = lab.beat(&play("gone"), NOW + 20);
    assert_eq!(gone, Err(PlaybackError::NotAvailable));
}

#[test]
fn catch_up_is_checked_by_its_broadcast() {
    let lab = Lab::new();
    guide(&lab);
    let right = GrantedRight {
        playing: PlayedAsset::Catchup(Box::new(PlayedBroadcast {
            livestream: LivestreamId::parse("news").unwrap(),
            broadcast: BroadcastId::parse("open").unwrap(),
            start: NOW - 1_800,
            stop: NOW,
        })),
        ..live(0)
    };
    let at = NOW + 900;
    let token = lab.token(&viewer(1), "open", right, at);
    let started = lab.preflight(Lab::start(&viewer(1), "open", &token, "tv"), at);
    let player = Player {
        session: started.unwrap().session,
        token,
        user: user(1),
        device: "tv".to_owned(),
    };
    for (what, position, expected) in [
        ("inside", NOW.0 - 900, Ok(())),
        ("in the padding", NOW.0 + 59, Ok(())),
        ("seconds from its start", 120, Ok(())),
        (
            "in the program on now",
            NOW.0 + 60,
            Err(PlaybackError::NoLiveRights { by_default: true }),
        ),
    ] {
        assert_eq!(lab.beat_at(&player, position, at), expected, "{what}");
    }
    lab.world.pins.lock().insert("open".to_owned());
    assert_eq!(lab.beat_at(&player, NOW.0 - 900, at + 29), Ok(()));
    assert_eq!(
        lab.beat_at(&player, NOW.0 - 900, at + 30),
        Err(PlaybackError::PinCodeRequired)
    );
}

const FOREIGN: [[u8; 16]; 2] = [KEY.0, [1; 16]];

#[test]
fn license_reports_each_error() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    let others = others(&lab);
    let kids = [KEY.0];
    let good = LicenseAttempt {
        keys: "",
        user: &player.user,
        session: Some(player.session),
        token: Some(player.token.hash()),
        device: Some("tv"),
        drm: Drm::Clearkey,
        kids: &kids,
        trace: &DecisionTrace::off(),
    };
    let invalid = || Some(PlaybackError::EntitlementInvalid);
    let cases: [(Option<PlaybackError>, Change<LicenseAttempt<'_>>); 11] = [
        (None, |_, _| ()),
        (None, |r, _| (r.device, r.kids) = (None, &[])),
        (Some(PlaybackError::SessionNotFound), |r, _| {
            r.session = None
        }),
        (invalid(), |r, _| r.token = None),
        (invalid(), |r, o| r.token = Some(o.elsewhere.hash())),
        (invalid(), |r, o| r.token = Some(o.stranger.token.hash())),
        (invalid(), |r, o| r.session = Some(o.stranger.session)),
        (invalid(), |r, o| r.token = Some(o.phone.token.hash())),
        (invalid(), |r, _| r.device = Some("phone")),
        // One foreign key id rejects the whole request.
        (Some(PlaybackError::KeyNotAllowed), |r, _| r.kids = &FOREIGN),
        (Some(PlaybackError::DrmMismatch), |r, _| {
            r.drm = Drm::Widevine;
        }),
    ];
    for (expected, change) in cases {
        let mut request = good;
        change(&mut request, &others);
        let found = lab.playback.license(&request, NOW).err();
        assert_eq!(found, expected, "{request:?}");
    }
    let keys = lab.playback.clear_keys(&asset("film"), &kids);
    assert_eq!(keys, Ok(vec![KEY]));
    let keys = lab.playback.clear_keys(&asset("film"), &FOREIGN);
    assert_eq!(keys, Err(PlaybackError::KeyNotAllowed));
    let over = lab.playback.license(&good, NOW + 335).err();
    let ended = PlaybackError::SessionEnded(EndReason::Expired);
    assert_eq!(over, Some(ended));
}

#[test]
fn a_license_is_checked_at_the_position_of_the_entitlement() {
    let lab = Lab::new();
    guide(&lab);
    let at = NOW + 900;
    let license = |offset: i32, on: &str| {
        let token = lab.token(&viewer(1), "news", live(offset), at);
        let started = lab.preflight(Lab::start(&viewer(1), "news", &token, on), at);
        let player = Player {
            session: started.unwrap().session,
            token,
            user: user(1),
            device: on.to_owned(),
        };
        (lab.license(&player, Drm::Clearkey, &[], at), player)
    };
    let none = Err(PlaybackError::NoLiveRights { by_default: true });
    assert_eq!(license(0, "a").0, none);
    let (shifted, player) = license(-1_000, "b");
    assert_eq!(shifted, Ok(()));
    // A heartbeat at the live point, or an entitlement for it, moves the session there.
    assert_eq!(lab.beat(&player, at), none);
    assert_eq!(lab.license(&player, Drm::Clearkey, &[], at), none);
    lab.issued(&viewer(1), "news", live(-1_000), Some(&player.session), at);
    assert_eq!(lab.license(&player, Drm::Clearkey, &[], at), Ok(()));
}

#[test]
fn ended_sessions_are_remembered_for_a_while() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    let stop = |who: u8, at: UnixSeconds| {
        lab.playback
            .stop(&user(who), Some(&player.session), EndReason::Stopped, at)
    };
    assert_eq!(stop(2, NOW).err(), Some(PlaybackError::SessionMismatch));
    stop(1, NOW).unwrap().wait().unwrap();
    let ended = Some(PlaybackError::SessionEnded(EndReason::Stopped));
    assert_eq!(stop(1, NOW).err(), ended);
    // The first reason wins.
    assert_eq!(lab.playback.revoke(&player.session, NOW).err(), ended);
    assert_eq!(lab.playback.sweep_ended(NOW + 3_599).unwrap(), 0);
    assert_eq!(lab.beat(&player, NOW + 3_599).err(), ended);
    assert_eq!(lab.playback.sweep_ended(NOW + 3_600).unwrap(), 1);
    assert_eq!(
        lab.beat(&player, NOW + 3_600),
        Err(PlaybackError::SessionNotFound)
    );
}

#[test]
fn a_sweep_ends_expired_sessions_only() {
    let lab = Lab::new();
    let silent = lab.play(&viewer(1), "film", "tv", NOW);
    let runs = lab.play(&viewer(2), "film", "tv", NOW + 300);
    let swept = |now| lab.playback.sweep_sessions(now).unwrap();
    assert_eq!((swept(NOW + 334), swept(NOW + 335)), (0, 1));
    let kept_until = NOW + DAY + 3_600;
    assert_eq!(lab.playback.sweep_entitlements(kept_until - 1).unwrap(), 0);
    assert_eq!(
        lab.beat(&silent, NOW + 336),
        Err(PlaybackError::SessionEnded(EndReason::Expired))
    );
    assert_eq!(lab.beat(&runs, NOW + 334), Ok(()));
    assert_eq!(lab.playback.sweep_entitlements(kept_until).unwrap(), 1);
    assert_eq!(lab.playback.tokens.by_hash.len(), 1);
}

#[test]
fn heartbeats_are_checkpointed() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    for n in 1..40 {
        assert_eq!(lab.beat(&player, NOW + 10 * n), Ok(()));
        let written = lab.playback.checkpoint().unwrap();
        assert_eq!(written, usize::from(n == 30), "{n}");
    }
    let again = Lab::open(&lab.store, PlaybackSettings::default(), &lab.world);
    let session = again.sessions.get(&player.session).unwrap();
    assert_eq!(session.last_beat(), NOW + 300);
}

#[test]
fn the_newest_record_at_start_up_decides_the_last_heartbeat_and_none_later() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    let stored = lab.playback.sessions.get(&player.session).unwrap();
    let sessions = SessionMap::default();
    let apply = |seen| {
        let mut record = stored.stored();
        record.seen = seen;
        let key = (stored.user, stored.id);
        let record = Some(record);
        sessions.apply(vec![Changed { key, record }]);
        sessions.get(&player.session).unwrap()
    };
    assert_eq!(apply(NOW).last_beat(), NOW);
    let session = apply(NOW + 300);
    assert_eq!(session.last_beat(), NOW + 300);
    // A checkpoint of a running service is older than the last heartbeat.
    session.revive(NOW + 610);
    assert_eq!(apply(NOW + 600).last_beat(), NOW + 610);
}

#[test]
fn a_clock_that_is_set_back_ends_nothing() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    let before = NOW - DAY;
    assert_eq!(lab.playback.sweep_sessions(before).unwrap(), 0);
    // A heartbeat in the future does not hold the slot; the session's next heartbeat gets it back.
    assert_eq!(lab.playback.streams(before), 0);
    assert_eq!(lab.beat(&player, before), Ok(()));
    assert_eq!(lab.playback.streams(before), 1);
}

#[test]
fn session_view_shows_the_last_heartbeat() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film", "tv", NOW);
    lab.beat(&player, NOW + 9).unwrap();
    let views = lab.playback.sessions_of(&user(1), NOW + 9);
    let [view] = views.as_slice() else {
        panic!("one session");
    };
    assert_eq!((view.since, view.seen), (NOW, NOW + 9));
    assert_eq!((view.bitrate, view.resolution), (1, (2, 3)));
    assert_eq!(lab.playback.all_sessions(None, 9, NOW + 9), views);
    assert!(lab.playback.all_sessions(None, 0, NOW + 9).is_empty());
    let of = |id: &str| {
        let asset = AssetId::parse(id).unwrap();
        lab.playback.all_sessions(Some(&asset), 9, NOW + 9)
    };
    assert_eq!((of("film"), of("news").len()), (views, 0));
    lab.playback
        .revoke(&player.session, NOW)
        .unwrap()
        .wait()
        .unwrap();
    assert!(lab.playback.sessions_of(&user(1), NOW + 9).is_empty());
}

#[test]
fn a_lab_partners_clock_ends_no_session_and_no_token() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film-clear", "tv", NOW);
    let heartbeat = Heartbeat {
        login: None,
        user: &player.user,
        session: Some(player.session),
        token: Some(player.token.hash()),
        device: "tv",
        beat: Beat::default(),
        trace: &DecisionTrace::off(),
    };
    for offset in [1_000, 10 * 86_400, -10 * 86_400] {
        let time = RequestTime {
            partner: NOW + 10 + offset,
            server: NOW + 10,
        };
        let counted = lab.playback.heartbeat(&heartbeat, time);
        assert!(matches!(counted, Ok(HeartbeatOutcome::Counted)), "{offset}");
        // A token from the moved clock is valid for as long as any other.
        let PinCheck::Open(grant) =
            lab.playback
                .check_pin(viewer(2), asset("film-clear"), vod(), None, time)
        else {
            panic!("a PIN is asked for")
        };
        let issued = lab.playback.issue(grant, time).wait().unwrap();
        let life = PlaybackSettings::default().token_life;
        assert_eq!(issued.expires, time.partner + life);
        let start = Lab::start(&viewer(2), "film-clear", &issued.token, "phone");
        assert!(lab.preflight(start.clone(), NOW + 9 + life).is_ok());
        assert_eq!(
            lab.preflight(start, NOW + 10 + life),
            Err(PlaybackError::EntitlementInvalid)
        );
    }
    // Heartbeats are timed by the server, too.
    assert_eq!(lab.playback.streams(NOW + 44), 1);
    assert_eq!(lab.playback.streams(NOW + 46), 0);
}

#[test]
fn a_sweep_does_not_end_a_session_that_was_revived_before_its_transaction() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "film-clear", "tv", NOW);
    let session = lab.playback.session(&player.session).unwrap();
    let over = NOW + 400;
    assert_eq!(session.liveness(over), session::Liveness::Over);
    session.revive(over);
    let ended = lab
        .playback
        .end_expired(vec![Arc::clone(&session)], over, over);
    assert_eq!(ended.wait(), Ok(0));
    assert_eq!(lab.beat(&player, over), Ok(()));
    assert_eq!(lab.playback.sweep_sessions(over + 400), Ok(1));
}

#[test]
fn an_explanation_counts_the_streams_of_the_channel_of_a_broadcast_on_air() {
    let lab = Lab::with(PlaybackSettings {
        clearkey: true,
        streams_per_asset: 1,
        ..PlaybackSettings::default()
    });
    lab.play(&viewer(1), "news", "tv", NOW);
    let passes = |livestream: Option<&LivestreamId>| {
        let broadcast = asset("broadcast-1");
        let steps = lab
            .playback
            .explain_start(&viewer(1), &broadcast, livestream, None, NOW)
            .unwrap();
        steps.last().unwrap().passed
    };
    assert!(passes(None));
    assert!(!passes(LivestreamId::parse("news").ok().as_ref()));
}
