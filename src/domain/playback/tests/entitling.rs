//! Tests of entitlement tokens, unlocks, and preflight errors.

use std::sync::atomic::Ordering;

use super::*;
use playgate_types::time::DAY;
use playgate_types::{BroadcastId, MediaPath};

fn pin_right(program: &str) -> GrantedRight {
    GrantedRight {
        program: Some((BroadcastId::parse(program).unwrap(), NOW + 600)),
        pin_needed: true,
        ..live(0)
    }
}

#[test]
fn a_token_lives_a_day_and_never_longer_than_the_right() {
    let lab = Lab::new();
    let issued = lab.issued(&viewer(1), "news", live(0), None, NOW);
    assert_eq!(issued.expires, NOW + DAY);
    let short = GrantedRight {
        valid_until: Some(NOW + 60),
        ..vod()
    };
    let issued = lab.issued(&viewer(1), "film", short, None, NOW);
    assert_eq!(issued.expires, NOW + 60);
    let start = || Lab::start(&viewer(1), "film", &issued.token, "tv");
    assert!(lab.preflight(start(), NOW + 59).is_ok());
    assert_eq!(
        lab.preflight(start(), NOW + 60),
        Err(PlaybackError::EntitlementInvalid)
    );
}

#[test]
fn only_a_live_token_names_the_program() {
    let lab = Lab::new();
    let program = Some((BroadcastId::parse("b").unwrap(), NOW + 600));
    let live = GrantedRight {
        program: program.clone(),
        ..live(0)
    };
    assert_eq!(
        lab.issued(&viewer(1), "news", live.clone(), None, NOW)
            .program,
        program
    );
    let film = GrantedRight {
        playing: PlayedAsset::Vod,
        ..live
    };
    assert_eq!(
        lab.issued(&viewer(1), "film", film, None, NOW).program,
        None
    );
}

#[test]
fn tokens_of_a_user_are_bounded() {
    let lab = Lab::new();
    let first = lab.token(&viewer(1), "news", live(0), NOW);
    let others = lab.token(&viewer(2), "news", live(0), NOW);
    for n in 1..=600 {
        lab.token(&viewer(1), "news", live(0), NOW + n);
    }
    assert_eq!(
        lab.playback.tokens.tokens_of_user(&user(1)).len(),
        entitlement_token::TOKENS_MAX
    );
    assert!(lab.playback.tokens.get(&first.hash()).is_none());
    assert!(lab.playback.tokens.get(&others.hash()).is_some());
}

fn never_issued() -> playgate_types::TokenHash {
    Token::new(playgate_types::TokenKind::Entitlement, [0; 32]).hash()
}

#[test]
fn preflight_reports_each_error() {
    let lab = Lab::new();
    let token = lab.token(&viewer(1), "film", vod(), NOW);
    let start = || Lab::start(&viewer(1), "film", &token, "tv");
    let refused = |start: Start, https: bool| {
        lab.playback
            .preflight(start, https, NOW)
            .and_then(playgate_store::Commit::wait)
            .err()
            .map(|error| format!("{error:?}"))
            .unwrap_or_default()
    };
    let (pair, invalid) = ("DrmProtocolMismatch", "EntitlementInvalid");
    let missing = "ProtocolNotAvailable";
    let cases: [(&str, fn(&mut Start)); 9] = [
        (pair, |s| s.protocol = Protocol::Hls),
        (pair, |s| s.drm = Drm::None),
        (invalid, |s| s.token = None),
        (invalid, |s| s.token = Some(never_issued())),
        (invalid, |s| s.viewer = viewer(2)),
        (invalid, |s| {
            s.viewer.partner = PartnerId::from_bytes([8; 16]);
        }),
        (invalid, |s| s.asset = asset("film-2")),
        // There is no https URL; no license server for PlayReady is configured.
        (missing, |s| s.protocol = Protocol::Dashs),
        ("NoLicenseServer(Playready)", |s| {
            (s.drm, s.protocol) = (Drm::Playready, Protocol::Sstr);
        }),
    ];
    for (n, (expected, change)) in cases.into_iter().enumerate() {
        let mut start = start();
        change(&mut start);
        let found = refused(start, false);
        assert!(found.starts_with(expected), "case {n}: {found}");
    }
    assert!(lab.playback.sessions.by_id.is_empty());
    assert!(lab.playback.devices_of(&user(1)).unwrap().is_empty());
    assert_eq!(
        refused(
            Start {
                protocol: Protocol::Dashs,
                ..start()
            },
            true
        ),
        ""
    );
    // From here on the token is bound to the first device.
    let phone = Start {
        device: device("phone"),
        ..start()
    };
    assert_eq!(refused(phone, false), "EntitlementInvalid");
    lab.world.revoked.store(true, Ordering::Relaxed);
    assert_eq!(refused(start(), false), "EntitlementInvalid");

    let gone = lab.token(&viewer(1), "film-gone", vod(), NOW);
    let gone = Lab::start(&viewer(1), "film-gone", &gone, "tv");
    assert_eq!(refused(gone, false), "AssetNotFound");
}

