//! User accounts: sign-up, changes, login, logout, deletion. Each change is durable before the response.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Actor, ActorReport, Keys, status_and_code};
use crate::harness::client::{Connection, NoResponse, Response};
use crate::harness::durability_model::{AllowedLoss, Class, Fact};
use crate::harness::rng::Rng;

const LOGIN: &str = "/api/login/v2/auth/email";
/// A small number, so that each account is checked after every fault.
const PEOPLE: usize = 8;
/// How many ended tokens are checked again.
const ENDED: usize = 12;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    name: String,
    password: String,
    pin: Option<String>,
    tokens: BTreeSet<String>,
}

#[derive(Clone)]
struct Person {
    email: String,
    /// Known once a response contained it.
    id: String,
    account: Fact<Option<Account>>,
    /// Whether a change of the password or the PIN was requested since the last check. Only a login shows these.
    secret_changed: bool,
}

#[derive(Clone)]
pub struct People {
    keys: Keys,
    instance: u32,
    /// Makes every value unique.
    nth: u32,
    people: Vec<Person>,
    /// Users with tokens that have ended.
    ended: Vec<(String, String)>,
    report: ActorReport,
}

impl People {
    pub fn new(keys: &Keys, instance: u32) -> Self {
        Self {
            keys: keys.clone(),
            instance,
            nth: 0,
            people: Vec::new(),
            ended: Vec::new(),
            report: ActorReport::default(),
        }
    }

    fn unique(&mut self, what: &str) -> String {
        self.nth += 1;
        format!("{what} {} of {}", self.nth, self.instance)
    }

    fn ask_login(&self, line: &mut Connection, method: &str, body: &Value) -> Response {
        let headers = [("Service-AccessToken", self.keys.partner.as_str())];
        line.ask(method, LOGIN, &headers, body)
    }

    fn ask_as_user(
        &self,
        line: &mut Connection,
        user: (&str, &str),
        method: &str,
        below: &str,
        body: &Value,
    ) -> Response {
        let (id, token) = user;
        let bearer = format!("Bearer {token}");
        let headers = [
            ("Service-AccessToken", self.keys.partner.as_str()),
            ("Authorization", bearer.as_str()),
        ];
        let target = match below {
            "logout" => "/api/login/v2/auth/logout".to_owned(),
            below => format!("/api/user/v1/users/{id}{below}"),
        };
        line.ask(method, &target, &headers, body)
    }

    fn sign_up(&mut self, line: &mut Connection) -> Result<(), NoResponse> {
        self.nth += 1;
        let email = format!("{}-{}@example.com", self.nth, self.instance);
        let mut account = Account {
            name: self.unique("Ann"),
            password: self.unique("a long way to go"),
            pin: None,
            tokens: BTreeSet::new(),
        };
        let body = json!({
            "identity": email, "accessKey": account.password, "name": account.name,
        });
        let mut person = Person {
            email,
            id: String::new(),
            account: Fact::new(Class::Durable, None),
            secret_changed: false,
        };
        person.account.ask(Some(account.clone()));
        let response = self.ask_login(line, "PUT", &body);
        if let Ok(answer) = &response
            && answer.status == 200
        {
            let json = answer.json();
            person.id = json["userId"].as_str().unwrap().to_owned();
            account
                .tokens
                .insert(json["token"].as_str().unwrap().to_owned());
            person.account.refused();
            person.account.ask(Some(account));
        }
        let response =
            response.map(|answer| self.report.settle("sign-up", &mut person.account, answer));
        self.people.push(person);
        response.map(|_| ())
    }

