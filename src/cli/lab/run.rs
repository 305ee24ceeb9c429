//! `playgate lab run`: runs a scenario against the requests of a client.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::scenario::{Action, SHIPPED, Scenario, Step, Trigger, shipped};
use crate::cli::admin::{Admin, path, with_query};
use crate::cli::exit::{CommandResult, Failure};
use crate::cli::signals::Signals;
use crate::cli::{Global, output};

/// Seconds for which the server holds a question for new answers open.
const WAIT: &str = "1";
const INTERRUPTED: &str = "the run was interrupted";

#[derive(Args)]
pub(in crate::cli) struct Run {
    /// Scenario file, or the name of a shipped one; without it, the shipped ones are listed
    file: Option<String>,
    /// Id or name of the lab partner; not needed if there is only one
    #[arg(long)]
    partner: Option<String>,
    /// User of the client, by id or e-mail, for steps that change a user [default: the user of the demo]
    #[arg(long, default_value = "demo@example.com", hide_default_value = true)]
    user: String,
    /// Start the time with the first request of the client; steps at 0s are done before it
    #[arg(long)]
    wait: bool,
    /// Write the result as a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// What became of a step.
struct StepResult {
    trigger: String,
    action: String,
    seconds: f64,
    failure: Option<String>,
}

pub(super) async fn run(run: Run, global: &Global) -> CommandResult {
    let Some(file) = &run.file else {
        let columns = [("SCENARIO", "scenario"), ("NAME", "name"), ("WHAT", "text")];
        return output::list(&shipped(), &columns, run.json);
    };
    // Read before anything is changed: a mistake in the file must not leave half a scenario behind.
    let scenario = Scenario::parse(&read(file)?)?;
    let mut admin = super::connect(global).await?;
    let partner = super::partner(&mut admin, run.partner).await?;
    let mut runner = Runner {
        admin,
        partner,
        user: run.user,
        last: 0,
        unread: VecDeque::new(),
        faults: Vec::new(),
        moved_clock: false,
        disabled: false,
        last_report: Value::Null,
    };
    let mut signals = Signals::listen()?;
    let results = tokio::select! {
        results = runner.all(&scenario, run.wait) => results,
        _ = signals.next() => Err(Failure::failed(INTERRUPTED)),
    };
    // Also after a failed step or a signal: the next scenario must find an undisturbed partner. On a new connection,
    // because the old one may be in the middle of an answer.
    runner.admin = super::connect(global).await?;
    if let (Err(_), Some(report)) = (&results, runner.last_report.as_object_mut()) {
        report.insert("state".to_owned(), "failed".into());
        report.insert("failure".to_owned(), INTERRUPTED.into());
        runner.send_report().await?;
    }
    let undone = runner.undo().await;
    let results = results?;
    undone?;
    if let Some(place) = &run.junit {
        write_junit(place, &scenario, &results)?;
    }
    let failed = results.iter().filter(|step| step.failure.is_some()).count();
    if run.json {
        output::json(&report(&scenario, &results))?;
    }
    match failed {
        0 => Ok(()),
        failed => Err(Failure::failed(format!(
            "{}: {failed} of {} steps failed",
            scenario.name,
            results.len()
        ))),
    }
}

fn read(file: &str) -> Result<String, Failure> {
    if let Some((_, text)) = SHIPPED.iter().find(|(name, _)| *name == file) {
        return Ok((*text).to_owned());
    }
    fs::read_to_string(file).map_err(|error| {
        Failure::usage(format!("{file}: {error}"))
            .hint("`playgate lab run` without a file lists the shipped scenarios")
    })
}

/// What the client was answered.
struct ClientAnswer {
    route: String,
    status: u64,
}

struct Runner {
    admin: Admin,
    partner: String,
    user: String,
    /// Number of the last record of the request journal that was read.
    last: u64,
    /// Answers to the client that no step has seen, in their order.
    unread: VecDeque<ClientAnswer>,
    /// Ids of the faults that were added.
    faults: Vec<String>,
    moved_clock: bool,
    disabled: bool,
    last_report: Value,
}

impl Runner {
    async fn all(&mut self, scenario: &Scenario, wait: bool) -> Result<Vec<StepResult>, Failure> {
        let newest = self.admin.get("/admin/v1/requests?limit=1").await?;
        self.last = newest
            .pointer("/0/number")
            .and_then(Value::as_u64)
            .unwrap_or(0);
        self.report(scenario, &[]).await?;
        let mut waiting = wait;
        let mut start = Instant::now();
        let mut results = Vec::with_capacity(scenario.steps.len());
        for step in &scenario.steps {
            if waiting && step.trigger != Trigger::At(Duration::ZERO) {
                output::print_note("waiting for the first request of the client");
                while self.unread.is_empty() {
                    self.read_answers(WAIT).await?;
                }
                waiting = false;
                start = Instant::now();
            }
            let failure = match self.wait_for(&step.trigger, start, scenario.end).await? {
                false => Some(format!("did not happen within {:?}", scenario.end)),
                true => self.act(step).await?.map(|why| why.to_string()),
            };
            let result = StepResult::new(step, start.elapsed(), failure);
            output::print_note(&result.line());
            let failed = result.failure.is_some();
            results.push(result);
            self.report(scenario, &results).await?;
            // What follows depends on this step.
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

    /// Waits until the step is to happen. Answers up to that one are read, and no later one, so that the next step
    /// misses none.
    async fn wait_for(
        &mut self,
        trigger: &Trigger,
        start: Instant,
        end: Duration,
    ) -> Result<bool, Failure> {
        let mut missing = match trigger {
            Trigger::At(at) => {
                sleep_until(start + *at).await;
                return Ok(true);
            }
            Trigger::On { count, .. } => *count,
        };
        loop {
            while let Some(answer) = self.unread.pop_front() {
                missing -= u64::from(trigger.is_met_by(&answer.route, answer.status));
                if missing == 0 {
                    return Ok(true);
                }
            }
            if start.elapsed() >= end {
                return Ok(false);
            }
            self.read_answers(WAIT).await?;
        }
    }

    /// Reads what the client was answered since the last time; waits up to `wait` seconds if that is nothing.
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
        for record in records.as_array().into_iter().flatten().rev() {
            let number = record["number"].as_u64().unwrap_or_default();
            self.last = self.last.max(number);
            self.unread.push_back(ClientAnswer {
                route: output::text(record, "route"),
                status: record["status"].as_u64().unwrap_or_default(),
            });
        }
        Ok(())
    }

    /// Does what the step does; what went wrong, if it could not.
    async fn act(&mut self, step: &Step) -> Result<Option<Failure>, Failure> {
        // A step that only waits for an answer is done with that answer. After any other, what came before it is no
        // longer waited for.
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

    async fn change(&mut self, action: &Action) -> CommandResult {
        match action {
            Action::Fault(fault) => {
                let faults = path(&["partners", &self.partner, "faults"]);
                let added = self.admin.call(Method::POST, &faults, Some(fault)).await?;
                let id = added.get("faultId").and_then(Value::as_str);
                self.faults.extend(id.map(str::to_owned));
            }
            Action::Clock(clock) => {
                self.admin
                    .call(Method::PUT, &path(&["clock"]), Some(clock))
                    .await?;
                self.moved_clock = true;
            }
            Action::Grant(offer) => {
                let grant = self.user_path(&["grants", offer]);
                self.admin
                    .call(Method::PUT, &grant, Some(&json!({})))
                    .await?;
            }
            Action::Revoke(offer) => {
                let grant = self.user_path(&["grants", offer]);
                self.admin.call(Method::DELETE, &grant, None).await?;
            }
            Action::Disable(disable) => self.disable(*disable).await?,
            Action::EndSessions => self.end_sessions().await?,
        }
        Ok(())
    }

    async fn disable(&mut self, disable: bool) -> CommandResult {
        let user = self.user_path(&[]);
        let body = json!({"disabled": disable});
        self.admin.call(Method::PUT, &user, Some(&body)).await?;
        self.disabled = disable;
        Ok(())
    }

    async fn end_sessions(&mut self) -> CommandResult {
        let user = self.admin.get(&self.user_path(&[])).await?;
        let sessions = self.admin.get(&path(&["sessions"])).await?;
        let all = sessions.as_array().into_iter().flatten();
        let own = all.filter(|session| session.get("userId") == user.get("userId"));
        for id in own.filter_map(|session| session["sessionId"].as_str()) {
            self.admin
                .call(Method::DELETE, &path(&["sessions", id]), None)
                .await?;
        }
        Ok(())
    }

    /// Undoes what lasts. Grants stay as the scenario left them.
    async fn undo(&mut self) -> CommandResult {
        for fault in std::mem::take(&mut self.faults) {
            let fault = path(&["partners", &self.partner, "faults", &fault]);
            // A fault may have ended by itself.
            let _ = self.admin.ask(Method::DELETE, &fault, None).await?;
        }
        if self.moved_clock {
            self.admin
                .call(Method::DELETE, &path(&["clock"]), None)
                .await?;
        }
        if self.disabled {
            self.disable(false).await?;
        }
        Ok(())
    }

    fn user_path(&self, below: &[&str]) -> String {
        let mut segments = vec!["users", &*self.user];
        segments.extend(below);
        with_query(path(&segments), &[("partner", Some(&*self.partner))])
    }
}

impl StepResult {
    fn new(step: &Step, elapsed: Duration, failure: Option<String>) -> Self {
        Self {
            trigger: step.trigger.describe(),
            action: step.describe_action(),
            seconds: elapsed.as_secs_f64(),
            failure,
        }
    }

    fn line(&self) -> String {
        let Self {
            trigger,
            action,
            seconds,
            failure,
        } = self;
        let outcome = failure.as_deref().unwrap_or("done");
        format!("{seconds:7.1}s  {trigger}: {action}: {outcome}")
    }
}

fn report(scenario: &Scenario, results: &[StepResult]) -> Value {
    let steps: Vec<Value> = results
        .iter()
        .map(|step| {
            json!({
                "trigger": step.trigger,
                "action": step.action,
                "seconds": step.seconds,
                "passed": step.failure.is_none(),
                "failure": step.failure,
            })
        })
        .collect();
    let passed = results.iter().all(|step| step.failure.is_none());
    json!({"scenario": scenario.name, "passed": passed, "steps": steps})
}

fn write_junit(place: &Path, scenario: &Scenario, results: &[StepResult]) -> CommandResult {
    fs::write(place, junit(scenario, results))
        .map_err(|error| Failure::failed(format!("{}: {error}", place.display())))
}

fn junit(scenario: &Scenario, results: &[StepResult]) -> String {
    let failures = results.iter().filter(|step| step.failure.is_some()).count();
    let name = escape(&scenario.name);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\">\n",
        results.len()
    );
    let mut last = 0.0;
    for (number, step) in results.iter().enumerate() {
        let case = escape(&format!(
            "{}. {}: {}",
            number + 1,
            step.trigger,
            step.action
        ));
        let time = step.seconds - last;
        last = step.seconds;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "  <testcase classname=\"{name}\" name=\"{case}\" time=\"{time:.3}\""
        );
        let _ = match &step.failure {
            None => writeln!(text, "/>"),
            Some(why) => writeln!(text, "><failure message=\"{}\"/></testcase>", escape(why)),
        };
    }
    text.push_str("</testsuite>\n");
    text
}

fn escape(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .map(|c| match c {
            '&' => "&amp;".to_owned(),
            '<' => "&lt;".to_owned(),
            '>' => "&gt;".to_owned(),
            '"' => "&quot;".to_owned(),
            other => other.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_file_names_each_step_and_its_failure() {
        let text = "name = 'a <b>'\n[[step]]\nat = '1s'\n[[step]]\non = {route = 'login'}";
        let scenario = Scenario::parse(text).unwrap();
        let results: Vec<_> = [None, Some("\"no\"".to_owned())]
            .into_iter()
            .zip(&scenario.steps)
            .map(|(failure, step)| StepResult::new(step, Duration::from_secs(1), failure))
            .collect();
        let xml = junit(&scenario, &results);
        for part in [
            "<testsuite name=\"a &lt;b&gt;\" tests=\"2\" failures=\"1\">",
            "name=\"1. at 1s: wait\" time=\"1.000\"/>",
            "name=\"2. on login: wait\" time=\"0.000\"><failure message=\"&quot;no&quot;\"/></testcase>",
        ] {
            assert!(xml.contains(part), "{part} is not in\n{xml}");
        }
    }
}
