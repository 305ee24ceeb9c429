//! The actors: each changes its own data over the interface, keeps a ledger of the responses, and compares it with the
//! stored state after a fault.

mod accounts;
mod guide;
mod operators;
mod playback_client;
mod script;
mod telemetry;
mod viewer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::appliance::{Appliance, Launch};
use crate::harness::client::{Address, Connection, NoResponse, Response};
use crate::harness::durability_model::{AllowedLoss, Fact};
use crate::harness::raw_http::Answer;
use crate::harness::rng::Rng;
use crate::harness::stop_on_drop::StopOnDrop;

pub use playback_client::{Stream, token};
pub use script::{Course, Script};

/// The password of users who never change it.
pub const PASSWORD: &str = "a long way to go";

const CATALOGUE: &str = r#"
[[asset]]
id = "clear"
pg_age = 0
encrypted = false
playlist = { hls = "https://cdn.example/clear.m3u8" }

[[offer]]
id = "everybody"
type = "default"
pack = { assets = ["clear"] }

[[offer]]
id = "red"
type = "subscription"
pack = { assets = ["clear"] }

[[offer]]
id = "green"
type = "subscription"
pack = { assets = ["clear"] }
"#;

#[derive(Clone)]
pub struct Keys {
    pub partner: String,
    pub operator: String,
}

/// The problems that an actor found, and how its requests went.
#[derive(Clone, Default)]
pub struct ActorReport {
    pub problems: Vec<String>,
    pub done: u64,
    /// Requests that were answered 503, which is no problem.
    pub unavailable: u64,
}

impl ActorReport {
    pub fn wrong(&mut self, what: &str) {
        self.problems.push(format!("wrong: {what}"));
    }

    pub fn lost(&mut self, what: &str) {
        self.problems.push(format!("lost: {what}"));
    }

    pub fn add_result(&mut self, judgement: Result<(), String>) {
        self.problems.extend(judgement.err());
    }

    /// Counts a response. Returns it if it is a success.
    pub fn count(&mut self, what: &str, answer: Answer) -> Option<Answer> {
        match answer.status {
            200..=299 => {
                self.done += 1;
                return Some(answer);
            }
            503 => self.unavailable += 1,
            _ => self.wrong(&format!("{what}: {}", status_and_code(&answer))),
        }
        None
    }

    /// Counts the response to a requested change. After a 5xx the change may have been made.
    pub fn settle<T: Clone + std::fmt::Debug + PartialEq>(
        &mut self,
        what: &str,
        fact: &mut Fact<T>,
        answer: Answer,
    ) -> Option<Answer> {
        let status = answer.status;
        let done = self.count(what, answer);
        match status {
            200..=299 => fact.done(),
            ..500 => fact.refused(),
            _ => {}
        }
        done
    }
}

/// Returns status and error code of a response.
pub fn status_and_code(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = body["error"]["code"].as_str().unwrap_or_default();
    format!("{} {code}", answer.status)
}

pub trait Actor: Send + Sync {
    /// Does one action. Fails if there is no response.
    fn act(&mut self, line: &mut Connection, rng: &mut Rng) -> Result<(), NoResponse>;

    /// Compares the ledger with the observed state, and then sets it to that state.
    fn check(
        &mut self,
        line: &mut Connection,
        allowed_loss: &AllowedLoss,
        rng: &mut Rng,
    ) -> Result<(), NoResponse>;

    fn report(&mut self) -> &mut ActorReport;

    /// Returns the same ledger for another copy of the data directory.
    fn copy(&self) -> Box<dyn Actor>;
}

/// Which actors work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All but the guide.
    Usual,
    /// All, including the guide.
    Importing,
    /// Only those whose changes are logged before the response and synced after it: the sync of another actor's durable
    /// change would hide a loss.
    Logged,
}

pub struct Workload {
    pub keys: Keys,
    /// Actors whose changes are durable before the response.
    durable: Vec<Box<dyn Actor>>,
    /// Actors whose changes are logged before the response.
    logged: Vec<Box<dyn Actor>>,
    guide: guide::Guide,
}

impl Clone for Workload {
    fn clone(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            durable: self.durable.iter().map(|actor| actor.copy()).collect(),
            logged: self.logged.iter().map(|actor| actor.copy()).collect(),
            guide: self.guide.clone(),
        }
    }
}

impl Workload {
    /// Sets up a new server and its actors.
    pub fn new(launch: &Launch, appliance: &Appliance) -> Result<Self, String> {
        let run = |arguments: &[&str], member: &str| {
            let output = launch.run(arguments);
            let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            value[member].as_str().map(str::to_owned).ok_or(error)
        };
        let role = ["operator", "add", "rig", "--role", "admin", "--json"];
        let operator = run(&role, "token")?;
        let partner = run(&["partner", "add", "rig", "--json"], "accessToken")?;
        let keys = Keys { partner, operator };
        let line = &mut appliance.line();
        let gone = |reason| format!("set-up: {reason:?}");
        let target = "/admin/v1/catalog/import";
        let file = Value::String(CATALOGUE.to_owned());
        let imported = line.operate(&keys.operator, "POST", target, &file);
        let imported = imported.map_err(gone)?;
        if imported.status != 200 {
            return Err(status_and_body(&imported));
        }
        let mut guide = guide::Guide::new(&keys);
        guide.act(line, &mut Rng::fixed()).map_err(gone)?;
        let durable: Vec<Box<dyn Actor>> = vec![
            Box::new(accounts::People::new(&keys, 1)),
            Box::new(accounts::People::new(&keys, 2)),
            Box::new(operators::OperatorActor::new(&keys, line).map_err(gone)?),
        ];
        let logged: Vec<Box<dyn Actor>> = vec![
            Box::new(viewer::Player::new(&keys, line).map_err(gone)?),
            Box::new(telemetry::Reporter::new(&keys, line).map_err(gone)?),
        ];
        Ok(Self {
            keys,
            durable,
            logged,
            guide,
        })
    }

