//! The actors: each changes its own data over the interface, keeps a ledger of the responses, and
//! compares it with the stored state after a fault.

mod accounts;
mod guide;
mod operators;
mod playback_client;
mod telemetry;
mod viewer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::appliance::{Appliance, Launch};
use crate::harness::client::{Address, Connection, Heard, Silence};
use crate::harness::durability_model::{AllowedLoss, Fact};
use crate::harness::raw_http::Answer;
use crate::harness::rng::Rng;

pub use playback_client::{Stream, token};

/// The password of those who never change it.
pub const PASSWORD: &str = "a long way to go";

/// What the actors play.
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

/// The tokens that every actor works with.
#[derive(Clone)]
pub struct Keys {
    pub partner: String,
    pub operator: String,
}

/// What an actor found wrong, and how its requests went.
#[derive(Clone, Default)]
pub struct Diary {
    pub problems: Vec<String>,
    pub done: u64,
    /// Answered 503: neither done nor wrong.
    pub unavailable: u64,
}

impl Diary {
    pub fn wrong(&mut self, what: &str) {
        self.problems.push(format!("wrong: {what}"));
    }

    pub fn lost(&mut self, what: &str) {
        self.problems.push(format!("lost: {what}"));
    }

    pub fn judged(&mut self, judgement: Result<(), String>) {
        self.problems.extend(judgement.err());
    }

    /// Sorts an answer: one of success is given on.
    pub fn sort(&mut self, what: &str, answer: Answer) -> Option<Answer> {
        match answer.status {
            200..=299 => {
                self.done += 1;
                return Some(answer);
            }
            503 => self.unavailable += 1,
            _ => self.wrong(&format!("{what}: {}", told(&answer))),
        }
        None
    }

    /// Sorts the answer to a change that was asked for. After a 5xx it may have been made.
    pub fn settle<T: Clone + std::fmt::Debug + PartialEq>(
        &mut self,
        what: &str,
        fact: &mut Fact<T>,
        answer: Answer,
    ) -> Option<Answer> {
        let status = answer.status;
        let done = self.sort(what, answer);
        match status {
            200..=299 => fact.done(),
            ..500 => fact.refused(),
            _ => {}
        }
        done
    }
}

/// Status and code of an answer.
pub fn told(answer: &Answer) -> String {
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let code = body["error"]["code"].as_str().unwrap_or_default();
    format!("{} {code}", answer.status)
}

pub trait Actor: Send + Sync {
    /// Does one thing. An error when there is no answer.
    fn act(&mut self, line: &mut Connection, dice: &mut Rng) -> Result<(), Silence>;

    /// Compares the ledger with what is there, and makes them one again.
    fn check(
        &mut self,
        line: &mut Connection,
        survival: &AllowedLoss,
        dice: &mut Rng,
    ) -> Result<(), Silence>;

    fn diary(&mut self) -> &mut Diary;

    /// The same ledger for another copy of the data directory.
    fn copy(&self) -> Box<dyn Actor>;
}

/// Who works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody but the guide.
    Usual,
    /// The guide too.
    Importing,
    /// Those alone whose changes are logged before the reply and synced after it: otherwise the
    /// sync of somebody else's durable change hides what they would lose.
    Logged,
}

