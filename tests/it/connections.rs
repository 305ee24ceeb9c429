//! Connections: time-outs, caps and the graceful shutdown. Some of these tests wait for real time to pass.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use playgate_config::Network;

use crate::support::appliance::Appliance;
use crate::support::external_tools::program;
use crate::support::gate_only::GateOnly;
use crate::support::process::{InTime as _, LIMIT};
use crate::support::raw_http::{Wire, ask, request};
use crate::support::until::{until, until_some_within};

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn heads_must_arrive_in_10_s_and_idle_time_counts_separately() {
    let server = GateOnly::start();
    let began = Instant::now();
    let mut silent = Wire::to(server.ops);
    let mut one_byte = Wire::to(server.ops);
    one_byte.send("G");
    let mut idle = Wire::to(server.ops);
    idle.send(LIVEZ);
    idle.answer().unwrap();
    let mut second = Wire::to(server.ops);
    second.send(LIVEZ);
    second.answer().unwrap();
    second.send("GET /li");
    let mut dripping = Wire::to(server.ops);
    let mut writer = dripping.stream.try_clone().unwrap();
    let drip = std::thread::spawn(move || {
        for byte in LIVEZ.bytes() {
            if writer.write_all(&[byte]).is_err() {
                break;
            }
            std::thread::park_timeout(Duration::from_secs(2));
        }
    });
    for wire in [&mut silent, &mut one_byte, &mut second, &mut dripping] {
        assert!(wire.ends_within(LIMIT));
    }
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(9), "{took:?}");
    // The idle connection is older than ten seconds and still open.
    idle.send(LIVEZ);
    assert_eq!(idle.answer().unwrap().status, 200);
    drip.thread().unpark();
    drip.join().unwrap();
}

#[test]
fn a_stalled_body_times_out() {
    let server = GateOnly::start();
    let (name, value) = server.admin();
    let mut wire = Wire::to(server.ops);
    wire.send(format!(
        "PUT /admin/v1/clock HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nContent-Length: 12\r\n\r\n{{\"of"
    ));
    let began = Instant::now();
    let answer = wire.answer().unwrap();
    assert_eq!(
        (answer.status, answer.code()),
        (408, "REQUEST_TIMEOUT".to_owned())
    );
    assert!(began.elapsed() >= Duration::from_secs(9));
    assert!(wire.ends_within(LIMIT));
}

#[test]
fn a_client_that_does_not_read_times_out() {
    let server = GateOnly::start();
    let mut wire = Wire::to(server.ops);
    wire.send(LIVEZ);
    wire.answer().unwrap();
    let open = || server.http.metrics.connections.get();
    assert_eq!(open(), 1);
    let timeout = Some(Duration::from_secs(2));
    wire.stream.set_write_timeout(timeout).unwrap();
    // About 50 KB each: far more than the kernel buffers at both ends.
    wire.send(request("GET", "/metrics", &[], "").repeat(400));
    let began = Instant::now();
    until_some_within(Duration::from_secs(40), "the end of the connection", || {
        (open() == 0).then_some(())
    });
    assert!(
        began.elapsed() > Duration::from_secs(20),
        "closed after {:?}",
        began.elapsed()
    );
}

#[test]
fn a_response_arrives_although_the_rest_is_rejected_unread() {
    let server = GateOnly::start();
    let mut wire = Wire::to(server.ops);
    rustix::net::sockopt::set_socket_recv_buffer_size(&wire.stream, 32 * 1024).unwrap();
    wire.send("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\nno request\r\n\r\n");
    let mut writer = wire.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || writer.write_all(&vec![b'x'; 512 * 1024]));
    // The server must meet the second request before the first response is read.
    std::thread::park_timeout(Duration::from_millis(300));
    let first = wire.answer().expect("the whole answer");
    assert!(first.status == 200 && first.body.len() > 100_000);
    assert_eq!(wire.answer().expect("a refusal").status, 400);
    assert!(wire.ends_within(Duration::from_secs(5)));
    // The server may stop reading, so not all of the rest has to be sent.
    let _ = sending.join().unwrap();
}

