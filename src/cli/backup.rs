//! `playgate backup`: backups made, listed, verified and brought back.
//!
//! Only `create` needs the store. The others work beside one that does not open any more, which is
//! when they are wanted.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use super::admin::{Admin, path, request_body, with_query};
use super::exit::{ADOPT, Exit, Failure, Outcome};
use super::{Global, output, privileges};
use crate::app::backup_settings;
use crate::config::Loaded;
use crate::domain::audit::Change;
use crate::domain::backups::{BackupDirectory, BackupError, Restoring, examine};
use crate::http::auth::Administrator;
use crate::http::wire::backups::{BackupLine, ContentsBody, RestoredBody};
use crate::ports::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::store::StoreError;
use crate::types::Role;

/// How long a server may take to come back with a restored store; one that has much reads long.
const PATIENCE: Duration = Duration::from_secs(120);
/// What a person is asked before the store is given up for a backup.
const RESTORE: &str = "Everything since that backup is undone: who signed up is gone, and users, operators and \
     tokens that were removed are back. Restore it?";
/// How often one looks meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Backups: the whole store in one file, while the server runs.
#[derive(Subcommand)]
pub enum Command {
    /// Make a backup, prove it, and remove the oldest over `backup.keep`
    Create {
        /// Print {"path","records"} and more
        #[arg(long)]
        json: bool,
    },
    /// List the backups, the newest first
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Check every record of a backup, and its indexes both ways; exit code 1 if anything is wrong
    Verify {
        /// A file, or a name from `backup list`
        file: PathBuf,
        /// Print the counts as JSON
        #[arg(long)]
        json: bool,
    },
    /// Go back to a backup. A running server begins again with it; the store that was there is kept
    /// in `aside/` of the data directory. Keys at rest (`keys/` of the data directory) and the bodies
    /// of telemetry are in no backup: carry `keys/` over when you move to another machine
    Restore {
        /// A file, or a name from `backup list`
        file: PathBuf,
        /// Take over another machine's backup
        #[arg(long)]
        adopt: bool,
        /// Do not ask
        #[arg(long)]
        yes: bool,
        /// Print the counts as JSON
        #[arg(long)]
        json: bool,
    },
}

const COLUMNS: [output::Column; 4] = [
    ("NAME", "name"),
    ("CREATED", "createdAt"),
    ("RECORDS", "records"),
    ("BYTES", "bytes"),
];

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    match command {
        Command::Create { json } => {
            let mut admin = global.admin().await?;
            let made = admin.call(Method::POST, &path(&["backups"]), None).await?;
            if json {
                return output::json(&made);
            }
            output::line(&format!(
                "{}: {} records, proven",
                output::text(&made, "path"),
                output::text(&made, "records")
            ))
        }
        Command::List { json } => output::list(&list(&global.load()?).await?, &COLUMNS, json),
        Command::Verify { file, json } => verify(&file, json, global).await,
        Command::Restore {
            file,
            adopt,
            yes,
            json,
        } => {
            if !yes && !output::confirmed(RESTORE) {
                return Err(Failure::failed("nothing was restored"));
            }
            restore(&file, adopt, json, global).await
        }
    }
}

/// The backups, from the server where one runs: it may see what the person does not.
async fn list(loaded: &Loaded) -> Result<Value, Failure> {
    if let Some(mut admin) = Admin::running(loaded).await? {
        return admin.get(&path(&["backups"])).await;
    }
    let listed = BackupDirectory::new_offline(backup_settings(&loaded.config)).list()?;
    let lines: Vec<_> = listed.iter().map(BackupLine::from).collect();
    serde_json::to_value(lines).map_err(|error| Failure::failed(error.to_string()))
}

/// A bare name that is no file here is that of a backup in the list.
fn bare_name(file: &Path) -> Option<&str> {
    let name = file.file_name()?.to_str()?;
    (file.as_os_str() == name && !file.exists()).then_some(name)
}

