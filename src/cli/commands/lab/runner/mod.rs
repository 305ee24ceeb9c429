//! Runs scenarios: performs their steps, follows the responses to the client, and undoes lasting changes.

mod changes;

use std::collections::VecDeque;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::client::{Client, ClientActivity};
use super::scenario::{Scenario, Step, Trigger};
use super::step_result::StepResult;
use crate::client::time_arg::server_time;
use crate::client::{Admin, path, with_query};
use crate::global::Global;
use crate::output::members::{all, number};
use crate::output::{self, CommandResult, Failure};
use crate::process::signals::Signals;
use playgate_types::format_span;

/// Seconds for which the server may hold a request for new records of the journal.
const WAIT: &str = "1";
const INTERRUPTED: &str = "the run was interrupted";
/// Routes of requests that continue a playback of an earlier scenario.
const GOING_ON: [&str; 4] = ["heartbeat", "end_playback", "telemetry", "cmcd"];

pub(super) struct ClientWait {
    /// Whether the time starts with the client's first request.
    pub(super) for_client: bool,
    pub(super) limit: Duration,
    /// Whether the first request has to begin something, and not continue an earlier playback.
    pub(super) for_start: bool,
}

struct ClientAnswer {
    route: String,
    status: u64,
}

/// The period of a run in the request journal. The number separates its requests from those of an earlier run: a moved
/// clock can pass the same times twice.
pub(super) struct Period {
    pub(super) after: u64,
    pub(super) from: i64,
    pub(super) to: i64,
}

pub(super) struct RunResult {
    pub(super) steps: Vec<StepResult>,
    pub(super) period: Period,
    pub(super) heard: bool,
}

pub(super) struct ScenarioRunner<'a> {
    global: &'a Global,
    pub(super) admin: Admin,
    pub(super) partner: String,
    user: String,
    client: Client,
    /// Number of the last record that was read from the request journal.
    last: u64,
    /// Responses to the client that no step has looked at yet, oldest first.
    unread: VecDeque<ClientAnswer>,
    heard: bool,
    /// Server time when the client could begin.
    from: i64,
    faults: Vec<String>,
    /// The faults of the partner before a request that adds one, until its response has the new id.
    before_fault: Option<Vec<String>>,
    moved_clock: bool,
    disabled: bool,
    last_report: Value,
}

impl<'a> ScenarioRunner<'a> {
    pub(super) fn new(
        global: &'a Global,
        admin: Admin,
        partner: String,
        user: String,
        client: Client,
    ) -> Self {
        Self {
            global,
            admin,
            partner,
            user,
            client,
            last: 0,
            unread: VecDeque::new(),
            heard: false,
            from: 0,
            faults: Vec::new(),
            before_fault: None,
            moved_clock: false,
            disabled: false,
            last_report: Value::Null,
        }
    }

    /// Runs a scenario and undoes its changes to partner and clock, even after a failure or a signal.
    pub(super) async fn run(
        &mut self,
        scenario: &Scenario,
        waiting: &ClientWait,
        signals: &mut Signals,
    ) -> Result<RunResult, Failure> {
        // Starts after the newest record: requests before the run must not count.
        let newest = self.admin.get("/admin/v1/requests?limit=1").await?;
        let after = newest.pointer("/0/number").and_then(Value::as_u64);
        let after = after.unwrap_or(0);
        self.last = after;
        self.unread.clear();
        self.heard = false;
        self.last_report = Value::Null;
        let steps = tokio::select! {
            steps = self.play_and_end(scenario, waiting) => steps,
            _ = signals.next() => Err(Failure::failed(INTERRUPTED)),
        };
        // Uses a new connection, because the old one may be in the middle of a response.
        self.admin = super::connect(self.global).await?;
        // Read before the clock is moved back.
        let to = server_time(&mut self.admin).await;
        let undone = self.undo().await;
        if let (Err(failure), Some(report)) = (&steps, self.last_report.as_object_mut()) {
            report.insert("state".to_owned(), "failed".into());
            report.insert("failure".to_owned(), failure.message().into());
            // The console shows the last report, which would otherwise stay at "running".
            self.send_report().await?;
        }
        // After the undo: the error of a run must not leave the clock moved or a user disabled.
        let steps = steps?;
        undone?;
        let period = Period {
            after,
            from: self.from,
            to: to?.saturating_add(1),
        };
        Ok(RunResult {
            steps,
            period,
            heard: self.heard,
        })
    }

    async fn play_and_end(
        &mut self,
        scenario: &Scenario,
        waiting: &ClientWait,
    ) -> Result<Vec<StepResult>, Failure> {
        let mut activity = None;
        let steps = self.play(scenario, waiting, &mut activity).await?;
        if let Some(activity) = activity {
            activity.end().await;
        }
        Ok(steps)
    }

