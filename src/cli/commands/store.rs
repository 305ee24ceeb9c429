//! `playgate store`: verifies, reindexes, exports, imports and recovers the store.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::backup::{offline_change, readable};
use crate::client::{Admin, path};
use crate::global::Global;
use crate::output::{self, CommandResult, Failure};
use crate::server::Startup;
use playgate_domain::audit::Audit;
use playgate_domain::set_aside;
use playgate_ports::named_file;
use playgate_store::{Exported, Salvaged, SnapshotExport};

/// The store: integrity checks, export and import as text
#[derive(Subcommand)]
pub(crate) enum StoreCommand {
    /// Check all records and indexes, and the engine against the write-ahead log; exit code 1 if anything
    /// is wrong
    Verify {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Reindex: rebuild all indexes from the records and report what was wrong
    Rebuild {
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Export every record as one line of text; damaged records are skipped and reported
    ///
    /// The file contains everything in the store: hashes of passwords and tokens, addresses, encrypted
    /// keys.
    Export {
        /// Target file, which must not exist; `-` for standard output
        file: PathBuf,
        /// Export this backup instead of the store
        #[arg(long, value_name = "BACKUP")]
        from: Option<PathBuf>,
        /// Export all readable records of a store that cannot be opened, and report the missing ones
        #[arg(long, conflicts_with = "from")]
        salvage: bool,
    },
    /// Import an export into a new data directory; damaged lines are skipped and reported
    Import {
        /// Export file, `-` for standard input
        file: PathBuf,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Open a store that has permanently lost commits; run it without a server, or while the server waits
    /// in maintenance mode
    ///
    /// A server does not start if commits that it had acknowledged are lost. If no backup is restored, this
    /// command continues with the remaining data and records the loss in the audit log.
    Recover {
        /// Accept the permanent loss of the missing commits
        #[arg(long)]
        accept_loss: bool,
        /// Print the kept and lost commits as JSON
        #[arg(long)]
        json: bool,
    },
    /// Compact the engine to reclaim disk space, while the service runs
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

pub(crate) async fn run(command: StoreCommand, global: &Global) -> CommandResult {
    match command {
        StoreCommand::Verify { json } => {
            let mut admin = global.admin().await?;
            let report = admin.post(&path(&["store", "verify"]), None).await?;
            show(&report, json)?;
            if report.get("sound") == Some(&Value::Bool(true)) {
                output::print_note(
                    "all records and indexes verified; engine matches snapshot and WAL",
                );
                return Ok(());
            }
            Err(Failure::failed("the store is damaged").hint(
                "`playgate store rebuild` repairs indexes; an engine that differs from snapshot and WAL is \
                 rebuilt at the next start; restore damaged records from a backup",
            ))
        }
        StoreCommand::Rebuild { json } => {
            let mut admin = global.admin().await?;
            let report = admin.post(&path(&["store", "rebuild"]), None).await?;
            show(&report, json)
        }
        StoreCommand::Export {
            file,
            from,
            salvage,
        } => export(&file, from.as_deref(), salvage, global).await,
        StoreCommand::Import { file, json } => import(&file, json, global),
        StoreCommand::Recover { accept_loss, json } => recover(accept_loss, json, global).await,
        StoreCommand::Compact { json } => {
            let mut admin = global.admin().await?;
            let report = admin.post(&path(&["store", "compact"]), None).await?;
            output::record(&report, json)?;
            note_aside(global);
            Ok(())
        }
    }
}

/// Somebody who erases users for good must know what still has them.
pub(crate) fn note_aside(global: &Global) {
    let Ok(loaded) = global.load() else { return };
    let data_dir = &loaded.config.server.data_dir;
    let kept = set_aside::with_erased_users(data_dir);
    let names: Vec<_> = kept.iter().map(|path| path.display().to_string()).collect();
    if !names.is_empty() {
        output::print_note(&format!(
            "note: replaced stores and files that could not be used still have users that were erased since: {}. The service deletes \
             them {} days after; delete them yourself once you do not need them any more",
            names.join(", "),
            set_aside::KEPT_DAYS
        ));
    }
}

async fn export(
    file: &Path,
    from: Option<&Path>,
    salvaging: bool,
    global: &Global,
) -> CommandResult {
    let tables = playgate_records::schema();
    if salvaging {
        let loaded = global.load()?;
        let mut out = writer(file)?;
        let Salvaged { exported, missing } =
            playgate_store::salvage(&loaded.config.server.data_dir, &tables, &mut out)?;
        finish(out, file)?;
        for what in &missing {
            output::print_note(&format!("missing: {what}"));
        }
        return print_export(&exported, file);
    }
    let snapshot = match from {
        Some(backup) => {
            let loaded = global.load()?;
            let readable = readable(backup, &loaded.config.server.data_dir)?;
            SnapshotExport::open(readable.path(), &tables)?
        }
        None => {
            let mut admin = global.admin().await?;
            // An open snapshot stays readable after a checkpoint has deleted its file.
            admin
                // Any error: the snapshot is read again only if its file is gone.
                .read_new_snapshot(|path| SnapshotExport::open(path, &tables), |_| true)
                .await?
        }
    };
    let mut out = writer(file)?;
    let exported = snapshot.write(&tables, &mut out)?;
    finish(out, file)?;
    print_export(&exported, file)
}

/// Opens the store itself, as a server does, and accepts the loss of commits if asked to.
async fn recover(accept_loss: bool, json: bool, global: &Global) -> CommandResult {
    let mut startup = Startup::new(global.load()?);
    startup.accept_loss = accept_loss;
    if !playgate_app::has_store(&startup.config) {
        return Err(Failure::failed(format!(
            "no store in {}",
            startup.config.server.data_dir.display()
        )));
    }
    // A waiting server releases the lock between its attempts.
    let store = Admin::retry_in_use(async || Ok(startup.open())).await?;
    let Some(loss) = store.loss() else {
        if json {
            return output::json(&json!({ "lost": 0 }));
        }
        output::print_note("the store opens normally: nothing is lost");
        return Ok(());
    };
    let (kept, lost) = (loss.kept, loss.count());
    let target = format!("store/recover: kept {kept} commits, lost {lost}");
    let change = offline_change("admin_recover_store", target, &*startup.ports.clock);
    Audit::open(store).record_done(change)?;
    if json {
        return output::json(&json!({ "kept": kept, "lost": lost }));
    }
    let lost_commits = match loss.last {
        Some(last) => format!("commits {} to {last} are lost", kept + 1),
        None => "the number of lost commits is unknown".to_owned(),
    };
    output::print_note(&format!(
        "the store opens with everything up to commit {kept}; {lost_commits}"
    ));
    Ok(())
}

fn writer(file: &Path) -> Result<BufWriter<Box<dyn Write>>, Failure> {
    if file == Path::new("-") {
        return Ok(BufWriter::new(Box::new(std::io::stdout())));
    }
    // Only for its owner: the export contains hashes of passwords and tokens.
    let opened = named_file::create_new(file).map_err(|error| Failure::file(file, &error))?;
    Ok(BufWriter::new(Box::new(opened)))
}

fn finish(mut out: BufWriter<Box<dyn Write>>, file: &Path) -> CommandResult {
    out.flush().map_err(|error| Failure::file(file, &error))?;
    if file == Path::new("-") {
        return Ok(());
    }
    // The export may be the only copy of a damaged store: it must survive a power cut.
    named_file::open(file)
        .and_then(|file| file.sync_all())
        .map_err(|error| Failure::file(file, &error))
}

fn print_export(exported: &Exported, file: &Path) -> CommandResult {
    output::print_note(&format!("{}: {} records", file.display(), exported.records));
    if exported.damaged.count == 0 {
        return Ok(());
    }
    Err(Failure::failed(format!(
        "skipped {} damaged records: {}",
        exported.damaged.count,
        exported.damaged.some.join(", ")
    )))
}

/// Works on the files directly: the store must be empty and no server may have it open.
fn import(file: &Path, json: bool, global: &Global) -> CommandResult {
    let loaded = global.load()?;
    let (mut input, bytes): (Box<dyn BufRead>, _) = if file == Path::new("-") {
        (Box::new(std::io::stdin().lock()), None)
    } else {
        let open = || {
            let file = named_file::open(file)?;
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
            "{} lines skipped",
            imported.skipped
        )));
    }
    // The export ends with its number of records: a file that was cut at a line end is noticed.
    if imported.complete {
        return Ok(());
    }
    Err(Failure::failed(
        "the file is truncated: its end or some lines are missing",
    ))
}

fn show(report: &Value, json: bool) -> CommandResult {
    if json {
        return output::json(report);
    }
    let nothing = Value::Null;
    output::list(report.get("tables").unwrap_or(&nothing), &COLUMNS, false)?;
    match report.get("durableState") {
        Some(durable_state) => {
            output::line("\nEngine compared with snapshot and WAL:")?;
            output::record(durable_state, false)
        }
        None => Ok(()),
    }
}
