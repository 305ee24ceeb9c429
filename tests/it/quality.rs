//! The quality report joins sessions, heartbeats, events and CMCD into one view.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::support::gate_only::NOON;
use crate::support::metrics::{metric, scrape};
use crate::support::playback_fixture::{PlaybackFixture, Player, player};
use crate::support::raw_http::{Answer, ask, request};

fn report(fixture: &PlaybackFixture, query: &str) -> Value {
    let target = format!("telemetry/report{query}");
    let answer = fixture.server.operator("GET", &target, &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

fn send(fixture: &PlaybackFixture, player: &Player, events: &[Value]) {
    let body = Value::from(events).to_string();
    let target = "/api/tracker/v1/telemetry-events";
    let answer = fixture.ask(&player.viewer, "POST", target, &[], &body);
    assert_eq!(answer.status, 202);
}

fn event(player: &Player, at: i64, sequence: i64, action: &str, more: Value) -> Value {
    let mut context = json!({
        "session_id": player.session, "asset_id": "film", "device_id": player.device, "app_version": "3.1",
    });
    for (name, value) in more.as_object().unwrap() {
        context[name] = value.clone();
    }
    json!({"timestamp": (NOON.0 + at) * 1_000, "action": action, "seqId": sequence, "context": context})
}

#[test]
fn a_session_its_heartbeats_and_its_events_are_one_view() {
    let fixture = PlaybackFixture::new();
    let watching = fixture.play(&fixture.ann, "film", "tv");
    let sent = |at, sequence, action, more| event(&watching, at, sequence, action, more);
    send(
        &fixture,
        &watching,
        &[
            sent(0, 1, "playback_request", json!({})),
            sent(
                1,
                2,
                "playback_started",
                json!({"startup_duration": 1_000, "playback_bitrate": 2_500_000}),
            ),
        ],
    );
    for _ in 0..6 {
        fixture.server.wait(10);
        assert_eq!(fixture.beat(&watching, &[]).status, 200);
    }
    send(
        &fixture,
        &watching,
        &[
            sent(41, 3, "playback_buffering", json!({"duration": 4_000})),
            sent(61, 4, "playback_stopped", json!({})),
        ],
    );
    assert_eq!(fixture.stop(&watching).status, 204);
    // A second device has its license refused, and a third leaves before the start.
    let refused = fixture.play(&fixture.ann, "film", "phone");
    assert_eq!(
        fixture
            .license(
                &refused,
                "clearkey",
                r#"{"kids": ["AAAAAAAAAAAAAAAAAAAAAA"]}"#
            )
            .status,
        403
    );
    let left = fixture.play(&fixture.ann, "film", "tablet");
    assert_eq!(fixture.stop(&left).status, 204);
    let read = report(&fixture, "?by=asset&by=appVersion&by=drm");
    let total = &read["total"];
    for (name, value) in [
        ("attempts", 3),
        ("plays", 1),
        ("startFailures", 1),
        ("exitsBeforeStart", 1),
        ("playbackFailures", 0),
        ("rebufferCount", 1),
        ("meanBitrate", 2_500_000),
        ("maxConcurrent", 2),
    ] {
        assert_eq!(
            total[name].as_f64(),
            Some(f64::from(value)),
            "{name}: {read}"
        );
    }
    let near = |name: &str, truth: f64| {
        let figure = total[name].as_f64().unwrap();
        assert!((figure / truth - 1.0).abs() < 0.01, "{name}: {read}");
    };
    near("startupP50Millis", 1_000.0);
    near("minutesPlayed", 56.0 / 60.0);
    near("rebufferRatio", 4.0 / 60.0);
    assert_eq!(
        read["rows"][1]["key"],
        json!({"asset": "film", "appVersion": "3.1", "drm": "clearkey"})
    );
    assert_eq!(total["failureCodes"], json!({"license_refused": 1}));
}

fn cmcd(fixture: &PlaybackFixture, url: &str, body: &str) -> Answer {
    let target = url.strip_prefix("https://tv.example").unwrap();
    // Like a browser's beacon, without any token.
    let headers = [
        ("Content-Type", "application/cmcd"),
        ("Origin", "https://player.example"),
    ];
    ask(
        fixture.server.public,
        request("POST", target, &headers, body),
    )
}

#[test]
fn a_player_reports_by_cmcd_without_headers() {
    let fixture = PlaybackFixture::new();
    let token = fixture.token(&fixture.ann, "film");
    let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
    let target = started.json()["cmcd"].clone();
    assert_eq!(target["version"], 2);
    let url = target["url"].as_str().unwrap();
    let at = NOON.0 * 1_000;
    let lines = [
        format!("e=ps,sid=\"x\",sn=0,sta=s,ts={at},v=2"),
        format!(
            "br=(2400;v 100;a),e=ps,sid=\"x\",sn=1,sta=p,ts={},v=2",
            at + 800
        ),
        format!("br=(2400;v 100;a),e=bc,msd=750,sn=2,ts={},v=2", at + 900),
        format!("e=ps,sn=3,sta=r,ts={},v=2", at + 20_800),
        format!("e=ps,sn=4,sta=p,ts={},v=2", at + 22_800),
        "e=ps,sn=5,sta=\"p".to_owned(),
        format!("e=ps,sn=6,sta=e,ts={},v=2", at + 40_800),
    ];
    let body = lines.join("\n") + "\n";
    let answer = cmcd(&fixture, url, &body);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
    // A retry counts once.
    assert_eq!(cmcd(&fixture, url, &body).status, 204);
    let total = report(&fixture, "")["total"].clone();
    assert_eq!(
        (&total["attempts"], &total["plays"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        (&total["rebufferCount"], &total["meanBitrate"]),
        (&json!(1), &json!(2_500_000.0))
    );
    let near = |name: &str, truth: f64| {
        let figure = total[name].as_f64().unwrap();
        assert!((figure / truth - 1.0).abs() < 0.01, "{name}: {total}");
    };
    near("startupP50Millis", 750.0);
    near("minutesPlayed", 38.0 / 60.0);
    near("rebufferRatio", 0.05);
    // Bodies without a readable line are rejected.
    for body in ["e=\"", "hello", "{\"e\": \"ps\"}", "v=2,ts=1"] {
        assert_eq!(cmcd(&fixture, url, body).status, 400, "{body}");
    }
    assert_eq!(cmcd(&fixture, url, "").status, 204);
    // The address is rejected if altered, and after its session has ended.
    let other = url.replace("/cmcd/", "/cmcd/A");
    for url in [other.as_str(), "https://tv.example/api/tracker/v1/cmcd/x"] {
        let gone = cmcd(&fixture, url, &body);
        assert_eq!((gone.status, gone.code().as_str()), (410, "SESSION_ENDED"));
    }
    let playing = player(&fixture.ann, "tv", &started);
    assert_eq!(fixture.stop(&playing).status, 204);
    assert_eq!(cmcd(&fixture, url, &body).status, 410);
}

fn started(fixture: &PlaybackFixture) -> (Answer, String) {
    let token = fixture.token(&fixture.ann, "film");
    let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
    let url = started.json()["cmcd"]["url"].as_str().unwrap().to_owned();
    (started, url)
}

/// A page sends its last report when it has ended the session.
#[test]
fn reports_by_cmcd_after_the_end_of_a_session_count() {
    let fixture = PlaybackFixture::new();
    let (answer, url) = started(&fixture);
    let at = NOON.0 * 1_000;
    let early = format!("e=ps,sn=0,sta=s,ts={at}");
    assert_eq!(cmcd(&fixture, &url, &early).status, 204);
    assert_eq!(
        fixture.stop(&player(&fixture.ann, "tv", &answer)).status,
        204
    );
    let late = [
        format!("e=ps,sn=1,sta=p,ts={}", at + 1_000),
        format!("e=ps,sn=2,sta=e,ts={}", at + 61_000),
    ];
    assert_eq!(cmcd(&fixture, &url, &late.join("\n")).status, 410);
    let total = report(&fixture, "")["total"].clone();
    assert_eq!(
        (&total["attempts"], &total["plays"]),
        (&json!(1), &json!(1))
    );
    let minutes = total["minutesPlayed"].as_f64().unwrap();
    assert!((minutes - 1.0).abs() < 0.01, "{total}");
}

#[test]
fn wrong_reports_by_cmcd_have_a_defined_answer() {
    let fixture = PlaybackFixture::with(&[("telemetry.user_bytes_per_day", "8MiB")]);
    let (_, url) = started(&fixture);
    let at = NOON.0 * 1_000;
    // Unknown keys, long values, impossible values and broken lines do not affect the other lines.
    let long = "x".repeat(300);
    let body = [
        format!("com.example-x=?0;a=1,e=ps,nonsense=(1 2),sid=\"{long}\",sta=p,ts={at}"),
        format!("br=(99999999999),e=bc,msd=-5,ts={}", at + 100),
        format!("e=ps,msd=99999999999,sta=p,ts={}", at + 200),
        "e=ps,sta=\"p".to_owned(),
        "{}".to_owned(),
        format!("e=ps,sta=e,ts={}", at + 60_000),
    ];
    assert_eq!(cmcd(&fixture, &url, &body.join("\n")).status, 204);
    let total = report(&fixture, "")["total"].clone();
    assert_eq!(
        (&total["plays"], &total["playbackFailures"]),
        (&json!(1), &json!(0))
    );
    assert!(
        (total["minutesPlayed"].as_f64().unwrap() - 1.0).abs() < 0.01,
        "{total}"
    );
    for absent in ["meanBitrate", "startupP50Millis", "failureCodes"] {
        assert_eq!(total.get(absent), None, "{total}");
    }
    // Above the budget the answer is 429, so that the player keeps its reports, and the address stays valid.
    let keys: Vec<String> = (0..30)
        .map(|key| format!("x-{key}=\"{}\"", "y".repeat(250)))
        .collect();
    let refused = (0..2_000).find_map(|number| {
        let lines: Vec<String> = (0..100)
            .map(|line| format!("e=t,sn={},{}", number * 100 + line, keys.join(",")))
            .collect();
        let answer = cmcd(&fixture, &url, &lines.join("\n"));
        (answer.status != 204).then_some(answer)
    });
    let refused = refused.unwrap();
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "RATE_LIMITED")
    );
    assert!(refused.header("retry-after").is_some());
    assert_eq!(report(&fixture, "")["total"]["plays"], 1);
    // The address expires with its session.
    fixture.server.wait(7 * 86_400);
    assert_eq!(cmcd(&fixture, &url, "e=t").status, 410);
}

#[test]
fn junk_by_cmcd_is_read_in_part_and_a_session_has_a_rate() {
    let fixture = PlaybackFixture::new();
    let (_, url) = started(&fixture);
    let target = url.strip_prefix("https://tv.example").unwrap();
    let rejected = || {
        let text = scrape(fixture.server.ops);
        metric::<u64>(
            &text,
            "playgate_telemetry_events_total{outcome=\"rejected\"}",
        )
    };
    // A kilobyte that unpacks to half a million lines.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&b"x\n".repeat(500_000)).unwrap();
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 2_000);
    let mut junk = format!(
        "POST {target} HTTP/1.1\r\nHost: t\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    junk.extend(packed);
    let before = rejected();
    assert_eq!(ask(fixture.server.public, junk).status, 400);
    assert_eq!(rejected() - before, 500_000, "all of them are counted");
    let statuses: Vec<u16> = (0..60)
        .map(|number| cmcd(&fixture, &url, &format!("e=t,sn={number}")).status)
        .collect();
    assert_eq!(statuses[..59], [204; 59]);
    assert_eq!(statuses[59], 429);
    let refused = cmcd(&fixture, &url, "e=t");
    assert_eq!(refused.status_and_code(), (429, "RATE_LIMITED".to_owned()));
    assert!(refused.header("retry-after").is_some());
    // Control: another session of the same viewer has its own rate, and the first one gets five a second.
    let (_, other) = started(&fixture);
    assert_eq!(cmcd(&fixture, &other, "e=t").status, 204);
    fixture.server.wait(1);
    let statuses: Vec<u16> = (0..6)
        .map(|_| cmcd(&fixture, &other, "e=t,sn=9").status)
        .collect();
    assert_eq!(statuses, [204; 6]);
}

#[test]
fn reports_about_an_erased_user_are_refused_and_the_figures_stay() {
    let fixture = PlaybackFixture::new();
    let (_, url) = started(&fixture);
    let line = format!("e=ps,sta=p,ts={}", NOON.0 * 1_000);
    assert_eq!(cmcd(&fixture, &url, &line).status, 204);
    let user_path = format!("/api/user/v1/users/{}", fixture.ann.id);
    let password = json!({"password": crate::support::server::PASSWORD});
    let erased = fixture
        .server
        .user(&fixture.ann.token, "DELETE", &user_path, &password);
    assert_eq!(erased.status, 204, "{}", erased.json());
    assert_eq!(cmcd(&fixture, &url, &line).status, 410);
    while fixture.server.services.telemetry.run_erasures().unwrap() > 0 {}
    assert_eq!(report(&fixture, "")["total"]["plays"], 1);
    let views = views(&fixture, "");
    assert_eq!(views[0].get("userId"), None, "{views}");
    assert_eq!(views[0].get("email"), None, "{views}");
}

fn views(fixture: &PlaybackFixture, query: &str) -> Value {
    let target = format!("telemetry/views{query}");
    let answer = fixture.server.operator("GET", &target, &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

#[test]
fn single_views_are_listed_with_their_outcome() {
    let fixture = PlaybackFixture::new();
    let playing = fixture.play(&fixture.ann, "film", "tv");
    send(
        &fixture,
        &playing,
        &[event(
            &playing,
            1,
            1,
            "playback_started",
            json!({"startup_duration": 900}),
        )],
    );
    fixture.server.wait(5);
    let failing = fixture.play(&fixture.ann, "film", "phone");
    send(
        &fixture,
        &failing,
        &[event(
            &failing,
            6,
            1,
            "playback_failed",
            json!({"error_code": 3016}),
        )],
    );
    let all = views(&fixture, "");
    let of = |name: &str| -> Vec<Value> {
        let views = all.as_array().unwrap().iter();
        views.map(|view| view[name].clone()).collect()
    };
    assert_eq!(of("outcome"), ["start_failed", "played"]);
    assert_eq!(
        of("sessionId"),
        [failing.session.as_str(), playing.session.as_str()]
    );
    assert_eq!(of("failureCode"), [json!("3016"), Value::Null]);
    assert_eq!(of("email"), ["ann@example.com", "ann@example.com"]);
    let startup = all[1]["startupMillis"].as_f64().unwrap();
    assert!((startup / 900.0 - 1.0).abs() < 0.01, "{startup}");
    assert_eq!(
        views(&fixture, "?outcome=start_failed")
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        views(&fixture, "?where=asset=film&limit=1")
            .as_array()
            .unwrap()
            .len(),
        1
    );
    for none in [
        "?outcome=starting",
        "?where=asset=other",
        "?to=1",
        "?from=4000000000",
    ] {
        assert_eq!(views(&fixture, none), json!([]), "{none}");
    }
    for wrong in ["?outcome=x", "?limit=0", "?where=asset", "?from=x"] {
        let target = format!("telemetry/views{wrong}");
        let answer = fixture.server.operator("GET", &target, &Value::Null);
        assert_eq!(answer.status, 400, "{wrong}");
    }
}

/// What a player reports of a view, in seconds from its start: by telemetry, and by CMCD.
struct Story {
    telemetry: &'static [(i64, &'static str)],
    cmcd: &'static [(i64, &'static str)],
    /// Attempts, plays, start failures, exits and playback failures of a view.
    counts: [u64; 5],
    played: f64,
}

