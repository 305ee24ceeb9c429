//! `playgate telemetry`: playback telemetry reported by players.

use clap::{Args, Subcommand};

use super::Global;
use super::admin::{path, with_query};
use super::exit::CommandResult;
use super::quality_report::{self, ReportArgs};

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
    /// Report playback quality: starts, start-up time, rebuffering, failures
    Report(ReportArgs),
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
            global.admin().await?.download(&target).await
        }
        TelemetryCommand::Report(args) => quality_report::run(args, global).await,
    }
}