async fn verify(file: &Path, json: bool, global: &Global) -> Outcome {
    let contents = match bare_name(file) {
        // Without a data directory or a configuration: the file is all there need be.
        None => match examine(file) {
            Ok(contents) => to_json(&ContentsBody::from(contents))?,
            Err(error) => return unsound(file, error, json),
        },
        Some(name) => {
            let loaded = global.load()?;
            match Admin::running(&loaded).await? {
                Some(mut admin) => {
                    let target = path(&["backups", name, "verify"]);
                    admin.call(Method::POST, &target, None).await?
                }
                None => {
                    let found =
                        BackupDirectory::new_offline(backup_settings(&loaded.config)).find(name)?;
                    match examine(&found) {
                        Ok(contents) => to_json(&ContentsBody::from(contents))?,
                        Err(error) => return unsound(&found, error, json),
                    }
                }
            }
        }
    };
    if json {
        return output::json(&contents);
    }
    show_tables(&contents)?;
    output::print_note(&format!(
        "sound: {} records, every one of them read",
        output::text(&contents, "records")
    ));
    Ok(())
}

/// Tells what is wrong with a file. The JSON is also what a server reads that had it verified.
fn unsound(file: &Path, error: BackupError, json: bool) -> Outcome {
    if let BackupError::Store(StoreError::Io(_)) = &error
        && let Err(error) = std::fs::metadata(file)
    {
        return Err(Failure::file(file, &error));
    }
    let problem = match &error {
        BackupError::Damaged { what, .. } => what.clone(),
        other => other.to_string(),
    };
    if json {
        output::json(&json!({"sound": false, "problem": problem}))?;
    }
    Err(Failure::failed(format!("{}: {problem}", file.display()))
        .hint("`playgate backup list` shows what else there is"))
}

async fn restore(file: &Path, adopt: bool, json: bool, global: &Global) -> Outcome {
    let loaded = global.load()?;
    let given_up = Instant::now() + Admin::PATIENCE;
    let restored = loop {
        if let Some(admin) = Admin::running(&loaded).await? {
            break restore_in_server(admin, file, adopt, &loaded).await?;
        }
        match restore_at_rest(file, adopt, &loaded) {
            // A server that has no socket yet, or a command at work.
            Err(BackupError::Store(StoreError::InUse)) if Instant::now() < given_up => {
                sleep(LOOK_EVERY).await;
            }
            other => break other?,
        }
    };
    tell_restored(&restored, json)
}

/// Without a server: put into place here.
fn restore_at_rest(file: &Path, adopt: bool, loaded: &Loaded) -> Result<Value, BackupError> {
    let shelf = BackupDirectory::new_offline(backup_settings(&loaded.config));
    let file = match bare_name(file) {
        Some(name) => shelf.find(name)?,
        None => file.to_owned(),
    };
    let entropy: &dyn Entropy = &SystemEntropy::default();
    let how = Restoring {
        instance: entropy.array(),
        timeline: entropy.array(),
        adopt,
        change: restore_at_rest_change(&file),
    };
    let contents = shelf.restore_at_rest(&file, how)?;
    let keys = contents.keys(shelf.key());
    Ok(serde_json::to_value(RestoredBody::new(contents, keys)).unwrap_or_default())
}

/// What is recorded where no server is there to do it: the same that one does.
fn restore_at_rest_change(file: &Path) -> Change {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    change_at_rest(
        "admin_restore_backup",
        format!("backups/{name}/restore"),
        &SystemClock,
    )
}

/// A change by whoever runs this command, without a server.
pub(super) fn change_at_rest(action: &str, target: String, clock: &dyn Clock) -> Change {
    Change {
        at: clock.now(),
        operator: None,
        name: Administrator::here().to_string(),
        role: Role::Admin,
        action: action.to_owned(),
        target,
        // Nobody asked a server.
        request: String::new(),
        claimed: privileges::claim(),
    }
}

