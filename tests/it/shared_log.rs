//! The shared log in etcd keeps the contract of a `SharedLog`, against a real etcd on loopback.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use playgate_fleet::etcd::{EtcdLog, EtcdSettings, EtcdWatch, Login, WatchEvent};
use playgate_ports::client_tls::{ClientTls, ClientTlsFiles};
use playgate_store::History;
use playgate_store::replication::{
    Appended, Appending, Claim, Entry, Member, MemberId, MemberRole, Position, SharedLog,
    SharedLogError,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::certificates::certificates;
use crate::support::external_tools::{free_port, program};
use crate::support::process::{InTime as _, KilledOnDrop};
use crate::support::until::{until, until_some};

const FLEET: [u8; 16] = [9; 16];
const A: MemberId = [1; 16];
const B: MemberId = [2; 16];
const LEASE: Duration = Duration::from_secs(60);

/// One etcd process, killed on drop.
struct Etcd {
    program: PathBuf,
    folder: TempDir,
    /// The addresses for clients and for other members of etcd.
    urls: [String; 2],
    tls: Option<TempDir>,
    /// More arguments of etcd.
    arguments: Vec<String>,
    process: KilledOnDrop,
    runtime: Runtime,
}

impl Etcd {
    /// `None` if etcd is not installed, which fails the test where `CI` is `true`.
    fn start(tls: Option<TempDir>) -> Option<Self> {
        Self::start_with(tls, &[])
    }

    fn start_with(tls: Option<TempDir>, arguments: &[&str]) -> Option<Self> {
        let arguments: Vec<_> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let program = program("etcd")?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let urls = [scheme, "http"].map(|scheme| format!("{scheme}://127.0.0.1:{}", free_port()));
        let folder = tempfile::tempdir().unwrap();
        let process = spawn(&program, &folder, &urls, tls.as_ref(), &arguments);
        let runtime = Runtime::new().unwrap();
        Some(Self {
            program,
            folder,
            urls,
            tls,
            arguments,
            process,
            runtime,
        })
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.status_in_time();
    }

    fn start_again(&mut self) {
        let tls = self.tls.as_ref();
        self.process = spawn(
            &self.program,
            &self.folder,
            &self.urls,
            tls,
            &self.arguments,
        );
    }

    fn settings(&self) -> EtcdSettings {
        let tls = |keys: &TempDir| trusting(keys, None);
        EtcdSettings {
            endpoints: vec![self.urls[0].clone()],
            tls: self.tls.as_ref().map(tls),
            login: None,
            timeout: Duration::from_secs(5),
            errors: Arc::default(),
        }
    }

    fn log_with(&self, settings: &EtcdSettings) -> EtcdLog {
        let runtime = self.runtime.handle().clone();
        EtcdLog::new(settings, FLEET, LEASE, runtime).unwrap()
    }

    fn log(&self) -> EtcdLog {
        self.log_with(&self.settings())
    }

    /// Creates the log for a store with commits up to `head`.
    fn create(&self, head: u64) -> EtcdLog {
        let mut log = self.log();
        until_some("etcd", || log.create(head).ok());
        assert_eq!(log.head(), Ok(head));
        log
    }
}

fn copy_of(keys: &TempDir) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["ca.pem", "here.pem", "here.key"] {
        std::fs::copy(keys.path().join(name), copy.path().join(name)).unwrap();
    }
    copy
}

/// Trusts the authority of a directory, and presents a certificate and its key.
fn trusting(keys: &TempDir, pair: Option<(PathBuf, PathBuf)>) -> Arc<ClientTls> {
    let ca = Some(keys.path().join("ca.pem"));
    Arc::new(ClientTls::open(ClientTlsFiles { ca, pair }).unwrap())
}

