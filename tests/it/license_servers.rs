//! License servers of vendors: the exact bytes that they get, and how Playgate handles refusals, failures and
//! misbehaviour.

use std::io::Write as _;

use data_encoding::BASE64;
use serde_json::Value;

use crate::support::license_server::{Reply, Server, license, playing, response};
use crate::support::metrics::{metric, scrape};
use crate::support::playback_fixture::PlaybackFixture;
use crate::support::raw_http::Answer;

/// Settings for address, credential and the header of custom data.
const WIDEVINE: [&str; 3] = [
    "license.widevine.url",
    "license.widevine.authorization",
    "license.widevine.custom_data_header",
];
const FAIRPLAY: [&str; 3] = [
    "license.fairplay.url",
    "license.fairplay.authorization",
    "license.fairplay.custom_data_header",
];
const PLAYREADY: [&str; 3] = [
    "license.playready.url",
    "license.playready.authorization",
    "license.playready.custom_data_header",
];

/// Every byte value, and an end that looks like the end of a chunked body.
fn bytes() -> Vec<u8> {
    (0..=255).chain(*b"\r\n0\r\n\r\n").collect()
}

fn license_requests(fixture: &PlaybackFixture, system: &str, result: &str) -> String {
    let series = format!("playgate_licenses_total{{system=\"{system}\",result=\"{result}\"}}");
    metric(&scrape(fixture.server.ops), &series)
}

#[test]
fn only_challenge_and_license_pass_through_unchanged() {
    const BYTES: &str = "application/octet-stream";
    const SOAP: &str = "text/xml; charset=utf-8";
    for (system, protocol, asset, media, keys) in [
        ("widevine", "dash", "film", BYTES, WIDEVINE),
        ("fairplay", "hls", "news", BYTES, FAIRPLAY),
        ("playready", "dash", "film", SOAP, PLAYREADY),
    ] {
        let server = Server::start();
        let values = [&server.url, "Bearer their-credential", "X-Custom"];
        let settings: Vec<_> = keys.into_iter().zip(values).collect();
        let fixture = PlaybackFixture::with(&settings);
        let player = playing(&fixture, asset, system, protocol);
        server.next(response("200 OK", "application/x-license", &bytes()));
        let license = license(&fixture, &player, system, &[], &bytes());
        assert_eq!(license.status, 200, "{system}");
        assert_eq!(license.body, bytes());
        assert_eq!(
            license.header("content-type"),
            Some("application/x-license")
        );
        assert_eq!(license.header("cache-control"), Some("no-store"));
        assert_eq!(license.header("set-cookie"), None);

        let received = server.received();
        assert_eq!(received.body, bytes());
        assert_eq!(received.head[0], "POST /l?tenant=a HTTP/1.1");
        let mut names: Vec<&str> = received.head[1..]
            .iter()
            .map(|line| line.split_once(": ").unwrap().0)
            .collect();
        names.retain(|name| *name != "soapaction");
        let usual = [
            "authorization",
            "content-length",
            "content-type",
            "x-custom",
        ];
        assert_eq!(names, usual);
        assert_eq!(
            received.header("authorization"),
            Some("Bearer their-credential")
        );
        assert_eq!(received.header("content-type"), Some(media));
        assert_eq!(
            received.header("soapaction").is_some(),
            system == "playready"
        );
        let custom = BASE64.decode(received.header("x-custom").unwrap().as_bytes());
        let custom: Value = serde_json::from_slice(&custom.unwrap()).unwrap();
        assert_eq!(custom["userId"], fixture.ann.id);
        assert_eq!(custom["sessionId"], player.session);
        assert_eq!(license_requests(&fixture, system, "issued"), "1");
    }
}

#[test]
fn vendor_messages_carry_the_keys_of_the_asset() {
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[
        ("license.widevine.url", &server.url),
        ("license.widevine.style", "axinom"),
        (
            "license.widevine.message_key_id",
            "cc36e85d-2fdf-462c-b395-030907447afc",
        ),
        ("license.widevine.message_key", &BASE64.encode(&[7; 32])),
    ]);
    let player = playing(&fixture, "film", "widevine", "dash");
    server.next(response("200 OK", "application/octet-stream", b"license"));
    assert_eq!(
        license(&fixture, &player, "widevine", &[], b"challenge").status,
        200
    );
    let received = server.received();
    let message = received.header("x-axdrm-message").unwrap();
    let claims = message.split('.').nth(1).unwrap();
    let claims = data_encoding::BASE64URL_NOPAD.decode(claims.as_bytes());
    let claims: Value = serde_json::from_slice(&claims.unwrap()).unwrap();
    let keys = &claims["message"]["content_keys_source"]["inline"];
    assert_eq!(keys[0]["id"], "00112233-4455-6677-8899-aabbccddeeff");
    assert_eq!(keys[1]["id"], "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa");
}

#[test]
fn a_service_certificate_is_no_license() {
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[("license.widevine.url", &server.url)]);
    let player = playing(&fixture, "film", "widevine", "dash");
    server.next(response(
        "200 OK",
        "application/octet-stream",
        b"certificate",
    ));
    let certificate = license(&fixture, &player, "widevine", &[], b"\x08\x04");
    assert_eq!(certificate.body, b"certificate");
    assert_eq!(server.received().body, b"\x08\x04");
    assert_eq!(license_requests(&fixture, "widevine", "certificate"), "1");
    assert_eq!(license_requests(&fixture, "widevine", "issued"), "0");
}