const STORIES: [Story; 4] = [
    Story {
        telemetry: &[
            (0, "playback_request"),
            (1, "playback_started"),
            (12, "playback_buffering"),
            (31, "playback_stopped"),
        ],
        cmcd: &[
            (0, "e=ps,sta=s"),
            (1, "e=ps,sta=p"),
            (10, "e=ps,sta=r"),
            (12, "e=ps,sta=p"),
            (31, "e=ps,sta=e"),
        ],
        counts: [1, 1, 0, 0, 0],
        played: 28.0,
    },
    Story {
        telemetry: &[
            (0, "playback_request"),
            (1, "playback_started"),
            (21, "playback_failed"),
            (21, "playback_stopped"),
        ],
        cmcd: &[
            (0, "e=ps,sta=s"),
            (1, "e=ps,sta=p"),
            (21, "e=e,ec=(\"7\")"),
            (21, "e=ps,sta=e"),
        ],
        counts: [1, 1, 0, 0, 1],
        played: 20.0,
    },
    Story {
        telemetry: &[(0, "playback_request"), (3, "playback_failed")],
        cmcd: &[(0, "e=ps,sta=s"), (3, "e=ps,sta=f")],
        counts: [1, 0, 1, 0, 0],
        played: 0.0,
    },
    Story {
        telemetry: &[(0, "playback_request")],
        cmcd: &[(0, "e=ps,sta=s")],
        counts: [1, 0, 0, 1, 0],
        played: 0.0,
    },
];

