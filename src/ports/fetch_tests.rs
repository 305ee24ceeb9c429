use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use super::*;

/// For responses that never come.
const QUICK: FetchTimeouts = FetchTimeouts {
    answer: Duration::from_millis(400),
    piece: Duration::from_millis(400),
    whole: Duration::from_secs(5),
};

const SIZE_MAX: u64 = 3 * 1_048_576;

/// A server that answers each connection in turn; returns the request heads.
fn serve(
    answers: Vec<Box<dyn FnOnce(&mut TcpStream) + Send>>,
) -> (String, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        answers
            .into_iter()
            .map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    stream.read_exact(&mut byte).unwrap();
                    head.push(byte[0]);
                }
                answer(&mut stream);
                String::from_utf8(head).unwrap()
            })
            .collect()
    });
    (address, served)
}

fn text(answer: impl Into<String>) -> Box<dyn FnOnce(&mut TcpStream) + Send> {
    let answer = answer.into();
    // The client may close the connection early.
    Box::new(move |stream| drop(stream.write_all(answer.as_bytes())))
}

/// Fetches without a time limit that a busy machine could exceed.
fn fetch(place: &str, known: &Validators) -> Result<Fetched, FetchError> {
    fetch_within(FetchTimeouts::default(), place, known)
}

fn fetch_within(
    timeouts: FetchTimeouts,
    place: &str,
    known: &Validators,
) -> Result<Fetched, FetchError> {
    Fetcher {
        timeouts,
        most: SIZE_MAX,
    }
    .fetch(place, &FetchOptions::default(), known)
}

fn known(etag: &str) -> Validators {
    Validators {
        etag: Some(etag.to_owned()),
        modified: Some("Sat, 22 Aug 2026 00:00:00 GMT".to_owned()),
    }
}

fn whole(fetched: Fetched) -> (Validators, io::Result<Vec<u8>>) {
    let Fetched::Guide {
        validators,
        mut body,
    } = fetched
    else {
        panic!("nothing new");
    };
    let mut all = Vec::new();
    let read = body.read_to_end(&mut all).map(|_| all);
    (validators, read)
}

const GUIDE: &str = "HTTP/1.1 200 OK\r\nETag: \"2\"\r\nLast-Modified: today\r\n\
                     Content-Type: text/html\r\nContent-Length: 9\r\n\r\n<tv></tv>";

#[test]
fn a_guide_is_fetched_with_its_validators() {
    let unchanged = "HTTP/1.1 304 Not Modified\r\n\r\n";
    let (address, served) = serve(vec![text(GUIDE), text(unchanged), text(unchanged)]);
    let place = format!("{address}/g.xml?key=1");
    let (validators, body) = whole(fetch(&place, &Validators::default()).unwrap());
    assert_eq!(body.unwrap(), b"<tv></tv>");
    assert_eq!(validators.etag.as_deref(), Some("\"2\""));
    assert_eq!(validators.modified.as_deref(), Some("today"));
    let again = fetch(&place, &known("\"2\"")).unwrap();
    assert!(matches!(again, Fetched::Unchanged));
    // A 304 is invalid for a request without validators.
    let odd = fetch(&place, &Validators::default());
    assert!(matches!(odd, Err(FetchError::Status { status, .. }) if status == 304));
    let heads = served.join().unwrap();
    assert!(heads[0].starts_with("GET /g.xml?key=1 HTTP/1.1\r\n"));
    assert!(heads[0].contains("accept-encoding: gzip\r\n"));
    assert!(!heads[0].contains("if-none-match"));
    assert!(heads[1].contains("if-none-match: \"2\"\r\n"));
    assert!(heads[1].contains("if-modified-since: Sat, 22 Aug 2026"));
}

