//! `playgate store`: integrity of records and indexes, and the ways in and out as text.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::admin::{Admin, path};
use super::backup::change_at_rest;
use super::exit::{Failure, Outcome};
use super::startup::Startup;
use super::{Global, output};
use crate::app;
use crate::domain::audit::Audit;
use crate::domain::store_admin;
use crate::store::{Exported, Salvaged, StoreError};

/// How often a store that another process has is tried again.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The store: integrity, and its records as text.
#[derive(Subcommand)]
pub enum Command {
    /// Check every record, indexes both ways, and engine against log; exit code 1 if anything is wrong
    Verify {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the indexes anew from the records, and report what was wrong
    Rebuild {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write every record as a line of text: damaged ones are left out and reported
    ///
    /// The file holds what the store holds: hashes of passwords and tokens, addresses, sealed keys.
    Export {
        /// Where to; it must not be there yet. `-` is the standard output
        file: PathBuf,
        /// Of this backup instead of the store
        #[arg(long, value_name = "BACKUP")]
        from: Option<PathBuf>,
        /// What can be read of a store that cannot be opened, with what is missing
        #[arg(long, conflicts_with = "from")]
        salvage: bool,
    },
    /// Bring an export into a new data directory; damaged lines are skipped and reported
    Import {
        /// The export. `-` is the standard input
        file: PathBuf,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Open a store that has lost commits beyond repair; without a server, or while it waits
    ///
    /// A server that finds that commits which were answered as done are gone does not serve. If no
    /// backup is to take its place, this goes on with what is left, and records that in the audit log.
    Recover {
        /// Give the lost commits up for good
        #[arg(long)]
        accept_loss: bool,
        /// Print what was kept and lost as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the engine anew while the service goes on, so that it takes no more space than it needs
    Compact {
        /// Print the sizes as JSON
        #[arg(long)]
        json: bool,
    },
}

const COLUMNS: [output::Column; 5] = [
    ("TABLE", "table"),
    ("RECORDS", "records"),
    ("DAMAGED", "damaged"),
    ("MISSING", "missing"),
    ("STALE", "stale"),
];

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    match command {
        Command::Verify { json } => {
            let mut admin = global.admin().await?;
            let report = admin
                .call(Method::POST, &path(&["store", "verify"]), None)
                .await?;
            show(&report, json)?;
            if report.get("sound") == Some(&Value::Bool(true)) {
                output::print_note(
                    "every record and index is sound, and the engine as base and log say",
                );
                return Ok(());
            }
            Err(Failure::failed("the store is not sound").hint(
                "`playgate store rebuild` mends indexes; an engine that is not as base and log say is \
                 made anew by the next start; damaged records come back from a backup",
            ))
        }
        Command::Rebuild { json } => {
            let mut admin = global.admin().await?;
            let report = admin
                .call(Method::POST, &path(&["store", "rebuild"]), None)
                .await?;
            show(&report, json)
        }
        Command::Export {
            file,
            from,
            salvage,
        } => export(&file, from.as_deref(), salvage, global).await,
        Command::Import { file, json } => import(&file, json, global),
        Command::Recover { accept_loss, json } => recover(accept_loss, json, global).await,
        Command::Compact { json } => {
            let mut admin = global.admin().await?;
            let report = admin
                .call(Method::POST, &path(&["store", "compact"]), None)
                .await?;
            output::record(&report, json)
        }
    }
}

async fn export(file: &Path, from: Option<&Path>, salvaging: bool, global: &Global) -> Outcome {
    if salvaging {
        let loaded = global.load()?;
        let mut out = writer(file)?;
        let Salvaged { exported, missing } =
            store_admin::salvage(&loaded.config.server.data_dir, &mut out)?;
        finish(out, file)?;
        for what in &missing {
            output::print_note(&format!("missing: {what}"));
        }
        return print_export(&exported, file);
    }
    let snapshot = match from {
        Some(backup) => store_admin::Export::open(backup)?,
        None => open_base(global).await?,
    };
    let mut out = writer(file)?;
    let exported = snapshot.write(&mut out)?;
    finish(out, file)?;
    print_export(&exported, file)
}

/// A new base of the server, opened. The next base may take its place before it is, and then there is
/// that one.
async fn open_base(global: &Global) -> Result<store_admin::Export, Failure> {
    const TRIES: usize = 10;
    let mut admin = global.admin().await?;
    let mut tries = 0;
    loop {
        tries += 1;
        let base = admin
            .call(Method::POST, &path(&["store", "base"]), None)
            .await?;
        let base: PathBuf = output::text(&base, "path").into();
        match store_admin::Export::open(&base) {
            Err(_) if tries < TRIES && !base.exists() => {}
            opened => return Ok(opened?),
        }
    }
}

/// Opens the store itself, as a server does, but for what it gives up.
async fn recover(accept_loss: bool, json: bool, global: &Global) -> Outcome {
    let mut beginning = Startup::new(global.load()?);
    beginning.accept_loss = accept_loss;
    if !app::has_store(&beginning.config) {
        return Err(Failure::failed("there is no store to recover"));
    }
    // Between two tries of a server that waits, the store is nobody's.
    let given_up = Instant::now() + Admin::PATIENCE;
    let store = loop {
        match beginning.open() {
            Err(StoreError::InUse) if Instant::now() < given_up => sleep(LOOK_EVERY).await,
            opened => break opened?,
        }
    };
    let Some(loss) = store.loss() else {
        if json {
            return output::json(&json!({ "lost": 0 }));
        }
        output::print_note("the store opens as it is: nothing is lost");
        return Ok(());
    };
    let (kept, lost) = (loss.kept, loss.count());
    let target = format!("store/recover: kept {kept} commits, lost {lost}");
    let change = change_at_rest("admin_recover_store", target, &*beginning.ports.clock);
    Audit::open(store).record_done(change)?;
    if json {
        return output::json(&json!({ "kept": kept, "lost": lost }));
    }
    let given_up = match loss.last {
        Some(last) => format!("commits {} to {last} are given up", kept + 1),
        None => "how many commits are given up is not known".to_owned(),
    };
    output::print_note(&format!(
        "the store opens with everything up to commit {kept}; {given_up}"
    ));
    Ok(())
}

/// Data goes to standard output or to a new file that only its owner reads.
fn writer(file: &Path) -> Result<BufWriter<Box<dyn Write>>, Failure> {
    if file == Path::new("-") {
        return Ok(BufWriter::new(Box::new(std::io::stdout())));
    }
    let opened = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .map_err(|error| Failure::file(file, &error))?;
    Ok(BufWriter::new(Box::new(opened)))
}

fn finish(mut out: BufWriter<Box<dyn Write>>, file: &Path) -> Outcome {
    out.flush().map_err(|error| Failure::file(file, &error))?;
    if file == Path::new("-") {
        return Ok(());
    }
    File::open(file)
        .and_then(|file| file.sync_all())
        .map_err(|error| Failure::file(file, &error))
}

fn print_export(exported: &Exported, file: &Path) -> Outcome {
    output::print_note(&format!("{}: {} records", file.display(), exported.records));
    if exported.damaged.count == 0 {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "{} damaged records were left out: {}",
        exported.damaged.count,
        exported.damaged.some.join(", ")
    )))
}

/// Works on the files themselves: the store must be empty, and no server may have it open.
fn import(file: &Path, json: bool, global: &Global) -> Outcome {
    let loaded = global.load()?;
    let (mut input, bytes): (Box<dyn BufRead>, _) = if file == Path::new("-") {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let open = || {
            let file = File::open(file)?;
            let about = file.metadata()?;
            Ok((about.is_file().then_some(about.len()), BufReader::new(file)))
        };
        let (bytes, opened) = open().map_err(|error| Failure::file(file, &error))?;
        (Box::new(opened), bytes)
    };
    let imported = Startup::new(loaded).import(&mut input, bytes)?;
    if json {
        output::json(&json!({
            "records": imported.records,
            "skipped": imported.skipped,
            "complete": imported.complete,
        }))?;
    } else {
        output::print_note(&format!("{} records", imported.records));
    }
    for (line, why) in &imported.mistakes {
        output::print_note(&format!("line {line} {why}"));
    }
    if imported.skipped > 0 {
        return Err(Failure::failed(format!(
            "{} lines were skipped",
            imported.skipped
        )));
    }
    if imported.complete {
        return Ok(());
    }
    Err(Failure::failed(
        "the file has no end, or lines are missing: it was cut short",
    ))
}

fn show(report: &Value, json: bool) -> Outcome {
    if json {
        return output::json(report);
    }
    let nothing = Value::Null;
    output::list(report.get("tables").unwrap_or(&nothing), &COLUMNS, false)?;
    match report.get("truth") {
        Some(truth) => {
            output::line("\nThe engine against base and log:")?;
            output::record(truth, false)
        }
        None => Ok(()),
    }
}