fn spawn(
    program: &PathBuf,
    folder: &TempDir,
    urls: &[String; 2],
    tls: Option<&TempDir>,
    arguments: &[String],
) -> KilledOnDrop {
    let [client, peer] = urls;
    let mut command = Command::new(program);
    command
        .args(["--name", "one", "--data-dir"])
        .arg(folder.path().join("data"))
        .args([
            "--listen-client-urls",
            client,
            "--advertise-client-urls",
            client,
        ])
        .args([
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
        ])
        .args(["--initial-cluster", &format!("one={peer}")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(folder.path().join("log")).unwrap());
    if let Some(keys) = tls {
        let at = |name: &str| keys.path().join(name);
        command.arg("--cert-file").arg(at("here.pem"));
        command.arg("--key-file").arg(at("here.key"));
    }
    KilledOnDrop(command.spawn().unwrap())
}

fn begin(number: u64) -> Position {
    let history = History {
        timeline: [7; 16],
        chain: [1; 16],
    };
    Position { number, history }
}

fn entry(number: u64, epoch: u64) -> Entry {
    Entry {
        fleet: FLEET,
        number,
        epoch,
        member: A,
        nonce: [u8::try_from(number).unwrap(); 16],
        format: 1,
        before: begin(0).history,
        batch: vec![b'x'; 100],
    }
}

fn held(claim: Result<Claim, SharedLogError>) -> u64 {
    match claim {
        Ok(Claim::Held { epoch }) => epoch,
        other => panic!("{other:?}"),
    }
}

#[test]
fn etcd_appends_only_the_next_entry_and_only_under_the_present_claim() {
    let Some(etcd) = Etcd::start(None) else {
        return;
    };
    let (mut a, mut b) = (etcd.create(5), etcd.log());
    // A fleet is created once.
    assert_eq!(b.create(9), Ok(false));
    assert_eq!(b.head(), Ok(5));
    let epoch = held(a.claim(A));
    assert_eq!(held(a.claim(A)), epoch);
    assert_eq!(b.claim(B), Ok(Claim::Other { member: A }));
    // Another process with the same member id is not the holder.
    assert_eq!(b.claim(A), Ok(Claim::Other { member: A }));
    assert_eq!(a.append(&entry(6, epoch)), Ok(Appended::Done));
    // The same request again finds that it was carried out, and appends nothing.
    assert_eq!(a.append(&entry(6, epoch)), Ok(Appended::Done));
    assert_eq!(b.head(), Ok(6));
    for refused in [
        entry(6, epoch + 1),
        entry(5, epoch),
        entry(8, epoch),
        entry(7, epoch + 1),
        entry(7, 0),
    ] {
        assert_eq!(a.append(&refused), Ok(Appended::Refused), "{refused:?}");
    }
    assert_eq!(b.read(6, 1), Ok(vec![entry(6, epoch)]));
    assert_eq!(b.read(7, 1), Ok(Vec::new()));
    // Truncation frees a slot but does not reuse its number.
    a.truncate(7).unwrap();
    assert_eq!(a.append(&entry(6, epoch)), Ok(Appended::Refused));
    assert_eq!(b.read(6, 1), Err(SharedLogError::Truncated { first: 7 }));
    assert_eq!(a.append(&entry(7, epoch)), Ok(Appended::Done));
    a.resign(A).unwrap();
    let later = held(b.claim(B));
    assert!(later > epoch);
    assert_eq!(a.append(&entry(8, epoch)), Ok(Appended::Refused));
    assert_eq!(b.append(&entry(8, later)), Ok(Appended::Done));
    assert_eq!(
        a.read(7, 1 << 20),
        Ok(vec![entry(7, epoch), entry(8, later)])
    );
    let runtime = etcd.runtime.handle().clone();
    let mut other = EtcdLog::new(&etcd.settings(), [8; 16], LEASE, runtime).unwrap();
    assert_eq!(other.head(), Err(SharedLogError::Foreign));
}

#[test]
fn claim_ends_with_its_lease_and_fences_its_holder() {
    let Some(etcd) = Etcd::start(None) else {
        return;
    };
    drop(etcd.create(0));
    let short = || {
        let runtime = etcd.runtime.handle().clone();
        EtcdLog::new(&etcd.settings(), FLEET, Duration::from_secs(4), runtime).unwrap()
    };
    let (mut a, mut b) = (short(), short());
    let first = held(a.claim(A));
    let second = until_some("the claim of the other", || match b.claim(B) {
        Ok(Claim::Held { epoch }) => Some(epoch),
        _ => None,
    });
    assert_eq!(a.append(&entry(1, first)), Ok(Appended::Refused));
    assert_eq!(b.append(&entry(1, second)), Ok(Appended::Done));
    assert_eq!(a.claim(A), Ok(Claim::Other { member: B }));
}

#[test]
fn a_watch_tells_appends_and_the_begin_and_end_of_a_claim() {
    let Some(etcd) = Etcd::start(None) else {
        return;
    };
    let mut log = etcd.create(0);
    let (sender, told) = mpsc::channel();
    let mut watch = EtcdWatch::new(&etcd.settings(), FLEET).unwrap();
    etcd.runtime.spawn(async move {
        let tell = |event| {
            // The test may have ended.
            let _ = sender.send(event);
        };
        watch.run(tell).await
    });
    let next = || told.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(next(), WatchEvent::Ready);
    let epoch = held(log.claim(A));
    assert_eq!(next(), WatchEvent::Owner);
    assert_eq!(log.append(&entry(1, epoch)), Ok(Appended::Done));
    assert_eq!(next(), WatchEvent::Head);
    log.resign(A).unwrap();
    assert_eq!(next(), WatchEvent::Owner);
}

/// A member and the plans that it has applied.
struct Applied {
    member: Member,
    log: EtcdLog,
    plans: Vec<u8>,
}

impl Applied {
    fn new(id: MemberId, log: EtcdLog) -> Self {
        Self {
            member: Member::new(FLEET, id, 1, begin(0)),
            log,
            plans: Vec::new(),
        }
    }

    fn append(&mut self, plan: u8) -> Appending {
        let plans = &mut self.plans;
        let mut apply = |entry: &Entry| {
            plans.extend(&entry.batch);
            Ok(())
        };
        let appended = self
            .member
            .append(&mut self.log, [plan; 16], vec![plan], &mut apply);
        appended.unwrap()
    }

    fn settle(&mut self) -> Option<Appending> {
        let plans = &mut self.plans;
        let mut apply = |entry: &Entry| {
            plans.extend(&entry.batch);
            Ok(())
        };
        self.member.settle(&mut self.log, &mut apply).unwrap()
    }

    fn claim(&mut self) -> bool {
        let plans = &mut self.plans;
        let mut apply = |entry: &Entry| {
            plans.extend(&entry.batch);
            Ok(())
        };
        let role = self.member.claim(&mut self.log, &mut apply);
        matches!(role, Ok(MemberRole::Owner { .. }))
    }
}

#[test]
fn members_agree_after_kills_of_etcd_and_a_change_of_the_owner() {
    let Some(mut etcd) = Etcd::start(None) else {
        return;
    };
    let mut owner = Applied::new(A, etcd.create(0));
    let mut follower = Applied::new(B, etcd.log());
    assert!(owner.claim() && !follower.claim());
    let (mut committed, mut unknown) = (Vec::new(), 0);
    for plan in 0..120 {
        if plan % 40 == 20 {
            etcd.kill();
        }
        let mut outcome = owner.append(plan);
        if outcome == Appending::Unsettled {
            unknown += 1;
            etcd.start_again();
            outcome = until_some("the outcome", || {
                owner.settle().filter(|o| *o != Appending::Unsettled)
            });
        }
        match outcome {
            Appending::Committed => committed.push(plan),
            // The lease expired meanwhile.
            Appending::Moved => until("another claim", || owner.claim()),
            Appending::Unsettled => panic!("it was settled"),
        }
    }
    assert!(unknown >= 3, "{unknown}");
    assert!(committed.len() >= 100, "{}", committed.len());
    // Each acknowledged plan is applied exactly once, and no other.
    assert_eq!(owner.plans, committed);
    owner.member.resign(&mut owner.log).unwrap();
    until("the claim of the follower", || follower.claim());
    assert_eq!(follower.plans, committed);
    assert_eq!(follower.member.position(), owner.member.position());
    // Only the owner may append.
    assert_eq!(owner.append(200), Appending::Moved);
    assert_eq!(follower.append(201), Appending::Committed);
}

#[test]
fn etcd_is_reached_over_tls_with_a_log_in_and_past_dead_endpoints() {
    let Some(etcd) = Etcd::start(Some(certificates())) else {
        return;
    };
    let mut log = etcd.create(3);
    assert_eq!(log.head(), Ok(3));
    let keys = etcd.tls.as_ref().unwrap().path().join("ca.pem");
    let administer = |path: &str, body: &str| {
        let url = format!("{}/v3/auth/{path}", etcd.urls[0]);
        let mut command = Command::new("curl");
        command
            .args(["-sf", "--cacert"])
            .arg(&keys)
            .args(["-d", body, &url]);
        assert!(
            command.stdout(Stdio::null()).status_in_time().success(),
            "{path}"
        );
    };
    administer("user/add", r#"{"name":"root","password":"right"}"#);
    administer("role/add", r#"{"name":"root"}"#);
    administer("user/grant", r#"{"user":"root","role":"root"}"#);
    administer("enable", "{}");
    let login = |password: &str| {
        let login = Login::new("root".to_owned(), password.to_owned(), 2);
        Some(Arc::new(login))
    };
    let settings = |password, endpoints: &[&str]| EtcdSettings {
        login: password,
        endpoints: endpoints.iter().map(|url| (*url).to_owned()).collect(),
        ..etcd.settings()
    };
    let (url, dead) = (
        etcd.urls[0].as_str(),
        format!("https://127.0.0.1:{}", free_port()),
    );
    let mut right = etcd.log_with(&settings(login("right"), &[&dead, url]));
    let epoch = held(right.claim(A));
    assert_eq!(right.append(&entry(4, epoch)), Ok(Appended::Done));
    for refused in [login("wrong"), None] {
        let head = etcd.log_with(&settings(refused, &[url])).head();
        assert!(matches!(head, Err(SharedLogError::Refused(_))), "{head:?}");
    }
    // Another authority's certificate is not trusted.
    let others = certificates();
    let untrusted = EtcdSettings {
        tls: Some(trusting(&others, None)),
        ..settings(login("right"), &[url])
    };
    let head = etcd.log_with(&untrusted).head();
    assert!(matches!(head, Err(SharedLogError::Unknown(_))), "{head:?}");
}

#[test]
fn etcd_that_requires_client_certificates_gets_them_and_a_renewed_one_without_a_restart() {
    let keys = certificates();
    let at = |name: &str| keys.path().join(name);
    // etcd's gateway presents the certificate of the server to etcd itself, so the same authority is trusted for both.
    let authority = at("ca.pem").to_str().unwrap().to_owned();
    let mutual = ["--client-cert-auth", "--trusted-ca-file", &authority];
    let Some(etcd) = Etcd::start_with(Some(copy_of(&keys)), &mutual) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    let install = |from: &TempDir| {
        std::fs::copy(from.path().join("elsewhere.pem"), &certificate).unwrap();
        std::fs::copy(from.path().join("elsewhere.key"), &key).unwrap();
    };
    install(&keys);
    let tls = trusting(&keys, Some((certificate.clone(), key.clone())));
    let settings = EtcdSettings {
        tls: Some(Arc::clone(&tls)),
        ..etcd.settings()
    };
    let mut log = etcd.log_with(&settings);
    until_some("etcd", || log.create(3).ok());
    assert_eq!(log.head(), Ok(3));
    // Control: etcd refuses who has no certificate.
    let without = etcd.log().head();
    assert!(
        matches!(without, Err(SharedLogError::Unknown(_))),
        "{without:?}"
    );
    // One of another authority is refused, and the right one is read again at the next call.
    let others = certificates();
    install(&others);
    let refused = etcd.log_with(&settings).head();
    assert!(
        matches!(refused, Err(SharedLogError::Unknown(_))),
        "{refused:?}"
    );
    install(&keys);
    assert_eq!(etcd.log_with(&settings).head(), Ok(3));
    // A key that does not fit is not used, and the last pair is.
    std::fs::copy(others.path().join("elsewhere.key"), &key).unwrap();
    assert_eq!(etcd.log_with(&settings).head(), Ok(3));
    let files = ClientTlsFiles {
        ca: None,
        pair: Some((certificate, key)),
    };
    let error = ClientTls::open(files).err().unwrap().to_string();
    assert!(error.contains("cannot be used with this key"), "{error}");
}

/// A lost machine answers nothing.
#[test]
fn a_silent_endpoint_fails_no_call() {
    let Some(etcd) = Etcd::start(None) else {
        return;
    };
    etcd.create(3);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    // The queue of this one is full, so that no connection is made.
    let unreachable = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&unreachable, 0).unwrap();
    let _queued = std::net::TcpStream::connect(unreachable.local_addr().unwrap()).unwrap();
    let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
    let settings = EtcdSettings {
        endpoints: vec![url(&silent), url(&unreachable), etcd.urls[0].clone()],
        timeout: Duration::from_secs(20),
        ..etcd.settings()
    };
    let mut log = etcd.log_with(&settings);
    assert_eq!(log.head(), Ok(3));
    let epoch = held(log.claim(A));
    assert_eq!(log.append(&entry(4, epoch)), Ok(Appended::Done));
}