#[test]
fn connections_per_address_are_capped() {
    let server = GateOnly::with(|_, limits| limits.connections_per_address = 8);
    let mut open: Vec<Wire> = (0..8).map(|_| Wire::to(server.ops)).collect();
    for wire in &mut open {
        wire.send(LIVEZ);
        assert_eq!(wire.answer().unwrap().status, 200);
    }
    let mut ninth = Wire::to(server.ops);
    let refused = ninth.answer().unwrap();
    assert_eq!(
        (refused.status, refused.header("retry-after")),
        (503, Some("2"))
    );
    assert!(server.http.metrics.refused.get() >= 1);
    // Another address has its own limit.
    let mut other = Wire::from([127, 0, 0, 2].into(), server.ops).unwrap();
    other.send(LIVEZ);
    assert_eq!(other.answer().unwrap().status, 200);
    // A closed connection frees its slot.
    open.pop();
    let began = Instant::now();
    loop {
        let mut wire = Wire::to(server.ops);
        wire.send(LIVEZ);
        match wire.answer() {
            Some(answer) if answer.status == 200 => break,
            _ => assert!(began.elapsed() < Duration::from_secs(5)),
        }
    }
}

#[test]
fn a_trusted_proxy_is_exempt_from_the_address_cap() {
    let server = GateOnly::with(|http, limits| {
        http.trusted_proxies = vec![Network::parse("127.0.0.1").unwrap()];
        (limits.connections_per_address, limits.connections) = (2, 8);
    });
    let serves = |wire: &mut Wire| wire.send(LIVEZ).answer().unwrap().status == 200;
    let mut open: Vec<Wire> = (0..8).map(|_| Wire::to(server.ops)).collect();
    assert!(open.iter_mut().all(serves));
    assert!(!serves(&mut Wire::to(server.ops)));
}

#[test]
fn shutdown_waits_for_requests_but_not_for_idle_connections() {
    let mut server = GateOnly::start();
    let mut idle = Wire::to(server.ops);
    idle.send(LIVEZ);
    idle.answer().unwrap();
    let fresh = Wire::to(server.ops);
    let (name, value) = server.admin();
    let mut busy = Wire::to(server.ops);
    busy.send(format!(
        "PUT /admin/v1/clock HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nContent-Length: 12\r\n\r\n{{\"offset\""
    ));
    // The server has read the head by now, because it has answered a later request on another connection.
    ask(server.ops, LIVEZ);
    let mut writer = busy.stream.try_clone().unwrap();
    let rest = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(500));
        writer.write_all(b":1}").unwrap();
    });
    let began = Instant::now();
    assert!(server.stop(Duration::from_secs(8)), "not finished in time");
    assert!(began.elapsed() < Duration::from_secs(5));
    rest.join().unwrap();
    assert_eq!(busy.answer().unwrap().status, 200);
    assert!(idle.ends_within(Duration::from_secs(1)));
    assert!(TcpStream::connect(server.ops).is_err());
    drop(fresh);
}

#[test]
fn during_shutdown_responses_announce_connection_close() {
    let mut server = GateOnly::start();
    let running = server.running.take().unwrap();
    let runtime = server.runtime.handle().clone();
    let mut kept = Wire::to(server.ops);
    let ends = |wire: &mut Wire| {
        wire.send(LIVEZ);
        let answer = wire
            .answer()
            .expect("an answer, for it was never told of the end");
        assert_eq!(answer.status, 200);
        answer.header("connection") == Some("close")
    };
    assert!(!ends(&mut kept));
    let stop = std::thread::spawn(move || runtime.block_on(running.stop(Duration::from_secs(8))));
    while !ends(&mut kept) {}
    assert!(kept.ends_within(Duration::from_secs(1)));
    // A connection that arrives during the shutdown is served once.
    let mut late = Wire::to(server.ops);
    assert!(ends(&mut late));
    assert!(late.ends_within(Duration::from_secs(1)));
    assert!(stop.join().unwrap());
}

