//! EPG sources, fetched by the server and on an operator's command: good ones, and ones that fail in every way.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::appliance::{Appliance, playgate, real_time};
use crate::support::certificates::certificates;
use crate::support::external_tools::free_port;
use crate::support::process::{InTime as _, KilledOnDrop, in_time};
use crate::support::raw_http::{Answer, Wire, request};
use crate::support::synthetic_guide::xmltv_time;
use crate::support::until::until;

const CATALOG: &str = "[[livestream]]\nid = \"news\"\n";
const ROWS: usize = 48;

/// A guide of two days around the present, the same whenever it is fetched.
fn guide() -> String {
    static FIRST: LazyLock<i64> = LazyLock::new(|| real_time().0 / 3_600 * 3_600 - 12 * 3_600);
    let first = *FIRST;
    let time = |hour: usize| xmltv_time(first + i64::try_from(hour).unwrap() * 3_600);
    let row = |n: usize| {
        format!(
            "<programme channel=\"News.tv\" start=\"{}\" stop=\"{}\"><title>No. {n}</title></programme>\n",
            time(n),
            time(n + 1)
        )
    };
    format!("<tv>\n{}</tv>\n", (0..ROWS).map(row).collect::<String>())
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn xz(data: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut encoder = liblzma::read::XzEncoder::new(data, 6);
    encoder.read_to_end(&mut packed).unwrap();
    packed
}

/// Returns the response head and the body for a path.
fn response(path: &str, known: bool) -> (String, Vec<u8>) {
    let guide = guide().into_bytes();
    let half = |mut bytes: Vec<u8>| {
        bytes.truncate(bytes.len() / 2);
        bytes
    };
    let ok = |more: &str, body: Vec<u8>| {
        (
            format!(
                "HTTP/1.1 200 OK\r\n{more}Content-Length: {}\r\n\r\n",
                body.len()
            ),
            body,
        )
    };
    match path {
        "/main" if known => ("HTTP/1.1 304 Not Modified\r\n\r\n".to_owned(), Vec::new()),
        "/main" => ok("ETag: \"1\"\r\nContent-Type: image/png\r\n", guide),
        "/packed" => ok("Content-Encoding: gzip\r\n", gzip(&gzip(&guide))),
        "/xz" => ok("", xz(&guide)),
        "/moved" => (
            "HTTP/1.1 301 Moved\r\nLocation: main\r\n\r\n".to_owned(),
            Vec::new(),
        ),
        "/circle" => (
            "HTTP/1.1 302 Found\r\nLocation: /circle\r\n\r\n".to_owned(),
            Vec::new(),
        ),
        "/login" => ok(
            "Content-Type: text/html\r\n",
            b"<html><p>Log in</html>".to_vec(),
        ),
        "/torn-gzip" => ok("", half(gzip(&guide))),
        "/torn-xz" => ok("", half(xz(&guide))),
        "/torn-text" => ok("", half(guide)),
        "/half" => (
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", guide.len()),
            half(guide),
        ),
        "/empty" => ok("", Vec::new()),
        "/failing" => ("HTTP/1.1 500 No\r\n\r\n".to_owned(), Vec::new()),
        _ => ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), Vec::new()),
    }
}

/// Serves guides until the process ends. Returns the address and the requested paths.
fn serve_guides() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let paths = Arc::new(Mutex::new(Vec::new()));
    let requested = Arc::clone(&paths);
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that disconnects is no error here.
            let _ = serve_connection(&mut stream.unwrap(), &requested);
        }
    });
    (address, paths)
}

/// Reads the head of a request that has no body.
fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

fn serve_connection(stream: &mut TcpStream, paths: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let head = read_head(stream)?;
    let path = head.split(' ').nth(1).unwrap();
    let known = head.contains("if-none-match: \"1\"");
    paths.lock().unwrap().push(path.to_owned());
    let (head, body) = response(path, known);
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body)
}

struct Installation {
    folder: TempDir,
}

