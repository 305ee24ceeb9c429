//! Challenges, licenses and refusals in the forms of vendors, and challenges that hide a foreign key id.

use std::thread;

use data_encoding::BASE64;
use playgate_types::PartnerKind;
use serde_json::Value;

use crate::support::gate_only::NOON;
use crate::support::lab_report::with_result;
use crate::support::license_server::{Reply, Server, license, playing, response};
use crate::support::playback_fixture::{PlaybackFixture, player};

const FOREIGN: [u8; 16] = [0x5a; 16];
/// A key id of `film`.
const OWN: [u8; 16] = [0xaa; 16];
const CKC: &[u8] = &[0, 0, 0, 1, 0xfb, 0xff, 0xfe];
const SPC: &[u8] = &[0, 0, 0, 1, 0xff, 0xfe, 0xfd];

/// A length-delimited field of Protocol Buffers, of fewer than 128 bytes.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    [&[number << 3 | 2, length], value].concat()
}

fn widevine(content: &[u8]) -> Vec<u8> {
    [vec![0x08, 1], field(2, &field(2, content))].concat()
}

/// The base64 of a key id as PlayReady writes it, in the byte order of a GUID.
fn guid(kid: [u8; 16]) -> String {
    BASE64.encode(&kid)
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[test]
fn no_readable_form_of_a_foreign_key_id_reaches_the_license_server() {
    let pssh = |kid: &[u8]| field(1, &field(1, &field(2, kid)));
    let webm = |kid: &[u8]| field(2, &field(1, kid));
    let init = |kid: &[u8]| field(4, &[vec![8, 1], field(2, &field(2, kid))].concat());
    let element = |kid| format!("<WRMHEADER><KID>{}</KID></WRMHEADER>", guid(kid));
    let prefixed = |kid| format!("<w:KID>{}</w:KID>", guid(kid));
    let attribute = |kid| format!("<KID VALUE=\"{}\"/>", guid(kid));
    let challenges = |kid: [u8; 16]| {
        [
            ("widevine", widevine(&pssh(&kid))),
            ("widevine", widevine(&webm(&kid))),
            ("widevine", widevine(&init(&kid))),
            ("playready", element(kid).into_bytes()),
            ("playready", attribute(kid).into_bytes()),
            ("playready", prefixed(kid).into_bytes()),
            ("playready", utf16(&element(kid))),
        ]
    };
    for system in ["widevine", "playready"] {
        let server = Server::start();
        let url = match system {
            "widevine" => "license.widevine.url",
            _ => "license.playready.url",
        };
        let fixture = PlaybackFixture::with(&[(url, &server.url)]);
        let player = playing(&fixture, "film", system, "dash");
        for (_, body) in challenges(FOREIGN).iter().filter(|(of, _)| *of == system) {
            let refused = license(&fixture, &player, system, &[], body);
            assert_eq!(refused.outcome(), "403 KEY_NOT_ALLOWED", "{body:?}");
        }
        for (_, body) in challenges(OWN).iter().filter(|(of, _)| *of == system) {
            server.next(response("200 OK", "a/b", b"\x08\x02"));
            assert_eq!(license(&fixture, &player, system, &[], body).status, 200);
            assert_eq!(server.received().body, *body);
        }
        assert!(server.received.try_recv().is_err(), "it was asked");
    }
}

#[test]
fn a_refusal_of_a_license_server_is_no_failure() {
    for (system, protocol, asset, url) in [
        ("widevine", "dash", "film", "license.widevine.url"),
        ("playready", "dash", "film", "license.playready.url"),
        ("fairplay", "hls", "news", "license.fairplay.url"),
    ] {
        let server = Server::start();
        let fixture = PlaybackFixture::with(&[(url, &server.url)]);
        let player = playing(&fixture, asset, system, protocol);
        let answered = |reply: Reply| {
            server.next(reply);
            let answer = license(&fixture, &player, system, &[], b"challenge");
            server.received();
            answer
        };
        for status in [400, 401, 403, 404, 410, 418, 451, 499] {
            let reply = response(&format!("{status} No"), "application/json", b"{\"code\":7}");
            let answer = answered(reply);
            assert_eq!(answer.outcome(), "403 LICENSE_REFUSED", "{system} {status}");
            assert_eq!(answer.json()["error"]["details"]["status"], status);
            assert!(!String::from_utf8_lossy(&answer.body).contains("code\":7"));
        }
        let limited = b"HTTP/1.1 429 Slow\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n";
        let answer = answered(Reply::Send(limited.to_vec()));
        assert_eq!(answer.outcome(), "429 RATE_LIMITED");
        assert_eq!(answer.header("retry-after"), Some("17"));
        assert_eq!(answer.json()["error"]["details"]["retryAfter"], 17);
        for status in ["500 Oops", "503 Busy", "302 Found"] {
            let answer = answered(response(status, "text/plain", b"no"));
            assert_eq!(answer.outcome(), "502 LICENSE_SERVER_FAILED", "{status}");
        }
    }
}

/// A vendor's server: whether it takes this challenge, and its answer.
struct Vendor {
    settings: &'static [(&'static str, &'static str)],
    media: &'static str,
    takes: fn(&[u8]) -> bool,
    answers: fn() -> Vec<u8>,
}

fn is_form(body: &[u8]) -> bool {
    body.starts_with(b"spc=AAAAAf%2F%2B%2FQ%3D%3D") || body.starts_with(b"spc=AAAAAf/+/Q==")
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body)
        .is_ok_and(|json| json["spc"] == "AAAAAf/+/Q==")
}