    /// Lets one actor do one action: player, reporter, two of accounts, operator, guide.
    pub fn step(
        &mut self,
        line: &mut Connection,
        actor: usize,
        rng: &mut Rng,
    ) -> Result<(), NoResponse> {
        let mut actors = self.actors(Mix::Importing);
        actors.nth(actor).unwrap().act(line, rng)
    }

    /// Runs the actors until the server no longer answers or `during` returns.
    pub fn work(&mut self, address: &Address, mix: Mix, rng: &Rng, during: impl FnOnce()) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            for (nth, actor) in self.actors(mix).enumerate() {
                let mut rng = rng.split(nth as u64);
                let stop = &stop;
                scope.spawn(move || {
                    let mut line = Connection::to(address);
                    while !stop.load(Ordering::Relaxed) {
                        match actor.act(&mut line, &mut rng) {
                            Ok(()) => pause(&mut rng),
                            Err(NoResponse::Gone | NoResponse::Broken(_)) => return,
                            Err(NoResponse::Hung) => {
                                actor.report().wrong("a request got no answer");
                                return;
                            }
                        }
                    }
                });
            }
            during();
        });
    }

    /// Compares all ledgers with the observed state. Returns the problems.
    pub fn check(
        &mut self,
        address: &Address,
        allowed_loss: &AllowedLoss,
        rng: &Rng,
    ) -> Vec<String> {
        thread::scope(|scope| {
            for (nth, actor) in self.actors(Mix::Importing).enumerate() {
                let mut rng = rng.split(100 + nth as u64);
                scope.spawn(move || {
                    let mut line = Connection::to(address);
                    if let Err(reason) = actor.check(&mut line, allowed_loss, &mut rng) {
                        let what = match reason {
                            NoResponse::Hung => "hung: a read got no answer".to_owned(),
                            other => format!("no response to a check: {other:?}"),
                        };
                        actor.report().wrong(&what);
                    }
                });
            }
        });
        let mut problems = self.problems();
        let mut line = Connection::to(address);
        let target = "/admin/v1/store/verify";
        match line.operate(&self.keys.operator, "POST", target, &Value::Null) {
            Ok(answer) if answer.status == 200 && answer.json()["sound"] == true => {}
            Ok(answer) => {
                problems.push(format!("wrong: store verify: {}", status_and_body(&answer)))
            }
            Err(reason) => problems.push(format!("wrong: store verify: {reason:?}")),
        }
        problems
    }

    fn actors(&mut self, mix: Mix) -> impl Iterator<Item = &mut (dyn Actor + 'static)> {
        let guide: &mut dyn Actor = &mut self.guide;
        let durable = self.durable.iter_mut().filter(move |_| mix != Mix::Logged);
        let actors = self.logged.iter_mut().chain(durable);
        let guide = (mix == Mix::Importing).then_some(guide);
        actors.map(|actor| &mut **actor).chain(guide)
    }

    /// Returns the problems since the last call.
    pub fn problems(&mut self) -> Vec<String> {
        let reports = self.actors(Mix::Importing).map(Actor::report);
        let of = |report: &mut ActorReport| std::mem::take(&mut report.problems);
        reports.flat_map(of).collect()
    }

    /// Returns how many requests succeeded and how many were answered 503 since the last call.
    pub fn counts(&mut self) -> (u64, u64) {
        self.actors(Mix::Importing)
            .fold((0, 0), |(done, unavailable), actor| {
                let report = actor.report();
                let counted = (done + report.done, unavailable + report.unavailable);
                (report.done, report.unavailable) = (0, 0);
                counted
            })
    }
}

fn status_and_body(answer: &Answer) -> String {
    format!(
        "{} {}",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    )
}

/// Pauses between two requests: mostly not, so that commits are grouped; sometimes long enough that a commit is alone
/// in its group.
fn pause(rng: &mut Rng) {
    if rng.once_in(3) {
        thread::park_timeout(Duration::from_millis(rng.below(12)));
    }
}

/// A user, and requests in the user's name.
#[derive(Clone)]
pub struct Client {
    keys: Keys,
    user: String,
    pub id: String,
}

impl Client {
    pub fn sign_up(keys: &Keys, line: &mut Connection, email: &str) -> Result<Self, NoResponse> {
        let body = json!({"identity": email, "accessKey": PASSWORD});
        let headers = [("Service-AccessToken", keys.partner.as_str())];
        let answer = line.ask("PUT", "/api/login/v2/auth/email", &headers, &body)?;
        assert_eq!(answer.status, 200, "{}", status_and_body(&answer));
        let json = answer.json();
        let text = |name: &str| json[name].as_str().unwrap().to_owned();
        Ok(Self {
            keys: keys.clone(),
            user: text("token"),
            id: text("userId"),
        })
    }

    pub fn ask(
        &self,
        line: &mut Connection,
        method: &str,
        target: &str,
        more: &[(&str, &str)],
        body: &Value,
    ) -> Response {
        let bearer = format!("Bearer {}", self.user);
        let mut headers = vec![
            ("Service-AccessToken", self.keys.partner.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        headers.extend_from_slice(more);
        line.ask(method, target, &headers, body)
    }
}
