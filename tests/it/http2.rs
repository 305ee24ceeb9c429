//! HTTP/2 frame by frame: valid requests, invalid ones, floods, and clients that do not read.

use std::process::Command;
use std::sync::Arc;

use playgate_api::route_table::ROUTERS;
use playgate_http::server::listener::serve;
use playgate_http::{Listener, RouteSet};
use playgate_ports::Tls;
use serde_json::{Value, json};

use crate::support::appliance::err;
use crate::support::certificates::certificates;
use crate::support::external_tools::python_with;
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::process::InTime as _;
use crate::support::server::PASSWORD;

/// The outcome of each case of `h2_client.py`, and the most frames that the client may have sent by then.
const CASES: &[(&str, &str, u64)] = &[
    ("answered", "200", 2),
    ("many_at_once", "200", 101),
    ("many_after_each_other", "200", 3_001),
    ("with_body", "200 True", 4),
    ("too_large_a_body", "413 200", 6),
    ("packed_body", "202 1", 3),
    ("part_of_a_file", "206 bytes 0-9 10", 2),
    ("no_live_rights", "552", 2),
    ("large_answer", "200 True True False", 2),
    ("host_alone", "200", 2),
    ("host_and_authority", "200", 2),
    ("host_differs", "400", 2),
    ("two_hosts", "400", 2),
    ("no_host", "400", 2),
    ("user_in_authority", "400", 2),
    ("same_host_in_other_letters", "200", 2),
    ("host_with_another_port", "400", 2),
    ("foreign_authority", "421", 2),
    ("foreign_host", "421", 2),
    ("our_authority_and_a_foreign_host", "400", 2),
    ("foreign_authority_and_our_host", "400", 2),
    ("no_authority_in_its_field", "reset 1 200", 3),
    ("space_in_authority", "reset 1 200", 3),
    ("two_authorities", "400 200", 3),
    ("path_in_authority", "reset 1 200", 3),
    ("address_in_authority", "reset 1 200", 3),
    ("percent_in_authority", "reset 1 200", 3),
    ("open_bracket_in_authority", "reset 1 200", 3),
    ("no_address_in_brackets", "400 200", 3),
    ("odd_port_in_authority", "400 200", 3),
    ("port_beyond_all", "400 200", 3),
    ("not_ascii_in_authority", "reset 1 200", 3),
    ("address_as_authority", "200 200", 3),
    ("authority_twice", "reset 1 200", 3),
    ("odd_expectation", "417", 2),
    ("odd_method", "501", 2),
    ("connect", "501", 2),
    ("long_target", "414", 2),
    ("raw_characters_in_the_path", "reset 1", 2),
    ("dots_in_the_path", "400", 2),
    ("uppercase", "goaway 1", 2),
    ("connection_header", "reset 1 200", 3),
    ("transfer_encoding", "reset 1 200", 3),
    ("te", "reset 1 200", 3),
    ("line_end_in_a_value", "goaway 1", 2),
    ("nul_in_a_value", "goaway 1", 2),
    ("no_path", "reset 1 200", 3),
    ("empty_path", "reset 1 200", 3),
    ("no_method", "reset 1 200", 3),
    ("no_scheme", "reset 1 200", 3),
    ("path_twice", "reset 1 200", 3),
    ("pseudo_header_after_others", "reset 1 200", 3),
    ("pseudo_header_of_answers", "reset 1 200", 3),
    ("unknown_pseudo_header", "goaway 1", 2),
    ("body_longer_than_it_says", "reset 1", 3),
    ("body_shorter_than_it_says", "reset 1", 3),
    ("sixty_five_headers", "431", 2),
    ("twenty_kilobytes_of_headers", "431", 3),
    ("a_megabyte_of_headers", "goaway 11", 2),
    ("continuations", "goaway 11", 15),
    ("empty_continuations", "goaway 11", 8),
    ("rapid_resets", "goaway 11", 601),
    ("resets_by_our_mistakes", "goaway 11", 601),
    ("settings", "closed", 1_501),
    ("pings", "closed", 1_501),
    ("some_pings", "100 200", 102),
    ("priorities", "closed", 1_501),
    ("window_updates", "closed", 1_501),
    ("empty_data", "goaway 11", 1_502),
    ("unknown_frames", "closed", 1_501),
    ("silent", "closed True", 1),
    ("half_a_block", "closed True", 3),
    ("a_window_of_nothing", "closed True", 0),
    ("a_window_of_one", "closed True", 0),
];

