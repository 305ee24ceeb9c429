//! Changes by operators: operators, tokens of a partner, grants. Each is durable before the response.

use serde_json::{Value, json};

use super::{Actor, ActorReport, Client, Keys, status_and_code};
use crate::harness::client::{Connection, NoResponse, Response};
use crate::harness::durability_model::{AllowedLoss, Class, Fact};
use crate::harness::rng::Rng;

/// How many operators and how many tokens exist at a time.
const MANY: usize = 8;
const OFFERS: [&str; 2] = ["red", "green"];

/// An operator or a token of a partner.
#[derive(Clone)]
struct Key {
    /// The name of an operator or the id of a token.
    name: String,
    token: Option<String>,
    good: Fact<bool>,
}

#[derive(Clone)]
pub struct OperatorActor {
    keys: Keys,
    nth: u32,
    operators: Vec<Key>,
    tokens: Vec<Key>,
    user: Client,
    /// Whether the user has each of the offers.
    granted: Vec<Fact<bool>>,
    catalogue: Vec<u8>,
    report: ActorReport,
}

impl OperatorActor {
    pub fn new(keys: &Keys, line: &mut Connection) -> Result<Self, NoResponse> {
        let mut actor = Self {
            keys: keys.clone(),
            nth: 0,
            operators: Vec::new(),
            tokens: Vec::new(),
            user: Client::sign_up(keys, line, "grants@example.com")?,
            granted: vec![Fact::new(Class::Durable, false); OFFERS.len()],
            catalogue: Vec::new(),
            report: ActorReport::default(),
        };
        actor.catalogue = actor.operate(line, "GET", "catalog", &Value::Null)?.body;
        Ok(actor)
    }

    fn operate(&self, line: &mut Connection, method: &str, target: &str, body: &Value) -> Response {
        let target = format!("/admin/v1/{target}");
        line.operate(&self.keys.operator, method, &target, body)
    }

    fn add_operator(&mut self, line: &mut Connection) -> Result<(), NoResponse> {
        self.nth += 1;
        let name = format!("operator {}", self.nth);
        let mut key = Key {
            name: name.clone(),
            token: None,
            good: Fact::new(Class::Durable, false),
        };
        key.good.ask(true);
        let body = json!({"name": name, "role": "admin"});
        let response = self.operate(line, "POST", "operators", &body);
        let response = response.map(|answer| {
            let answer = self.report.settle("an operator", &mut key.good, answer);
            key.token = answer.map(|answer| answer.json()["token"].as_str().unwrap().to_owned());
        });
        self.operators.push(key);
        response
    }

    fn add_token(&mut self, line: &mut Connection) -> Result<(), NoResponse> {
        let answer = self.operate(line, "POST", "partners/rig/tokens", &Value::Null)?;
        if let Some(answer) = self.report.count("a partner's token", answer) {
            let json = answer.json();
            let text = |name: &str| json[name].as_str().unwrap().to_owned();
            self.tokens.push(Key {
                name: text("tokenId"),
                token: Some(text("accessToken")),
                good: Fact::new(Class::Durable, true),
            });
        }
        Ok(())
    }

    fn revoke(&mut self, line: &mut Connection, which: Which, at: usize) -> Result<(), NoResponse> {
        let mut key = which.keys(self).swap_remove(at);
        key.good.ask(false);
        let target = match which {
            Which::Operators => format!("operators/{}", key.name.replace(' ', "%20")),
            Which::Tokens => format!("partners/rig/tokens/{}", key.name),
        };
        let response = self.operate(line, "DELETE", &target, &Value::Null);
        let response =
            response.map(|answer| self.report.settle("a revocation", &mut key.good, answer));
        which.keys(self).push(key);
        response.map(|_| ())
    }

    fn toggle_grant(&mut self, line: &mut Connection, at: usize) -> Result<(), NoResponse> {
        let has = *self.granted[at].now();
        self.granted[at].ask(!has);
        let target = format!("users/{}/grants/{}", self.user.id, OFFERS[at]);
        let (method, body) = if has {
            ("DELETE", Value::Null)
        } else {
            ("PUT", json!({}))
        };
        let answer = self.operate(line, method, &target, &body)?;
        self.report.settle("a grant", &mut self.granted[at], answer);
        Ok(())
    }

    fn check_keys(
        &mut self,
        line: &mut Connection,
        allowed_loss: &AllowedLoss,
    ) -> Result<(), NoResponse> {
        let listed = self.operate(line, "GET", "operators", &Value::Null)?.json();
        for which in [Which::Operators, Which::Tokens] {
            for mut key in std::mem::take(which.keys(self)) {
                let good = match (&key.token, which) {
                    (Some(token), Which::Operators) => {
                        let target = "/admin/v1/operators";
                        line.operate(token, "GET", target, &Value::Null)?.status == 200
                    }
                    (Some(token), Which::Tokens) => {
                        let headers = [("Service-AccessToken", token.as_str())];
                        let target = "/api/catalog/v1/livestreams";
                        line.ask("GET", target, &headers, &Value::Null)?.status == 200
                    }
                    (None, _) => {
                        let names = listed.as_array().into_iter().flatten();
                        names
                            .into_iter()
                            .any(|entry| entry["name"] == key.name.as_str())
                    }
                };
                let what = format!("the key {}", key.name);
                self.report
                    .add_result(key.good.judge(&what, good, allowed_loss));
                if good && key.token.is_some() {
                    which.keys(self).push(key);
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Which {
    Operators,
    Tokens,
}

impl Which {
    fn keys(self, actor: &mut OperatorActor) -> &mut Vec<Key> {
        match self {
            Self::Operators => &mut actor.operators,
            Self::Tokens => &mut actor.tokens,
        }
    }
}

impl Actor for OperatorActor {
    fn act(&mut self, line: &mut Connection, rng: &mut Rng) -> Result<(), NoResponse> {
        let which = if rng.once_in(2) {
            Which::Operators
        } else {
            Which::Tokens
        };
        if rng.once_in(3) {
            return self.toggle_grant(line, rng.index(OFFERS.len()));
        }
        let all = which.keys(self);
        let valid: Vec<usize> = (0..all.len()).filter(|at| *all[*at].good.now()).collect();
        if valid.len() >= MANY || (!valid.is_empty() && rng.once_in(2)) {
            return self.revoke(line, which, valid[rng.index(valid.len())]);
        }
        match which {
            Which::Operators => self.add_operator(line),
            Which::Tokens => self.add_token(line),
        }
    }

    fn check(
        &mut self,
        line: &mut Connection,
        allowed_loss: &AllowedLoss,
        _: &mut Rng,
    ) -> Result<(), NoResponse> {
        self.check_keys(line, allowed_loss)?;
        let target = format!("users/{}/grants", self.user.id);
        let answer = self.operate(line, "GET", &target, &Value::Null)?;
        if answer.status != 200 {
            self.report
                .lost(&format!("a user's grants: {}", status_and_code(&answer)));
            return Ok(());
        }
        let json = answer.json();
        let lines = json.as_array().unwrap();
        for (offer, fact) in OFFERS.iter().zip(&mut self.granted) {
            let active = lines
                .iter()
                .any(|line| line["offerId"] == *offer && line["state"] == "active");
            let what = format!("the grant of {offer}");
            self.report
                .add_result(fact.judge(&what, active, allowed_loss));
        }
        let catalogue = self.operate(line, "GET", "catalog", &Value::Null)?.body;
        if catalogue != self.catalogue {
            self.report.lost("the catalogue differs");
        }
        Ok(())
    }

    fn report(&mut self) -> &mut ActorReport {
        &mut self.report
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