/// With a server: it prepares, begins again, and is waited for.
async fn restore_in_server(
    mut admin: Admin,
    file: &Path,
    adopt: bool,
    loaded: &Loaded,
) -> Result<Value, Failure> {
    let adopt = [("adopt", adopt.then_some("true"))];
    let restored = match listed(&mut admin, file).await? {
        Some(name) => {
            let target = with_query(path(&["backups", &name, "restore"]), &adopt);
            admin.ask(Method::POST, &target, None).await?
        }
        None => {
            let sent = request_body::Sent::default();
            let body = request_body::counted(request_body::file(file)?, &sent);
            let target = with_query(path(&["backups", "restore"]), &adopt);
            let kind = "application/octet-stream";
            admin
                .upload(&target, kind, body, || sent.progress())
                .await?
        }
    };
    let restored = restored.map_err(|refusal| match refusal.code.as_str() {
        "BACKUP_FOREIGN" => Failure::from(refusal).hint(ADOPT),
        _ => refusal.into(),
    })?;
    drop(admin);
    let given_up = Instant::now() + PATIENCE;
    while !is_back(loaded).await {
        if Instant::now() > given_up {
            return Err(Failure::failed(
                "the backup is in place, and the server has not come back yet",
            )
            .hint("its log tells why"));
        }
        sleep(LOOK_EVERY).await;
    }
    Ok(restored)
}

/// The name of a file that lies in the server's directory of backups.
async fn listed(admin: &mut Admin, file: &Path) -> Result<Option<String>, Failure> {
    if let Some(name) = bare_name(file) {
        return Ok(Some(name.to_owned()));
    }
    let whole = file
        .canonicalize()
        .map_err(|error| Failure::file(file, &error))?;
    let backups = admin.get(&path(&["backups"])).await?;
    let found = backups.as_array().into_iter().flatten().find(|backup| {
        let at = Path::new(backup.get("path").and_then(Value::as_str).unwrap_or(""));
        at.canonicalize().is_ok_and(|at| at == whole)
    });
    Ok(found.map(|backup| output::text(backup, "name")))
}

/// Whether a server answers that is not the one that is about to end.
async fn is_back(loaded: &Loaded) -> bool {
    let Ok(Some(mut admin)) = Admin::running(loaded).await else {
        return false;
    };
    match admin.ask(Method::GET, "/readyz", None).await {
        Ok(Ok(_)) => true,
        // Whatever else is in its way.
        Ok(Err(refusal)) => refusal.is_ready_but_for("store"),
        Err(_) => false,
    }
}

fn tell_restored(restored: &Value, json: bool) -> Outcome {
    if json {
        output::json(restored)?;
    } else {
        show_tables(restored)?;
    }
    output::print_note(&format!(
        "restored: {} records, as many as the backup holds; the store that was there is in aside/",
        output::text(restored, "records")
    ));
    match output::text(restored, "keys").as_str() {
        "open" => output::print_note("keys at rest are not in a backup; this machine's open it"),
        "sealed" => output::print_note(
            "warning: the content keys in it were sealed under another machine's key, and no license \
             can be given with them. Put that machine's keys/content.key into keys/ of this data \
             directory and start again, or import the catalogue with its keys once more",
        ),
        _ => output::print_note(
            "keys at rest are not in a backup, and this one does not tell which it needs: if licenses \
             fail, bring keys/content.key of the machine that made it",
        ),
    }
    output::print_note("events of telemetry are not in a backup; those of this machine stay");
    Ok(())
}

fn show_tables(contents: &Value) -> Outcome {
    let tables = contents.get("tables").and_then(Value::as_object);
    let rows: Vec<Value> = tables
        .into_iter()
        .flatten()
        .map(|(table, records)| json!({"table": table, "records": records}))
        .collect();
    let columns = [("TABLE", "table"), ("RECORDS", "records")];
    output::list(&Value::from(rows), &columns, false)
}

fn to_json(body: &ContentsBody) -> Result<Value, Failure> {
    serde_json::to_value(body).map_err(|error| Failure::failed(error.to_string()))
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        let message = error.to_string();
        match error {
            BackupError::NotFound => {
                Self::new(Exit::NotFound, message).hint("`playgate backup list` tells their names")
            }
            BackupError::Foreign => Self::failed(message).hint(ADOPT),
            BackupError::Store(error) => error.into(),
            BackupError::NoDirectory(_)
            | BackupError::Directory { .. }
            | BackupError::Damaged { .. }
            | BackupError::Newer { .. } => Self::failed(message),
        }
    }
}