#[test]
fn shutdown_has_a_deadline() {
    let mut server = GateOnly::start();
    let (name, value) = server.admin();
    let mut busy = Wire::to(server.ops);
    busy.send(format!(
        "PUT /admin/v1/clock HTTP/1.1\r\nHost: localhost\r\n{name}: {value}\r\nContent-Length: 12\r\n\r\n{{"
    ));
    ask(server.ops, LIVEZ);
    let began = Instant::now();
    assert!(!server.stop(Duration::from_millis(300)));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(busy.ends_within(Duration::from_secs(1)));
}

#[test]
fn the_admin_socket_acts_as_administrator() {
    use std::os::unix::fs::PermissionsExt;

    let server = GateOnly::start();
    let mode = std::fs::metadata(&server.socket)
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o660);
    let put = request("PUT", "/admin/v1/clock", &[], "{\"offset\":9}");
    let mut wire = Wire::to_socket(&server.socket).unwrap();
    assert_eq!(wire.send(&put).answer().unwrap().status, 200);
    assert_eq!(server.services.lab_clock.as_ref().unwrap().offset(), 9);
    assert_eq!(ask(server.ops, put).status, 401);
}

/// The next test runs this in its own process, with a low limit of descriptors.
#[test]
#[ignore = "needs a limit on descriptors, which the next test sets"]
fn child_process_with_few_descriptors() {
    let server = GateOnly::start();
    let mut open = Vec::new();
    // Client and server share the limit, so both run out of descriptors.
    while let Ok(stream) = TcpStream::connect(server.ops) {
        open.push(stream);
        assert!(open.len() < 1_000, "there is no limit");
    }
    std::thread::park_timeout(Duration::from_millis(200));
    open.clear();
    let began = Instant::now();
    loop {
        let alive = TcpStream::connect(server.ops).is_ok() && ask(server.ops, LIVEZ).status == 200;
        if alive {
            break;
        }
        assert!(
            began.elapsed() < Duration::from_secs(5),
            "it stopped accepting"
        );
    }
}

#[test]
fn descriptor_exhaustion_is_survived() {
    let program = std::env::current_exe().unwrap();
    let status = std::process::Command::new("sh")
        .args([
            "-c",
            "ulimit -n 64 && exec \"$0\" --exact connections::child_process_with_few_descriptors --ignored",
        ])
        .arg(program)
        .status_in_time();
    assert!(status.success());
}

#[test]
fn an_administrator_gets_in_when_no_descriptor_is_free() {
    const RESERVED: usize = 12;
    if program("prlimit").is_none() {
        return;
    }
    let data_dir = tempfile::tempdir().unwrap();
    let appliance = Appliance::start(data_dir.path());
    let descriptors = format!("/proc/{}/fd", appliance.process.id());
    let open = || fs::read_dir(&descriptors).unwrap().map(Result::unwrap);
    let reserved = || {
        let links = open().filter_map(|file| fs::read_link(file.path()).ok());
        links.filter(|link| link.as_os_str() == "/dev/null").count()
    };
    until("the reserve of descriptors", || reserved() >= RESERVED);
    let names = open().map(|file| file.file_name().to_str().unwrap().parse::<usize>().unwrap());
    appliance.limit_descriptors(names.max().unwrap() + 1);
    // Control: at some point a client is not accepted any more.
    let mut clients = Vec::new();
    let mut waiting = loop {
        let mut client = TcpStream::connect(appliance.address).unwrap();
        client
            .set_read_timeout(Some(Duration::from_secs(1)))
            .unwrap();
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        if client.read(&mut [0]).is_err() {
            break client;
        }
        clients.push(client);
        assert!(clients.len() < 1_000, "there is no limit");
    };
    for _ in 0..3 {
        appliance.run_json(&["partner", "list", "--json"]);
    }
    drop(clients);
    assert_eq!(waiting.read(&mut [0]).unwrap(), 1);
}