#[test]
fn redirects_are_followed_a_few_times_and_never_down() {
    let to = |location: &str| {
        text(format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}\r\n\r\n"
        ))
    };
    let (address, served) = serve(vec![to("/b?x"), to("c"), text(GUIDE)]);
    let got = fetch(&format!("{address}/a/a"), &Validators::default()).unwrap();
    assert_eq!(whole(got).1.unwrap(), b"<tv></tv>");
    let heads = served.join().unwrap();
    assert!(heads[1].starts_with("GET /b?x "), "{}", heads[1]);
    assert!(heads[2].starts_with("GET /c "), "{}", heads[2]);

    let (address, served) = serve((0..6).map(|_| to("/again")).collect());
    let endless = fetch(&address, &Validators::default());
    assert!(matches!(endless, Err(FetchError::Redirect(_))));
    served.join().unwrap();
    for away in ["file:///etc/passwd", "ftp://a/b"] {
        let (address, served) = serve(vec![to(away)]);
        let refused = fetch(&address, &Validators::default());
        assert!(matches!(refused, Err(FetchError::Redirect(_))), "{away}");
        served.join().unwrap();
    }
    for (base, location, to) in [
        ("http://a/x", "https://b/y", Some("https://b/y")),
        ("http://a/x", "HTTP://b/y#part", Some("http://b/y")),
        ("https://a/x", "http://b/y", None),
        ("https://a:1/x/y?z", "//b/y", Some("https://b/y")),
        ("http://a/x/y?z=1/2", "w", Some("http://a/x/w")),
        ("http://a?z", "w", Some("http://a/w")),
        ("http://a/x?z", "?w", Some("http://a/x?w")),
    ] {
        assert_eq!(resolve(base, location).as_deref(), to, "{base} {location}");
    }
}

#[test]
fn public_and_private_addresses_are_distinguished() {
    for (address, open) in [
        ("9.9.9.9", true),
        ("2620:fe::fe", true),
        ("127.0.0.1", false),
        ("10.1.2.3", false),
        ("169.254.169.254", false),
        ("100.64.0.1", false),
        ("::1", false),
        ("fe80::1", false),
        ("fd00::1", false),
        ("::ffff:192.168.0.1", false),
        ("0.1.2.3", false),
        ("198.18.0.1", false),
        ("224.0.0.1", false),
        ("255.255.255.255", false),
        ("64:ff9b::10.0.0.1", false),
        ("64:ff9b::9.9.9.9", true),
        ("2002:a00:1::", false),
        ("::127.0.0.1", false),
        ("ff02::1", false),
        ("64:ff9b:1::a00:1", false),
        ("fec0::1", false),
        ("2001:0:4136:e378::1", false),
        ("2001:4860:4860::8888", true),
    ] {
        assert_eq!(is_public(address.parse().unwrap()), open, "{address}");
    }
}

#[test]
fn a_redirect_to_a_private_address_is_refused_before_connecting() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let known = Validators::default();
    let options = FetchOptions::default();
    let refused = runtime.block_on(ask(&address, (options.agent(), Vec::new()), &known, true));
    assert!(matches!(refused, Err(FetchError::Redirect(_))));
    let accepted = listener.accept();
    assert_eq!(accepted.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    // If a name has addresses of both kinds, only the public ones remain.
    let both = ["9.9.9.9:80", "10.0.0.1:80"].map(|address| address.parse().unwrap());
    assert_eq!(reachable(true, both.into()), both[..1]);
    assert_eq!(reachable(false, both.into()), both);
}

#[test]
fn failures_are_distinguished() {
    let status = |answer: &str| {
        let (address, served) = serve(vec![text(answer)]);
        let got = fetch(&address, &known("x"));
        served.join().unwrap();
        match got {
            Err(FetchError::Status {
                status,
                retry_after,
            }) => (status.as_u16(), retry_after),
            _ => panic!("no status"),
        }
    };
    assert_eq!(status("HTTP/1.1 404 Not Found\r\n\r\n"), (404, None));
    assert_eq!(status("HTTP/1.1 500 No\r\n\r\n"), (500, None));
    let busy = "HTTP/1.1 503 No\r\nRetry-After: 70\r\n\r\n";
    assert_eq!(status(busy), (503, Some(70)));
    assert_eq!(status("HTTP/1.1 302 Found\r\n\r\n"), (302, None));
    // Partial content is not accepted.
    assert_eq!(status("HTTP/1.1 206 Part\r\n\r\n"), (206, None));

    let error = |answer: &str| {
        let (address, served) = serve(vec![text(answer)]);
        let got = fetch(&address, &Validators::default());
        served.join().unwrap();
        got.err().expect("an error")
    };
    let br = "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n";
    assert!(matches!(error(br), FetchError::Coding(_)));
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n";
    assert!(matches!(error(long), FetchError::TooLarge));
    assert!(matches!(
        error("not http\r\n\r\n"),
        FetchError::Connection(_)
    ));
    assert!(matches!(error(""), FetchError::Connection(_)));
    let refused = fetch("http://127.0.0.1:1/", &Validators::default());
    assert!(matches!(refused, Err(FetchError::Connection(_))));
}

