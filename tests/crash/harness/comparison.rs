//! Starts the server on a data directory after a fault, and compares what it serves with the ledgers.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::harness::appliance::{Launch, Started};
use crate::harness::disk::run;
use crate::harness::durability_model::AllowedLoss;
use crate::harness::rng::Rng;
use crate::harness::tail;
use crate::workload::Workload;

/// Other tests measure how long a start takes; here many run at a time.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// What a server did on a data directory.
pub enum Outcome {
    /// It is ready, and what it serves fits a ledger.
    Sound,
    /// It does not start, or only in maintenance, and says why.
    Refused(String),
    /// It serves something else than any ledger says.
    Lost(String),
}

impl Outcome {
    pub fn problem(self) -> Option<String> {
        match self {
            Self::Sound => None,
            Self::Refused(why) => Some(format!("refused: {why}")),
            Self::Lost(why) => Some(format!("lost: {why}")),
        }
    }
}

/// Compares with each ledger until one fits; without a ledger the server need only be ready. `launch` has the data directory, which
/// is kept: a check changes what it checks, so each has a copy.
pub fn compare(launch: &Launch, ledgers: Vec<Workload>, lost: &AllowedLoss, rng: &Rng) -> Outcome {
    let mut ledgers: Vec<_> = ledgers.into_iter().map(Some).collect();
    if ledgers.is_empty() {
        ledgers.push(None);
    }
    let mut problems = Vec::new();
    for ledger in ledgers {
        let copy = launch.data_dir.with_extension("copy");
        // A kill can come before the directory is made.
        if launch.data_dir.exists() {
            let mut command = Command::new("cp");
            run(command.arg("-a").args([&launch.data_dir, &copy])).unwrap();
        }
        let outcome = compare_one(launch, &copy, ledger, lost, rng);
        std::fs::remove_dir_all(&copy).unwrap();
        match outcome {
            Outcome::Lost(why) => problems.push(why),
            other => return other,
        }
    }
    Outcome::Lost(problems.join("\n-- or --\n"))
}

fn compare_one(
    launch: &Launch,
    data_dir: &Path,
    ledger: Option<Workload>,
    lost: &AllowedLoss,
    rng: &Rng,
) -> Outcome {
    let launch = Launch {
        data_dir: data_dir.to_owned(),
        timeout: STARTS_WITHIN,
        ..launch.clone()
    };
    let appliance = match launch.start() {
        Started::Ready(appliance) => appliance,
        Started::Ended(_, why) | Started::Waiting(why) | Started::Hung(why) => {
            return Outcome::Refused(tail(&why));
        }
    };
    let mut problems = match appliance.readiness() {
        Some((200, _)) => Vec::new(),
        other => vec![format!("not ready: {other:?}")],
    };
    if let Some(mut ledger) = ledger {
        problems.extend(ledger.problems());
        problems.extend(ledger.check(&appliance.address, lost, rng));
    }
    if problems.is_empty() {
        return Outcome::Sound;
    }
    let log = tail(&appliance.log());
    Outcome::Lost(format!("{}\nlog:\n{log}", problems.join("\n")))
}