    async fn play(
        &mut self,
        scenario: &Scenario,
        waiting: &ClientWait,
        activity: &mut Option<ClientActivity>,
    ) -> Result<Vec<StepResult>, Failure> {
        self.report(scenario, &[]).await?;
        let mut has_begun = !waiting.for_client;
        self.from = server_time(&mut self.admin).await?;
        let mut start = Instant::now();
        let mut results = Vec::with_capacity(scenario.steps.len());
        for step in &scenario.steps {
            let mut failure = None;
            // Steps at 0s prepare the server, so they run before the client begins.
            if !has_begun && step.trigger != Trigger::At(Duration::ZERO) {
                has_begun = true;
                // An earlier step may have moved the clock.
                self.from = server_time(&mut self.admin).await?;
                *activity = Some(self.client.begin(&scenario.key, &scenario.prompt)?);
                failure = self.wait_for_client(waiting, activity).await?;
                start = Instant::now();
            }
            if failure.is_none() {
                let trigger = &step.trigger;
                failure = self
                    .wait_for(trigger, start, scenario.end, activity)
                    .await?;
            }
            if failure.is_none() {
                failure = self.act(step).await?.map(|why| why.to_string());
            }
            let result = StepResult::new(step, start.elapsed(), failure);
            output::print_note(&result.line());
            let failed = result.failure.is_some();
            results.push(result);
            self.report(scenario, &results).await?;
            // The steps that follow depend on this one.
            if failed {
                break;
            }
        }
        let skipped = scenario.steps.iter().skip(results.len());
        let why = "not reached: a step before it failed";
        let skipped =
            skipped.map(|step| StepResult::new(step, start.elapsed(), Some(why.to_owned())));
        results.extend(skipped.collect::<Vec<_>>());
        Ok(results)
    }

    /// Waits for the client's first request. Returns why none came.
    async fn wait_for_client(
        &mut self,
        waiting: &ClientWait,
        activity: &mut Option<ClientActivity>,
    ) -> Result<Option<String>, Failure> {
        output::print_note("waiting for the first request of the client");
        let until = Instant::now() + waiting.limit;
        let goes_on = |answer: &mut ClientAnswer| {
            waiting.for_start && GOING_ON.contains(&answer.route.as_str())
        };
        let mut failure = None;
        loop {
            // A client that is still playing sends heartbeats, which do not begin the scenario.
            while self.unread.pop_front_if(goes_on).is_some() {}
            if !self.unread.is_empty() {
                return Ok(None);
            }
            if failure.is_some() {
                return Ok(failure);
            }
            if Instant::now() >= until {
                let limit = format_span(waiting.limit);
                return Ok(Some(format!("no request of the client within {limit}")));
            }
            // The last requests of a client that has ended are read before the run fails.
            failure = activity.as_mut().and_then(ClientActivity::failure);
            self.read_answers(WAIT).await?;
        }
    }

    /// Reports how far the run is, for the console.
    async fn report(&mut self, scenario: &Scenario, results: &[StepResult]) -> CommandResult {
        let failure = results.iter().find_map(|step| step.failure.as_ref());
        let done = results.iter().filter(|step| step.failure.is_none()).count();
        let state = match failure {
            Some(_) => "failed",
            None if done == scenario.steps.len() => "passed",
            None => "running",
        };
        let steps: Vec<String> = scenario.steps.iter().map(Step::describe).collect();
        self.last_report = json!({
            "scenario": scenario.name,
            "state": state,
            "steps": steps,
            "done": done,
            "failure": failure,
        });
        self.send_report().await
    }

    async fn send_report(&mut self) -> CommandResult {
        let target = path(&["partners", &self.partner, "scenario"]);
        let report = Some(&self.last_report);
        self.admin.call(Method::PUT, &target, report).await?;
        Ok(())
    }

    /// Waits for the trigger of a step. Returns why it did not occur.
    async fn wait_for(
        &mut self,
        trigger: &Trigger,
        start: Instant,
        end: Duration,
        activity: &mut Option<ClientActivity>,
    ) -> Result<Option<String>, Failure> {
        let mut missing = match trigger {
            Trigger::At(at) => {
                sleep_until(start + *at).await;
                return Ok(None);
            }
            Trigger::On { count, .. } => *count,
        };
        let mut failure = None;
        loop {
            // Responses are consumed only up to the trigger, so that the next step misses none.
            while let Some(answer) = self.unread.pop_front() {
                missing -= u64::from(trigger.is_met_by(&answer.route, answer.status));
                if missing == 0 {
                    return Ok(None);
                }
            }
            if failure.is_some() {
                return Ok(failure);
            }
            if start.elapsed() >= end {
                let end = format_span(end);
                return Ok(Some(format!("its trigger did not occur within {end}")));
            }
            // The last requests of a client that has ended are read before the run fails.
            failure = activity.as_mut().and_then(ClientActivity::failure);
            self.read_answers(WAIT).await?;
        }
    }

    /// Reads the responses since the last read; waits up to `wait` seconds if there are none.
    async fn read_answers(&mut self, wait: &str) -> Result<(), Failure> {
        let last = self.last.to_string();
        let target = with_query(
            path(&["requests"]),
            &[
                ("partner", Some(&*self.partner)),
                ("after", Some(&last)),
                ("wait", Some(wait)),
            ],
        );
        let records = self.admin.get(&target).await?;
        // The newest comes first.
        for record in all(&records).iter().rev() {
            self.last = self.last.max(number(record, "number"));
            self.heard = true;
            self.unread.push_back(ClientAnswer {
                route: output::text(record, "route"),
                status: number(record, "status"),
            });
        }
        Ok(())
    }

    async fn act(&mut self, step: &Step) -> Result<Option<Failure>, Failure> {
        // A step that only waits consumes just the response that it waits for. Any other step discards the earlier
        // responses.
        if step.action.is_some() || matches!(step.trigger, Trigger::At(_)) {
            self.skip_answers().await?;
        }
        match &step.action {
            Some(action) => Ok(self.change(action).await.err()),
            None => Ok(None),
        }
    }

    async fn skip_answers(&mut self) -> Result<(), Failure> {
        loop {
            self.unread.clear();
            self.read_answers("0").await?;
            if self.unread.is_empty() {
                return Ok(());
            }
        }
    }

    /// What to check if no request of the client came.
    pub(super) fn advice(&self) -> String {
        let partner = &self.partner;
        format!(
            "does it use the address of this server and a token of partner {partner}? `playgate requests tail` shows what comes"
        )
    }
}