#[test]
fn a_stalled_or_truncated_response_is_an_error() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<tv>";
    let (address, served) = serve(vec![text(half)]);
    let (_, body) = whole(fetch(&address, &Validators::default()).unwrap());
    assert!(body.is_err());
    served.join().unwrap();

    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n<tv>\r\n";
    let (address, served) = serve(vec![text(chunked)]);
    assert!(
        whole(fetch(&address, &Validators::default()).unwrap())
            .1
            .is_err()
    );
    served.join().unwrap();

    let silent = |begun: &'static str| -> Box<dyn FnOnce(&mut TcpStream) + Send> {
        Box::new(move |stream| {
            stream.write_all(begun.as_bytes()).unwrap();
            // Blocks until the client closes the connection.
            let _ = stream.read(&mut [0]);
        })
    };
    let (address, served) = serve(vec![silent(""), silent(half)]);
    let got = fetch_within(QUICK, &address, &Validators::default());
    assert!(matches!(got, Err(FetchError::TimedOut)));
    // The response begins at once, and only its rest never comes.
    let stalled = FetchTimeouts {
        piece: QUICK.piece,
        ..FetchTimeouts::default()
    };
    let (_, body) = whole(fetch_within(stalled, &address, &Validators::default()).unwrap());
    assert!(body.unwrap_err().to_string().contains("stopped sending"));
    served.join().unwrap();
}

#[test]
fn an_endless_response_ends_at_the_size_limit() {
    let endless: Box<dyn FnOnce(&mut TcpStream) + Send> = Box::new(|stream| {
        let block = vec![b' '; 1 << 20];
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&block).is_ok() {}
    });
    let (address, served) = serve(vec![endless]);
    let Fetched::Guide { mut body, .. } = fetch(&address, &Validators::default()).unwrap() else {
        panic!("nothing new");
    };
    let mut buffer = vec![0; 1 << 16];
    let mut all = 0;
    let error = loop {
        match body.read(&mut buffer) {
            Ok(0) => panic!("it ended"),
            Ok(read) => all += read as u64,
            Err(error) => break error,
        }
    };
    assert!(
        error.to_string().contains("exceeds the size limit"),
        "{error}"
    );
    assert!(all <= SIZE_MAX);
    drop(body);
    served.join().unwrap();
}

#[test]
fn a_written_file_counts_as_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guide.xml");
    let place = path.to_str().unwrap();
    assert!(matches!(
        fetch(place, &Validators::default()),
        Err(FetchError::File(_))
    ));
    assert!(fetch("/", &Validators::default()).is_err());
    fs::write(&path, "<tv></tv>").unwrap();
    let (validators, body) = whole(fetch(place, &Validators::default()).unwrap());
    assert_eq!(body.unwrap(), b"<tv></tv>");
    let again = fetch(place, &validators).unwrap();
    assert!(matches!(again, Fetched::Unchanged));
    fs::write(&path, "<tv> </tv>").unwrap();
    assert_eq!(
        whole(fetch(place, &validators).unwrap()).1.unwrap(),
        b"<tv> </tv>"
    );
}

#[test]
fn headers_of_a_source_reach_its_host_alone_and_cookies_come_back() {
    let (other, served_other) = serve(vec![text(GUIDE)]);
    let back = "HTTP/1.1 302 Found\r\nLocation: /again\r\nSet-Cookie: seen=1; Path=/\r\n\r\n";
    let away = format!("HTTP/1.1 302 Found\r\nLocation: {other}/guide\r\n\r\n");
    let (address, served) = serve(vec![text(back), text(away)]);
    let mut options = FetchOptions::default();
    options.set_user_agent("tv/1").unwrap();
    options.add_header("X-Key", "secret").unwrap();
    options.set_credentials("eva", "word").unwrap();
    let fetcher = Fetcher {
        timeouts: FetchTimeouts::default(),
        most: SIZE_MAX,
    };
    let got = fetcher.fetch(&format!("{address}/a"), &options, &Validators::default());
    assert_eq!(whole(got.unwrap()).1.unwrap(), b"<tv></tv>");
    let heads = served.join().unwrap();
    for head in &heads {
        assert!(head.contains("x-key: secret\r\n"), "{head}");
        assert!(
            head.contains("authorization: Basic ZXZhOndvcmQ=\r\n"),
            "{head}"
        );
        assert!(head.contains("user-agent: tv/1\r\n"), "{head}");
    }
    assert!(!heads[0].contains("cookie"), "{}", heads[0]);
    assert!(heads[1].contains("cookie: seen=1\r\n"), "{}", heads[1]);
    let foreign = served_other.join().unwrap().remove(0);
    for name in ["x-key", "authorization", "cookie"] {
        assert!(!foreign.contains(name), "{foreign}");
    }
}
