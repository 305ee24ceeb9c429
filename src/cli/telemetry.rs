//! `playgate telemetry`: playback telemetry reported by players.

use clap::{Args, Subcommand};
use serde_json::Value;

use super::admin::{path, with_query};
use super::exit::CommandResult;
use super::{Global, output};

/// Playback telemetry
#[derive(Subcommand)]
pub(super) enum TelemetryCommand {
    /// Print events as NDJSON, in order of arrival
    Export {
        #[command(flatten)]
        span: TimeRange,
        /// Only events of this user
        #[arg(long, value_name = "USER_ID")]
        user: Option<String>,
    },
    /// Report playback quality by minute and asset: starts, start-up time, rebuffering, errors
    Report {
        #[command(flatten)]
        span: TimeRange,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(super) struct TimeRange {
    /// Start of the time span, in Unix seconds
    #[arg(long)]
    from: Option<String>,
    /// End of the time span (exclusive), in Unix seconds
    #[arg(long)]
    to: Option<String>,
}

pub(super) async fn run(command: TelemetryCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    match command {
        TelemetryCommand::Export { span, user } => {
            let target = with_query(
                path(&["telemetry", "events"]),
                &[
                    ("from", span.from.as_deref()),
                    ("to", span.to.as_deref()),
                    ("user", user.as_deref()),
                ],
            );
            admin.download(&target).await
        }
        TelemetryCommand::Report { span, json } => {
            let target = with_query(
                path(&["telemetry", "report"]),
                &[("from", span.from.as_deref()), ("to", span.to.as_deref())],
            );
            show(&admin.get(&target).await?, json)
        }
    }
}

fn show(report: &Value, json: bool) -> CommandResult {
    if json {
        return output::json(report);
    }
    let columns = [
        ("MINUTE", "minute"),
        ("ASSET", "assetId"),
        ("STARTS", "starts"),
        ("START-UP MS", "startupMillis"),
        ("REBUFFERING", "rebufferingRatio"),
        ("BITRATE", "meanBitrate"),
        ("ERRORS", "errors"),
        ("STREAMS", "streams"),
    ];
    let nothing = Value::Null;
    output::list(report.get("rows").unwrap_or(&nothing), &columns, false)?;
    if report.get("cut") == Some(&Value::Bool(true)) {
        output::print_note("the report is incomplete; request a shorter time span");
    }
    Ok(())
}