impl Installation {
    /// Creates a data directory with a catalogue, and a configuration.
    fn new() -> Self {
        let installation = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        installation.configure(&[]);
        let catalog = installation.folder.path().join("catalog.toml");
        fs::write(&catalog, CATALOG).unwrap();
        let output = installation.run(&["catalog", "import", catalog.to_str().unwrap()]);
        assert!(output.status.success());
        installation
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn config(&self) -> String {
        let path = self.folder.path().join("playgate.toml");
        path.to_str().unwrap().to_owned()
    }

    fn configure(&self, sources: &[(&str, String)]) {
        let sources = sources.iter().map(|(name, url)| {
            format!(
                "[[epg.sources]]\nname = \"{name}\"\nurl = \"{url}\"\nchannels = {{ \"News.tv\" = \"news\" }}\n"
            )
        });
        fs::write(self.config(), sources.collect::<String>()).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = playgate(&self.data());
        command.args(["--config", &self.config()]);
        command.args(arguments).output_in_time()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

#[test]
fn an_operator_can_fetch_a_source_now() {
    let (address, _) = serve_guides();
    let installation = Installation::new();
    let file = installation.folder.path().join("guide.xml.gz");
    fs::write(&file, gzip(guide().as_bytes())).unwrap();
    let good = ["main", "packed", "xz", "moved"];
    let bad = [
        ("circle", "redirects"),
        ("login", "html"),
        ("torn-gzip", "guide"),
        ("torn-xz", "guide"),
        ("torn-text", "breaks off"),
        ("half", "guide"),
        ("empty", "not a guide"),
        ("failing", "500"),
        ("missing", "404"),
    ];
    let mut sources: Vec<(&str, String)> = (good.iter().chain(bad.iter().map(|(name, _)| name)))
        .map(|name| (*name, format!("{address}/{name}")))
        .collect();
    sources.push(("file", file.to_str().unwrap().to_owned()));
    sources.push(("keyed", format!("{address}/main?key=a-hidden-word")));
    installation.configure(&sources);

    let dry = installation.json(&["epg", "refresh", "main", "--dry-run", "--json"]);
    assert_eq!(dry["added"], ROWS);
    assert_eq!(dry["changes"][0]["livestream"], "news");
    let text = installation.run(&["epg", "refresh", "main", "--dry-run"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("news (UTC): +48 ~0 -0\n  + "), "{text}");
    let first = installation.json(&["epg", "refresh", "main", "--json"]);
    assert_eq!(first["added"], ROWS);
    for name in good.iter().chain(&["file"]) {
        let report = installation.json(&["epg", "refresh", name, "--json"]);
        assert_eq!(report["unchanged"], ROWS, "{name}: {report}");
    }
    for (name, why) in bad {
        let output = installation.run(&["epg", "refresh", name]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {text}");
        assert!(text.contains(why), "{name}: {text}");
        let one = installation.json(&["epg", "sources", name, "--json"]);
        assert_eq!(
            (&one["state"], one["failures"].as_i64()),
            (&"failing".into(), Some(1))
        );
    }
    assert_eq!(
        installation
            .run(&["epg", "refresh", "nobody"])
            .status
            .code(),
        Some(3)
    );
    let after = installation.json(&["epg", "refresh", "main", "--dry-run", "--json"]);
    assert_eq!(after["unchanged"], ROWS);

    let findings = installation.run(&["doctor", "--json"]);
    let findings: Value = serde_json::from_slice(&findings.stdout).unwrap();
    let guides = findings.as_array().unwrap().iter();
    let (new, guides): (Vec<_>, Vec<_>) = guides
        .filter(|one| one["part"] == "epg")
        .partition(|one| one["state"] == "ok");
    assert_eq!(guides.len(), bad.len(), "{findings}");
    assert_eq!(new.len(), 1, "{findings}");
    assert_eq!(new[0]["finding"], "keyed: not fetched yet");
    let all = installation.json(&["epg", "sources", "--json"]);
    assert_eq!(all.as_array().unwrap().len(), sources.len());
    let keyed = all.as_array().unwrap().last().unwrap();
    assert_eq!(keyed["state"], "new");
    let table = installation.run(&["epg", "sources"]);
    let shown = installation.run(&["config", "show"]);
    for output in [table, shown] {
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("/main?…") && !text.contains("a-hidden-word"),
            "{text}"
        );
    }
}

#[test]
fn a_new_source_creates_livestreams_and_imports_in_one_step() {
    let installation = Installation::new();
    let file = installation.folder.path().join("guide.xml");
    let now = real_time().0;
    let row = |channel: &str| {
        let (start, stop) = (xmltv_time(now), xmltv_time(now + 3_600));
        format!(
            "<programme channel=\"{channel}\" start=\"{start}\" stop=\"{stop}\"><title>T</title></programme>"
        )
    };
    let guide = |channels: &[&str]| {
        let rows: String = channels.iter().map(|channel| row(channel)).collect();
        fs::write(&file, format!("<tv>{rows}</tv>")).unwrap();
    };
    let path = file.to_str().unwrap();
    let configure = |more: &str| {
        let text = format!("[[epg.sources]]\nname = \"main\"\nurl = \"{path}\"\n{more}");
        fs::write(installation.config(), text).unwrap();
    };
    let unmapped = || {
        let one = installation.json(&["epg", "sources", "main", "--json"]);
        let last = &one["lastImport"];
        (last["unmapped"].clone(), last["added"].clone())
    };
    configure("");
    guide(&["news", "one", "two"]);
    installation.json(&["epg", "refresh", "main", "--json"]);
    assert_eq!(unmapped(), (2.into(), 1.into()));
    // Without a file argument the source itself is fetched.
    let source = [
        "epg",
        "import",
        "--source",
        "main",
        "--create-livestreams",
        "--json",
    ];
    let made = installation.json(&source);
    assert_eq!(made["created"], serde_json::json!(["one", "two"]));
    assert_eq!(unmapped(), (0.into(), 2.into()));
    guide(&["news", "one", "two", "three"]);
    let with_file = [&["epg", "import", path], &source[2..]].concat();
    let made = installation.json(&with_file);
    assert_eq!(made["created"], serde_json::json!(["three"]));
    assert_eq!(unmapped(), (0.into(), 1.into()));
    // Without the option if the source is configured so.
    configure("create_livestreams = true\nunrated = \"allow\"\n");
    guide(&["news", "one", "two", "three", "four"]);
    let report = installation.json(&["epg", "refresh", "main", "--json"]);
    assert_eq!(report["created"], serde_json::json!(["four"]));
    assert_eq!(report["unrated"], 5);
    assert_eq!(installation.run(&["epg", "import"]).status.code(), Some(2));
}

fn wait_for(installation: &Installation, source: &str) {
    until("the fetch of a source", || {
        installation.json(&["epg", "sources", source, "--json"])["state"] == "ok"
    });
}

/// Sends a request to the admin socket of the running server.
fn ask_admin_socket(installation: &Installation, method: &str, target: &str) -> Answer {
    let mut wire = Wire::to_socket(&installation.data().join("admin.sock")).unwrap();
    wire.send(request(method, target, &[], ""))
        .answer()
        .unwrap()
}

#[test]
fn a_restart_does_not_refetch_fresh_sources() {
    let (address, paths) = serve_guides();
    let installation = Installation::new();
    let main = ("main", format!("{address}/main"));
    let gone = ("gone", format!("{address}/gone"));
    installation.configure(&[main.clone(), gone]);
    let config = installation.config();
    let start = || Appliance::start_with(Path::new(&installation.data()), &["--config", &config]);
    let mut appliance = start();
    wait_for(&installation, "main");
    let one = installation.json(&["epg", "sources", "main", "--json"]);
    assert_eq!(one["lastImport"]["added"], ROWS);
    let metrics = || {
        let metrics = ask_admin_socket(&installation, "GET", "/metrics");
        String::from_utf8(metrics.body).unwrap()
    };
    // A job is counted when it ends, after the fetch of the second source.
    let counted = "playgate_job_items_total{task=\"epg-sources\"} 1";
    until(counted, || metrics().lines().any(|line| line == counted));
    let metrics = metrics();
    for line in [
        "playgate_epg_import_failures{source=\"main\"} 0",
        "playgate_epg_import_awaiting_approval{source=\"main\"} 0",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line}: {metrics}");
    }
    for (source, code) in [
        ("gone", (502, "EPG_SOURCE_FAILED")),
        ("nobody", (404, "EPG_SOURCE_NOT_FOUND")),
    ] {
        let target = format!("/admin/v1/epg/sources/{source}/refresh");
        let answer = ask_admin_socket(&installation, "POST", &target);
        assert_eq!((answer.status, &*answer.code()), code);
    }
    appliance.kill();
    // Once the second source is fetched, the first one has been considered.
    installation.configure(&[main, ("late", format!("{address}/xz"))]);
    let mut appliance = start();
    wait_for(&installation, "late");
    appliance.kill();
    let mut paths = paths.lock().unwrap().clone();
    paths.retain(|path| path != "/gone");
    assert_eq!(paths, ["/main", "/xz"]);
}

#[test]
fn source_settings_apply_to_its_guide() {
    let installation = Installation::new();
    let file = installation.folder.path().join("guide.xml");
    let first = real_time().0 / 3_600 * 3_600;
    let time = |hour: i64| xmltv_time(first + hour * 3_600);
    // The first programme names no zone.
    let programme = |hour: i64, zone: &str| {
        format!(
            "<programme channel=\"News.tv\" start=\"{}{zone}\" stop=\"{}{zone}\">\
             <title lang=\"en\">News</title><title lang=\"sv\">Nyheter</title></programme>",
            time(hour),
            time(hour + 1)
        )
    };
    let guide = [programme(0, ""), programme(8, " +0000")].concat();
    fs::write(&file, format!("<tv>{guide}</tv>")).unwrap();
    let india = "zone = \"Asia/Kolkata\"";
    let sources = [
        ("plain", String::new(), [0, 16], "News"),
        ("zoned", india.to_owned(), [-11, 16], "News"),
        (
            "local",
            format!("{india}\nignore_offsets = true"),
            [-11, 5],
            "News",
        ),
        (
            "swedish",
            "languages = [\"fi\", \"sv\"]".to_owned(),
            [0, 16],
            "Nyheter",
        ),
    ];
    let config = sources.iter().map(|(name, settings, _, _)| {
        format!(
            "[[epg.sources]]\nname = \"{name}\"\nurl = \"/nowhere\"\n\
             channels = {{ \"News.tv\" = \"news\" }}\n{settings}\n"
        )
    });
    fs::write(installation.config(), config.collect::<String>()).unwrap();
    // The mapping itself: a proposed line of the configuration has to contain it.
    let plain = installation.json(&["epg", "sources", "plain", "--json"]);
    assert_eq!(
        (&plain["mapped"], &plain["channels"]["News.tv"]),
        (&1.into(), &"news".into())
    );
    let output = installation.run(&["epg", "sources"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        table.matches("not fetched yet").count(),
        sources.len(),
        "{table}"
    );
    let file = file.to_str().unwrap();
    let tried = ["epg", "import", file, "--dry-run", "--json"];
    assert_eq!(
        installation.json(&tried)["unmapped"][0],
        "News.tv",
        "no source is named"
    );
    for (name, _, starts, title) in sources {
        let report = installation.json(&[&tried[..], &["--source", name]].concat());
        let edits = report["changes"][0]["edits"].as_array().unwrap();
        let half_hours = |edit: &Value| (edit["after"]["start"].as_i64().unwrap() - first) / 1_800;
        let half_hours_seen: Vec<_> = edits.iter().map(half_hours).collect();
        assert_eq!(half_hours_seen, starts, "{name}: {report}");
        assert_eq!(edits[0]["after"]["title"], title, "{name}");
    }
}

#[test]
fn sources_over_tls_need_a_trusted_certificate() {
    let certificates = certificates();
    let at = certificates.path();
    fs::write(at.join("guide.xml"), guide()).unwrap();
    let port = free_port();
    let server = Command::new("openssl")
        .args([
            "s_server", "-WWW", "-quiet", "-cert", "here.pem", "-key", "here.key",
        ])
        .args(["-accept", &format!("127.0.0.1:{port}")])
        .current_dir(at)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let server = KilledOnDrop(server.unwrap());
    until("the listener", || {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let installation = Installation::new();
    let address = format!("https://127.0.0.1:{port}/guide.xml");
    installation.configure(&[("sealed", address)]);
    let refresh = |authority: &str| {
        let mut command = playgate(&installation.data());
        command.env("SSL_CERT_FILE", at.join(authority)).args([
            "--config",
            &installation.config(),
            "epg",
            "refresh",
            "sealed",
            "--json",
        ]);
        command.output_in_time()
    };
    let trusted = refresh("ca.pem");
    let foreign = refresh("elsewhere.pem");
    drop(server);
    let text = String::from_utf8_lossy(&trusted.stderr);
    assert!(trusted.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&trusted.stdout).unwrap();
    assert_eq!(report["added"], ROWS);
    let text = String::from_utf8_lossy(&foreign.stderr);
    assert_eq!(foreign.status.code(), Some(1), "{text}");
    assert!(text.contains("certificate"), "{text}");
}

/// Runs a command at a terminal. Returns `None` if `script` is not installed.
fn run_at_terminal(command: &str) -> Option<KilledOnDrop> {
    let mut script = Command::new("script");
    script
        .args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            command,
            "/dev/null",
        ])
        .env("PLAYGATE_LOG_LEVEL", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let child = script.spawn().ok();
    if child.is_none() {
        eprintln!("skipped: script of util-linux is absent");
    }
    child.map(KilledOnDrop)
}

#[test]
fn import_progress_is_shown_at_a_terminal() {
    let installation = Installation::new();
    installation.configure(&[("main", "/nowhere".to_owned())]);
    let pipe = installation.folder.path().join("guide.xml");
    let made = Command::new("mkfifo").arg(&pipe).status_in_time();
    assert!(made.success());
    let command = format!(
        "{} --data-dir {} --config {} epg import {} --source main",
        env!("CARGO_BIN_EXE_playgate"),
        installation.data().display(),
        installation.config(),
        pipe.display()
    );
    let Some(mut child) = run_at_terminal(&command) else {
        return;
    };
    let mut screen = child.stdout.take().unwrap();
    let seen = in_time("an import at a terminal", move || {
        // A file is uploaded in pieces of 64 KiB.
        let guide = guide().replacen("<tv>", &format!("<tv>{}", " ".repeat(128 * 1_024)), 1);
        let (begun, rest) = guide.as_bytes().split_at(128 * 1_024);
        let mut sender = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        sender.write_all(begun).unwrap();
        let mut seen = String::new();
        while !seen.contains("sent 128 KiB") {
            let mut some = [0; 256];
            let count = screen.read(&mut some).unwrap();
            assert!(count > 0, "it ended: {seen}");
            seen += &String::from_utf8_lossy(&some[..count]);
        }
        sender.write_all(rest).unwrap();
        drop(sender);
        screen.read_to_string(&mut seen).unwrap();
        seen
    });
    assert!(child.status_in_time().success(), "{seen}");
    // The progress line is erased before the report is printed.
    let (_, report) = seen.rsplit_once("\r\u{1b}[K").unwrap();
    assert!(
        report.contains("added       48") && !report.contains("sent"),
        "{seen}"
    );
}

/// How a server of slow guides is doing.
#[derive(Default)]
struct SlowServer {
    /// Whether a client waits for the slow guide.
    is_open: AtomicBool,
    is_over: AtomicBool,
}

impl SlowServer {
    /// `/slow` gives its guide byte by byte, and `/fast` answers once somebody waits for that. `/late` begins to answer after a
    /// second and a half, unless the client has gone.
    fn start() -> (String, Arc<Self>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Self::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&shared);
                // A client that disconnects is no error here.
                thread::spawn(move || state.serve(&mut stream.unwrap()));
            }
        });
        (address, state)
    }

    fn serve(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let head = read_head(stream)?;
        let guide = guide();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", guide.len());
        match head.split(' ').nth(1).unwrap() {
            "/slow" => {
                stream.write_all(answer.as_bytes())?;
                self.is_open.store(true, Ordering::SeqCst);
                let mut sent = Ok(());
                for byte in guide.as_bytes() {
                    if self.is_over.load(Ordering::SeqCst) || sent.is_err() {
                        break;
                    }
                    sent = stream.write_all(&[*byte]);
                    thread::park_timeout(Duration::from_millis(500));
                }
                self.is_open.store(false, Ordering::SeqCst);
                sent
            }
            "/fast" => {
                until("a client of the slow guide", || {
                    self.is_open.load(Ordering::SeqCst)
                });
                stream.write_all((answer + &guide).as_bytes())
            }
            _ => {
                stream.set_read_timeout(Some(Duration::from_millis(1_500)))?;
                // The time is over, or the client has closed the connection.
                match stream.read_exact(&mut [0]) {
                    Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                        stream.write_all((answer + &guide).as_bytes())
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

#[test]
fn a_source_of_one_byte_at_a_time_holds_up_no_other() {
    let (address, state) = SlowServer::start();
    let installation = Installation::new();
    installation.configure(&[
        ("slow", format!("{address}/slow")),
        ("fast", format!("{address}/fast")),
    ]);
    let config = installation.config();
    let mut appliance = Appliance::start_with(&installation.data(), &["--config", &config]);
    wait_for(&installation, "fast");
    let fast = installation.json(&["epg", "sources", "fast", "--json"]);
    assert_eq!(fast["lastImport"]["added"], ROWS);
    // An operator's command does not wait either.
    let report = installation.json(&["epg", "refresh", "fast", "--json"]);
    assert_eq!(report["unchanged"], ROWS, "{report}");
    assert!(
        state.is_open.load(Ordering::SeqCst),
        "the slow guide is still on its way"
    );
    let slow = installation.json(&["epg", "sources", "slow", "--json"]);
    assert_ne!(slow["state"], "ok");
    state.is_over.store(true, Ordering::SeqCst);
    appliance.kill();
}

#[test]
fn a_guide_that_is_made_on_request_is_waited_for() {
    let (address, _state) = SlowServer::start();
    let installation = Installation::new();
    let late = format!("{address}/late");
    let import = ["epg", "import", &late, "--create-livestreams", "--json"];
    let impatient = installation.run(&[&import[..], &["--timeout", "1"]].concat());
    let error = String::from_utf8_lossy(&impatient.stderr).into_owned();
    assert!(
        !impatient.status.success() && error.contains("did not answer in time"),
        "{error}"
    );
    assert_eq!(installation.json(&import)["added"], ROWS);
}
