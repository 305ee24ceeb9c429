//! One player that sends telemetry, which is logged before the response.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::{Actor, ActorReport, Client, Keys, status_and_code};
use crate::harness::client::{Connection, NoResponse};
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::Rng;

const EVENTS: &str = "/api/tracker/v1/telemetry-events";
const LENGTH: i64 = 20;
const MANY: i64 = 6_000;

#[derive(Clone)]
struct Batch {
    first: i64,
    /// When the first attempt was sent, in Unix seconds. A kill can split a batch, whose events then have two receive
    /// times.
    sent: u64,
    answered: Option<Instant>,
}

#[derive(Clone)]
pub struct Reporter {
    user: Client,
    next: i64,
    /// The batches since the last check.
    recent: Vec<Batch>,
    /// Every event below this number has been found by a check.
    proven: i64,
    /// Whether there was a check before.
    checked: bool,
    /// Whether the next batch was answered 503 before: some of its events may have been stored.
    unsure: bool,
    report: ActorReport,
}

impl Reporter {
    pub fn new(keys: &Keys, line: &mut Connection) -> Result<Self, NoResponse> {
        Ok(Self {
            user: Client::sign_up(keys, line, "reporter@example.com")?,
            next: 0,
            recent: Vec::new(),
            proven: 0,
            checked: false,
            unsure: false,
            report: ActorReport::default(),
        })
    }

    /// Sends a batch. Returns how many events were accepted and how many were duplicates.
    fn send(
        &mut self,
        line: &mut Connection,
        first: i64,
    ) -> Result<Option<(i64, i64)>, NoResponse> {
        let event = |sequence| {
            json!({
                "timestamp": 1_800_000_000,
                "action": "playback_position",
                "seqId": sequence,
                "context": {"device_id": "tv"},
                // Makes writes large enough that a fault can tear one.
                "extra": {"filling": "x".repeat(300)},
            })
        };
        let batch: Vec<Value> = (first..first + LENGTH).map(event).collect();
        let answer = self
            .user
            .ask(line, "POST", EVENTS, &[], &Value::from(batch))?;
        let Some(answer) = self.report.count("telemetry", answer) else {
            return Ok(None);
        };
        let json = answer.json();
        let of = |name: &str| json[name].as_i64().unwrap_or(-1);
        Ok(Some((of("accepted"), of("duplicates"))))
    }

    /// Returns how often each event is kept that was received at or after `from`.
    fn export(
        &mut self,
        line: &mut Connection,
        from: u64,
    ) -> Result<BTreeMap<i64, u32>, NoResponse> {
        let target = format!(
            "/admin/v1/telemetry/events?user={}&from={from}",
            self.user.id
        );
        let token = &self.user.keys.operator;
        let answer = line.operate(token, "GET", &target, &Value::Null)?;
        let mut found = BTreeMap::new();
        if answer.status != 200 {
            self.report
                .wrong(&format!("an export: {}", status_and_code(&answer)));
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
    fn act(&mut self, line: &mut Connection, rng: &mut Rng) -> Result<(), NoResponse> {
        if !rng.once_in(3) {
            std::thread::park_timeout(std::time::Duration::from_millis(rng.below(20)));
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
                .report
                .wrong(&format!("new events are counted {other:?}")),
            // Not acknowledged, so the same batch is sent again.
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
        allowed_loss: &AllowedLoss,
        rng: &mut Rng,
    ) -> Result<(), NoResponse> {
        // A full export grows with every round, so only some checks make one.
        let all = !self.checked || self.next < MANY || rng.once_in(8);
        self.checked = true;
        let oldest = self.recent.iter().map(|batch| batch.sent).min();
        let from = if all {
            0
        } else {
            oldest.unwrap_or(10_000_000_000) - 1
        };
        let found = self.export(line, from)?;
        let of = |sequence| found.get(&sequence).copied().unwrap_or(0);
        for (sequence, times) in &found {
            if *times > 1 || !(0..self.next).contains(sequence) {
                self.report
                    .wrong(&format!("event {sequence} is kept {times} times"));
            }
        }
        let missing = (0..self.proven)
            .filter(|sequence| of(*sequence) == 0)
            .count();
        if all && missing > 0 {
            self.report
                .lost(&format!("{missing} events that were there before"));
        }
        for batch in std::mem::take(&mut self.recent) {
            let first = batch.first;
            let kept: u32 = (first..first + LENGTH).map(|n| of(n).min(1)).sum();
            let sure = batch.answered.is_some_and(|at| allowed_loss.keeps(at));
            if sure && i64::from(kept) < LENGTH {
                let text = format!("{} of the events from {first}", LENGTH - i64::from(kept));
                self.report.lost(&text);
            }
            if i64::from(kept) == LENGTH && !rng.once_in(4) {
                continue;
            }
            // A player sends again what was not acknowledged; events that are stored count as duplicates.
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
                    self.report.wrong(&text);
                }
            }
        }
        self.proven = self.recent.first().map_or(self.next, |batch| batch.first);
        Ok(())
    }

    fn report(&mut self) -> &mut ActorReport {
        &mut self.report
    }

    fn copy(&self) -> Box<dyn Actor> {
        Box::new(self.clone())
    }
}