#[test]
fn a_failing_license_server_is_reported_in_time_and_then_skipped() {
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[
        ("license.widevine.url", &server.url),
        ("license.widevine.timeout", "1s"),
    ]);
    let player = playing(&fixture, "film", "widevine", "dash");
    let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nlic";
    let endless = [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n".to_vec(),
        vec![b'x'; 10 << 20],
    ];
    let redirect =
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
    let failed = "502 LICENSE_SERVER_FAILED";
    for (reply, expected, result) in [
        (
            response("403 Forbidden", "text/plain", b"no"),
            "403 LICENSE_REFUSED",
            "refused",
        ),
        (
            response("500 Oops", "text/plain", b"their stack"),
            failed,
            "failed",
        ),
        (Reply::Send(redirect.to_vec()), failed, "failed"),
        (response("200 OK", "a/b", b""), failed, "failed"),
        (Reply::Send(endless.concat()), failed, "failed"),
        (response("200 OK", "a/b", b"license"), "200", "issued"),
        // From here on five failures of the connection in a row, after which the server is skipped.
        (Reply::Send(whole.to_vec()), failed, "failed"),
        (
            Reply::Send(b"SSH-2.0-OpenSSH\r\n".to_vec()),
            failed,
            "failed",
        ),
        (Reply::Send(Vec::new()), failed, "failed"),
        (Reply::Send(whole.to_vec()), failed, "failed"),
        (Reply::Hang, "504 LICENSE_SERVER_TIMEOUT", "timed_out"),
    ] {
        let before: u32 = license_requests(&fixture, "widevine", result)
            .parse()
            .unwrap();
        server.next(reply);
        let found = license(&fixture, &player, "widevine", &[], b"challenge");
        assert_eq!(found.outcome(), expected);
        assert!(!String::from_utf8_lossy(&found.body).contains("stack"));
        assert_eq!(server.received().body, b"challenge");
        let after: u32 = license_requests(&fixture, "widevine", result)
            .parse()
            .unwrap();
        assert_eq!(after, before + 1, "{result}");
    }
    let rests = license(&fixture, &player, "widevine", &[], b"challenge");
    assert_eq!(rests.outcome(), failed);
    assert_eq!(license_requests(&fixture, "widevine", "not_asked"), "1");
    assert!(server.received.try_recv().is_err(), "it was asked");
}

/// PlayReady clients speak SOAP and read refusals from a fault.
#[test]
fn playready_errors_are_soap_faults() {
    const FAULT: &str =
        "<s:Envelope><s:Body><s:Fault>Device revoked</s:Fault></s:Body></s:Envelope>";
    let server = Server::start();
    let fixture = PlaybackFixture::with(&[("license.playready.url", &server.url)]);
    let player = playing(&fixture, "film", "playready", "dash");
    let soap = [(
        "SOAPAction",
        "\"http://schemas.microsoft.com/DRM/2007/03/protocols/AcquireLicense\"",
    )];
    // The vendor's fault passes unchanged.
    server.next(response(
        "500 Internal Server Error",
        "text/xml; charset=utf-8",
        FAULT.as_bytes(),
    ));
    let theirs = license(&fixture, &player, "playready", &soap, b"challenge");
    assert_eq!(theirs.status, 403);
    assert_eq!(theirs.body, FAULT.as_bytes());
    assert_eq!(
        theirs.header("content-type"),
        Some("text/xml; charset=utf-8")
    );
    assert_eq!(license_requests(&fixture, "playready", "refused"), "1");
    drop(server.received());

    let body_text = |answer: &Answer| String::from_utf8(answer.body.clone()).unwrap();
    server.next(response("503 Busy", "text/plain", b"later"));
    let failure = license(&fixture, &player, "playready", &soap, b"challenge");
    assert_eq!(failure.status, 502);
    assert!(body_text(&failure).contains("<StatusCode>0x8004C600</StatusCode>"));
    // Playgate's own fault is in the viewer's language and escaped; other clients get JSON.
    let mut forged = player.clone();
    forged.entitlement = crate::support::playback_fixture::never_issued();
    let ours = license(&fixture, &forged, "playready", &soap, b"challenge");
    assert_eq!(ours.status, 403);
    assert_eq!(ours.header("content-type"), Some("text/xml; charset=utf-8"));
    let text = body_text(&ours);
    assert!(
        text.contains("<faultcode>soap:Client</faultcode>"),
        "{text}"
    );
    assert!(text.contains("<StatusCode>0x8004C604</StatusCode>"));
    assert!(text.contains("<CustomData>ENTITLEMENT_INVALID</CustomData>"));
    let mut reader = quick_xml::Reader::from_str(&text);
    while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    let json = license(&fixture, &forged, "playready", &[], b"challenge");
    assert_eq!(json.outcome(), "403 ENTITLEMENT_INVALID");
    forged.viewer.token.clear();
    let stranger = license(&fixture, &forged, "playready", &soap, b"challenge");
    assert_eq!(stranger.status, 401);
    assert!(stranger.header("www-authenticate").is_some());
    assert!(body_text(&stranger).contains("USER_TOKEN_INVALID"));
    // Other systems have no SOAP faults.
    let other = license(&fixture, &forged, "widevine", &soap, b"challenge");
    assert_eq!(other.outcome(), "401 USER_TOKEN_INVALID");
    assert_eq!(license_requests(&fixture, "playready", "denied"), "2");
}

#[test]
fn the_certificate_of_fairplay_is_served() {
    let certificate = tempfile::NamedTempFile::new().unwrap();
    certificate.as_file().write_all(b"certificate").unwrap();
    let path = certificate.path().to_str().unwrap();
    let fixture = PlaybackFixture::with(&[("license.fairplay.certificate", path)]);
    let target = "/api/playback/v1/fairplay/certificate";
    let served = fixture.ask(&fixture.ann, "GET", target, &[], "");
    assert_eq!(served.body, b"certificate");
}