/// The indices forwards, backwards and turned.
fn orders(length: usize) -> Vec<Vec<usize>> {
    let forwards: Vec<usize> = (0..length).collect();
    let mut orders = vec![forwards.iter().rev().copied().collect()];
    for turn in 0..length {
        let mut turned = forwards.clone();
        turned.rotate_left(turn);
        orders.push(turned);
    }
    orders
}

/// Each report is sent twice, before the end of the session or after it.
#[test]
fn a_view_is_the_same_by_telemetry_and_by_cmcd_in_every_order() {
    for story in STORIES {
        for by_cmcd in [false, true] {
            let reports = if by_cmcd { story.cmcd } else { story.telemetry };
            let fixture = PlaybackFixture::new();
            let (mut views, mut sequence) = (0_u32, 0);
            for order in orders(reports.len()) {
                for ends_first in [false, true] {
                    views += 1;
                    let (answer, url) = started(&fixture);
                    let playing = player(&fixture.ann, "tv", &answer);
                    let began = i64::from(views - 1) * 100;
                    fixture.server.wait(40);
                    if ends_first {
                        assert_eq!(fixture.stop(&playing).status, 204);
                    }
                    for place in &order {
                        let (at, what) = reports[*place];
                        let number = sequence + i64::try_from(*place).unwrap();
                        for _ in 0..2 {
                            if by_cmcd {
                                let ts = (NOON.0 + began + at) * 1_000;
                                let line = format!("{what},sn={number},ts={ts},v=2");
                                let status = cmcd(&fixture, &url, &line).status;
                                assert_eq!(status, if ends_first { 410 } else { 204 });
                            } else {
                                let waited = json!({"duration": 2_000});
                                let more = if what.ends_with("buffering") {
                                    waited
                                } else {
                                    json!({})
                                };
                                send(
                                    &fixture,
                                    &playing,
                                    &[event(&playing, began + at, number, what, more)],
                                );
                            }
                        }
                    }
                    if !ends_first {
                        assert_eq!(fixture.stop(&playing).status, 204);
                    }
                    sequence += 10;
                    fixture.server.wait(60);
                }
            }
            let total = report(&fixture, "")["total"].clone();
            let names = [
                "attempts",
                "plays",
                "startFailures",
                "exitsBeforeStart",
                "playbackFailures",
            ];
            for (name, count) in names.into_iter().zip(story.counts) {
                assert_eq!(
                    total[name],
                    count * u64::from(views),
                    "{name}, CMCD {by_cmcd}: {total}"
                );
            }
            let minutes = total["minutesPlayed"].as_f64().unwrap();
            let truth = story.played * f64::from(views) / 60.0;
            assert!(
                (minutes - truth).abs() < 0.01,
                "{minutes} of {truth}, CMCD {by_cmcd}: {total}"
            );
        }
    }
}
