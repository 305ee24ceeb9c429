//! `playgate telemetry`: playback telemetry reported by players.

mod chart;
mod csv;
mod report;

use clap::Subcommand;

use crate::client::time_arg::{TimeRange, server_time};
use crate::client::{path, with_query};
use crate::global::Global;
use crate::output::CommandResult;
use report::ReportArgs;

/// Playback telemetry
#[derive(Subcommand)]
pub(crate) enum TelemetryCommand {
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

pub(crate) async fn run(command: TelemetryCommand, global: &Global) -> CommandResult {
    match command {
        TelemetryCommand::Export { span, user } => {
            let mut admin = global.admin().await?;
            // A span such as -15m counts from the server's clock, which an operator of a lab may have moved.
            let [from, to] = span.seconds(server_time(&mut admin).await?);
            let target = with_query(
                path(&["telemetry", "events"]),
                &[
                    ("from", from.as_deref()),
                    ("to", to.as_deref()),
                    ("user", user.as_deref()),
                ],
            );
            admin.download(&target).await
        }
        TelemetryCommand::Report(args) => report::run(args, global).await,
    }
}
