//! Tests of stream and device limits.

use super::*;
use playgate_store::Durability;

fn full(result: Result<Player, PlaybackError>) -> Vec<String> {
    match result {
        Err(PlaybackError::StreamLimitReached(sessions)) => sessions
            .into_iter()
            .map(|way| way.device.model.to_string())
            .collect(),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it started"),
    }
}

#[test]
fn a_stream_is_a_device_and_there_are_three() {
    let lab = Lab::new();
    let tv = lab.play(&viewer(1), "news", "tv", NOW);
    for (n, on) in ["phone", "tablet"].into_iter().enumerate() {
        lab.play(&viewer(1), &format!("film-{n}"), on, NOW + 1);
    }
    let refused = lab.try_play(&viewer(1), "film", "laptop", NOW + 2);
    let models = full(refused);
    assert_eq!(models.len(), 3);
    assert_eq!(models[0], "Model tv");
    // Streams of other users do not count, and a start on the same device replaces its stream.
    lab.play(&viewer(2), "news", "laptop", NOW + 2);
    let again = lab.play(&viewer(1), "film", "tv", NOW + 3);
    assert_eq!(
        lab.beat(&tv, NOW + 4),
        Err(PlaybackError::SessionEnded(EndReason::Replaced))
    );
    assert_eq!(lab.beat(&again, NOW + 4), Ok(()));
    assert_eq!(lab.playback.streams(NOW + 4), 4);
}

#[test]
fn channel_limit_can_only_lower_the_stream_limit() {
    let lab = Lab::with(PlaybackSettings {
        clearkey: true,
        streams_total: 3,
        streams_per_asset: 9,
        ..PlaybackSettings::default()
    });
    lab.play(&viewer(1), "film", "a", NOW);
    // `news-2` allows two streams; all of them count as channel `news`.
    lab.play(&viewer(1), "news-2", "b", NOW);
    let streams_of = |total: u32| {
        let lab = Lab::with(PlaybackSettings {
            clearkey: true,
            streams_total: total,
            ..PlaybackSettings::default()
        });
        (0..9)
            .filter(|n| {
                lab.try_play(&viewer(1), "news-2", &format!("d{n}"), NOW)
                    .is_ok()
            })
            .count()
    };
    assert_eq!(streams_of(1), 1);
    assert_eq!(streams_of(2), 2);
    assert_eq!(streams_of(5), 2);
    lab.play(&viewer(1), "news-2", "c", NOW);
    assert_eq!(full(lab.try_play(&viewer(1), "film-9", "d", NOW)).len(), 3);
}

#[test]
fn stream_limit_error_names_the_sessions_that_hold_slots() {
    let lab = Lab::with(PlaybackSettings {
        clearkey: true,
        streams_total: 4,
        streams_per_asset: 1,
        ..PlaybackSettings::default()
    });
    lab.play(&viewer(1), "film-1", "a", NOW);
    lab.play(&viewer(1), "film", "b", NOW);
    let refused = lab.try_play(&viewer(1), "film", "c", NOW);
    assert_eq!(full(refused), ["Model b"]);
}

#[test]
fn displace_ends_the_oldest_stream() {
    let lab = Lab::with(PlaybackSettings {
        clearkey: true,
        streams_total: 2,
        when_full: WhenFull::Displace,
        ..PlaybackSettings::default()
    });
    let first = lab.play(&viewer(1), "film-1", "a", NOW);
    let second = lab.play(&viewer(1), "film-2", "b", NOW + 1);
    lab.play(&viewer(1), "film-3", "c", NOW + 2);
    assert_eq!(
        lab.beat(&first, NOW + 3),
        Err(PlaybackError::SessionEnded(EndReason::Displaced))
    );
    assert_eq!(lab.beat(&second, NOW + 3), Ok(()));
    let none = Lab::with(PlaybackSettings {
        clearkey: true,
        streams_total: 0,
        when_full: WhenFull::Displace,
        ..PlaybackSettings::default()
    });
    assert!(full(none.try_play(&viewer(1), "film", "a", NOW)).is_empty());
}

#[test]
fn parallel_starts_never_overshoot() {
    let lab = Lab::with(PlaybackSettings {
        clearkey: true,
        devices: 64,
        ..PlaybackSettings::default()
    });
    for round in 0..20 {
        let who = viewer(round);
        let tokens: Vec<Token> = (0..16)
            .map(|_| lab.token(&who, "news", live(0), NOW))
            .collect();
        // All are queued before any is awaited, so that they share a transaction group.
        let commits: Vec<_> = tokens
            .iter()
            .enumerate()
            .map(|(n, token)| {
                let start = Lab::start(&who, "news", token, &format!("d{n}"));
                lab.playback.preflight(start, false, NOW).unwrap()
            })
            .collect();
        let started = commits
            .into_iter()
            .filter_map(|commit| commit.wait().ok())
            .count();
        assert_eq!(started, 3);
        assert_eq!(lab.playback.sessions_of(&who.user, NOW).len(), 3);
    }
}