#[test]
fn http2_frames_get_the_specified_responses() {
    let Some(python) = python_with("hpack", "python3-h2") else {
        return;
    };
    let fixture = PlaybackFixture::new();
    let server = &fixture.server;
    // A programme without live rights, where a heartbeat over HTTP/1 gets the same response.
    let player = fixture.play(&fixture.ann, "news", "tv");
    server.wait(7_230);
    let now = server.services.clock.now();
    server.services.playback.refresh(now);
    assert_eq!(fixture.beat(&player, &[]).status, 552);

    let film = fixture.play(&fixture.ann, "film", "phone");
    let keys = certificates();
    let file = |name: &str| keys.path().join(name);
    let tls = Arc::new(Tls::open(&file("here.pem"), &file("here.key")).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let guard = runtime.enter();
    let listeners = [RouteSet::Public, RouteSet::Ops].map(|table| {
        let listener = Listener::tcp(([127, 0, 0, 1], 0).into(), table).unwrap();
        listener.over(Arc::clone(&tls))
    });
    let [public, ops] = [0, 1].map(|at: usize| listeners[at].address().unwrap().port());
    let running = serve(Arc::clone(&server.http), &ROUTERS, listeners.into());
    drop(guard);

    let input = json!({
        "ca": file("ca.pem"),
        "public": public,
        "ops": ops,
        "password": PASSWORD,
        "partner": {"service-accesstoken": server.partner},
        "good": {
            "path": "/api/catalog/v1/livestreams",
            "service-accesstoken": server.partner,
        },
        "viewer": {
            "service-accesstoken": server.partner,
            "authorization": format!("Bearer {}", fixture.ann.token),
        },
        "events": [{"timestamp": now.0, "source": "APP_ACTION", "component": "player", "action": "pause", "seqId": 1}],
        "file": film.playlist.strip_prefix("https://tv.example").unwrap(),
        "dark": {
            "method": "POST",
            "path": "/api/playback/v1/heartbeat",
            "service-accesstoken": server.partner,
            "authorization": format!("Bearer {}", fixture.ann.token),
            "service-play-drm": "clearkey",
            "service-play-protocol": "dash",
            "service-play-entitlementid": player.entitlement,
            "service-play-deviceplatform": "linux",
            "service-play-devicetype": "tv",
            "service-play-devicemodel": "Model",
            "service-play-deviceid": player.device,
            "service-play-session": player.session,
            "service-play-timestamp": now.0.to_string(),
            "service-play-bitrate": "2500000",
            "service-play-resolutionwidth": "1280",
            "service-play-resolutionheight": "720",
        },
    });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/h2_client.py");
    let output = Command::new(python)
        .args([script, &input.to_string()])
        .output_in_time();
    let outcomes = serde_json::from_slice(&output.stdout);
    let outcomes: Value = outcomes.unwrap_or_else(|_| panic!("{}", err(&output)));
    let mut wrong = Vec::new();
    for (name, expected, most) in CASES {
        let outcome = &outcomes[name];
        if outcome[0] != *expected || outcome[1].as_u64() > Some(*most) {
            wrong.push(format!("{name}: {outcome}, not {expected} within {most}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(outcomes.as_object().unwrap().len(), CASES.len());
    // Control: no panic, and no connection is left.
    assert_eq!(server.http.metrics.panics.get(), 0);
    assert!(runtime.block_on(running.stop(std::time::Duration::from_secs(5))));
}