fn is_raw(body: &[u8]) -> bool {
    body == SPC
}

fn in_base64() -> Vec<u8> {
    BASE64.encode(CKC).into_bytes()
}

const FORM: &str = "application/x-www-form-urlencoded";
const BYTES: &str = "application/octet-stream";

const FAIRPLAY: [Vendor; 8] = [
    // DRMtoday of castLabs.
    Vendor {
        settings: &[
            ("license.fairplay.style", "drmtoday"),
            ("license.fairplay.merchant", "acme"),
        ],
        media: FORM,
        takes: is_form,
        answers: in_base64,
    },
    // DoveRunner, formerly PallyCon.
    Vendor {
        settings: &[
            ("license.fairplay.style", "doverunner"),
            ("license.fairplay.merchant", "TUTO"),
            (
                "license.fairplay.message_key",
                "lU5D8s3PWoLls3PWFWkClULlFWk5D8oC",
            ),
            (
                "license.fairplay.access_key",
                "LT2FVJDp2Xr018zf4Di6lzvNOv3DKP20",
            ),
        ],
        media: FORM,
        takes: is_form,
        answers: in_base64,
    },
    // Axinom.
    Vendor {
        settings: &[
            ("license.fairplay.style", "axinom"),
            (
                "license.fairplay.message_key_id",
                "cc36e85d-2fdf-462c-b395-030907447afc",
            ),
            (
                "license.fairplay.message_key",
                "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
            ),
        ],
        media: BYTES,
        takes: is_raw,
        answers: || CKC.to_vec(),
    },
    // EZDRM.
    Vendor {
        settings: &[("license.fairplay.style", "ezdrm")],
        media: BYTES,
        takes: is_raw,
        answers: || CKC.to_vec(),
    },
    // KeyOS of BuyDRM.
    Vendor {
        settings: &[("license.fairplay.body", "form")],
        media: FORM,
        takes: is_form,
        answers: || format!("<ckc>{}</ckc>\n", BASE64.encode(CKC)).into_bytes(),
    },
    // Verimatrix.
    Vendor {
        settings: &[("license.fairplay.body", "json")],
        media: "application/json",
        takes: is_json,
        answers: || format!("{{\"ckc\": \"{}\"}}", BASE64.encode(CKC)).into_bytes(),
    },
    // Nagra.
    Vendor {
        settings: &[
            ("license.fairplay.style", "nagra"),
            ("license.fairplay.message_key_id", "263953"),
            (
                "license.fairplay.message_key",
                "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
            ),
        ],
        media: BYTES,
        takes: is_raw,
        answers: || format!("{{\"CkcMessage\": \"{}\"}}", BASE64.encode(CKC)).into_bytes(),
    },
    // Irdeto.
    Vendor {
        settings: &[("license.fairplay.body", "raw")],
        media: BYTES,
        takes: is_raw,
        answers: || CKC.to_vec(),
    },
];

#[test]
fn every_vendor_of_fairplay_gets_its_form_and_the_player_its_license() {
    for vendor in FAIRPLAY {
        let server = Server::start();
        let mut settings = vec![("license.fairplay.url", server.url.as_str())];
        settings.extend(vendor.settings);
        let fixture = PlaybackFixture::with(&settings);
        let player = playing(&fixture, "news", "fairplay", "hls");
        // Players send the SPC itself, in a form as Apple's sample does, in JSON or in base64.
        let forms: [&[u8]; 5] = [
            SPC,
            b"spc=AAAAAf%2F%2B%2FQ%3D%3D&assetId=news",
            b"spc=AAAAAf/+/Q==",
            b"{\"spc\": \"AAAAAf/+/Q==\"}",
            b"AAAAAf/+/Q==",
        ];
        for sent in forms {
            server.next(response("200 OK", "text/plain", &(vendor.answers)()));
            let answer = license(&fixture, &player, "fairplay", &[], sent);
            let received = server.received();
            assert_eq!(received.header("content-type"), Some(vendor.media));
            assert!(
                (vendor.takes)(&received.body),
                "{:?}: {:?}",
                vendor.settings,
                received.body
            );
            assert_eq!(
                (answer.status, answer.body.as_slice()),
                (200, CKC),
                "{:?}",
                vendor.settings
            );
        }
    }
}

