//! Wrong input for quality figures has a defined result, affects no other input, and is counted in a metric.

use std::fs;
use std::net::Ipv4Addr;
use std::sync::{Arc, RwLock};

use playgate_process::Turn;
use serde_json::{Value, json};

use crate::support::gate_only::NOON;
use crate::support::metrics::{metric, scrape};
use crate::support::playback_fixture::{PlaybackFixture, Player, player};
use crate::support::raw_http::{Answer, ask, request};
use crate::support::until::until;

const HOUR: i64 = 3_600;

fn send(fixture: &PlaybackFixture, player: &Player, events: &Value) -> Value {
    let target = "/api/tracker/v1/telemetry-events";
    let answer = fixture.ask(&player.viewer, "POST", target, &[], &events.to_string());
    assert_eq!(answer.status, 202);
    answer.json()
}

/// An event `at` seconds after noon.
fn event(player: &Player, at: i64, sequence: i64, action: &str, more: &Value) -> Value {
    let mut context =
        json!({"session_id": player.session, "asset_id": "film", "device_id": player.device});
    for (name, value) in more.as_object().into_iter().flatten() {
        context[name] = value.clone();
    }
    json!({"timestamp": (NOON.0 + at) * 1_000, "action": action, "seqId": sequence, "context": context})
}

