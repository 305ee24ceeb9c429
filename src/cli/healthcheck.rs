//! `playgate healthcheck`: whether the server of the data directory is ready, for containers and packages.

use clap::Args;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::admin::Admin;
use super::exit::{CommandResult, Failure};
use super::{Global, output};
use crate::config::Loaded;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Ask the running server whether it is ready; exit code 1 if it is not, or does not run
#[derive(Args)]
pub(super) struct Healthcheck {
    /// Wait this many seconds for it
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    wait: u64,
    /// Print {"ready","reasons"}
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: Healthcheck, global: &Global) -> CommandResult {
    let loaded = global.load()?;
    let deadline = Instant::now() + Duration::from_secs(command.wait);
    let reasons = loop {
        match reasons(&loaded).await {
            Some(reasons) if Instant::now() < deadline && !reasons.is_empty() => {
                sleep(POLL_INTERVAL).await;
            }
            None if Instant::now() < deadline => sleep(POLL_INTERVAL).await,
            found => break found,
        }
    };
    let reasons = reasons.unwrap_or_else(|| vec!["no server is running".to_owned()]);
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

/// Returns why the server is not ready; `None` if no server answers.
async fn reasons(loaded: &Loaded) -> Option<Vec<String>> {
    let mut admin = Admin::running(loaded).await.ok().flatten()?;
    let body = match admin.ask(Method::GET, "/readyz", None).await.ok()? {
        Ok(_) => return Some(Vec::new()),
        Err(refusal) => refusal.into_body(),
    };
    let reasons = body.get("reasons").and_then(Value::as_object)?;
    let reason = |(part, why): (&String, &Value)| match why.as_str() {
        Some(why) => format!("{part}: {why}"),
        None => format!("{part}: {why}"),
    };
    Some(reasons.iter().map(reason).collect())
}
