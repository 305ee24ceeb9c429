//! Request framing: heads and bodies that two readers of a connection could interpret differently are rejected, and a
//! request that is hidden behind another is never answered.

use std::time::Duration;

use crate::support::gate_only::GateOnly;
use crate::support::raw_http::{Wire, ask, request};

/// Below the ten seconds after which the server gives up a connection that it keeps open for another request.
const SOON: Duration = Duration::from_secs(8);

/// Returns the head of an administrator's request that moves the clock, without its framing headers.
fn clock(server: &GateOnly) -> String {
    let (name, value) = server.admin();
    format!("PUT /admin/v1/clock HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\n")
}

/// Expects one response with an allowed status, and then the end of the connection.
fn one_answer_then_end(server: &GateOnly, bytes: &str, allowed: &[u16]) {
    let mut wire = Wire::to(server.ops);
    wire.send(bytes);
    let answer = wire
        .answer()
        .unwrap_or_else(|| panic!("no answer to {bytes:?}"));
    assert!(
        allowed.contains(&answer.status),
        "{} for {bytes:?}",
        answer.status
    );
    assert!(wire.ends_within(SOON), "open after {bytes:?}");
}

#[test]
fn smuggled_requests_are_never_answered() {
    let server = GateOnly::start();
    let hidden = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let body = "{\"offset\":5}";
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    for framing in [
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n",
            body.len()
        ),
        format!(
            "Transfer-Encoding: chunked\r\nContent-Length: {}\r\n",
            body.len()
        ),
    ] {
        let bytes = format!("{}{framing}\r\n{chunked}{hidden}", clock(&server));
        one_answer_then_end(&server, &bytes, &[200, 400]);
    }
}

#[test]
fn ambiguous_content_lengths_are_rejected() {
    let server = GateOnly::start();
    for lengths in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 18446744073709551616\r\n",
        "Content-Length: \r\n",
        "Content-Length: 3 3\r\n",
    ] {
        let bytes = format!("{}{lengths}\r\nabc", clock(&server));
        one_answer_then_end(&server, &bytes, &[400]);
    }
    let twice = format!(
        "{}Content-Length: 12\r\nContent-Length: 12\r\n\r\n{{\"offset\":1}}",
        clock(&server)
    );
    assert!(matches!(ask(server.ops, twice).status, 200 | 400));
}

#[test]
fn transfer_encodings_other_than_chunked_are_rejected() {
    let server = GateOnly::start();
    let chunked = "0\r\n\r\n";
    for (coding, status) in [
        ("xchunked", 400),
        ("chunked, identity", 400),
        ("identity", 400),
        ("gzip, chunked", 501),
        ("gzip\r\nTransfer-Encoding: chunked", 501),
    ] {
        let bytes = format!(
            "{}Transfer-Encoding: {coding}\r\n\r\n{chunked}",
            clock(&server)
        );
        one_answer_then_end(&server, &bytes, &[status]);
    }
    let spaced = format!(
        "{}Transfer-Encoding : chunked\r\n\r\n{chunked}",
        clock(&server)
    );
    one_answer_then_end(&server, &spaced, &[400]);
    let old = "PUT /admin/v1/clock HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    one_answer_then_end(&server, old, &[400]);
}

#[test]
fn malformed_heads_are_rejected() {
    let server = GateOnly::start();
    let with = |line: &str| format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n");
    for bytes in [
        with("X: a\r\n b"),
        with("X: a\0b"),
        with("X: a\rb"),
        with("X: a\x7fb"),
        with("X Y: a"),
        "GET /livez HTTP/1.1\r\n\r\n".to_owned(),
        "GET /livez HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n".to_owned(),
        "GET /livez HTTP/1.1\r\nHost:\r\n\r\n".to_owned(),
        "GET /livez HTTP/1.1\r\nHost: a b\r\n\r\n".to_owned(),
        "GET /livez HTTP/1.1\r\nHost: a/b\r\n\r\n".to_owned(),
        "GET  /livez HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /livez\tx HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /li vez HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET /livez HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(),
    ] {
        one_answer_then_end(&server, &bytes, &[400]);
    }
    // Other protocols on the plain port: a TLS hello, and HTTP/2 with prior knowledge.
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut wire = Wire::to(server.ops);
        wire.send(bytes);
        assert!(wire.answer().is_none_or(|answer| answer.status == 400));
        assert!(wire.ends_within(SOON));
    }
}