#[test]
fn without_a_setting_the_form_of_the_client_is_kept() {
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[("license.fairplay.url", &server.url)]);
    let player = playing(&fixture, "news", "fairplay", "hls");
    for (sent, media) in [
        (&b"spc=AAAAAf%2F%2B%2FQ%3D%3D&assetId=news"[..], FORM),
        (b"{\"spc\": \"AAAAAf/+/Q==\"}", "application/json"),
    ] {
        server.next(response("200 OK", "text/plain", &in_base64()));
        let answer = license(&fixture, &player, "fairplay", &[], sent);
        let received = server.received();
        assert_eq!(
            (received.body.as_slice(), received.header("content-type")),
            (sent, Some(media))
        );
        // The client speaks the form of its server, and reads its answer.
        assert_eq!(answer.body, in_base64());
    }
    server.next(response("200 OK", "text/plain", &in_base64()));
    assert_eq!(license(&fixture, &player, "fairplay", &[], SPC).body, CKC);
    assert_eq!(server.received().header("content-type"), Some(BYTES));
}

#[test]
fn a_widevine_license_in_json_is_unwrapped() {
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[
        ("license.widevine.url", &server.url),
        ("license.widevine.style", "drmtoday"),
        ("license.widevine.merchant", "acme"),
    ]);
    let player = playing(&fixture, "film", "widevine", "dash");
    let of = |json: &str| {
        server.next(response("200 OK", "application/json", json.as_bytes()));
        let answer = license(&fixture, &player, "widevine", &[], b"challenge");
        server.received();
        answer
    };
    let license = of(r#"{"status":"OK","license":"CAISAQ==","supported_tracks":[]}"#);
    assert_eq!(
        (license.status, license.body.as_slice()),
        (200, &[8, 2, 0x12, 1][..])
    );
    assert_eq!(license.header("content-type"), Some(BYTES));
    let refused = of(r#"{"status":"NOT_ENTITLED","license":null}"#);
    assert_eq!(refused.outcome(), "403 LICENSE_REFUSED");
}

#[test]
fn the_address_of_a_license_server_names_asset_and_key() {
    let server = Server::start();
    let base = server.url.replace("/l?tenant=a", "");
    let url = format!("{base}/licenses/{{kid}}?contentId={{asset}}");
    let fixture = PlaybackFixture::with(&[("license.widevine.url", &url)]);
    let player = playing(&fixture, "film", "widevine", "dash");
    server.next(response("200 OK", BYTES, &[8, 2]));
    assert_eq!(
        license(&fixture, &player, "widevine", &[], b"challenge").status,
        200
    );
    let expected = "POST /licenses/00112233-4455-6677-8899-aabbccddeeff?contentId=film HTTP/1.1";
    assert_eq!(server.received().head[0], expected);
}

/// A server that takes long: a session has two requests there, whatever it asks.
#[test]
fn a_session_has_two_requests_at_a_license_server_at_a_time() {
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[
        ("license.widevine.url", &server.url),
        ("license.widevine.timeout", "25s"),
    ]);
    let first = playing(&fixture, "film", "widevine", "dash");
    let bob = fixture.viewer("bob");
    let token = fixture.token(&bob, "film");
    let started = fixture.preflight(&bob, "film", &token, &[("DRM", "widevine")]);
    let second = crate::support::playback_fixture::player(&bob, "tv", &started);
    // The third of the session waits behind these two, and the other session is served.
    server.next(Reply::Hang);
    server.next(Reply::Hang);
    server.next(response("200 OK", BYTES, &[8, 2]));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| license(&fixture, &first, "widevine", &[], b"challenge"));
            server.received();
        }
        let third = scope.spawn(|| license(&fixture, &first, "widevine", &[], b"third"));
        let other = license(&fixture, &second, "widevine", &[], b"other");
        assert_eq!(other.status, 200);
        assert_eq!(server.received().body, b"other");
        server.next(response("200 OK", BYTES, &[8, 2]));
        server.release();
        assert_eq!(third.join().unwrap().status, 200);
        assert_eq!(server.received().body, b"third");
    });
}

