//! User accounts: sign-up, changes, login, logout, deletion. Each is durable before the response.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Actor, Diary, Keys, told};
use crate::harness::client::{Connection, Heard, Silence};
use crate::harness::durability_model::{AllowedLoss, Class, Fact};
use crate::harness::rng::Rng;

const LOGIN: &str = "/api/login/v2/auth/email";
/// So many accounts at a time, so that each is looked at after every blow.
const PEOPLE: usize = 8;
/// Ended tokens that are tried again.
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
    /// As soon as it was told.
    id: String,
    account: Fact<Option<Account>>,
    /// Whether anything was asked for since it was last looked at.
    touched: bool,
}

#[derive(Clone)]
pub struct People {
    keys: Keys,
    place: u32,
    /// Makes every value a new one.
    nth: u32,
    people: Vec<Person>,
    /// Users and their tokens that are no longer good.
    ended: Vec<(String, String)>,
    diary: Diary,
}

impl People {
    pub fn new(keys: &Keys, place: u32) -> Self {
        Self {
            keys: keys.clone(),
            place,
            nth: 0,
            people: Vec::new(),
            ended: Vec::new(),
            diary: Diary::default(),
        }
    }

    fn fresh(&mut self, what: &str) -> String {
        self.nth += 1;
        format!("{what} {} of {}", self.nth, self.place)
    }

    fn public(&self, line: &mut Connection, method: &str, body: &Value) -> Heard {
        let headers = [("Service-AccessToken", self.keys.partner.as_str())];
        line.ask(method, LOGIN, &headers, body)
    }

