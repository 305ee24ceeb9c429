//! `playgate clock`: the clock of a lab, and the confirmation of the system clock after a jump.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::client::time_arg::{instant, signed_seconds};
use crate::client::{Admin, path};
use crate::global::Global;
use crate::output::members::texts;
use crate::output::{self, CommandResult, Failure};
use playgate_types::Malformed;

/// The clock of the service
#[derive(Subcommand)]
pub(crate) enum ClockCommand {
    /// Show the time and how it was moved
    Show(Target),
    /// Set the time; the clock runs on from there. Needs `lab.clock`
    Set {
        /// Unix seconds, RFC 3339, a date, or a distance from now such as -15m
        #[arg(allow_hyphen_values = true)]
        time: String,
        #[command(flatten)]
        target: Target,
    },
    /// Move the clock on, or back
    Advance {
        /// Span, such as 2h or -15m
        #[arg(allow_hyphen_values = true)]
        span: String,
        #[command(flatten)]
        target: Target,
    },
    /// Stop the clock
    Freeze {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Run the clock at another pace; also ends a freeze
    Scale {
        /// Pace compared with real time: 60 is a minute in a second, 1 is real time
        pace: f64,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Return to real time
    Reset(Target),
    /// Confirm that the clock is right after a jump: deletions by age resume at once instead of after ten
    /// minutes. Anything that has expired by this clock stays expired
    Accept {
        /// Print {"now","offset","movable"}
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct Target {
    /// Only the clock of this lab partner, by id or name
    #[arg(long)]
    partner: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Target {
    fn path(&self) -> String {
        match &self.partner {
            Some(partner) => path(&["partners", partner, "clock"]),
            None => path(&["clock"]),
        }
    }

    async fn ask(&self, admin: &mut Admin, method: Method, body: Option<&Value>) -> CommandResult {
        let clock = admin.call(method, &self.path(), body).await?;
        show(&clock, self.json)
    }
}

pub(crate) async fn run(command: ClockCommand, global: &Global) -> CommandResult {
    let mut admin = match command {
        // The jump is recorded in the store.
        ClockCommand::Accept { .. } => global.admin().await?,
        // The clock exists only in the memory of the server.
        _ => super::lab::connect(global).await?,
    };
    match command {
        ClockCommand::Show(target) => target.ask(&mut admin, Method::GET, None).await,
        ClockCommand::Set { time, target } => {
            let body = change_to(&time)?;
            target.ask(&mut admin, Method::PUT, Some(&body)).await
        }
        ClockCommand::Advance { span, target } => {
            let seconds = signed_seconds(&span)
                .map_err(|Malformed(why)| Failure::usage(format!("{span}: {why}")))?;
            let body = json!({ "advance": seconds });
            target.ask(&mut admin, Method::PUT, Some(&body)).await
        }
        ClockCommand::Freeze { json } => whole(&mut admin, &json!({"freeze": true}), json).await,
        ClockCommand::Scale { pace, json } => {
            whole(&mut admin, &json!({"scale": pace}), json).await
        }
        ClockCommand::Reset(target) => target.ask(&mut admin, Method::DELETE, None).await,
        ClockCommand::Accept { json } => accept(&mut admin, json).await,
    }
}

async fn accept(admin: &mut Admin, json: bool) -> CommandResult {
    let target = path(&["clock", "accept"]);
    let clock = admin.post(&target, None).await?;
    if json {
        return output::json(&clock);
    }
    output::print_note("accepted");
    Ok(())
}

async fn whole(admin: &mut Admin, body: &Value, json: bool) -> CommandResult {
    let clock = admin.put(&path(&["clock"]), body).await?;
    show(&clock, json)
}

fn show(clock: &Value, json: bool) -> CommandResult {
    if json {
        return output::json(clock);
    }
    for job in texts(clock, "pendingJobs") {
        output::print_note(&format!("job {job} is still running"));
    }
    output::record(clock, false)
}

fn change_to(time: &str) -> Result<Value, Failure> {
    if let Ok(seconds) = signed_seconds(time) {
        return Ok(json!({"advance": seconds}));
    }
    let now = instant(time).map_err(|why| {
        Failure::usage(format!(
            "{time}: {why}, or a distance from now such as -15m"
        ))
    })?;
    Ok(json!({"now": now}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_distances_are_told_apart() {
        for (text, expected) in [
            ("1767272400", json!({"now": 1_767_272_400})),
            ("2026-01-01T13:00:00Z", json!({"now": 1_767_272_400})),
            ("2026-01-01", json!({"now": 1_767_225_600})),
            ("2026-01-01T14:00:00+01:00", json!({"now": 1_767_272_400})),
            ("-15m", json!({"advance": -900})),
            ("2h", json!({"advance": 7_200})),
        ] {
            assert_eq!(change_to(text).ok(), Some(expected), "{text}");
        }
        for bad in ["", "tomorrow", "2026-01-01", "15", "--15m"] {
            assert!(signed_seconds(bad).is_err(), "{bad}");
        }
    }
}