/// KeyOS takes an authentication XML as `customdata`, Irdeto a token in the query, Verimatrix a bearer token: a service of the
/// operator adds them. It gets who plays what.
#[test]
fn a_service_that_adds_the_tokens_of_a_vendor_gets_who_plays_what() {
    for style in ["plain", "jwt"] {
        let server = Server::start();
        let fixture = PlaybackFixture::with(&[
            ("license.widevine.url", &server.url),
            ("license.widevine.style", style),
            ("license.widevine.custom_data_header", "X-Playgate-Subject"),
            (
                "license.widevine.message_key",
                "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=",
            ),
        ]);
        let player = playing(&fixture, "film", "widevine", "dash");
        server.next(response("200 OK", BYTES, &[8, 2]));
        let answer = license(&fixture, &player, "widevine", &[], b"challenge");
        assert_eq!(answer.status, 200);
        let received = server.received();
        let sent = received.header("x-playgate-subject").unwrap();
        let subject = match style {
            "plain" => BASE64.decode(sent.as_bytes()).unwrap(),
            _ => {
                let claims = sent.split('.').nth(1).unwrap();
                data_encoding::BASE64URL_NOPAD
                    .decode(claims.as_bytes())
                    .unwrap()
            }
        };
        let subject: serde_json::Value = serde_json::from_slice(&subject).unwrap();
        let (user, asset) = match style {
            "plain" => ("userId", "assetId"),
            _ => ("sub", "asset"),
        };
        assert_eq!(
            (&subject[user], &subject[asset]),
            (&fixture.ann.id.clone().into(), &"film".into())
        );
    }
}

/// A client of Widevine from its first request to its last: the service certificate, keys of sound and picture, a renewal.
#[test]
fn a_correct_client_of_widevine_breaks_no_rule() {
    let server = Server::start();
    let mut fixture = PlaybackFixture::with(&[("license.widevine.url", &server.url)]);
    let lab = fixture
        .server
        .services
        .partners
        .add("Lab", PartnerKind::Lab, NOON);
    let (_, token) = lab.unwrap().wait().unwrap();
    token.reveal().clone_into(&mut fixture.server.partner);
    let bob = fixture.viewer("bob");
    let pssh = |kid: &[u8]| widevine(&field(1, &field(1, &field(2, kid))));
    let picture = pssh(b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff");
    let sound = pssh(&OWN);
    let report = |fixture: &PlaybackFixture| -> Value {
        let answer = fixture
            .server
            .operator("GET", "partners/Lab/conformance", &Value::Null);
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()
    };
    let start = |fixture: &PlaybackFixture| {
        let token = fixture.token(&bob, "film");
        let wanted = [("DRM", "widevine"), ("Protocol", "dash")];
        player(
            &bob,
            "tv",
            &fixture.preflight(&bob, "film", &token, &wanted),
        )
    };
    let film = start(&fixture);
    let gets = |challenge: &[u8]| {
        server.next(response("200 OK", BYTES, &[8, 2]));
        let answer = license(&fixture, &film, "widevine", &[], challenge);
        assert_eq!(answer.status, 200, "{}", answer.outcome());
        server.received();
    };
    for challenge in [&b"\x08\x04"[..], &picture, &sound] {
        gets(challenge);
    }
    for beat in 0..7 {
        assert_eq!(fixture.beat(&film, &[("DRM", "widevine")]).status, 200);
        // Both licenses are renewed in a long session.
        if beat == 4 {
            gets(&picture);
            gets(&sound);
        }
        fixture.server.wait(10);
    }
    assert_eq!(fixture.stop(&film).status, 204);
    let passed = report(&fixture);
    assert_eq!(with_result(&passed, "failed"), [""; 0], "{passed:#}");
    for seen in [
        "one-license",
        "heartbeat-interval",
        "first-heartbeat",
        "end-session",
    ] {
        assert!(
            with_result(&passed, "passed").contains(&seen),
            "{seen} in {passed:#}"
        );
    }
    // The same keys again within seconds are the mistake.
    let film = start(&fixture);
    for _ in 0..2 {
        server.next(response("200 OK", BYTES, &[8, 2]));
        assert_eq!(
            license(&fixture, &film, "widevine", &[], &picture).status,
            200
        );
        server.received();
    }
    assert_eq!(fixture.beat(&film, &[("DRM", "widevine")]).status, 200);
    assert_eq!(fixture.stop(&film).status, 204);
    assert_eq!(with_result(&report(&fixture), "failed"), ["one-license"]);
}
