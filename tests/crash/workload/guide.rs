//! Imports whole guides, one version after another. Each import is durable before the response.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Actor, ActorReport, Keys, status_and_code};
use crate::harness::client::{Connection, NoResponse};
use crate::harness::durability_model::{AllowedLoss, Class, Fact};
use crate::harness::rng::Rng;

const LIVESTREAMS: usize = 10;
const DAYS: i64 = 3;
const DAY: i64 = 86_400;
const LENGTH: i64 = 1_800;

#[derive(Clone)]
pub struct Guide {
    keys: Keys,
    /// The start of the first day.
    first: i64,
    /// The version of the guide, which is the title of every broadcast.
    version: Fact<u64>,
    report: ActorReport,
}

impl Guide {
    pub fn new(keys: &Keys) -> Self {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
        Self {
            keys: keys.clone(),
            first: i64::try_from(now).unwrap() / DAY * DAY,
            version: Fact::new(Class::Durable, 0),
            report: ActorReport::default(),
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

impl Guide {
    /// Returns the titles of a day, or `None` if it cannot be read or is incomplete.
    fn day(
        &mut self,
        line: &mut Connection,
        day: i64,
    ) -> Result<Option<BTreeSet<String>>, NoResponse> {
        let ids: Vec<String> = (0..LIVESTREAMS).map(|n| format!("c{n}")).collect();
        let date = chrono::DateTime::from_timestamp(self.first + day * DAY, 0).unwrap();
        let target = format!(
            "/api/schedule/v1/broadcasts/day/{}?livestreams={}",
            date.format("%Y-%m-%d"),
            ids.join(",")
        );
        let headers = [("Service-AccessToken", self.keys.partner.as_str())];
        let answer = line.ask("GET", &target, &headers, &Value::Null)?;
        if answer.status != 200 {
            self.report
                .lost(&format!("the guide: {}", status_and_code(&answer)));
            return Ok(None);
        }
        let json = answer.json();
        let lists = json.as_object().unwrap().values();
        let lists: Vec<&Vec<Value>> = lists.filter_map(Value::as_array).collect();
        let sizes: Vec<usize> = lists.iter().map(|list| list.len()).collect();
        // The last TV day ends after the guide does.
        let whole = usize::try_from(DAY / LENGTH).unwrap();
        let least = if day == DAYS - 1 { whole / 2 } else { whole };
        if sizes.len() != LIVESTREAMS || sizes.iter().any(|size| *size < least) {
            self.report
                .lost(&format!("a day of the guide has {sizes:?} broadcasts"));
            return Ok(None);
        }
        let all = lists.into_iter().flatten();
        let titles = all.filter_map(|entry| entry["title"].as_str().map(str::to_owned));
        Ok(Some(titles.collect()))
    }
}

impl Actor for Guide {
    fn act(&mut self, line: &mut Connection, _: &mut Rng) -> Result<(), NoResponse> {
        let version = *self.version.now() + 1;
        self.version.ask(version);
        let target = "/admin/v1/epg/import?createLivestreams=true&accept=true";
        let file = self.file(version);
        let answer = line.operate(&self.keys.operator, "POST", target, &file)?;
        self.report.settle("an import", &mut self.version, answer);
        Ok(())
    }

    fn check(
        &mut self,
        line: &mut Connection,
        allowed_loss: &AllowedLoss,
        _: &mut Rng,
    ) -> Result<(), NoResponse> {
        let mut versions = BTreeSet::new();
        for day in 0..DAYS {
            let Some(titles) = self.day(line, day)? else {
                return Ok(());
            };
            versions.extend(titles);
        }
        match versions.first().map(|title| title.parse()) {
            Some(Ok(version)) if versions.len() == 1 => {
                let result = self.version.judge("the guide", version, allowed_loss);
                self.report.add_result(result);
            }
            _ => self
                .report
                .lost(&format!("a guide of the versions {versions:?}")),
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