pub struct Workload {
    pub keys: Keys,
    /// Whose changes are durable before the reply.
    durable: Vec<Box<dyn Actor>>,
    /// Whose changes are logged before the reply.
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
    /// Sets a new appliance up, and its actors.
    pub fn new(launch: &Launch, appliance: &Appliance) -> Result<Self, String> {
        let told = |arguments: &[&str], member: &str| {
            let output = launch.run(arguments);
            let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            value[member].as_str().map(str::to_owned).ok_or(error)
        };
        let role = ["operator", "add", "rig", "--role", "admin", "--json"];
        let operator = told(&role, "token")?;
        let partner = told(&["partner", "add", "rig", "--json"], "accessToken")?;
        let keys = Keys { partner, operator };
        let line = &mut appliance.line();
        let gone = |silence| format!("set-up: {silence:?}");
        let target = "/admin/v1/catalog/import";
        let file = Value::String(CATALOGUE.to_owned());
        let imported = line.operate(&keys.operator, "POST", target, &file);
        let imported = imported.map_err(gone)?;
        if imported.status != 200 {
            return Err(told_whole(&imported));
        }
        let mut guide = guide::Guide::new(&keys);
        guide.act(line, &mut Rng::of_nothing()).map_err(gone)?;
        let durable: Vec<Box<dyn Actor>> = vec![
            Box::new(accounts::People::new(&keys, 1)),
            Box::new(accounts::People::new(&keys, 2)),
            Box::new(operators::Office::new(&keys, line).map_err(gone)?),
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

    /// Lets everybody work until nobody hears an answer any more, or `during` is over and wants
    /// no more work.
    pub fn work(&mut self, address: &Address, who: Who, dice: &Rng, during: impl FnOnce()) {
        let enough = AtomicBool::new(false);
        thread::scope(|scope| {
            for (nth, actor) in self.everybody(who).enumerate() {
                let mut dice = dice.split(nth as u64);
                let enough = &enough;
                scope.spawn(move || {
                    let mut line = Connection::to(address);
                    while !enough.load(Ordering::Relaxed) {
                        match actor.act(&mut line, &mut dice) {
                            Ok(()) => pause(&mut dice),
                            Err(Silence::Gone | Silence::Broken(_)) => return,
                            Err(Silence::Hung) => {
                                actor.diary().wrong("a request got no answer");
                                return;
                            }
                        }
                    }
                });
            }
            during();
            enough.store(true, Ordering::Relaxed);
        });
    }

    /// Compares all ledgers with what is there; the sentences about what is not as it may be.
    pub fn check(&mut self, address: &Address, survival: &AllowedLoss, dice: &Rng) -> Vec<String> {
        thread::scope(|scope| {
            for (nth, actor) in self.everybody(Who::Importing).enumerate() {
                let mut dice = dice.split(100 + nth as u64);
                scope.spawn(move || {
                    let mut line = Connection::to(address);
                    if let Err(silence) = actor.check(&mut line, survival, &mut dice) {
                        let what = match silence {
                            Silence::Hung => "hung: a read got no answer".to_owned(),
                            other => format!("no answer while it was read back: {other:?}"),
                        };
                        actor.diary().wrong(&what);
                    }
                });
            }
        });
        let mut problems = self.problems();
        let mut line = Connection::to(address);
        let target = "/admin/v1/store/verify";
        match line.operate(&self.keys.operator, "POST", target, &Value::Null) {
            Ok(answer) if answer.status == 200 && answer.json()["sound"] == true => {}
            Ok(answer) => problems.push(format!("wrong: store verify: {}", told_whole(&answer))),
            Err(silence) => problems.push(format!("wrong: store verify: {silence:?}")),
        }
        problems
    }

    fn everybody(&mut self, who: Who) -> impl Iterator<Item = &mut (dyn Actor + 'static)> {
        let guide: &mut dyn Actor = &mut self.guide;
        let durable = self.durable.iter_mut().filter(move |_| who != Who::Logged);
        let actors = self.logged.iter_mut().chain(durable);
        let guide = (who == Who::Importing).then_some(guide);
        actors.map(|actor| &mut **actor).chain(guide)
    }

    /// What is wrong since the last time this was asked.
    pub fn problems(&mut self) -> Vec<String> {
        let diaries = self.everybody(Who::Importing).map(Actor::diary);
        let of = |diary: &mut Diary| std::mem::take(&mut diary.problems);
        diaries.flat_map(of).collect()
    }

    /// How many requests were done, and how many were answered 503, since the last time.
    pub fn counts(&mut self) -> (u64, u64) {
        self.everybody(Who::Importing)
            .fold((0, 0), |(done, unavailable), actor| {
                let diary = actor.diary();
                let counted = (done + diary.done, unavailable + diary.unavailable);
                (diary.done, diary.unavailable) = (0, 0);
                counted
            })
    }
}

fn told_whole(answer: &Answer) -> String {
    format!(
        "{} {}",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    )
}

/// Between two requests: mostly none, so that commits meet in groups; sometimes so long that one
/// stands alone.
fn pause(dice: &mut Rng) {
    if dice.once_in(3) {
        thread::park_timeout(Duration::from_millis(dice.below(12)));
    }
}

/// The requests of an actor that is somebody's client.
#[derive(Clone)]
pub struct Client {
    keys: Keys,
    user: String,
    pub id: String,
}

impl Client {
    /// A new user.
    pub fn sign_up(keys: &Keys, line: &mut Connection, email: &str) -> Result<Self, Silence> {
        let body = json!({"identity": email, "accessKey": PASSWORD});
        let headers = [("Service-AccessToken", keys.partner.as_str())];
        let answer = line.ask("PUT", "/api/login/v2/auth/email", &headers, &body)?;
        assert_eq!(answer.status, 200, "{}", told_whole(&answer));
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
    ) -> Heard {
        let bearer = format!("Bearer {}", self.user);
        let mut headers = vec![
            ("Service-AccessToken", self.keys.partner.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        headers.extend_from_slice(more);
        line.ask(method, target, &headers, body)
    }
}
