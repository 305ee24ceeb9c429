//! The whole service in this process: an in-memory store, a manual clock, a partner and operators.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use playgate::app::{App, Parts, Ports};
use playgate::config::{Inputs, load};
use playgate::domain;
use playgate::http::routing::router::RouteSet;
use playgate::http::server::listener::{Listener, RunningServer, serve};
use playgate::http::state::HttpState;
use playgate::ports::clock::ManualClock;
use playgate::ports::entropy::SeededEntropy;
use playgate::ports::{Clock, LabClock};
use playgate::services::Services;
use playgate::store::Store;
use playgate::types::{PartnerKind, Role};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::gate_only::NOON;
use crate::support::journal_completeness;
use crate::support::openapi_conformance;
use crate::support::raw_http::{Answer, ask, request};

/// A password that the rules take.
pub const PASSWORD: &str = "troll under the bridge";

pub struct TestServer {
    pub public: SocketAddr,
    pub ops: SocketAddr,
    pub services: Arc<Services>,
    pub http: Arc<HttpState>,
    pub clock: Arc<ManualClock>,
    /// The access token of the first partner.
    pub partner: String,
    /// The token of an administrator.
    pub admin: String,
    _runtime: Runtime,
    _running: RunningServer,
    _directory: TempDir,
}

/// A user who is logged in.
#[derive(Clone)]
pub struct Viewer {
    pub token: String,
    pub id: String,
    pub session: String,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// Adds an operator, named as the role, and returns the token.
    pub fn add_operator(&self, role: Role) -> String {
        let operators = &self.services.operators;
        let added = operators.add(role.as_str(), role, NOON).unwrap();
        let (_, token) = added.wait().unwrap();
        token.reveal().to_owned()
    }

    /// Starts the service with other settings: key and value as flags give them.
    pub fn with(settings: &[(&'static str, &str)]) -> Self {
        Self::over(|_| Store::in_memory(domain::schema()), settings)
    }

    /// Starts the service over a store that is made for its data directory.
    pub fn over(store: impl FnOnce(&Path) -> Store, settings: &[(&'static str, &str)]) -> Self {
        Self::of(None, store, settings)
    }

    /// Starts the service with a configuration file.
    pub fn with_file(file: &Path) -> Self {
        let file = Some(file.to_owned());
        Self::of(file, |_| Store::in_memory(domain::schema()), &[])
    }

    pub fn of(
        file: Option<PathBuf>,
        store: impl FnOnce(&Path) -> Store,
        settings: &[(&'static str, &str)],
    ) -> Self {
        openapi_conformance::watch();
        let directory = tempfile::tempdir().unwrap();
        let mut inputs = Inputs {
            file,
            demo: true,
            ..Inputs::default()
        };
        let data = directory.path().to_str().unwrap();
        // The cheapest hash that the configuration takes.
        let ours = [
            ("data_dir", data),
            ("public_url", "https://tv.example"),
            ("accounts.argon2_memory_kib", "8192"),
            ("accounts.argon2_iterations", "1"),
        ];
        for (key, value) in ours.iter().chain(settings) {
            inputs.flags.push((key, "--test", (*value).to_owned()));
        }
        let loaded = load(&inputs).unwrap_or_else(|problems| panic!("{problems}"));
        let clock = Arc::new(ManualClock::at(NOON));
        let lab = Arc::new(LabClock::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let ports = Ports {
            clock: Arc::clone(&lab) as Arc<dyn Clock>,
            lab: loaded.config.lab.clock.then_some(lab),
            entropy: Arc::new(SeededEntropy::new(1)),
        };
        let store = store(directory.path());
        let parts = Parts {
            config: loaded.config,
            store,
            ports,
            listener: None,
            tls: None,
            sync: false,
            on_failure: Box::new(|error| panic!("{error}")),
            examine: Arc::new(playgate::domain::backups::examine),
            restart: None,
        };
        let app = App::open(parts).unwrap_or_else(|error| panic!("{error}"));
        let App { services, http } = app;
        let (_, partner) = services
            .partners
            .add("Acme", PartnerKind::Standard, NOON)
            .unwrap()
            .wait()
            .unwrap();
        let (_, admin) = services
            .operators
            .add("Eva", Role::Admin, NOON)
            .unwrap()
            .wait()
            .unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let guard = runtime.enter();
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners =
            [RouteSet::Public, RouteSet::Ops].map(|table| Listener::tcp(local, table).unwrap());
        let [public, ops] = [0, 1].map(|at| listeners[at].address().unwrap());
        journal_completeness::forget([public, ops]);
        let running = serve(Arc::clone(&http), listeners.into());
        drop(guard);
        Self {
            public,
            ops,
            services,
            http,
            clock,
            partner: partner.reveal().to_owned(),
            admin: admin.reveal().to_owned(),
            _runtime: runtime,
            _running: running,
            _directory: directory,
        }
    }

    /// A request with the partner token.
    pub fn partner(&self, method: &str, target: &str, body: &Value) -> Answer {
        self.partner_with(&self.partner, method, target, body)
    }

    /// A request with another partner's token.
    pub fn partner_with(&self, token: &str, method: &str, target: &str, body: &Value) -> Answer {
        let headers = [("Service-AccessToken", token)];
        ask(self.public, request(method, target, &headers, &text(body)))
    }

    /// A request with the partner token and a user token.
    pub fn user(&self, token: &str, method: &str, target: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Service-AccessToken", self.partner.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        ask(self.public, request(method, target, &headers, &text(body)))
    }

    /// A request to the administration interface.
    pub fn operator(&self, method: &str, target: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.admin);
        let headers = [("Authorization", bearer.as_str())];
        let target = format!("/admin/v1/{target}");
        ask(self.ops, request(method, &target, &headers, &text(body)))
    }

    /// Signs a user up.
    pub fn sign_up(&self, email: &str) -> Viewer {
        let body = serde_json::json!({"identity": email, "accessKey": PASSWORD, "name": "Ann"});
        viewer(&self.partner("PUT", "/api/login/v2/auth/email", &body))
    }

    /// Moves the clock on.
    pub fn wait(&self, seconds: i64) {
        self.clock.advance(seconds);
    }
}

impl Drop for TestServer {
    /// Whatever a test did, the indexes have followed the records, and the journal has its answers.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for report in self.services.store.verify().unwrap().tables {
                assert!(report.is_sound(), "{report:?}");
            }
            journal_completeness::check(self);
        }
    }
}

/// The user of an answer to sign-up or login.
pub fn viewer(answer: &Answer) -> Viewer {
    assert_eq!(answer.status, 200, "{}", answer.json());
    let json = answer.json();
    let text = |name: &str| json[name].as_str().unwrap().to_owned();
    Viewer {
        token: text("token"),
        id: text("userId"),
        session: text("sessionId"),
    }
}

fn text(body: &Value) -> String {
    match body {
        Value::Null => String::new(),
        body => body.to_string(),
    }
}
