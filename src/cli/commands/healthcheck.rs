//! `playgate healthcheck`: whether the server of the data directory is ready, for containers and packages.

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::client::Admin;
use crate::global::Global;
use crate::output::{self, CommandResult, Failure};
use playgate_config::Loaded;

/// A year. A time that no clock can show would end the process with a panic.
const WAIT_MAX: u64 = 366 * 24 * 60 * 60;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Ask the running server whether it is ready; exit code 1 if it is not, or does not run
#[derive(Args)]
pub(crate) struct Healthcheck {
    /// Wait this many seconds for it
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(..=WAIT_MAX))]
    wait: u64,
    /// Print {"ready","reasons"}
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(command: Healthcheck, global: &Global) -> CommandResult {
    let loaded = global.load()?;
    let deadline = Instant::now() + Duration::from_secs(command.wait);
    let reasons = loop {
        let reasons = reasons(&loaded).await;
        if reasons.is_empty() || Instant::now() >= deadline {
            break reasons;
        }
        sleep(POLL_INTERVAL).await;
    };
    if command.json {
        output::json(&json!({ "ready": reasons.is_empty(), "reasons": reasons }))?;
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "not ready: {}",
        reasons.join("; ")
    )))
}

async fn reasons(loaded: &Loaded) -> Vec<String> {
    let asked = match Admin::running(loaded).await {
        Ok(None) => return vec!["no server is running".to_owned()],
        Ok(Some(mut admin)) => admin.ask(Method::GET, "/readyz", None).await,
        Err(failure) => Err(failure),
    };
    let body = match asked {
        Ok(Ok(_)) => return Vec::new(),
        Ok(Err(refusal)) => refusal.into_body(),
        Err(failure) => return vec![failure.to_string()],
    };
    let Some(reasons) = body.get("reasons").and_then(Value::as_object) else {
        return vec!["the server gave no reason".to_owned()];
    };
    let reason = |(part, why): (&String, &Value)| match why.as_str() {
        Some(why) => format!("{part}: {why}"),
        None => format!("{part}: {why}"),
    };
    reasons.iter().map(reason).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        command: Healthcheck,
    }

    #[test]
    fn a_wait_that_no_clock_can_show_is_refused() {
        let wait = |seconds: &str| {
            let line = Line::try_parse_from(["playgate", "--wait", seconds]);
            line.map(|line| line.command.wait).ok()
        };
        assert_eq!(wait("600"), Some(600));
        assert_eq!(wait(&u64::MAX.to_string()), None);
    }
}