#[test]
fn one_token_starts_on_one_device_even_in_parallel() {
    let lab = Lab::new();
    let token = lab.token(&viewer(1), "news", live(0), NOW);
    let commits: Vec<_> = (0..3)
        .map(|n| {
            let start = Lab::start(&viewer(1), "news", &token, &format!("d{n}"));
            lab.playback.preflight(start, false, NOW)
        })
        .collect();
    // A start after the first commit is refused before it is queued.
    let results: Vec<_> = commits.into_iter().map(|commit| commit?.wait()).collect();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert!(results.contains(&Err(PlaybackError::EntitlementInvalid)));
}

#[test]
fn a_silent_session_frees_its_slot_and_may_get_it_back() {
    let lab = Lab::new();
    let players: Vec<Player> = (0..3)
        .map(|n| lab.play(&viewer(1), "news", &format!("d{n}"), NOW))
        .collect();
    for player in &players[1..] {
        assert_eq!(lab.beat(player, NOW + 34), Ok(()));
    }
    let refused = lab.try_play(&viewer(1), "news", "d3", NOW + 34);
    assert_eq!(full(refused).len(), 3);
    let late = lab.play(&viewer(1), "news", "d3", NOW + 35);
    // Its slot is taken until another one is free.
    let gone = Err(PlaybackError::SessionEnded(EndReason::Expired));
    assert_eq!(lab.beat(&players[0], NOW + 36), gone);
    let stop = lab
        .playback
        .stop(&user(1), Some(&late.session), EndReason::Stopped, NOW + 40);
    stop.unwrap().wait().unwrap();
    assert_eq!(lab.beat(&players[0], NOW + 41), Ok(()));
    assert_eq!(lab.beat(&players[0], NOW + 51), Ok(()));
    // Five minutes after it lost its slot, the session is over.
    assert_eq!(lab.beat(&players[1], NOW + 34 + 334), Ok(()));
    assert_eq!(lab.beat(&players[2], NOW + 34 + 335), gone);
    assert_eq!(lab.playback.sweep_sessions(NOW + 34 + 335).unwrap(), 1);
    assert_eq!(lab.beat(&players[2], NOW + 34 + 335), gone);
}

#[test]
fn parallel_revivals_never_overshoot() {
    let lab = Lab::new();
    let idle: Vec<Player> = (0..3)
        .map(|n| lab.play(&viewer(1), "news", &format!("d{n}"), NOW))
        .collect();
    let later = NOW + 60;
    for n in 3..5 {
        lab.play(&viewer(1), "news", &format!("d{n}"), later);
    }
    let alive = idle.iter().filter(|p| lab.beat(p, later).is_ok()).count();
    assert_eq!(alive, 1);
    assert_eq!(lab.playback.streams(later), 3);
}

#[test]
fn devices_register_at_their_first_start() {
    let lab = Lab::new();
    let names = |lab: &Lab| -> Vec<String> {
        let devices = lab.playback.devices_of(&user(1)).unwrap();
        let ids = devices.iter().map(|d| d.device.id.as_str().to_owned());
        ids.collect()
    };
    for n in 0..5 {
        let at = NOW + 1_000 * n;
        lab.play(&viewer(1), "news", &format!("d{n}"), at);
        lab.playback
            .end_all(&user(1), EndReason::Revoked, at)
            .wait()
            .unwrap();
    }
    let at = NOW + 5_000;
    lab.play(&viewer(1), "news", "d0", at);
    assert_eq!(
        lab.try_play(&viewer(1), "news", "d5", at).err(),
        Some(PlaybackError::DeviceLimitReached)
    );
    let free = Viewer {
        any_device: true,
        ..viewer(1)
    };
    lab.play(&free, "news", "d6", at);
    assert_eq!(names(&lab), ["d0", "d1", "d2", "d3", "d4"]);
    // A removed device stops playing and makes room.
    let runs = lab.play(&viewer(1), "news", "d1", at);
    let forget = |id: &str| {
        let id = DeviceId::parse(id).unwrap();
        lab.playback.remove_device(&user(1), id, at).wait()
    };
    assert_eq!(forget("d1"), Ok(()));
    assert_eq!(forget("d1"), Err(PlaybackError::DeviceNotFound));
    assert_eq!(
        lab.beat(&runs, at + 1),
        Err(PlaybackError::SessionEnded(EndReason::Revoked))
    );
    lab.play(&viewer(1), "news", "d5", at);
    assert_eq!(names(&lab), ["d0", "d2", "d3", "d4", "d5"]);
    lab.playback.clear_devices(&user(1), at).wait().unwrap();
    assert!(names(&lab).is_empty());
    lab.play(&viewer(1), "news", "d5", at);
    lab.store
        .write(Durability::Durable, move |txn| {
            revocation::erase(txn, &user(1), at)
        })
        .wait()
        .unwrap();
    assert!(names(&lab).is_empty());
    assert!(lab.playback.sessions_of(&user(1), at).is_empty());
    assert!(lab.playback.tokens.tokens_of_user(&user(1)).is_empty());
}
