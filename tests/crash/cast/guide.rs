//! Whoever imports the guide: whole, one version after the other, durable before the reply.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Actor, Diary, Keys, told};
use crate::dice::Dice;
use crate::fact::{Class, Fact, Survival};
use crate::line::{Line, Silence};

const LIVESTREAMS: usize = 10;
const DAYS: i64 = 3;
const DAY: i64 = 86_400;
const LENGTH: i64 = 1_800;

#[derive(Clone)]
pub struct Guide {
    keys: Keys,
    /// The start of the first day.
    first: i64,
    /// The version of the guide; the titles tell it.
    version: Fact<u64>,
    diary: Diary,
}

impl Guide {
    pub fn new(keys: &Keys) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        Self {
            keys: keys.clone(),
            first: i64::try_from(now).unwrap() / DAY * DAY,
            version: Fact::new(Class::Durable, 0),
            diary: Diary::default(),
        }
    }

    fn file(&self, version: u64) -> Value {
        let programmes = |_| {
            let starts = (0..DAYS * DAY / LENGTH).map(|n| self.first + n * LENGTH);
            let programme = |start| {
                let title = format!("{version}");
                json!({"title": title, "start": start, "stop": start + LENGTH, "pgAge": 0,
                    "description": format!("version {version} of {start}")})
            };
            starts.map(programme).collect::<Value>()
        };
        (0..LIVESTREAMS)
            .map(|n| (format!("c{n}"), programmes(n)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

impl Actor for Guide {
    fn act(&mut self, line: &mut Line, _: &mut Dice) -> Result<(), Silence> {
        let version = *self.version.now() + 1;
        self.version.ask(version);
        let target = "/admin/v1/epg/import?createLivestreams=true&accept=true";
        let file = self.file(version);
        let answer = line.operate(&self.keys.operator, "POST", target, &file)?;
        self.diary.settle("an import", &mut self.version, answer);
        Ok(())
    }

    fn check(
        &mut self,
        line: &mut Line,
        survival: &Survival,
        _: &mut Dice,
    ) -> Result<(), Silence> {
        let ids: Vec<String> = (0..LIVESTREAMS).map(|n| format!("c{n}")).collect();
        let date = chrono::DateTime::from_timestamp(self.first + DAY, 0).unwrap();
        let target = format!(
            "/api/schedule/v1/broadcasts/day/{}?livestreams={}",
            date.format("%Y-%m-%d"),
            ids.join(",")
        );
        let headers = [("Service-AccessToken", self.keys.partner.as_str())];
        let answer = line.ask("GET", &target, &headers, &Value::Null)?;
        if answer.status != 200 {
            self.diary.lost(&format!("the guide: {}", told(&answer)));
            return Ok(());
        }
        let json = answer.json();
        let days = json.as_object().unwrap();
        let lists: Vec<&Vec<Value>> = days.values().filter_map(Value::as_array).collect();
        let all = lists.iter().copied().flatten();
        let titles: BTreeSet<&str> = all.filter_map(|entry| entry["title"].as_str()).collect();
        let length = usize::try_from(DAY / LENGTH).unwrap();
        let whole = lists.len() == LIVESTREAMS && lists.iter().all(|list| list.len() == length);
        let version = match (whole, titles.first(), titles.len()) {
            (true, Some(title), 1) => title.parse().unwrap(),
            _ => {
                let sizes: Vec<usize> = lists.iter().map(|list| list.len()).collect();
                self.diary.lost(&format!("a guide of {titles:?}, {sizes:?} broadcasts"));
                return Ok(());
            }
        };
        self.diary.judged(self.version.judge("the guide", version, survival));
        Ok(())
    }

    fn diary(&mut self) -> &mut Diary {
        &mut self.diary
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