fn operator(fixture: &PlaybackFixture, target: &str) -> Value {
    let answer = fixture.server.operator("GET", target, &Value::Null);
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

fn total(fixture: &PlaybackFixture) -> Value {
    operator(fixture, "telemetry/report")["total"].clone()
}

/// Returns the value of a metric. The report first makes the server count all input.
fn metric_after_report(fixture: &PlaybackFixture, series: &str) -> u64 {
    total(fixture);
    metric(&scrape(fixture.server.ops), series)
}

const LATE: &str = "playgate_quality_inputs_total{outcome=\"late\"}";
const CLOCK: &str = "playgate_quality_inputs_total{outcome=\"clock\"}";
const COUNTED: &str = "playgate_quality_inputs_total{outcome=\"counted\"}";
const DUPLICATES: &str = "playgate_telemetry_events_total{outcome=\"duplicate\"}";
const REJECTED: &str = "playgate_telemetry_events_total{outcome=\"rejected\"}";
const IGNORED: &str = "playgate_telemetry_ignored_values_total";

/// A session with its first frame a second after noon.
fn playing(fixture: &PlaybackFixture) -> Player {
    let watching = fixture.play(&fixture.ann, "film", "tv");
    let started = event(
        &watching,
        1,
        1,
        "playback_started",
        &json!({"startup_duration": 1_000}),
    );
    send(fixture, &watching, &json!([started]));
    watching
}

#[test]
fn an_event_that_comes_twice_counts_once() {
    let fixture = PlaybackFixture::new();
    let watching = playing(&fixture);
    let wait = event(
        &watching,
        9,
        2,
        "playback_buffering",
        &json!({"duration": 2_000}),
    );
    send(&fixture, &watching, &json!([wait, wait]));
    fixture.server.wait(HOUR);
    assert_eq!(send(&fixture, &watching, &json!([wait]))["duplicates"], 1);
    assert_eq!(total(&fixture)["rebufferCount"], 1);
    assert_eq!(metric_after_report(&fixture, DUPLICATES), 2);
}

#[test]
fn events_of_a_session_that_ended_count_for_an_hour_and_are_late_after_it() {
    let fixture = PlaybackFixture::new();
    let watching = playing(&fixture);
    assert_eq!(fixture.stop(&watching).status, 204);
    fixture.server.wait(HOUR - 60);
    let wait = |sequence| event(&watching, 5, sequence, "playback_buffering", &Value::Null);
    send(&fixture, &watching, &json!([wait(2)]));
    assert_eq!(total(&fixture)["rebufferCount"], 1);
    assert_eq!(metric_after_report(&fixture, LATE), 0);
    fixture.server.wait(2 * HOUR);
    let services = &fixture.server.services;
    services.quality.tick(services.clock.now()).unwrap();
    send(&fixture, &watching, &json!([wait(3)]));
    assert_eq!(total(&fixture)["rebufferCount"], 1);
    assert_eq!(metric_after_report(&fixture, LATE), 1);
    // The event is stored even so.
    let target = format!("/admin/v1/telemetry/events?user={}", fixture.ann.id);
    let bearer = format!("Bearer {}", fixture.server.admin);
    let headers = [("Authorization", bearer.as_str())];
    let exported = ask(fixture.server.ops, request("GET", &target, &headers, ""));
    assert_eq!(exported.body.split(|byte| *byte == b'\n').count(), 4);
}

#[test]
fn a_clock_that_is_wrong_throughout_does_no_harm_and_one_that_jumps_is_counted() {
    let fixture = PlaybackFixture::new();
    let watching = fixture.play(&fixture.ann, "film", "tv");
    // Ten years ahead.
    let ahead = 10 * 365 * 24 * HOUR;
    let sent = |at, sequence, action| event(&watching, ahead + at, sequence, action, &Value::Null);
    let events = json!([
        sent(0, 1, "playback_request"),
        sent(2, 2, "playback_started"),
        sent(62, 3, "playback_stopped"),
    ]);
    send(&fixture, &watching, &events);
    let read = total(&fixture);
    let near = |name: &str, truth: f64| (read[name].as_f64().unwrap() / truth - 1.0).abs() < 0.01;
    assert!(
        near("startupP50Millis", 2_000.0) && near("minutesPlayed", 1.0),
        "{read}"
    );
    assert_eq!(metric_after_report(&fixture, CLOCK), 0);
    let jumped = event(&watching, 9, 4, "playback_failed", &Value::Null);
    send(&fixture, &watching, &json!([jumped]));
    assert_eq!(total(&fixture), read);
    assert_eq!(metric_after_report(&fixture, CLOCK), 1);
}

#[test]
fn impossible_durations_and_bitrates_are_counted_and_their_events_count_without_them() {
    let fixture = PlaybackFixture::new();
    let watching = playing(&fixture);
    let sent = |sequence, more| event(&watching, sequence, sequence, "playback_buffering", &more);
    let events = json!([
        sent(2, json!({"duration": -5})),
        sent(3, json!({"duration": 86_400_001})),
        sent(4, json!({"duration": "long", "playback_bitrate": 1e12})),
        sent(
            5,
            json!({"playback_bitrate": -1, "app_version": "9".repeat(200)})
        ),
    ]);
    assert_eq!(send(&fixture, &watching, &events)["accepted"], 4);
    let read = total(&fixture);
    assert_eq!(
        (&read["rebufferCount"], &read["rebufferRatio"]),
        (&json!(4), &json!(0.0))
    );
    assert_eq!(read.get("meanBitrate"), None);
    assert_eq!(metric_after_report(&fixture, IGNORED), 6);
    assert_eq!(metric_after_report(&fixture, COUNTED), 5);
}

#[test]
fn events_that_are_refused_one_by_one_are_counted() {
    let fixture = PlaybackFixture::new();
    let watching = playing(&fixture);
    let good = event(&watching, 3, 3, "playback_buffering", &Value::Null);
    let answer = send(&fixture, &watching, &json!([good, {"seqId": 4}, 5]));
    assert_eq!(answer["rejected"].as_array().unwrap().len(), 2);
    assert_eq!(total(&fixture)["rebufferCount"], 1);
    assert_eq!(metric_after_report(&fixture, REJECTED), 2);
}

#[test]
fn an_event_of_another_users_session_is_counted_as_late() {
    let fixture = PlaybackFixture::new();
    let watching = playing(&fixture);
    let read = total(&fixture);
    let stranger = Player {
        viewer: fixture.viewer("bob"),
        ..watching.clone()
    };
    let failed = event(&watching, 3, 3, "playback_failed", &Value::Null);
    send(&fixture, &stranger, &json!([failed]));
    assert_eq!(total(&fixture), read);
    assert_eq!(metric_after_report(&fixture, LATE), 1);
}

fn cmcd(fixture: &PlaybackFixture, url: &str, body: &str) -> Answer {
    let target = url.strip_prefix("https://tv.example").unwrap();
    ask(fixture.server.public, request("POST", target, &[], body))
}

fn reported(fixture: &PlaybackFixture) -> (Player, String) {
    let token = fixture.token(&fixture.ann, "film");
    let started = fixture.preflight(&fixture.ann, "film", &token, &[]);
    let url = started.json()["cmcd"]["url"].as_str().unwrap().to_owned();
    (player(&fixture.ann, "tv", &started), url)
}

#[test]
fn unreadable_lines_and_values_of_cmcd_are_counted_and_the_other_lines_count() {
    let fixture = PlaybackFixture::new();
    let (_, url) = reported(&fixture);
    let at = NOON.0 * 1_000;
    let body = [
        // Unknown keys are allowed: they are the player's own or of a newer version.
        format!("com.example-x=?0;a=1,e=ps,nonsense=(1 2),sta=s,ts={at}"),
        format!(
            "br=(99999999999),e=ps,sid=\"{}\",sta=p,ts={}",
            "x".repeat(300),
            at + 500
        ),
        format!("e=bc,msd=-5,ts={}", at + 700),
        "e=ps,sta=\"p".to_owned(),
        "{\"e\": \"ps\"}".to_owned(),
        format!("e=t,x=\"{}\"", "y".repeat(9_000)),
    ];
    assert_eq!(cmcd(&fixture, &url, &body.join("\n")).status, 204);
    let read = total(&fixture);
    assert_eq!((&read["plays"], read.get("meanBitrate")), (&json!(1), None));
    // Of the line whose text has no end, only that value is lost.
    assert_eq!(metric_after_report(&fixture, REJECTED), 2);
    assert_eq!(metric_after_report(&fixture, IGNORED), 3);
    // A body without one readable line is refused, and counted too.
    assert_eq!(cmcd(&fixture, &url, "hello").status, 400);
    assert_eq!(metric_after_report(&fixture, REJECTED), 3);
}

/// A player keeps its reports at 429 and 5xx, and drops them with the address at 410.
#[test]
fn reports_by_cmcd_that_could_not_be_stored_count_when_they_are_sent_again() {
    let fixture = PlaybackFixture::new();
    let (watching, url) = reported(&fixture);
    let body = format!("e=ps,sn=1,sta=p,ts={}", NOON.0 * 1_000);
    // The directory of the event log is gone, as after a failed disk.
    let log = fixture
        .server
        .services
        .config
        .server
        .data_dir
        .join("telemetry");
    let away = log.with_extension("away");
    fs::rename(&log, &away).unwrap();
    let refused = cmcd(&fixture, &url, &body);
    assert_eq!((refused.status, refused.code().as_str()), (500, "INTERNAL"));
    assert_eq!(total(&fixture)["plays"], 0);
    fs::rename(&away, &log).unwrap();
    // The share of this client in the worker pool is used up, and its threads are busy.
    let hold = Arc::new(RwLock::new(()));
    let held = hold.write().unwrap();
    let mut jobs = Vec::new();
    let wait = |hold: &Arc<RwLock<()>>| {
        let hold = Arc::clone(hold);
        move |(): &mut ()| hold.read().is_ok()
    };
    let cold = &fixture.server.services.cold;
    let partner = fixture.server.services.partners.list()[0].id;
    let turn = Turn::for_client(Some(partner), Ipv4Addr::LOCALHOST.into());
    while let Ok(job) = cold.run_for(turn, wait(&hold)) {
        jobs.push(job);
    }
    let refused = cmcd(&fixture, &url, &body);
    // Immediately, or at its deadline if a thread took a job in the meantime.
    assert_eq!(refused.status, 503);
    assert!(refused.header("retry-after").is_some());
    drop(held);
    until("an empty queue", || {
        fixture.server.services.cold.waiting()() == 0
    });
    assert_eq!(cmcd(&fixture, &url, &body).status, 204);
    assert_eq!(total(&fixture)["plays"], 1);
    assert_eq!(fixture.stop(&watching).status, 204);
    assert_eq!(cmcd(&fixture, &url, &body).status, 410);
}

#[test]
fn a_report_by_cmcd_above_the_budget_of_its_user_is_answered_429_and_counts_nothing() {
    let budget = [("telemetry.user_bytes_per_day", "1MiB")];
    let fixture = PlaybackFixture::with(&budget);
    let (watching, url) = reported(&fixture);
    // Longer than the smallest filler below, so that the next report does not fit either.
    let (at, long) = (NOON.0 * 1_000, "x".repeat(200));
    let report = |number: u32, state: &str| {
        format!("com.example-x=\"{long}\",e=ps,sn={number},sta={state},ts={at}")
    };
    assert_eq!(cmcd(&fixture, &url, &report(1, "s")).status, 204);
    // Smaller and smaller events, until none fits.
    let mut sequence = 0;
    for length in [50_000, 2_000, 1] {
        loop {
            sequence += 1;
            let filling = json!([{"timestamp": 1, "action": "a", "seqId": sequence, "extra": {"x": "x".repeat(length)}}]);
            let target = "/api/tracker/v1/telemetry-events";
            let answer = fixture.ask(&watching.viewer, "POST", target, &[], &filling.to_string());
            if answer.status == 429 {
                break;
            }
            assert_eq!(answer.status, 202);
        }
    }
    let refused = cmcd(&fixture, &url, &report(2, "p"));
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (429, "RATE_LIMITED")
    );
    assert!(refused.header("retry-after").is_some());
    assert_eq!(total(&fixture)["plays"], 0);
    let refusals =
        r#"playgate_requests_refused_total{route="cmcd",code="RATE_LIMITED",partner="Acme"}"#;
    assert_eq!(metric_after_report(&fixture, refusals), 1);
}

#[test]
fn a_report_over_a_span_without_data_is_empty() {
    let fixture = PlaybackFixture::new();
    playing(&fixture);
    let span = format!("?from={}&to={}", NOON.0 - 9 * HOUR, NOON.0 - HOUR);
    let read = operator(&fixture, &format!("telemetry/report{span}&by=platform"));
    assert_eq!(
        (&read["rows"], &read["total"]["attempts"]),
        (&json!([]), &json!(0))
    );
    for absent in ["startupP50Millis", "rebufferRatio", "meanBitrate"] {
        assert_eq!(read["total"].get(absent), None, "{read}");
    }
    let series = operator(&fixture, &format!("telemetry/series{span}"));
    assert_eq!(series["points"], json!([]));
}
