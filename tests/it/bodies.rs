//! Request bodies: size limits, content encoding, JSON, and the state of the connection after a rejected body.

use std::io::Write;
use std::time::Duration;

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Answer, Wire, ask, request};

fn user_headers(server: &GateOnly) -> [(&'static str, String); 2] {
    let tokens = &server.gate.tokens;
    [
        ("Service-AccessToken", tokens.partner.reveal().to_owned()),
        ("Authorization", format!("Bearer {}", tokens.user.reveal())),
    ]
}

fn head(server: &GateOnly, method: &str, target: &str, more: &str) -> Vec<u8> {
    let mut text = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{more}");
    for (name, value) in user_headers(server) {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.into_bytes()
}

const RESET: &str = "/api/login/v2/password/send-reset-password";
const EVENTS: &str = "/api/tracker/v1/telemetry-events";

fn send_clock(server: &GateOnly, body: &str) -> Answer {
    let (name, value) = server.admin();
    ask(
        server.ops,
        request("PUT", "/admin/v1/clock", &[(name, &value)], body),
    )
}

fn put_clock(server: &GateOnly, body: &str) -> u16 {
    send_clock(server, body).status
}

#[test]
fn json_is_parsed_regardless_of_content_type() {
    let server = GateOnly::start();
    let (name, value) = server.admin();
    for kind in [
        "application/x-www-form-urlencoded",
        "text/plain",
        "nonsense",
    ] {
        let headers = [(name, &*value), ("Content-Type", kind)];
        let answer = ask(
            server.ops,
            request("PUT", "/admin/v1/clock", &headers, "{\"offset\":60}"),
        );
        assert_eq!(answer.status, 200, "{kind}");
        assert_eq!(answer.json()["offset"], 60);
    }
}

#[test]
fn ambiguous_json_is_rejected() {
    let server = GateOnly::start();
    assert_eq!(
        put_clock(&server, "{\"offset\":1,\"unknown\":{\"a\":[]}}"),
        200
    );
    let deep = format!(
        "{{\"offset\":1,\"x\":{}{}}}",
        "[".repeat(40),
        "]".repeat(40)
    );
    for body in [
        "{\"offset\":1,\"offset\":1}",
        "{\"offset\":1,\"\\u006fffset\":2}",
        "\u{feff}{\"offset\":1}",
        "{\"offset\":1}x",
        "{\"offset\":1}{}",
        "{\"offset\":1.5}",
        "{\"offset\":1e2}",
        "{\"offset\":-0}",
        "{\"offset\":NaN}",
        "{\"offset\":1e999}",
        "{\"offset\":18446744073709551616}",
        "{\"offset\":\"1\"}",
        "{\"offset\":[1]}",
        "null",
        "[]",
        "1",
        " ",
        &deep,
    ] {
        assert_eq!(put_clock(&server, body), 400, "{body}");
    }
    assert_eq!(put_clock(&server, ""), 400);
}

#[test]
fn json_errors_name_the_member() {
    let server = GateOnly::start();
    let partner = server.gate.tokens.partner.reveal().to_owned();
    for (body, field) in [
        ("{}", "email"),
        ("{\"email\":null}", "email"),
        ("{\"email\":[\"a@b.example\"]}", "email"),
        ("{\"email\":{\"a\":\"a@b.example\"}}", "email"),
        ("{\"email\":\"no address\"}", "email"),
        ("[]", "body"),
    ] {
        let headers = [("Service-AccessToken", &*partner)];
        let answer = ask(server.public, request("POST", RESET, &headers, body));
        assert_eq!(
            (answer.status, answer.field()),
            (400, field.to_owned()),
            "{body}"
        );
        let json = answer.json();
        assert_eq!(
            json["message"], json["error"]["message"],
            "the login routes repeat it"
        );
    }
}

#[test]
fn the_lab_clock_accepts_only_times_with_a_date() {
    let server = GateOnly::start();
    for good in [
        "{\"now\":0}",
        "{\"now\":253402300799}",
        "{\"offset\":-10000000000}",
    ] {
        assert_eq!(put_clock(&server, good), 200, "{good}");
    }
    for bad in [
        "{\"now\":-1}",
        "{\"now\":253402300800}",
        "{\"offset\":10000000001}",
        "{\"offset\":-9223372036854775808}",
    ] {
        assert_eq!(put_clock(&server, bad), 400, "{bad}");
    }
    // A body that cannot be read is told as that, and not as a missing member.
    for (bad, told) in [
        ("{\"now\":", "body"),
        ("now=0", "body"),
        ("[]", "body"),
        ("{\"now\":0,\"now\":1}", "body"),
        ("{}", "now"),
    ] {
        let answer = send_clock(&server, bad);
        assert_eq!(
            (answer.status, answer.field()),
            (400, told.to_owned()),
            "{bad}"
        );
    }
}

#[test]
fn too_large_bodies_are_rejected_before_and_while_they_arrive() {
    let server = GateOnly::start();
    // With a declared length: rejected immediately, and the client can still read the response.
    let mut wire = Wire::to(server.public);
    wire.send(head(&server, "POST", RESET, "Content-Length: 16385\r\n"));
    wire.send(vec![b' '; 16_385]);
    let answer = wire.answer().unwrap();
    assert_eq!(
        (answer.status, answer.code()),
        (413, "PAYLOAD_TOO_LARGE".to_owned())
    );
    // Without a declared length: rejected when the limit is exceeded.
    let mut wire = Wire::to(server.public);
    wire.send(head(
        &server,
        "POST",
        RESET,
        "Transfer-Encoding: chunked\r\n",
    ));
    for _ in 0..100 {
        wire.send(b"400\r\n");
        wire.send([b' '; 0x400]);
        wire.send(b"\r\n");
    }
    assert_eq!(wire.answer().unwrap().status, 413);
    // Far over the limit: the client gets a response although it continues to send.
    let mut wire = Wire::to(server.public);
    wire.send(head(&server, "POST", RESET, "Content-Length: 400000\r\n"));
    wire.send(vec![b' '; 400_000]);
    assert_eq!(wire.answer().unwrap().status, 413);
    assert_eq!(
        ask(
            server.public,
            head(&server, "POST", RESET, "Content-Length: 99999999999\r\n")
        )
        .status,
        413
    );
}

#[test]
fn only_telemetry_accepts_a_content_encoding_gzip() {
    let server = GateOnly::start();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&vec![b' '; 4 * 1024 * 1024]).unwrap();
    let bomb = gzip.finish().unwrap();
    let send = |target: &str, coding: &str, body: &[u8]| {
        let more = format!(
            "Content-Encoding: {coding}\r\nContent-Length: {}\r\n",
            body.len()
        );
        let mut bytes = head(&server, "POST", target, &more);
        bytes.extend_from_slice(body);
        ask(server.public, bytes).status
    };
    assert_eq!(send(RESET, "gzip", b"{}"), 415);
    assert_eq!(send(RESET, "identity", b"{}"), 400);
    assert_eq!(send(EVENTS, "br", b"[]"), 415);
    assert_eq!(send(EVENTS, "gzip, gzip", b"[]"), 415);
    // A repeated header is a list of two codings, and neither may be overlooked.
    let repeated = "identity\r\nContent-Encoding: gzip";
    assert_eq!(send(EVENTS, repeated, b"[]"), 415);
    assert_eq!(send(RESET, repeated, b"{}"), 415);
    assert_eq!(send(EVENTS, "gzip", b"[]"), 400);
    assert_eq!(send(EVENTS, "gzip", &bomb), 413);
}

#[test]
fn a_broken_chunk_is_400_and_closes_the_connection() {
    let server = GateOnly::start();
    let long_extension = format!("1;{}\r\n \r\n0\r\n\r\n", "x".repeat(20_000));
    let many_trailers = format!("1\r\n \r\n0\r\n{}\r\n", "T: x\r\n".repeat(150));
    for chunks in [
        "zz\r\n",
        "-1\r\n",
        "1\r\nxyz",
        &long_extension,
        &many_trailers,
    ] {
        let mut wire = Wire::to(server.public);
        let mut bytes = head(&server, "POST", RESET, "Transfer-Encoding: chunked\r\n");
        bytes.extend_from_slice(chunks.as_bytes());
        wire.send(bytes);
        let status = wire.answer().unwrap().status;
        assert!(matches!(status, 400 | 431), "{status} for {:.20}", chunks);
        assert!(wire.ends_within(Duration::from_secs(8)), "{:.20}", chunks);
    }
}

#[test]
fn an_ignored_body_does_not_disturb_the_next_request() {
    let server = GateOnly::start();
    let (name, value) = server.admin();
    let mut wire = Wire::to(server.ops);
    for body in [
        "{}",
        "not json",
        "",
        "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ] {
        wire.send(request(
            "DELETE",
            "/admin/v1/clock",
            &[(name, &value)],
            body,
        ));
        let answer = wire.answer().unwrap();
        assert_eq!(
            (answer.status, answer.json()["offset"].clone()),
            (200, 0.into()),
            "{body}"
        );
    }
    // The body of a rejected request is read off the connection too.
    wire.send(request("POST", "/livez", &[], "hidden"));
    assert_eq!(wire.answer().unwrap().status, 405);
    wire.send(request("GET", "/livez", &[], ""));
    assert_eq!(wire.answer().unwrap().body, b"ok\n");
}

#[test]
fn an_aborted_body_changes_nothing() {
    let server = GateOnly::start();
    let (name, value) = server.admin();
    let mut wire = Wire::to(server.ops);
    wire.send(format!("PUT /admin/v1/clock HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nContent-Length: 12\r\n\r\n{{\"offset\":7"));
    wire.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(wire.answer().is_none_or(|answer| answer.status == 400));
    assert_eq!(server.services.lab_clock.as_ref().unwrap().offset(), 0);
}
