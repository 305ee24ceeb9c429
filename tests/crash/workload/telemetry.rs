//! One player that sends telemetry, which is logged before the response.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Actor, Client, Diary, Keys, told};
use crate::harness::client::{Connection, Silence};
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::Rng;

const EVENTS: &str = "/api/tracker/v1/telemetry-events";
const LENGTH: i64 = 20;
const MANY: i64 = 6_000;

#[derive(Clone)]
struct Batch {
    first: i64,
    /// When any of it was sent first, in Unix seconds: a kill can part a batch, and then its events
    /// were received at two times.
    sent: u64,
    /// When it was answered.
    answered: Option<Instant>,
}

#[derive(Clone)]
pub struct Reporter {
    user: Client,
    next: i64,
    /// Those since they were last looked at.
    recent: Vec<Batch>,
    /// Every event below this number was found after a blow.
    proven: i64,
    /// Whether it was looked at before.
    looked: bool,
    /// Whether the next batch was answered 503 before: some of it may have been taken.
    unsure: bool,
    diary: Diary,
}

impl Reporter {
    pub fn new(keys: &Keys, line: &mut Connection) -> Result<Self, Silence> {
        Ok(Self {
            user: Client::sign_up(keys, line, "reporter@example.com")?,
            next: 0,
            recent: Vec::new(),
            proven: 0,
            looked: false,
            unsure: false,
            diary: Diary::default(),
        })
    }

    /// Sends a batch: how many events were accepted and how many were known.
    fn send(&mut self, line: &mut Connection, first: i64) -> Result<Option<(i64, i64)>, Silence> {
        let event = |sequence| {
            json!({
                "timestamp": 1_800_000_000,
                "action": "playback_position",
                "seqId": sequence,
                "context": {"device_id": "tv"},
                // A write of some length, so that a blow has something to tear.
                "extra": {"filling": "x".repeat(300)},
            })
        };
        let batch: Vec<Value> = (first..first + LENGTH).map(event).collect();
        let answer = self
            .user
            .ask(line, "POST", EVENTS, &[], &Value::from(batch))?;
        let Some(answer) = self.diary.sort("telemetry", answer) else {
            return Ok(None);
        };
        let json = answer.json();
        let of = |name: &str| json[name].as_i64().unwrap_or(-1);
        Ok(Some((of("accepted"), of("duplicates"))))
    }

    /// The events that were received from then on and are kept, each with how often.
    fn exported(
        &mut self,
        line: &mut Connection,
        from: u64,
    ) -> Result<BTreeMap<i64, u32>, Silence> {
        let target = format!(
            "/admin/v1/telemetry/events?user={}&from={from}",
            self.user.id
        );
        let token = &self.user.keys.operator;
        let answer = line.operate(token, "GET", &target, &Value::Null)?;
        let mut found = BTreeMap::new();
        if answer.status != 200 {
            self.diary.wrong(&format!("an export: {}", told(&answer)));
        }
        for line in String::from_utf8_lossy(&answer.body).lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            let sequence = line["event"]["seqId"].as_i64().unwrap_or(-1);
            *found.entry(sequence).or_default() += 1;
        }
        Ok(found)
    }
}

impl Actor for Reporter {
    fn act(&mut self, line: &mut Connection, dice: &mut Rng) -> Result<(), Silence> {
        if !dice.once_in(3) {
            std::thread::park_timeout(std::time::Duration::from_millis(dice.below(20)));
        }
        let first = self.next;
        self.next += LENGTH;
        self.recent.push(Batch {
            first,
            sent: std::time::UNIX_EPOCH.elapsed().unwrap().as_secs(),
            answered: None,
        });
        match self.send(line, first)? {
            Some((new, known)) if new + known == LENGTH && (known == 0 || self.unsure) => {
                self.unsure = false;
                self.recent.last_mut().unwrap().answered = Some(Instant::now());
            }
            Some(other) => self
                .diary
                .wrong(&format!("new events are counted {other:?}")),
            // Not taken, so that it comes again.
            None => {
                self.next = first;
                self.unsure = true;
                self.recent.pop();
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        line: &mut Connection,
        survival: &AllowedLoss,
        dice: &mut Rng,
    ) -> Result<(), Silence> {
        // Of many all only now and then: there are more with every round.
        let all = !self.looked || self.next < MANY || dice.once_in(8);
        self.looked = true;
        let oldest = self.recent.iter().map(|batch| batch.sent).min();
        let from = if all {
            0
        } else {
            oldest.unwrap_or(10_000_000_000) - 1
        };
        let found = self.exported(line, from)?;
        let of = |sequence| found.get(&sequence).copied().unwrap_or(0);
        for (sequence, times) in &found {
            if *times > 1 || !(0..self.next).contains(sequence) {
                self.diary
                    .wrong(&format!("event {sequence} is kept {times} times"));
            }
        }
        let missing = (0..self.proven)
            .filter(|sequence| of(*sequence) == 0)
            .count();
        if all && missing > 0 {
            self.diary
                .lost(&format!("{missing} events that were there before"));
        }
        for batch in std::mem::take(&mut self.recent) {
            let first = batch.first;
            let kept: u32 = (first..first + LENGTH).map(|n| of(n).min(1)).sum();
            let sure = batch.answered.is_some_and(|at| survival.keeps(at));
            if sure && i64::from(kept) < LENGTH {
                let text = format!("{} of the events from {first}", LENGTH - i64::from(kept));
                self.diary.lost(&text);
            }
            if i64::from(kept) == LENGTH && !dice.once_in(4) {
                continue;
            }
            // The player sends again what it is not sure of; what is there is known.
            match self.send(line, first)? {
                Some((accepted, known))
                    if known == i64::from(kept) && accepted + known == LENGTH =>
                {
                    if accepted > 0 {
                        let answered = Some(Instant::now());
                        self.recent.push(Batch { answered, ..batch });
                    }
                }
                other => {
                    let text = format!("of {kept} events from {first} the server knows {other:?}");
                    self.diary.wrong(&text);
                }
            }
        }
        self.proven = self.recent.first().map_or(self.next, |batch| batch.first);
        Ok(())
    }

    fn diary(&mut self) -> &mut Diary {
        &mut self.diary
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