    fn own(
        &self,
        line: &mut Connection,
        who: (&str, &str),
        method: &str,
        below: &str,
        body: &Value,
    ) -> Heard {
        let (id, token) = who;
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

    fn sign_up(&mut self, line: &mut Connection) -> Result<(), Silence> {
        self.nth += 1;
        let email = format!("{}-{}@example.com", self.nth, self.place);
        let mut account = Account {
            name: self.fresh("Ann"),
            password: self.fresh("a long way to go"),
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
            touched: true,
        };
        person.account.ask(Some(account.clone()));
        let heard = self.public(line, "PUT", &body);
        if let Ok(answer) = &heard
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
        let heard = heard.map(|answer| self.diary.settle("sign-up", &mut person.account, answer));
        self.people.push(person);
        heard.map(|_| ())
    }

    /// Asks for a change of an account, with one of its tokens.
    fn change(
        &mut self,
        line: &mut Connection,
        at: usize,
        request: (&str, &str, &Value),
        after: Option<Account>,
    ) -> Result<(), Silence> {
        let (method, below, body) = request;
        let mut person = self.people.swap_remove(at);
        let before = person.account.now().clone().expect("an account");
        let token = before.tokens.first().expect("a token").clone();
        person.touched = true;
        person.account.ask(after.clone());
        let heard = self.own(line, (&person.id, &token), method, below, body);
        let what = format!("{method} {below}");
        let heard = heard.map(|answer| self.diary.settle(&what, &mut person.account, answer));
        if let Ok(Some(_)) = &heard {
            let kept = after.map(|account| account.tokens).unwrap_or_default();
            for token in before.tokens.difference(&kept) {
                self.ended.push((person.id.clone(), token.clone()));
            }
        }
        self.people.push(person);
        heard.map(|_| ())
    }

    fn log_in(&mut self, line: &mut Connection, at: usize) -> Result<(), Silence> {
        let person = &self.people[at];
        let mut account = person.account.now().clone().expect("an account");
        let body = json!({"identity": person.email, "accessKey": account.password});
        let answer = self.public(line, "POST", &body)?;
        if let Some(answer) = self.diary.sort("login", answer) {
            account
                .tokens
                .insert(answer.json()["token"].as_str().unwrap().to_owned());
            let fact = &mut self.people[at].account;
            fact.ask(Some(account));
            fact.done();
        }
        Ok(())
    }

    /// What an account is seen to be. Without `deep` only what its tokens show; the rest is taken
    /// from the state that fits.
    fn look(
        &mut self,
        line: &mut Connection,
        person: &mut Person,
        possible: &[Option<Account>],
        deep: bool,
    ) -> Result<Option<Account>, Silence> {
        let known: Vec<&Account> = possible.iter().flatten().collect();
        let tokens: BTreeSet<&String> = known.iter().flat_map(|state| &state.tokens).collect();
        let mut seen = Account {
            name: String::new(),
            password: String::new(),
            pin: None,
            tokens: BTreeSet::new(),
        };
        for token in tokens {
            let read = self.own(line, (&person.id, token), "GET", "", &Value::Null)?;
            match read.status {
                200 => {
                    seen.name = read.json()["name"].as_str().unwrap_or_default().to_owned();
                    seen.tokens.insert(token.clone());
                }
                401 => {}
                _ => self.diary.wrong(&format!("a record: {}", told(&read))),
            }
        }
        let fits = |state: &&&Account| state.name == seen.name && state.tokens == seen.tokens;
        if !deep
            && !seen.tokens.is_empty()
            && let Some(state) = known.iter().find(fits)
        {
            return Ok(Some((*state).clone()));
        }
        let mut opened = None;
        for state in &known {
            let body = json!({"identity": person.email, "accessKey": state.password});
            let answer = self.public(line, "POST", &body)?;
            if answer.status == 200 {
                opened = Some((state.password.clone(), answer.json()));
                break;
            }
            if answer.status != 401 {
                self.diary.wrong(&format!("login: {}", told(&answer)));
            }
        }
        let Some((password, json)) = opened else {
            return Ok((!seen.tokens.is_empty()).then_some(seen));
        };
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        seen.password = password;
        seen.name = text("name");
        person.id = text("userId");
        seen.pin = self.pin(line, (&person.id, &text("token")), &known)?;
        let who = (person.id.as_str(), text("token"));
        self.own(line, (who.0, &who.1), "POST", "logout", &Value::Null)?;
        Ok(Some(seen))
    }

    /// The PIN, found by setting it to itself.
    fn pin(
        &mut self,
        line: &mut Connection,
        who: (&str, &str),
        known: &[&Account],
    ) -> Result<Option<String>, Silence> {
        let pins: BTreeSet<&String> = known.iter().filter_map(|s| s.pin.as_ref()).collect();
        let mut wrong = None;
        for pin in pins {
            let body = json!({"pinCode": pin, "newPinCode": pin});
            let answer = self.own(line, who, "PUT", "/pin", &body)?;
            match told(&answer).as_str() {
                "403 PIN_CODE_WRONG" => wrong = Some("another one".to_owned()),
                _ if answer.status == 200 => return Ok(Some(pin.clone())),
                _ if answer.status == 400 => return Ok(None),
                other => self.diary.wrong(&format!("a PIN: {other}")),
            }
        }
        Ok(wrong)
    }
}

impl Actor for People {
    fn act(&mut self, line: &mut Connection, dice: &mut Rng) -> Result<(), Silence> {
        // What follows on a change that may have been made would have too many ends to tell.
        let usable: Vec<usize> = (0..self.people.len())
            .filter(|at| {
                let account = &self.people[*at].account;
                let tokens = account.now().as_ref().map(|account| &account.tokens);
                !account.is_open() && tokens.is_some_and(|tokens| !tokens.is_empty())
            })
            .collect();
        if usable.len() < 3 || (self.people.len() < PEOPLE && dice.once_in(3)) {
            return self.sign_up(line);
        }
        let at = usable[dice.index(usable.len())];
        let mut after = self.people[at].account.now().clone().expect("an account");
        let token = after.tokens.first().expect("a token").clone();
        match dice.below(12) {
            0..=4 => {
                after.name = self.fresh("Anna");
                let body = json!({"name": after.name});
                self.change(line, at, ("PUT", "", &body), Some(after))
            }
            5 | 6 => {
                let current = after.password;
                after.password = self.fresh("goats gruff and gruffer");
                after.tokens = BTreeSet::from([token]);
                let body = json!({"currentPassword": current, "newPassword": after.password});
                self.change(line, at, ("PUT", "/password", &body), Some(after))
            }
            7 | 8 => {
                let pin = format!("{:06}", dice.below(1_000_000));
                let body = match after.pin.replace(pin.clone()) {
                    Some(present) => json!({"pinCode": present, "newPinCode": pin}),
                    None => json!({"password": after.password, "newPinCode": pin}),
                };
                self.change(line, at, ("PUT", "/pin", &body), Some(after))
            }
            9 => {
                after.tokens.remove(&token);
                self.change(line, at, ("POST", "logout", &Value::Null), Some(after))
            }
            10 if usable.len() > 3 => {
                let body = json!({"password": after.password});
                self.change(line, at, ("DELETE", "", &body), None)
            }
            _ => self.log_in(line, at),
        }
    }

    fn check(
        &mut self,
        line: &mut Connection,
        survival: &AllowedLoss,
        dice: &mut Rng,
    ) -> Result<(), Silence> {
        for mut person in std::mem::take(&mut self.people) {
            let possible = person.account.possible(survival);
            let deep = person.touched || dice.once_in(4);
            let seen = self.look(line, &mut person, &possible, deep)?;
            let tokens = seen.as_ref().map(|account| account.tokens.clone());
            let tokens = tokens.unwrap_or_default();
            let all = possible.iter().flatten().flat_map(|state| &state.tokens);
            let gone: BTreeSet<&String> = all.filter(|token| !tokens.contains(*token)).collect();
            let gone = gone
                .into_iter()
                .map(|token| (person.id.clone(), token.clone()));
            self.ended.extend(gone);
            let what = format!("the account of {}", person.email);
            self.diary
                .judged(person.account.judge(&what, seen, survival));
            person.touched = false;
            if person.account.now().is_some() {
                self.people.push(person);
            }
        }
        let surplus = self.ended.len().saturating_sub(ENDED);
        self.ended.drain(..surplus);
        for (id, token) in self.ended.clone() {
            let read = self.own(line, (&id, &token), "GET", "", &Value::Null)?;
            if read.status != 401 {
                self.diary
                    .lost(&format!("the end of a token: {}", told(&read)));
            }
        }
        // Those who have no token left get one.
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

    fn diary(&mut self) -> &mut Diary {
        &mut self.diary
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