#[test]
fn bare_line_feeds_are_handled_alike_in_all_lines() {
    let server = GateOnly::start();
    for bytes in [
        "GET /livez HTTP/1.1\nHost: localhost\n\n",
        "GET /livez HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
        "GET /livez HTTP/1.1\nHost: localhost\r\nX: y\n\r\n",
    ] {
        assert_eq!(ask(server.ops, bytes).status, 200, "{bytes:?}");
    }
}

#[test]
fn an_http_1_0_client_is_served() {
    let server = GateOnly::start();
    let mut wire = Wire::to(server.ops);
    wire.send("GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(wire.answer().unwrap().status, 200);
    assert!(wire.ends_within(SOON));
}

#[test]
fn too_large_heads_are_rejected() {
    let server = GateOnly::start();
    let many = |n: usize| "X: y\r\n".repeat(n);
    let head = |rest: &str| format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{rest}\r\n");
    assert_eq!(ask(server.ops, head(&many(63))).status, 200);
    for n in [64, 99, 101, 500] {
        one_answer_then_end(&server, &head(&many(n)), &[431]);
    }
    let long = |n: usize| head(&format!("X: {}\r\n", "y".repeat(n)));
    assert_eq!(ask(server.ops, long(16_000)).status, 200);
    for n in [16 * 1024 + 1, 40_000, 400_000] {
        one_answer_then_end(&server, &long(n), &[431]);
    }
    let target = |n: usize| {
        format!(
            "GET /livez?{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "y".repeat(n)
        )
    };
    assert_eq!(ask(server.ops, target(8 * 1024 - 7)).status, 200);
    for n in [8 * 1024 - 6, 20_000] {
        one_answer_then_end(&server, &target(n), &[414]);
    }
}

#[test]
fn unknown_methods_are_rejected_without_an_echo() {
    let server = GateOnly::start();
    let long = "M".repeat(1024);
    for (method, status) in [
        ("get", 501),
        ("Get", 501),
        ("FOO", 501),
        (&long, 501),
        ("PATCH", 405),
        ("TRACE", 405),
        ("QUERY", 405),
    ] {
        let bytes = request(method, "/livez", &[("X-Secret", "needle")], "");
        let answer = ask(server.ops, bytes);
        assert_eq!(answer.status, status, "{method}");
        assert!(!String::from_utf8(answer.body).unwrap().contains("needle"));
    }
    one_answer_then_end(
        &server,
        "CONNECT t:80 HTTP/1.1\r\nHost: t:80\r\n\r\n",
        &[405, 501],
    );
}

#[test]
fn alternative_spellings_of_a_path_are_not_found() {
    let server = GateOnly::start();
    for target in [
        "/livéz",
        "/livez?ä",
        "/livez%00",
        "/x/%2e%2e/livez",
        "/x/../livez",
        "/./livez",
        "//livez",
        "/%2flivez",
        "/livez%",
        "/livez%zz",
        "/livez/",
        "/LIVEZ",
        "/livez;x",
        "*",
    ] {
        let answer = ask(server.ops, request("GET", target, &[], ""));
        assert!(
            matches!(answer.status, 400 | 404),
            "{} for {target}",
            answer.status
        );
        assert!(answer.header("x-request-id").is_some(), "{target}");
    }
    // A fragment is no part of a target.
    assert_eq!(
        ask(server.ops, request("GET", "/livez#x", &[], "")).status,
        200
    );
    // An escaped ordinary letter makes another path, not another spelling of this one.
    assert_eq!(
        ask(server.ops, request("GET", "/live%7a", &[], "")).status,
        404
    );
}

#[test]
fn expect_headers_are_honoured_or_rejected() {
    let server = GateOnly::start();
    let (name, value) = server.admin();
    let expect = |what: &str| {
        format!(
            "PUT /admin/v1/clock HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nExpect: {what}\r\nContent-Length: 12\r\n\r\n"
        )
    };
    let mut wire = Wire::to(server.ops);
    wire.send(expect("100-continue"));
    let mut interim = [0; 25];
    std::io::Read::read_exact(&mut wire.stream, &mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    wire.send("{\"offset\":1}");
    assert_eq!(wire.answer().unwrap().status, 200);
    assert_eq!(ask(server.ops, expect("magic")).status, 417);
    // A rejected request gets its response instead of `100 Continue`.
    let refused = expect("100-continue").replace("Bearer pgo_", "Bearer pgo-");
    assert_eq!(ask(server.ops, refused).status, 401);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = GateOnly::start();
    let mut wire = Wire::to(server.ops);
    let mut all = String::new();
    for number in 0..1_000 {
        let id = format!("n-{number}");
        all.push_str(&request("GET", "/livez", &[("X-Request-Id", &id)], ""));
    }
    let mut writer = wire.stream.try_clone().unwrap();
    let sending =
        std::thread::spawn(move || std::io::Write::write_all(&mut writer, all.as_bytes()));
    for number in 0..1_000 {
        let answer = wire.answer().unwrap();
        assert_eq!(answer.header("x-request-id"), Some(&*format!("n-{number}")));
    }
    sending.join().unwrap().unwrap();
}

#[test]
fn repeated_chunked_and_malformed_hosts_are_rejected() {
    let server = GateOnly::start();
    for coding in [
        "chunked, chunked",
        "chunked,CHUNKED",
        "chunked\r\nTransfer-Encoding: chunked",
        "gzip, chunked, chunked",
    ] {
        let bytes = format!(
            "{}Transfer-Encoding: {coding}\r\n\r\n0\r\n\r\n",
            clock(&server)
        );
        one_answer_then_end(&server, &bytes, &[400]);
    }
    for host in [
        "[::1", "::1", "a:b:c", "x:99999", "x:-1", "[::1]x", "a@b", "a,b", "a%00", "http://a",
        ":80",
    ] {
        let bytes = format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n");
        one_answer_then_end(&server, &bytes, &[400]);
    }
}

#[test]
fn the_ops_listener_accepts_only_its_own_hosts() {
    let server = GateOnly::with(|http, _| http.ops_hosts = vec!["ops.example".to_owned()]);
    let get = |listener, target: &str, host: &str| {
        let bytes = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        Wire::to(listener).send(bytes).answer().unwrap()
    };
    for ours in [
        "127.0.0.1",
        "127.0.0.1:9080",
        "[::1]:9080",
        "10.1.2.3",
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "ops.example",
        "Ops.Example:9080",
    ] {
        assert_eq!(get(server.ops, "/livez", ours).status, 200, "{ours}");
    }
    for foreign in [
        "evil.example",
        "localhost.evil.example",
        "ops.example.evil",
        "127.0.0.1.evil.example",
        "t",
        "2130706433",
    ] {
        for target in ["/livez", "/console/", "/admin/v1/about", "/nothing"] {
            let answer = get(server.ops, target, foreign);
            assert_eq!(
                (answer.status, answer.code()),
                (421, "MISDIRECTED_REQUEST".to_owned()),
                "{foreign}"
            );
        }
        assert_eq!(get(server.public, "/openapi.json", foreign).status, 200);
    }
    // The host of an absolute target is checked too. The admin socket has no host names to protect.
    let absolute = "GET http://evil.example/livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(
        Wire::to(server.ops).send(absolute).answer().unwrap().status,
        421
    );
    let local = "GET /admin/v1/about HTTP/1.1\r\nHost: playgate\r\n\r\n";
    let mut socket = Wire::to_socket(&server.socket).unwrap();
    assert_eq!(socket.send(local).answer().unwrap().status, 200);
}

#[test]
fn bytes_after_a_chunked_body_are_never_dropped_silently() {
    let server = GateOnly::start();
    let next = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for ending in [
        "0\r\n\r\n",
        "0\r\n\n",
        "0\r\nT: x\n\r\n",
        "0\r\nT: x\n\n",
        "0\n\n",
    ] {
        let bytes = format!(
            "{}Transfer-Encoding: chunked\r\n\r\nc\r\n{{\"offset\":1}}\r\n{ending}{next}",
            clock(&server)
        );
        let mut wire = Wire::to(server.ops);
        wire.send(bytes);
        let answer = wire.answer().unwrap();
        assert!(
            matches!(answer.status, 200 | 400),
            "{ending:?}: {}",
            answer.status
        );
        assert_eq!(answer.header("connection"), Some("close"), "{ending:?}");
        assert!(wire.ends_within(SOON), "{ending:?}");
    }
}