    /// Requests a change of an account with one of its tokens.
    fn change(
        &mut self,
        line: &mut Connection,
        at: usize,
        request: (&str, &str, &Value),
        after: Option<Account>,
    ) -> Result<(), NoResponse> {
        let (method, below, body) = request;
        let mut person = self.people.swap_remove(at);
        let before = person.account.now().clone().expect("an account");
        let token = before.tokens.first().expect("a token").clone();
        person.secret_changed |= after
            .as_ref()
            .is_some_and(|after| (&after.password, &after.pin) != (&before.password, &before.pin));
        person.account.ask(after.clone());
        let response = self.ask_as_user(line, (&person.id, &token), method, below, body);
        let what = format!("{method} {below}");
        let response =
            response.map(|answer| self.report.settle(&what, &mut person.account, answer));
        if let Ok(Some(_)) = &response {
            let kept = after.map(|account| account.tokens).unwrap_or_default();
            for token in before.tokens.difference(&kept) {
                self.ended.push((person.id.clone(), token.clone()));
            }
        }
        self.people.push(person);
        response.map(|_| ())
    }

    fn log_in(&mut self, line: &mut Connection, at: usize) -> Result<(), NoResponse> {
        let person = &self.people[at];
        let mut account = person.account.now().clone().expect("an account");
        let body = json!({"identity": person.email, "accessKey": account.password});
        let answer = self.ask_login(line, "POST", &body)?;
        if let Some(answer) = self.report.count("login", answer) {
            account
                .tokens
                .insert(answer.json()["token"].as_str().unwrap().to_owned());
            let fact = &mut self.people[at].account;
            fact.ask(Some(account));
            fact.done();
        }
        Ok(())
    }

    /// Returns the observed state of an account. Unless `deep`, only its tokens are tried, since each login costs the
    /// server a password hash; the rest is taken from the possible state that fits.
    fn observe(
        &mut self,
        line: &mut Connection,
        person: &mut Person,
        possible: &[Option<Account>],
        deep: bool,
    ) -> Result<Option<Account>, NoResponse> {
        let known: Vec<&Account> = possible.iter().flatten().collect();
        let tokens: BTreeSet<&String> = known.iter().flat_map(|state| &state.tokens).collect();
        let mut seen = Account {
            name: String::new(),
            password: String::new(),
            pin: None,
            tokens: BTreeSet::new(),
        };
        for token in tokens {
            let read = self.ask_as_user(line, (&person.id, token), "GET", "", &Value::Null)?;
            match read.status {
                200 => {
                    seen.name = read.json()["name"].as_str().unwrap_or_default().to_owned();
                    seen.tokens.insert(token.clone());
                }
                401 => {}
                _ => self
                    .report
                    .wrong(&format!("a record: {}", status_and_code(&read))),
            }
        }
        let fits = |state: &&&Account| state.name == seen.name && state.tokens == seen.tokens;
        if !deep
            && !seen.tokens.is_empty()
            && let Some(state) = known.iter().find(fits)
        {
            return Ok(Some((*state).clone()));
        }
        let mut login = None;
        for state in &known {
            let body = json!({"identity": person.email, "accessKey": state.password});
            let answer = self.ask_login(line, "POST", &body)?;
            if answer.status == 200 {
                login = Some((state.password.clone(), answer.json()));
                break;
            }
            if answer.status != 401 {
                self.report
                    .wrong(&format!("login: {}", status_and_code(&answer)));
            }
        }
        let Some((password, json)) = login else {
            return Ok((!seen.tokens.is_empty()).then_some(seen));
        };
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        seen.password = password;
        seen.name = text("name");
        person.id = text("userId");
        seen.pin = self.pin(line, (&person.id, &text("token")), &known)?;
        let user = (person.id.as_str(), text("token"));
        self.ask_as_user(line, (user.0, &user.1), "POST", "logout", &Value::Null)?;
        Ok(Some(seen))
    }

    /// Finds the PIN by setting it to itself.
    fn pin(
        &mut self,
        line: &mut Connection,
        user: (&str, &str),
        known: &[&Account],
    ) -> Result<Option<String>, NoResponse> {
        let pins: BTreeSet<&String> = known.iter().filter_map(|s| s.pin.as_ref()).collect();
        let mut wrong = None;
        for pin in pins {
            let body = json!({"pinCode": pin, "newPinCode": pin});
            let answer = self.ask_as_user(line, user, "PUT", "/pin", &body)?;
            match status_and_code(&answer).as_str() {
                "403 PIN_CODE_WRONG" => wrong = Some("another one".to_owned()),
                _ if answer.status == 200 => return Ok(Some(pin.clone())),
                _ if answer.status == 400 => return Ok(None),
                other => self.report.wrong(&format!("a PIN: {other}")),
            }
        }
        Ok(wrong)
    }
}

