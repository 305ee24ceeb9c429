//! Changes by operators: operators, tokens of a partner, grants. Each is durable before the response.

use serde_json::{Value, json};

use super::{Actor, Client, Diary, Keys, told};
use crate::harness::client::{Connection, Heard, Silence};
use crate::harness::durability_model::{AllowedLoss, Class, Fact};
use crate::harness::rng::Rng;

/// So many of each at a time.
const MANY: usize = 8;
const OFFERS: [&str; 2] = ["red", "green"];

/// An operator or a partner's token, and what it is good for.
#[derive(Clone)]
struct Key {
    /// The name of an operator, the handle of a token; empty until it was told.
    name: String,
    token: Option<String>,
    good: Fact<bool>,
}

#[derive(Clone)]
pub struct Office {
    keys: Keys,
    nth: u32,
    operators: Vec<Key>,
    tokens: Vec<Key>,
    user: Client,
    /// Whether the user has each of the offers.
    given: Vec<Fact<bool>>,
    catalogue: Vec<u8>,
    diary: Diary,
}

impl Office {
    pub fn new(keys: &Keys, line: &mut Connection) -> Result<Self, Silence> {
        let mut office = Self {
            keys: keys.clone(),
            nth: 0,
            operators: Vec::new(),
            tokens: Vec::new(),
            user: Client::sign_up(keys, line, "office@example.com")?,
            given: vec![Fact::new(Class::Durable, false); OFFERS.len()],
            catalogue: Vec::new(),
            diary: Diary::default(),
        };
        office.catalogue = office.operate(line, "GET", "catalog", &Value::Null)?.body;
        Ok(office)
    }

    fn operate(&self, line: &mut Connection, method: &str, target: &str, body: &Value) -> Heard {
        let target = format!("/admin/v1/{target}");
        line.operate(&self.keys.operator, method, &target, body)
    }

    fn add_operator(&mut self, line: &mut Connection) -> Result<(), Silence> {
        self.nth += 1;
        let name = format!("operator {}", self.nth);
        let mut key = Key {
            name: name.clone(),
            token: None,
            good: Fact::new(Class::Durable, false),
        };
        key.good.ask(true);
        let body = json!({"name": name, "role": "admin"});
        let heard = self.operate(line, "POST", "operators", &body);
        let heard = heard.map(|answer| {
            let answer = self.diary.settle("an operator", &mut key.good, answer);
            key.token = answer.map(|answer| answer.json()["token"].as_str().unwrap().to_owned());
        });
        self.operators.push(key);
        heard
    }

    fn add_token(&mut self, line: &mut Connection) -> Result<(), Silence> {
        let answer = self.operate(line, "POST", "partners/rig/tokens", &Value::Null)?;
        if let Some(answer) = self.diary.sort("a partner's token", answer) {
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

    fn revoke(&mut self, line: &mut Connection, which: Which, at: usize) -> Result<(), Silence> {
        let mut key = which.of(self).swap_remove(at);
        key.good.ask(false);
        let target = match which {
            Which::Operators => format!("operators/{}", key.name.replace(' ', "%20")),
            Which::Tokens => format!("partners/rig/tokens/{}", key.name),
        };
        let heard = self.operate(line, "DELETE", &target, &Value::Null);
        let heard = heard.map(|answer| self.diary.settle("a revocation", &mut key.good, answer));
        which.of(self).push(key);
        heard.map(|_| ())
    }

    fn give_or_take(&mut self, line: &mut Connection, at: usize) -> Result<(), Silence> {
        let has = *self.given[at].now();
        self.given[at].ask(!has);
        let target = format!("users/{}/grants/{}", self.user.id, OFFERS[at]);
        let (method, body) = if has {
            ("DELETE", Value::Null)
        } else {
            ("PUT", json!({}))
        };
        let answer = self.operate(line, method, &target, &body)?;
        self.diary.settle("a grant", &mut self.given[at], answer);
        Ok(())
    }

    fn check_keys(&mut self, line: &mut Connection, survival: &AllowedLoss) -> Result<(), Silence> {
        let listed = self.operate(line, "GET", "operators", &Value::Null)?.json();
        for which in [Which::Operators, Which::Tokens] {
            for mut key in std::mem::take(which.of(self)) {
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
                self.diary.judged(key.good.judge(&what, good, survival));
                if good && key.token.is_some() {
                    which.of(self).push(key);
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
    fn of(self, office: &mut Office) -> &mut Vec<Key> {
        match self {
            Self::Operators => &mut office.operators,
            Self::Tokens => &mut office.tokens,
        }
    }
}

impl Actor for Office {
    fn act(&mut self, line: &mut Connection, dice: &mut Rng) -> Result<(), Silence> {
        let which = if dice.once_in(2) {
            Which::Operators
        } else {
            Which::Tokens
        };
        if dice.once_in(3) {
            return self.give_or_take(line, dice.index(OFFERS.len()));
        }
        let all = which.of(self);
        let held: Vec<usize> = (0..all.len()).filter(|at| *all[*at].good.now()).collect();
        if held.len() >= MANY || (!held.is_empty() && dice.once_in(2)) {
            return self.revoke(line, which, held[dice.index(held.len())]);
        }
        match which {
            Which::Operators => self.add_operator(line),
            Which::Tokens => self.add_token(line),
        }
    }

    fn check(
        &mut self,
        line: &mut Connection,
        survival: &AllowedLoss,
        _: &mut Rng,
    ) -> Result<(), Silence> {
        self.check_keys(line, survival)?;
        let target = format!("users/{}/grants", self.user.id);
        let answer = self.operate(line, "GET", &target, &Value::Null)?;
        if answer.status != 200 {
            self.diary
                .lost(&format!("a user's grants: {}", told(&answer)));
            return Ok(());
        }
        let json = answer.json();
        let lines = json.as_array().unwrap();
        for (offer, fact) in OFFERS.iter().zip(&mut self.given) {
            let active = lines
                .iter()
                .any(|line| line["offerId"] == *offer && line["state"] == "active");
            let what = format!("the grant of {offer}");
            self.diary.judged(fact.judge(&what, active, survival));
        }
        let catalogue = self.operate(line, "GET", "catalog", &Value::Null)?.body;
        if catalogue != self.catalogue {
            self.diary.lost("the catalogue is another one");
        }
        Ok(())
    }

    fn diary(&mut self) -> &mut Diary {
        &mut self.diary
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
