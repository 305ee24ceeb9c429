//! `playgate backup`: create, list, verify and restore backups.
//!
//! Only `create` needs the store. The others must also work when the store can no longer be opened, which
//! is when they are needed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};

use crate::client::{Admin, path, request_body, with_query};
use crate::global::Global;
use crate::output::{self, ADOPT, CommandResult, Failure, members};
use crate::process::caller;
use playgate_api::operators::backups::{BackupContentsBody, BackupLine, RestoredBody};
use playgate_app::backup_settings;
use playgate_config::{Loaded, data_dir};
use playgate_domain::audit::AuditedChange;
use playgate_domain::backups::{BackupDirectory, BackupError, Restoring, examine};
use playgate_http::access::local_admin::Administrator;
use playgate_ports::{Clock, Entropy, SystemClock, SystemEntropy, named_file, private_file};
use playgate_store::StoreError;
use playgate_types::Role;

/// How long a server may take to come back after a restore. A large store loads slowly.
const TIMEOUT: Duration = Duration::from_secs(120);
const RESTORE: &str = "All changes since that backup are lost: new users are gone, and users, operators and \
     tokens removed since then are back. Restore it?";
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Backups: the whole store in one file, taken while the server runs
#[derive(Subcommand)]
pub(crate) enum BackupCommand {
    /// Create and verify a backup; delete the oldest beyond `backup.keep`
    Create {
        /// Print {"path","records"} and more
        #[arg(long)]
        json: bool,
    },
    /// List backups, newest first
    List {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Check all records and indexes of a backup; exit code 1 if anything is wrong
    Verify {
        /// File, or name from `backup list`
        file: PathBuf,
        /// Print the counts as JSON
        #[arg(long)]
        json: bool,
    },
    /// Restore a backup. A running server restarts with it; the replaced store is moved to `aside/` in the
    /// data directory. Backups do not contain encryption keys (`keys/` in the data directory) or telemetry
    /// events: copy `keys/` when you move to another machine
    Restore {
        /// File, or name from `backup list`
        file: PathBuf,
        /// Accept a backup made on another machine
        #[arg(long)]
        adopt: bool,
        /// Skip the confirmation
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

pub(crate) async fn run(command: BackupCommand, global: &Global) -> CommandResult {
    match command {
        BackupCommand::Create { json } => {
            let mut admin = global.admin().await?;
            let made = admin.post(&path(&["backups"]), None).await?;
            let text = |member| output::text(&made, member);
            let line = format!("{}: {} records, verified", text("path"), text("records"));
            output::result(&line, &made, json)
        }
        BackupCommand::List { json } => output::list(&list(&global.load()?).await?, &COLUMNS, json),
        BackupCommand::Verify { file, json } => verify(&file, json, global).await,
        BackupCommand::Restore {
            file,
            adopt,
            yes,
            json,
        } => {
            if !yes && !output::confirmed(RESTORE) {
                return Err(Failure::failed("cancelled: nothing was restored"));
            }
            restore(&file, adopt, json, global).await
        }
    }
}

/// Lists backups through a running server if there is one: it may read files that the caller cannot.
async fn list(loaded: &Loaded) -> Result<Value, Failure> {
    if let Some(mut admin) = Admin::running(loaded).await? {
        return admin.get(&path(&["backups"])).await;
    }
    let listed =
        BackupDirectory::new_offline(backup_settings(&loaded.config), playgate_records::schema)
            .list()?;
    let lines: Vec<_> = listed.iter().map(BackupLine::from).collect();
    serde_json::to_value(lines).map_err(|error| Failure::failed(error.to_string()))
}

/// Returns the name if `file` is a name without a folder and no such file exists here: it names a listed backup.
fn listed_name(file: &Path) -> Option<&str> {
    let name = file.file_name()?.to_str()?;
    // A file in the current directory takes precedence: the user sees it, and not the list of backups.
    (file.as_os_str() == name && !named_file::exists(file)).then_some(name)
}

async fn verify(file: &Path, json: bool, global: &Global) -> CommandResult {
    let contents = match listed_name(file) {
        // Needs neither a data directory nor a configuration.
        None => {
            let readable = readable(file, &data_dir(&global.inputs()?))?;
            match examine(readable.path(), &playgate_records::schema()) {
                Ok(contents) => to_json(&BackupContentsBody::from(contents))?,
                Err(error) => return report_damaged(file, error, json),
            }
        }
        Some(name) => {
            let loaded = global.load()?;
            match Admin::running(&loaded).await? {
                Some(mut admin) => {
                    let target = path(&["backups", name, "verify"]);
                    admin.post(&target, None).await?
                }
                None => {
                    let found = BackupDirectory::new_offline(
                        backup_settings(&loaded.config),
                        playgate_records::schema,
                    )
                    .find(name)?;
                    match examine(&found, &playgate_records::schema()) {
                        Ok(contents) => to_json(&BackupContentsBody::from(contents))?,
                        Err(error) => return report_damaged(&found, error, json),
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
        "valid: {} records, all read",
        output::text(&contents, "records")
    ));
    Ok(())
}

/// Reports a damaged file. A server that verifies in a subprocess parses this JSON.
fn report_damaged(file: &Path, error: BackupError, json: bool) -> CommandResult {
    // A missing or unreadable file is not a damaged backup.
    if let BackupError::Store(StoreError::Io(_)) = &error
        && let Err(error) = named_file::open(file)
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
        .hint("`playgate backup list` lists other backups"))
}

async fn restore(file: &Path, adopt: bool, json: bool, global: &Global) -> CommandResult {
    let loaded = global.load()?;
    if listed_name(file).is_none() {
        named_file::check(file).map_err(|error| Failure::file(file, &error))?;
    }
    let restored = Admin::retry_in_use(async || {
        if let Some(admin) = Admin::running(&loaded).await? {
            return restore_in_server(admin, file, adopt, &loaded).await.map(Ok);
        }
        match restore_offline(file, adopt, &loaded) {
            Err(BackupError::Store(error)) => Ok(Err(error)),
            other => Ok(Ok(other?)),
        }
    });
    print_restored(&restored.await?, json)
}

fn restore_offline(file: &Path, adopt: bool, loaded: &Loaded) -> Result<Value, BackupError> {
    let backups =
        BackupDirectory::new_offline(backup_settings(&loaded.config), playgate_records::schema);
    let (named, readable) = match listed_name(file) {
        Some(name) => {
            let found = backups.find(name)?;
            (found.clone(), ReadableFile::at(found))
        }
        None => (
            file.to_owned(),
            readable_file(file, &loaded.config.server.data_dir)?,
        ),
    };
    let entropy: &dyn Entropy = &SystemEntropy::default();
    let how = Restoring {
        instance: entropy.array(),
        timeline: entropy.array(),
        adopt,
        change: offline_restore_change(&named),
    };
    let contents = backups.restore_offline(readable.path(), how);
    let contents = contents.map_err(|error| match error {
        BackupError::Damaged { what, .. } => BackupError::Damaged {
            place: named.display().to_string(),
            what,
        },
        other => other,
    })?;
    let keys = contents.keys(backups.key());
    Ok(serde_json::to_value(RestoredBody::new(contents, keys)).unwrap_or_default())
}

/// A backup that this process can open by a path.
pub(crate) struct ReadableFile {
    path: PathBuf,
    /// A copy without a name, to which the path leads by its descriptor.
    _copy: Option<File>,
}

impl ReadableFile {
    const fn at(path: PathBuf) -> Self {
        Self { path, _copy: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Makes a backup that only root can open readable by a path, for the process of the data directory's owner: by its
/// descriptor, or by a copy.
fn readable_file(file: &Path, data_dir: &Path) -> Result<ReadableFile, StoreError> {
    if !named_file::is_inherited(file) {
        return Ok(ReadableFile::at(file.to_owned()));
    }
    if let Some(path) = named_file::reopenable(file) {
        return Ok(ReadableFile::at(path));
    }
    // In the data directory, whose disk has the room that a restore needs anyway. Without a name nothing is left behind.
    let place = data_dir.join(format!("named-backup-{}", std::process::id()));
    let mut copy = private_file::create(&place)?;
    std::fs::remove_file(&place)?;
    io::copy(&mut named_file::open(file)?, &mut copy)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", copy.as_raw_fd()));
    Ok(ReadableFile {
        path,
        _copy: Some(copy),
    })
}

pub(crate) fn readable(file: &Path, data_dir: &Path) -> Result<ReadableFile, Failure> {
    readable_file(file, data_dir).map_err(|error| {
        Failure::failed(format!(
            "{}: cannot be copied to the data directory: {error}",
            file.display()
        ))
    })
}

/// The audit entry of a restore without a server; equal to the one that a server writes.
fn offline_restore_change(file: &Path) -> AuditedChange {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    offline_change(
        "admin_restore_backup",
        format!("backups/{name}/restore"),
        &SystemClock,
    )
}

/// A change made by the caller of this command, without a server.
pub(crate) fn offline_change(action: &str, target: String, clock: &dyn Clock) -> AuditedChange {
    AuditedChange {
        at: clock.now(),
        operator: None,
        name: Administrator::here().to_string(),
        role: Role::Admin,
        action: action.to_owned(),
        target,
        // There is no HTTP request.
        request: String::new(),
        claimed: caller::claim(),
    }
}

/// Restores through a running server: it stages the backup and restarts; this waits for it.
async fn restore_in_server(
    mut admin: Admin,
    file: &Path,
    adopt: bool,
    loaded: &Loaded,
) -> Result<Value, Failure> {
    let adopt = [("adopt", adopt.then_some("true"))];
    // A backup in the server's own directory is named and not sent: it may have gigabytes.
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
    // The server restarts with the restored store. A script that continues immediately would find no server.
    let deadline = Instant::now() + TIMEOUT;
    while !is_back(loaded).await {
        if Instant::now() > deadline {
            return Err(Failure::failed(
                "the backup is in place, but the server has not restarted yet",
            )
            .hint("see its log"));
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(restored)
}

/// Returns the name of a file that lies in the server's backup directory.
async fn listed(admin: &mut Admin, file: &Path) -> Result<Option<String>, Failure> {
    if let Some(name) = listed_name(file) {
        return Ok(Some(name.to_owned()));
    }
    // A file that root opened is not in a directory of the owner, and so not in that of the backups.
    if named_file::is_inherited(file) {
        return Ok(None);
    }
    let whole = file
        .canonicalize()
        .map_err(|error| Failure::file(file, &error))?;
    let backups = admin.get(&path(&["backups"])).await?;
    let found = members::all(&backups).iter().find(|backup| {
        let at = Path::new(members::text(backup, "path"));
        at.canonicalize().is_ok_and(|at| at == whole)
    });
    Ok(found.map(|backup| output::text(backup, "name")))
}

/// Returns whether the restarted server answers. The process that is about to exit reports another reason.
async fn is_back(loaded: &Loaded) -> bool {
    let Ok(Some(mut admin)) = Admin::running(loaded).await else {
        return false;
    };
    match admin.ask(Method::GET, "/readyz", None).await {
        Ok(Ok(_)) => true,
        // A full disk does not prevent the restored store from being served.
        Ok(Err(refusal)) => refusal.is_ready_but_for("store"),
        Err(_) => false,
    }
}

fn print_restored(restored: &Value, json: bool) -> CommandResult {
    if json {
        output::json(restored)?;
    } else {
        show_tables(restored)?;
    }
    output::print_note(&format!(
        "restored: all {} records of the backup; the previous store is in aside/",
        output::text(restored, "records")
    ));
    match output::text(restored, "keys").as_str() {
        "open" => output::print_note(
            "encryption keys are not part of a backup; this machine's keys fit it",
        ),
        "sealed" => output::print_note(
            "warning: the content keys in it were encrypted on another machine, so no license \
             can be issued with them. Copy that machine's keys/content.key into keys/ of this data \
             directory and restart, or import the catalogue with its keys again",
        ),
        _ => output::print_note(
            "encryption keys are not part of a backup, and this one does not record which it needs: if licenses \
             fail, copy keys/content.key from the machine that made it",
        ),
    }
    output::print_note("telemetry events are not part of a backup; those on this machine are kept");
    Ok(())
}

fn show_tables(contents: &Value) -> CommandResult {
    let tables = contents.get("tables").and_then(Value::as_object);
    let rows: Vec<Value> = tables
        .into_iter()
        .flatten()
        .map(|(table, records)| json!({"table": table, "records": records}))
        .collect();
    let columns = [("TABLE", "table"), ("RECORDS", "records")];
    output::list(&Value::from(rows), &columns, false)
}

fn to_json(body: &BackupContentsBody) -> Result<Value, Failure> {
    serde_json::to_value(body).map_err(|error| Failure::failed(error.to_string()))
}
