//! The whole service in this process, with an in-memory store, a manual clock, a partner and an administrator.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use playgate_api::route_table::ROUTERS;
use playgate_app::{App, Parts, Ports};
use playgate_config::{Inputs, load};
use playgate_http::server::listener::serve;
use playgate_http::{HttpState, Listener, RouteSet, RunningServer};
use playgate_ports::{Clock, LabClock, ManualClock, SeededEntropy};
use playgate_services::Services;
use playgate_store::Store;
use playgate_types::{PartnerKind, Role};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::gate_only::NOON;
use crate::support::raw_http::{Answer, ask, request};
use crate::support::{journal_completeness, openapi_conformance};

/// A password that meets the rules.
pub const PASSWORD: &str = "troll under the bridge";

pub struct TestServer {
    pub public: SocketAddr,
    pub ops: SocketAddr,
    pub services: Arc<Services>,
    pub http: Arc<HttpState>,
    pub clock: Arc<ManualClock>,
    pub partner: String,
    pub admin: String,
    _runtime: Runtime,
    _running: RunningServer,
    _directory: TempDir,
}

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

    /// Adds an operator named after its role, and returns its token.
    pub fn add_operator(&self, role: Role) -> String {
        let operators = &self.services.operators;
        let added = operators.add(role.as_str(), role, NOON).unwrap();
        let (_, token) = added.wait().unwrap();
        token.reveal().to_owned()
    }

    /// Starts the service with other settings, as key and value.
    pub fn with(settings: &[(&'static str, &str)]) -> Self {
        Self::with_store(|_| Store::in_memory(playgate_records::schema()), settings)
    }

    /// Starts the service with a store that is opened in its data directory.
    pub fn with_store(
        store: impl FnOnce(&Path) -> Store,
        settings: &[(&'static str, &str)],
    ) -> Self {
        Self::build(None, store, settings)
    }

    /// Starts the service with a configuration file.
    pub fn with_file(file: &Path) -> Self {
        let file = Some(file.to_owned());
        Self::build(file, |_| Store::in_memory(playgate_records::schema()), &[])
    }

    pub fn build(
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
        // The cheapest hash that the configuration accepts.
        let own_settings = [
            ("data_dir", data),
            ("public_url", "https://tv.example"),
            ("accounts.argon2_memory_kib", "8192"),
            ("accounts.argon2_iterations", "1"),
        ];
        for (key, value) in own_settings.iter().chain(settings) {
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
            examine: Arc::new(|path: &Path| {
                playgate_domain::backups::examine(path, &playgate_records::schema())
            }),
            restart: None,
            is_standby: false,
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
        let running = serve(Arc::clone(&http), &ROUTERS, listeners.into());
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

    /// Sends a request with the partner token.
    pub fn partner(&self, method: &str, target: &str, body: &Value) -> Answer {
        self.partner_with(&self.partner, method, target, body)
    }

    /// Sends a request with another partner's token.
    pub fn partner_with(&self, token: &str, method: &str, target: &str, body: &Value) -> Answer {
        let headers = [("Service-AccessToken", token)];
        ask(self.public, request(method, target, &headers, &text(body)))
    }

    /// Sends a request with the partner token and a user token.
    pub fn user(&self, token: &str, method: &str, target: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Service-AccessToken", self.partner.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        ask(self.public, request(method, target, &headers, &text(body)))
    }

    /// Sends a request to the administration API.
    pub fn operator(&self, method: &str, target: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.admin);
        let headers = [("Authorization", bearer.as_str())];
        let target = format!("/admin/v1/{target}");
        ask(self.ops, request(method, &target, &headers, &text(body)))
    }

    /// Returns the token in the newest reset mail.
    pub fn mailed_token(&self) -> String {
        let mails = self.operator("GET", "mail", &Value::Null).json();
        let mails = mails.as_array().unwrap();
        let newest = mails.iter().find(|mail| mail["kind"] == "reset").unwrap();
        let target = format!("mail/{}", newest["id"].as_str().unwrap());
        let mail = self.operator("GET", &target, &Value::Null).json();
        token_in(mail["text"].as_str().unwrap())
    }

    pub fn sign_up(&self, email: &str) -> Viewer {
        let body = serde_json::json!({"identity": email, "accessKey": PASSWORD, "name": "Ann"});
        viewer(&self.partner("PUT", "/api/login/v2/auth/email", &body))
    }

    pub fn wait(&self, seconds: i64) {
        self.clock.advance(seconds);
    }
}

impl Drop for TestServer {
    /// Checks that the indexes match the records and that the journal is complete, after every test.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            for report in self.services.store.verify().unwrap().tables {
                assert!(report.is_sound(), "{report:?}");
            }
            journal_completeness::check(self);
        }
    }
}

/// Returns the token in the text of a reset mail.
pub fn token_in(text: &str) -> String {
    let (_, rest) = text.split_once("token=").unwrap();
    rest.split_whitespace().next().unwrap().to_owned()
}

/// Reads the user of a response to sign-up or login.
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
