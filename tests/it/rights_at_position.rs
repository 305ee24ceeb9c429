//! The rights at a playback position: entitlement, license and heartbeat follow every row of the table in
//! `docs/playback.md`, and in a property test they never disagree.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gate_only::NOON;
use crate::support::playback_fixture::{PlaybackFixture, Player};
use crate::support::server::TestServer;

const HOUR: i64 = 3_600;
const KEY: &str = "EREiIjMzRERVVWZmd3eIiA";

/// A server with one livestream, and one running session, for each entry of `rights`. The sessions begin while
/// everything is allowed. Then `rights` and `broadcasts` take effect.
struct Channels {
    fixture: PlaybackFixture,
    players: Vec<(String, Player)>,
}

impl Channels {
    fn with(rights: &[(&str, Value)], broadcasts: &Value, guide: &Value) -> Self {
        let catalog = |with_rights: bool| {
            let livestream = |(id, rights): &(&str, Value)| {
                let mut livestream = json!({
                    "id": id,
                    "playlist": {"dash": "https://cdn.example/{asset}.mpd"},
                    "keys": [{"kid": "11112222333344445555666677778888",
                              "key": "00000000000000000000000000000001"}],
                });
                let rights = rights.as_object().unwrap().clone();
                if with_rights {
                    livestream.as_object_mut().unwrap().extend(rights);
                }
                livestream
            };
            let livestreams: Vec<_> = rights.iter().map(livestream).collect();
            json!({
                "livestream": livestreams,
                "offer": [{"id": "all", "type": "default", "pack": "all"}],
                "broadcast": if with_rights { broadcasts.clone() } else { json!([]) },
            })
        };
        let server = TestServer::with(&[
            ("playback.clearkey", "true"),
            ("playback.streams_total", "99"),
            ("playback.devices", "99"),
        ]);
        let media = TempDir::new().unwrap();
        let fixture = PlaybackFixture::with_catalogue(server, media, &catalog(false).to_string());
        if guide.as_object().is_some_and(|guide| !guide.is_empty()) {
            fixture.import("epg", &guide.to_string());
        }
        let play = |(id, _): &(&str, Value)| {
            let player = fixture.play(&fixture.ann, id, &format!("device of {id}"));
            ((*id).to_owned(), player)
        };
        let players = rights.iter().map(play).collect();
        fixture.import("catalog", &catalog(true).to_string());
        Self { fixture, players }
    }

    fn player(&self, channel: &str) -> &Player {
        let mut players = self.players.iter();
        &players.find(|(id, _)| id == channel).unwrap().1
    }

    fn now(&self) -> i64 {
        self.fixture.server.services.clock.now().0
    }

    fn entitle(&self, channel: &str, offset: i64) -> String {
        let target = format!("/api/entitlement/v2/asset/{channel}?offset={offset}");
        let fixture = &self.fixture;
        fixture
            .ask(&fixture.ann, "POST", &target, &[], "")
            .outcome()
    }

    fn beat(&self, channel: &str, timestamp: i64) -> String {
        // Keeps below the rate limit of heartbeats.
        self.fixture.server.wait(1);
        let timestamp = timestamp + 1;
        let headers = [("Timestamp", &*timestamp.to_string())];
        self.fixture.beat(self.player(channel), &headers).outcome()
    }

    /// Requests a license, which is checked at the position of the last heartbeat.
    fn license(&self, channel: &str) -> String {
        let body = json!({"kids": [KEY], "type": "temporary"}).to_string();
        self.fixture
            .license(self.player(channel), "clearkey", &body)
            .outcome()
    }

    /// Returns the answers of entitlement, license and heartbeat at `shift` seconds from now.
    fn answers(&self, channel: &str, shift: i64) -> [String; 3] {
        let beat = self.beat(channel, self.now() + shift);
        [self.entitle(channel, shift), self.license(channel), beat]
    }
}