impl Actor for People {
    fn act(&mut self, line: &mut Connection, rng: &mut Rng) -> Result<(), NoResponse> {
        // Further changes after one whose outcome is unknown would multiply the possible states.
        let usable: Vec<usize> = (0..self.people.len())
            .filter(|at| {
                let account = &self.people[*at].account;
                let tokens = account.now().as_ref().map(|account| &account.tokens);
                !account.is_open() && tokens.is_some_and(|tokens| !tokens.is_empty())
            })
            .collect();
        if usable.len() < 3 || (self.people.len() < PEOPLE && rng.once_in(3)) {
            return self.sign_up(line);
        }
        let at = usable[rng.index(usable.len())];
        let mut after = self.people[at].account.now().clone().expect("an account");
        let token = after.tokens.first().expect("a token").clone();
        // Most changes need no password hash, so that the server spends its time on commits.
        match rng.below(24) {
            0..=14 => {
                after.name = self.unique("Anna");
                let body = json!({"name": after.name});
                self.change(line, at, ("PUT", "", &body), Some(after))
            }
            15 | 16 => {
                let current = after.password;
                after.password = self.unique("goats gruff and gruffer");
                after.tokens = BTreeSet::from([token]);
                let body = json!({"currentPassword": current, "newPassword": after.password});
                self.change(line, at, ("PUT", "/password", &body), Some(after))
            }
            17 | 18 => {
                let pin = format!("{:06}", rng.below(1_000_000));
                let body = match after.pin.replace(pin.clone()) {
                    Some(present) => json!({"pinCode": present, "newPinCode": pin}),
                    None => json!({"password": after.password, "newPinCode": pin}),
                };
                self.change(line, at, ("PUT", "/pin", &body), Some(after))
            }
            19 | 20 => {
                after.tokens.remove(&token);
                self.change(line, at, ("POST", "logout", &Value::Null), Some(after))
            }
            21 if usable.len() > 3 => {
                let body = json!({"password": after.password});
                self.change(line, at, ("DELETE", "", &body), None)
            }
            _ => self.log_in(line, at),
        }
    }

    fn check(
        &mut self,
        line: &mut Connection,
        allowed_loss: &AllowedLoss,
        rng: &mut Rng,
    ) -> Result<(), NoResponse> {
        for mut person in std::mem::take(&mut self.people) {
            let possible = person.account.possible(allowed_loss);
            let deep = person.secret_changed || rng.once_in(4);
            let seen = self.observe(line, &mut person, &possible, deep)?;
            let tokens = seen.as_ref().map(|account| account.tokens.clone());
            let tokens = tokens.unwrap_or_default();
            let all = possible.iter().flatten().flat_map(|state| &state.tokens);
            let gone: BTreeSet<&String> = all.filter(|token| !tokens.contains(*token)).collect();
            let gone = gone
                .into_iter()
                .map(|token| (person.id.clone(), token.clone()));
            self.ended.extend(gone);
            let what = format!("the account of {}", person.email);
            self.report
                .add_result(person.account.judge(&what, seen, allowed_loss));
            person.secret_changed = false;
            if person.account.now().is_some() {
                self.people.push(person);
            }
        }
        let surplus = self.ended.len().saturating_sub(ENDED);
        self.ended.drain(..surplus);
        for (id, token) in self.ended.clone() {
            let read = self.ask_as_user(line, (&id, &token), "GET", "", &Value::Null)?;
            if read.status != 401 {
                self.report
                    .lost(&format!("the end of a token: {}", status_and_code(&read)));
            }
        }
        // Accounts without a token get one, so that they can be used again.
        for at in 0..self.people.len() {
            let account = self.people[at].account.now();
            if account
                .as_ref()
                .is_some_and(|account| account.tokens.is_empty())
            {
                self.log_in(line, at)?;
            }
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