#[test]
fn clearkey_is_offered_only_if_enabled() {
    let lab = Lab::with(PlaybackSettings::default());
    let token = lab.token(&viewer(1), "film", vod(), NOW);
    let result = lab.preflight(Lab::start(&viewer(1), "film", &token, "tv"), NOW);
    assert!(matches!(result, Err(PlaybackError::DrmProtocolMismatch(_))));
}

#[test]
fn the_country_check_applies_unless_a_tag_disables_it() {
    let lab = Lab::new();
    let right = || GrantedRight {
        countries: ["SE", "DE"]
            .map(|code| Country::parse(code).unwrap())
            .into(),
        ..vod()
    };
    for (country, any, blocked) in [
        (Some("SE"), false, false),
        (Some("FR"), false, true),
        (None, false, true),
        (Some("FR"), true, false),
    ] {
        let viewer = Viewer {
            country: country.map(|code| Country::parse(code).unwrap()),
            any_country: any,
            ..viewer(1)
        };
        let token = lab.token(&viewer, "film", right(), NOW);
        let result = lab.preflight(Lab::start(&viewer, "film", &token, "tv"), NOW);
        assert_eq!(
            result.err(),
            blocked.then_some(PlaybackError::GeoBlocked),
            "{country:?} {any}"
        );
    }
}

#[test]
fn an_unencrypted_asset_needs_no_license() {
    let lab = Lab::new();
    let token = lab.token(&viewer(1), "film-clear", vod(), NOW);
    let clear = Start {
        drm: Drm::None,
        protocol: Protocol::Hls,
        ..Lab::start(&viewer(1), "film-clear", &token, "tv")
    };
    let started = lab.preflight(clear, NOW).unwrap();
    assert!(!started.encrypted);
    assert_eq!(
        started.playlist,
        Playlist::Absolute("http://cdn.example/x.m3u8".to_owned())
    );
    let token = lab.token(&viewer(1), "film-https", vod(), NOW);
    let https = Start {
        protocol: Protocol::Dashs,
        ..Lab::start(&viewer(1), "film-https", &token, "tv")
    };
    let started = lab.preflight(https, NOW).unwrap();
    assert!(started.encrypted);
    assert_eq!(
        started.playlist,
        Playlist::Absolute("https://cdn.example/film-https.mpd".to_owned())
    );
}

#[test]
fn the_address_of_the_origin_is_signed_until_the_token_ends() {
    let lab = Lab::new();
    let token = lab.token(&viewer(1), "film", vod(), NOW);
    let started = lab.preflight(Lab::start(&viewer(1), "film", &token, "tv"), NOW);
    let Playlist::Origin(target) = started.unwrap().playlist else {
        panic!("not of the origin");
    };
    let (signature, file) = target
        .strip_prefix(ORIGIN_PATH)
        .and_then(|rest| rest.split_once('/'))
        .unwrap();
    assert_eq!(file, "loop/news.mpd");
    let path = |text: &str| MediaPath::parse(text).unwrap();
    let playback = &lab.playback;
    assert!(
        playback
            .origin_access(signature, &path("loop/1.m4s"), NOW + DAY - 1)
            .unwrap()
            .is_some()
    );
    assert!(
        playback
            .origin_access(signature, &path("loop/1.m4s"), NOW + DAY)
            .unwrap()
            .is_none()
    );
    assert!(
        playback
            .origin_access(signature, &path("film/1.m4s"), NOW)
            .unwrap()
            .is_none()
    );
}

