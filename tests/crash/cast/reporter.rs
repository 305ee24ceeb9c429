//! One player that reports: telemetry, which is logged before the reply.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Actor, Client, Diary, Keys, told};
use crate::dice::Dice;
use crate::fact::Survival;
use crate::line::{Line, Silence};

const EVENTS: &str = "/api/tracker/v1/telemetry-events";
const BATCH: i64 = 20;
const MANY: i64 = 6_000;

#[derive(Clone)]
pub struct Reporter {
    user: Client,
    next: i64,
    /// Batches since they were last looked at: their first sequence number, and when they were
    /// answered.
    recent: Vec<(i64, Option<Instant>)>,
    /// Every batch below this number was found after a blow.
    proven: i64,
    /// When it was last looked at, in Unix seconds.
    looked: u64,
    diary: Diary,
}

impl Reporter {
    pub fn new(keys: &Keys, line: &mut Line) -> Result<Self, Silence> {
        Ok(Self {
            user: Client::sign_up(keys, line, "reporter@example.com")?,
            next: 0,
            recent: Vec::new(),
            proven: 0,
            looked: 0,
            diary: Diary::default(),
        })
    }

    /// Sends a batch: how many events were accepted and how many were known.
    fn send(&mut self, line: &mut Line, first: i64) -> Result<Option<(i64, i64)>, Silence> {
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
        let batch: Vec<Value> = (first..first + BATCH).map(event).collect();
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
    fn exported(&mut self, line: &mut Line, from: u64) -> Result<BTreeMap<i64, u32>, Silence> {
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
    fn act(&mut self, line: &mut Line, dice: &mut Dice) -> Result<(), Silence> {
        if !dice.once_in(3) {
            std::thread::park_timeout(std::time::Duration::from_millis(dice.below(20)));
        }
        let first = self.next;
        self.next += BATCH;
        self.recent.push((first, None));
        match self.send(line, first)? {
            Some((BATCH, 0)) => self.recent.last_mut().unwrap().1 = Some(Instant::now()),
            Some(other) => self
                .diary
                .wrong(&format!("new events are counted {other:?}")),
            // Not taken, so that it comes again.
            None => {
                self.next = first;
                self.recent.pop();
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        line: &mut Line,
        survival: &Survival,
        dice: &mut Dice,
    ) -> Result<(), Silence> {
        // Of many all only now and then: there are more with every round.
        let all = self.looked == 0 || self.next < MANY || dice.once_in(8);
        let from = if all { 0 } else { self.looked - 1 };
        self.looked = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
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
        for (first, answered) in std::mem::take(&mut self.recent) {
            let kept: u32 = (first..first + BATCH).map(|n| of(n).min(1)).sum();
            let sure = answered.is_some_and(|at| survival.keeps(at));
            if sure && i64::from(kept) < BATCH {
                let text = format!("{} of the events from {first}", BATCH - i64::from(kept));
                self.diary.lost(&text);
            }
            if i64::from(kept) == BATCH && !dice.once_in(4) {
                continue;
            }
            // The player sends again what it is not sure of; what is there is known.
            match self.send(line, first)? {
                Some((accepted, known))
                    if known == i64::from(kept) && accepted + known == BATCH =>
                {
                    if accepted > 0 {
                        self.recent.push((first, Some(Instant::now())));
                    }
                }
                other => {
                    let text = format!("of {kept} events from {first} the server knows {other:?}");
                    self.diary.wrong(&text);
                }
            }
        }
        self.proven = self.recent.first().map_or(self.next, |(first, _)| *first);
        Ok(())
    }

    fn diary(&mut self) -> &mut Diary {
        &mut self.diary
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