/// Builds a guide from id, start and stop in seconds from noon.
fn programs(programs: &[(&str, i64, i64)]) -> Value {
    let program = |(id, start, stop): &(&str, i64, i64)| json!({"id": id, "title": id, "pgAge": 0, "start": NOON.0 + start, "stop": NOON.0 + stop});
    programs.iter().map(program).collect()
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table, read as one")]
fn every_row_of_the_table_holds_for_entitlement_license_and_heartbeat() {
    let extended = json!({"rewind": true});
    let rights = [
        ("plain", json!({})),
        ("rewind", json!({"extended_rights": extended})),
        ("start-over", json!({"start_over": true})),
        ("week", json!({"catchup_days": 7})),
        ("dark", json!({"catchup_days": 7})),
        ("dark-rewind", json!({"extended_rights": extended})),
        ("dark-start-over", json!({})),
        ("blackout", json!({"start_over": true})),
        ("never", json!({"live_rights": false})),
        (
            "never-rewind",
            json!({"live_rights": false, "extended_rights": extended}),
        ),
        (
            "never-start-over",
            json!({"live_rights": false, "start_over": true}),
        ),
        (
            "never-week",
            json!({"live_rights": false, "catchup_days": 7}),
        ),
        ("guideless", json!({"live_rights": false})),
    ];
    let broadcasts = json!([
        {"id": "dark-now", "live": false},
        {"id": "dark-rewind-now", "live": false},
        {"id": "dark-start-over-now", "live": false, "start_over": true},
        {"id": "blackout-now", "live": false},
    ]);
    let mut guide = json!({});
    for (id, _) in rights.iter().filter(|(id, _)| *id != "guideless") {
        let [over, on] = [format!("{id}-over"), format!("{id}-now")];
        guide[*id] = programs(&[(&over, -2 * HOUR, -HOUR), (&on, -HOUR, HOUR)]);
    }
    let server = Channels::with(&rights, &broadcasts, &guide);

    let ok = ["200", "200", "200"];
    let none = ["403 NO_LIVE_RIGHTS"; 3];
    let dark = [
        "403 NO_LIVE_RIGHTS",
        "403 NO_LIVE_RIGHTS",
        "552 NO_LIVE_RIGHTS",
    ];
    let gone = ["403 NOT_AVAILABLE"; 3];
    for (channel, shift, expected) in [
        // At the live point, with live rights.
        ("plain", 0, ok),
        ("plain", -60, ok),
        ("week", 0, ok),
        // At the live point, without live rights on a livestream that has them by default.
        ("dark", 0, dark),
        ("dark", -60, dark),
        ("dark-start-over", 0, dark),
        // At the live point, on a livestream without live rights.
        ("never", 0, none),
        ("never-start-over", -60, none),
        ("never-week", 0, none),
        ("guideless", 0, none),
        // Earlier in the current program, with start-over.
        ("start-over", -61, ok),
        ("start-over", -1_800, ok),
        ("dark-start-over", -1_800, ok),
        ("never-start-over", -61, ok),
        // Earlier in the current program, with live rights and `rewind`.
        ("rewind", -61, ok),
        ("rewind", -1_800, ok),
        // Earlier in the current program, with neither live rights nor start-over.
        ("dark", -1_800, dark),
        ("dark-rewind", -1_800, dark),
        ("blackout", -1_800, dark),
        ("never", -1_800, none),
        ("never-rewind", -61, none),
        ("never-week", -1_800, none),
        ("guideless", -1_800, none),
        // Earlier, within the catch-up window.
        ("week", -HOUR - 1_800, ok),
        ("dark", -HOUR - 1_800, ok),
        ("never-week", -HOUR - 1_800, ok),
        // Earlier, with none of these.
        ("plain", -61, gone),
        ("plain", -1_800, gone),
        ("week", -1_800, gone),
        ("plain", -HOUR - 1_800, gone),
        ("rewind", -HOUR - 1_800, gone),
        ("start-over", -HOUR - 1_800, gone),
        ("never", -HOUR - 1_800, gone),
        ("never-rewind", -HOUR - 1_800, gone),
        ("plain", -86_400, gone),
    ] {
        assert_eq!(
            server.answers(channel, shift),
            expected,
            "{channel} at {shift}"
        );
    }
    // An impossible position is treated as the live point.
    for shift in [61, 3_000, -90_001, -40 * 86_400] {
        for (channel, expected) in [
            ("week", "200"),
            ("plain", "200"),
            ("dark", "552 NO_LIVE_RIGHTS"),
            ("never", "403 NO_LIVE_RIGHTS"),
        ] {
            let beat = server.beat(channel, server.now() + shift);
            assert_eq!(beat, expected, "{channel} at {shift}");
        }
    }
    assert_eq!(
        server.beat("plain", server.now() - 90_000),
        "403 NOT_AVAILABLE"
    );
    let seconds = server.beat("never-week", 120);
    assert_eq!(seconds, "403 NO_LIVE_RIGHTS");
    let millis = server.now() * 1_000 - 1_800_000;
    assert_eq!(server.beat("start-over", millis), "200");
    assert_eq!(server.beat("plain", millis), "403 NOT_AVAILABLE");
}

#[test]
fn a_delayed_session_is_checked_at_its_own_position() {
    let rights = [("never", json!({"live_rights": false, "catchup_days": 7}))];
    let guide = json!({"never": programs(&[("a", -2 * HOUR, -HOUR), ("b", -HOUR, HOUR)])});
    let server = Channels::with(&rights, &json!([]), &guide);
    let fixture = &server.fixture;
    let target = "/api/entitlement/v2/asset/never?offset=-5400";
    let answer = fixture.ask(&fixture.ann, "POST", target, &[], "");
    let token = answer.json()["token"].as_str().unwrap().to_owned();
    let started = fixture.preflight(&fixture.ann, "never", &token, &[("DeviceId", "tv")]);
    let player = crate::support::playback_fixture::player(&fixture.ann, "tv", &started);
    let license = || {
        let body = json!({"kids": [KEY], "type": "temporary"}).to_string();
        fixture.license(&player, "clearkey", &body).outcome()
    };
    let beat = |shift: i64| {
        fixture.server.wait(1);
        let timestamp = (server.now() + shift).to_string();
        fixture
            .beat(&player, &[("Timestamp", &timestamp)])
            .outcome()
    };
    assert_eq!(license(), "200");
    assert_eq!(beat(-5_400), "200");
    // At the live point both heartbeat and license are refused, and the session stays open.
    assert_eq!(beat(0), "403 NO_LIVE_RIGHTS");
    assert_eq!(license(), "403 NO_LIVE_RIGHTS");
    assert_eq!(beat(-30), "403 NO_LIVE_RIGHTS");
    assert_eq!(license(), "403 NO_LIVE_RIGHTS");
    assert_eq!(beat(-5_400), "200");
    assert_eq!(license(), "200");
}

#[test]
fn a_catch_up_session_stays_at_its_own_broadcast() {
    let rights = [("news", json!({"catchup_days": 7}))];
    let guide = json!({"news": programs(&[
        ("evening", -30 * HOUR, -29 * HOUR), ("morning", -2 * HOUR, -HOUR), ("now", -HOUR, HOUR),
    ])});
    let broadcasts = json!([{"id": "now", "live": false}]);
    let server = Channels::with(&rights, &broadcasts, &guide);
    let fixture = &server.fixture;
    let morning = fixture.play(&fixture.ann, "morning", "tv");
    let evening = fixture.play(&fixture.ann, "evening", "phone");
    let beat = |player: &Player, at: i64| {
        fixture.server.wait(1);
        fixture
            .beat(player, &[("Timestamp", &at.to_string())])
            .outcome()
    };
    for (at, expected) in [
        (NOON.0 - 2 * HOUR, "200"),
        (NOON.0 - HOUR - 1, "200"),
        // A recording may overrun its stop by a minute.
        (NOON.0 - HOUR + 59, "200"),
        ((NOON.0 - HOUR - 1) * 1_000, "200"),
        // Seconds from the start of the recording.
        (120, "200"),
        // Another program is on at that position.
        (NOON.0 - HOUR + 60, "552 NO_LIVE_RIGHTS"),
        (NOON.0, "552 NO_LIVE_RIGHTS"),
    ] {
        assert_eq!(beat(&morning, at), expected, "{at}");
    }
    // Further back than time-shift allows, but within the session's own broadcast.
    assert_eq!(beat(&evening, NOON.0 - 29 * HOUR - 600), "200");
    assert_eq!(beat(&evening, NOON.0 - 29 * HOUR + 59), "200");
}

#[test]
fn start_over_works_without_live_rights_if_allowed() {
    let rights = [("sport", json!({"start_over": true}))];
    let guide = json!({"sport": programs(&[("match", -HOUR, HOUR)])});
    let broadcasts = json!([{"id": "match", "live": false, "start_over": true}]);
    let server = Channels::with(&rights, &broadcasts, &guide);
    let fixture = &server.fixture;
    let entitled = fixture.entitle(&fixture.ann, "match", "").json();
    assert_eq!(entitled["expires"], NOON.0 + HOUR, "{entitled}");
    let player = fixture.play(&fixture.ann, "match", "tv");
    let beat = |at: i64| {
        fixture.server.wait(1);
        fixture
            .beat(&player, &[("Timestamp", &at.to_string())])
            .outcome()
    };
    assert_eq!(beat(NOON.0 - HOUR), "200");
    assert_eq!(beat(NOON.0 - 600), "200");
    assert_eq!(beat(NOON.0), "552 NO_LIVE_RIGHTS");
    let blackout = json!([{"id": "match", "live": false}]);
    let server = Channels::with(&rights, &blackout, &guide);
    let fixture = &server.fixture;
    let refused = fixture.entitle(&fixture.ann, "match", "");
    assert_eq!(refused.outcome(), "403 NO_LIVE_RIGHTS");
}

#[test]
fn program_borders_follow_the_viewers_position() {
    let rights = [("news", json!({}))];
    let guide = json!({"news": programs(&[("open", -HOUR, 0), ("dark", 0, HOUR)])});
    let broadcasts = json!([{"id": "dark", "live": false}]);
    let server = Channels::with(&rights, &broadcasts, &guide);
    server.fixture.server.wait(30);
    // The player is half a minute behind and shows the end of the previous program.
    assert_eq!(server.beat("news", NOON.0 - 2), "200");
    assert_eq!(server.entitle("news", -32), "200");
    assert_eq!(server.beat("news", NOON.0), "552 NO_LIVE_RIGHTS");
    assert_eq!(server.entitle("news", -31), "403 NO_LIVE_RIGHTS");
}

/// A program or a gap, and its rights.
#[derive(Clone, Debug)]
struct Piece {
    minutes: i64,
    gap: bool,
    live: Option<bool>,
    start_over: Option<bool>,
    rewind: Option<bool>,
}

fn piece() -> impl Strategy<Value = Piece> {
    let right = || prop_oneof![2 => Just(None), 1 => any::<bool>().prop_map(Some)];
    let gap = proptest::bool::weighted(0.2);
    (
        prop_oneof![Just(1), Just(2), 10..300_i64],
        gap,
        right(),
        right(),
        right(),
    )
        .prop_map(|(minutes, gap, live, start_over, rewind)| Piece {
            minutes,
            gap,
            live,
            start_over,
            rewind,
        })
}

#[derive(Clone, Debug)]
struct GeneratedSchedule {
    live: bool,
    start_over: bool,
    rewind: bool,
    days: i64,
    /// In order of time. The last one ends `ends` minutes from noon.
    pieces: Vec<Piece>,
    ends: i64,
    shifts: Vec<i64>,
}

fn generated_schedule() -> impl Strategy<Value = GeneratedSchedule> {
    let shift = prop_oneof![
        1 => Just(0), 1 => Just(-60), 1 => Just(-61), 2 => -200..=0_i64, 4 => -20_000..=0_i64,
        1 => -86_400..=0_i64
    ];
    (
        any::<[bool; 3]>(),
        0..=1_i64,
        vec(piece(), 0..8),
        -5..200_i64,
        vec(shift, 8..12),
    )
        .prop_map(|([live, start_over, rewind], days, pieces, ends, shifts)| {
            GeneratedSchedule {
                live,
                start_over,
                rewind,
                days,
                pieces,
                ends,
                shifts,
            }
        })
}

impl GeneratedSchedule {
    /// Returns start, stop and piece of each program.
    fn programs(&self) -> Vec<(i64, i64, &Piece)> {
        let mut at = NOON.0 + self.ends * 60;
        let mut programs = Vec::new();
        for piece in self.pieces.iter().rev() {
            let start = at - piece.minutes * 60;
            if !piece.gap {
                programs.push((start, at, piece));
            }
            at = start;
        }
        programs.reverse();
        programs
    }

    /// A second implementation of the table. `None` for a gap, where the three only have to agree.
    fn expected(&self, at: i64, now: i64) -> Option<&'static str> {
        let programs = self.programs();
        let (start, stop, piece) = programs
            .iter()
            .find(|(start, stop, _)| *start <= at && at < *stop)?;
        let live = piece.live.unwrap_or(self.live);
        let allowed = piece.start_over.unwrap_or(self.start_over);
        // `live = false` on a broadcast removes start-over too, unless the broadcast sets it.
        let start_over = allowed && (piece.live != Some(false) || piece.start_over.is_some());
        let rewind = piece.rewind.unwrap_or(self.rewind);
        let opens = if start_over { *start } else { *stop };
        let window = self.days > 0 && opens <= now && now < *stop + self.days * 86_400;
        let on_air = now < *stop;
        let dark = "403 NO_LIVE_RIGHTS";
        Some(match () {
            () if now - at <= 60 && (live || (!on_air && window)) => "200",
            () if now - at <= 60 => dark,
            () if on_air && (start_over || (live && rewind)) => "200",
            () if window => "200",
            () if on_air && !live => dark,
            () => "403 NOT_AVAILABLE",
        })
    }

    fn server(&self) -> Channels {
        let rights = json!({
            "live_rights": self.live, "start_over": self.start_over, "catchup_days": self.days,
            "extended_rights": {"rewind": self.rewind},
        });
        let (mut guide, mut broadcasts) = (Vec::new(), Vec::new());
        for (nth, (start, stop, piece)) in self.programs().into_iter().enumerate() {
            let id = format!("p{nth}");
            guide.push(json!({"id": id, "title": id, "pgAge": 0, "start": start, "stop": stop}));
            let mut overrides = json!({"id": id});
            for (name, right) in [("live", piece.live), ("start_over", piece.start_over)] {
                if let Some(right) = right {
                    overrides[name] = json!(right);
                }
            }
            if let Some(rewind) = piece.rewind {
                overrides["extended_rights"] = json!({"rewind": rewind});
            }
            if overrides.as_object().unwrap().len() > 1 {
                broadcasts.push(overrides);
            }
        }
        let guide = if guide.is_empty() {
            json!({})
        } else {
            json!({"news": guide})
        };
        Channels::with(&[("news", rights)], &json!(broadcasts), &guide)
    }
}

#[test]
fn entitlement_license_and_heartbeat_never_disagree() {
    let config = Config {
        cases: 48,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let checked = runner.run(&generated_schedule(), |schedule| {
        let server = schedule.server();
        for shift in &schedule.shifts {
            let [entitlement, license, beat] = server.answers("news", *shift);
            let now = server.now();
            prop_assert_eq!(&entitlement, &license, "at {} of {}", shift, now);
            // 552 tells the player that other programs of the livestream may be watched.
            let dark = "552 NO_LIVE_RIGHTS";
            prop_assert!(beat != dark || schedule.live, "at {} of {}", shift, now);
            let same = if beat == dark {
                "403 NO_LIVE_RIGHTS"
            } else {
                &beat
            };
            prop_assert_eq!(&entitlement, same, "at {} of {}", shift, now);
            if let Some(expected) = schedule.expected(now + shift, now) {
                prop_assert_eq!(&entitlement, expected, "at {} of {}", shift, now);
            }
        }
        Ok(())
    });
    if let Err(error) = checked {
        panic!("{error}");
    }
}