#[test]
fn an_unlock_is_consumed_by_one_session() {
    let lab = Lab::new();
    let tv = viewer(1);
    lab.world.pins.lock().insert("film".to_owned());
    let right = || GrantedRight {
        pin_needed: true,
        ..vod()
    };
    let token = lab.unlocked(&tv, "film", right(), None, NOW);
    let player = |session| Player {
        session,
        token: token.clone(),
        user: user(1),
        device: "tv".to_owned(),
    };
    let first = lab.preflight(Lab::start(&tv, "film", &token, "tv"), NOW);
    let first = player(first.unwrap().session);
    assert_eq!(
        lab.license(&first, Drm::Clearkey, &[world::KEY.0], NOW),
        Ok(())
    );
    assert_eq!(lab.beat(&first, NOW + 30), Ok(()));
    // The same token starts a second session, which takes over the device and its unlock.
    let again = lab.preflight(Lab::start(&tv, "film", &token, "tv"), NOW + 31);
    let again = player(again.unwrap().session);
    assert_eq!(
        lab.license(&again, Drm::Clearkey, &[world::KEY.0], NOW + 31),
        Ok(())
    );
    assert_eq!(lab.beat(&again, NOW + 61), Ok(()));
    // Once that session is over, nothing is inherited.
    let later = NOW + 61 + 335;
    let second = lab.preflight(Lab::start(&tv, "film", &token, "tv"), later);
    let second = player(second.unwrap().session);
    assert_eq!(
        lab.license(&second, Drm::Clearkey, &[world::KEY.0], later),
        Err(PlaybackError::PinCodeRequired)
    );
    assert_eq!(lab.beat(&second, later + 29), Ok(()));
    assert_eq!(
        lab.beat(&second, later + 30),
        Err(PlaybackError::PinCodeRequired)
    );
    // After the PIN was entered in that session, it continues and needs no PIN for another token.
    lab.unlocked(&tv, "film", right(), Some(&second.session), later + 31);
    assert_eq!(lab.beat(&second, later + 31), Ok(()));
    lab.issued(&tv, "film", right(), Some(&second.session), later + 32);
}

#[test]
fn an_unlock_is_for_one_program_one_session_one_user() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "news", "tv", NOW);
    lab.unlocked(
        &viewer(1),
        "news",
        pin_right("x"),
        Some(&player.session),
        NOW,
    );
    let needs = |who: u8, id: &str, program: &str, session: &SessionId| {
        let right = pin_right(program);
        let considered = lab
            .playback
            .check_pin(viewer(who), asset(id), right, Some(session), NOW);
        matches!(considered, PinCheck::Locked(_))
    };
    assert!(!needs(1, "news", "x", &player.session));
    assert!(needs(1, "news", "y", &player.session));
    assert!(needs(2, "news", "x", &player.session));
    assert!(needs(1, "other", "x", &player.session));
    let phone = lab.play(&viewer(1), "news", "phone", NOW);
    assert!(needs(1, "news", "x", &phone.session));
    assert!(needs(1, "news", "x", &SessionId::from_bytes([0; 16])));
}

#[test]
fn a_wrong_pin_unlocks_nothing() {
    let lab = Lab::new();
    let considered = lab
        .playback
        .check_pin(viewer(1), asset("news"), pin_right("x"), None, NOW);
    let PinCheck::Locked(locked) = considered else {
        panic!("no PIN is asked for");
    };
    assert_eq!(locked.unlock(|_| Err("wrong")).err(), Some("wrong"));
}

#[test]
fn unlocks_of_a_session_are_bounded_and_survive_a_restart() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "news", "tv", NOW);
    for n in 0..=model::UNLOCKS_MAX {
        let right = pin_right(&format!("p{n}"));
        lab.unlocked(&viewer(1), "news", right, Some(&player.session), NOW);
    }
    let playback = Lab::open(&lab.store, PlaybackSettings::default(), &lab.world);
    let session = playback.sessions.get(&player.session).unwrap();
    assert!(!session.unlocked("p0"));
    assert!(session.unlocked("p1"));
    assert!(session.unlocked(&format!("p{}", model::UNLOCKS_MAX)));
}

#[test]
fn tokens_without_an_offer_are_voided() {
    let lab = Lab::new();
    let player = lab.play(&viewer(1), "news", "tv", NOW);
    let void = || lab.playback.void_lost(&viewer(1), NOW).wait().unwrap();
    void();
    assert_eq!(lab.beat(&player, NOW + 1), Ok(()));
    lab.world.revoked.store(true, Ordering::Relaxed);
    void();
    assert_eq!(
        lab.beat(&player, NOW + 1),
        Err(PlaybackError::SessionEnded(EndReason::Revoked))
    );
    assert_eq!(
        lab.license(&player, Drm::Clearkey, &[], NOW + 1),
        Err(PlaybackError::SessionEnded(EndReason::Revoked))
    );
}
