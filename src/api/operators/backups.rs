//! Backups.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use playgate_domain::audit::AuditedChange;
use playgate_domain::backups::{Backup, BackupContents, BackupError, Keys};
use playgate_http::offload::bulk;
use playgate_http::request::blocking_body::pipe;
use playgate_http::{
    ApiError, BodyStream, CombineResults, Context, ErrorCode, Input, OperatorAuth, ParseRequest,
    Payload, Reply,
};
use playgate_observe::readiness::Readiness;
use playgate_services::{Restart, Services};
use playgate_types::{Described, JsonType, UnixSeconds};

crate::openapi::words::words! { BackupLine, BackupContentsBody, RestoredBody => r##"
[operations.admin_backups]
summary = "List backups"
text = "Newest first."
returns."200" = "[BackupLine]: The backups."
errors = ["BACKUP_FAILED"]

[operations.admin_create_backup]
summary = "Create a backup"
text = "Makes a consistent copy while the service runs. Every record is read back."
returns."200" = "BackupLine: The backup."
errors = ["BACKUP_FAILED"]

[operations.admin_verify_backup]
summary = "Verify a backup"
text = "Reads the whole file."
returns."200" = "BackupContents: The backup is sound."
errors = ["BACKUP_NOT_FOUND", "BACKUP_UNUSABLE", "BACKUP_FAILED"]

[operations.admin_restore_backup]
summary = "Restore a backup"
text = "The process restarts with the restored store after the response. The previous store is kept in `aside/`. Users, operators and tokens that were removed after the backup exist again."
query.adopt = "Flag?: Restores the backup even if another machine's store made it."
returns."200" = "Restored: What was restored."
errors = ["BACKUP_NOT_FOUND", "BACKUP_UNUSABLE", "BACKUP_FOREIGN", "BACKUP_FAILED", "RESTART_NOT_POSSIBLE"]

[operations.admin_restore_sent_backup]
summary = "Restore an uploaded backup"
text = "Works like `admin_restore_backup`, with the file as the request body."
query.adopt = "Flag?: Restores the backup even if another machine's store made it."
send = { text = "The backup file.", media = ["application/octet-stream"] }
returns."200" = "Restored: What was restored."
errors = ["BACKUP_UNUSABLE", "BACKUP_FOREIGN", "BACKUP_FAILED", "RESTART_NOT_POSSIBLE"]
"## }

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupRequest {
    pub name: String,
}

impl ParseRequest for BackupRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            name: input.text("backup")?.into_owned(),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RestoreBackupRequest {
    pub name: String,
    /// Permits a backup of another installation.
    pub adopt: bool,
}

impl ParseRequest for RestoreBackupRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (name, adopt) = (input.text("backup"), input.query.flag("adopt")).combine()?;
        Ok(Self {
            name: name.into_owned(),
            adopt,
        })
    }
}

pub(crate) struct RestoreSentBackupRequest {
    pub adopt: bool,
    pub file: BodyStream,
}

impl ParseRequest for RestoreSentBackupRequest {
    fn parse(input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        Ok(Self {
            adopt: input.query.flag("adopt")?,
            file: payload.streamed()?,
        })
    }
}

pub(crate) async fn list(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let backups = services.backups.clone();
    let listed = bulk(services, move || backups.directory().list()).await?;
    let lines: Vec<_> = listed.iter().map(BackupLine::from).collect();
    Reply::json(&lines)
}

pub(crate) async fn create(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let (backups, now) = (services.backups.clone(), cx.now);
    let made = bulk(services, move || backups.create(now)).await?;
    let line = BackupLine::from(&made);
    Reply::made(&line.name, &line)
}

pub(crate) async fn verify(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: BackupRequest,
) -> Result<Reply, ApiError> {
    let backups = services.backups.clone();
    let contents = bulk(services, move || backups.verify(&request.name)).await?;
    Reply::json(&BackupContentsBody::from(contents))
}

pub(crate) async fn restore(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RestoreBackupRequest,
) -> Result<Reply, ApiError> {
    // Before anything is restored: a process that cannot restart must not get a restored store.
    let restart = restart(services)?;
    let change = change(cx)?;
    let backups = services.backups.clone();
    let job = then_restart(&services.readiness, restart, move || {
        let file = backups.directory().find(&request.name)?;
        backups.restore(&file, request.adopt, change)
    });
    restored_reply(services, bulk(services, job).await?)
}

pub(crate) async fn restore_sent(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RestoreSentBackupRequest,
) -> Result<Reply, ApiError> {
    let restart = restart(services)?;
    let change = change(cx)?;
    let (upload, mut body) = pipe();
    let backups = services.backups.clone();
    let job = then_restart(&services.readiness, restart, move || {
        backups.restore_upload(&mut body, request.adopt, change)
    });
    let restoring = bulk(services, job);
    let (uploaded, restored) = tokio::join!(upload.pass(request.file), restoring);
    // A failed upload also makes the restore fail; report the upload's error, which is the cause.
    uploaded?;
    restored_reply(services, restored?)
}

fn restart(services: &Services) -> Result<&Restart, ApiError> {
    services.restart.as_ref().ok_or_else(|| {
        ApiError::new(
            ErrorCode::RestartNotPossible,
            "this process cannot restart itself; stop it and restore from the command line",
        )
    })
}

fn change(cx: &Context) -> Result<AuditedChange, ApiError> {
    // The entry is written to the restored store as well, because the old store is moved aside with its own.
    let change = cx.change.as_deref().cloned();
    change.ok_or_else(|| ApiError::internal("the restore has no audit entry"))
}

/// Returns a job that restores and then restarts the process. The restart is part of the job, because the request may end
/// before it: a process that went on would acknowledge changes, and its next start would install the backup over them.
fn then_restart<T>(
    readiness: &Arc<Readiness>,
    restart: &Restart,
    restore: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> impl FnOnce() -> Result<T, BackupError> + Send + 'static {
    let (readiness, restart) = (Arc::clone(readiness), Arc::clone(restart));
    move || {
        let restored = restore()?;
        // Readiness must fail from here on: a client that waits for the restored store must not see this process, which
        // is about to exit, as ready.
        readiness.not_ready("server", "restarting with a restored backup");
        restart();
        Ok(restored)
    }
}

fn restored_reply(services: &Services, restored: BackupContents) -> Result<Reply, ApiError> {
    let keys = restored.keys(services.backups.directory().key());
    Reply::json(&RestoredBody::new(restored, keys))
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupLine {
    /// File name, by which the other operations on backups name it.
    pub name: String,
    /// Path of the file on the machine of the server.
    pub path: String,
    /// Time at which the backup was made.
    pub created_at: UnixSeconds,
    /// Number of records. `null` if the file does not say.
    pub records: Option<u64>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Number of the last commit in the backup.
    pub number: u64,
    /// Whether this store made the backup and may remove it when it is old.
    pub own: bool,
}

impl From<&Backup> for BackupLine {
    fn from(backup: &Backup) -> Self {
        let Backup {
            name,
            path,
            created,
            number,
            records,
            bytes,
            made_by_this_store,
        } = backup;
        Self {
            name: name.clone(),
            path: path.display().to_string(),
            created_at: *created,
            records: *records,
            bytes: *bytes,
            number: *number,
            own: *made_by_this_store,
        }
    }
}

#[derive(Described, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackupContentsBody {
    /// Always true. A defective backup is answered with an error.
    pub sound: bool,
    /// Time at which the backup was made.
    pub created_at: UnixSeconds,
    /// Number of the last commit in the backup.
    pub number: u64,
    /// Number of records in all tables.
    pub records: u64,
    /// Number of records of each table.
    pub tables: BTreeMap<String, u64>,
    /// Version of Playgate that made the backup. `null` if not known.
    pub version: Option<String>,
    /// Fingerprint of the key file that opens the sealed content keys. `null` if not known.
    pub content_key: Option<String>,
}

impl From<BackupContents> for BackupContentsBody {
    fn from(contents: BackupContents) -> Self {
        let BackupContents {
            created,
            number,
            records,
            tables,
            version,
            key,
        } = contents;
        Self {
            sound: true,
            created_at: created,
            number,
            records,
            tables,
            version,
            content_key: key,
        }
    }
}

impl From<BackupContentsBody> for BackupContents {
    fn from(body: BackupContentsBody) -> Self {
        Self {
            created: body.created_at,
            number: body.number,
            records: body.records,
            tables: body.tables,
            version: body.version,
            key: body.content_key,
        }
    }
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoredBody {
    #[serde(flatten)]
    contents: BackupContentsBody,
    /// Whether this machine's key file opens the content keys in the backup.
    #[described(JsonType::OneOf(&["open", "sealed", "unknown"]))]
    keys: &'static str,
}

impl RestoredBody {
    pub fn new(contents: BackupContents, keys: Keys) -> Self {
        Self {
            contents: contents.into(),
            keys: match keys {
                Keys::Open => "open",
                Keys::Sealed => "sealed",
                Keys::Unknown => "unknown",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use playgate_process::WorkerPool;

    #[test]
    fn a_restore_restarts_the_process_even_if_its_request_is_dropped() {
        let readiness = Arc::new(Readiness::default());
        let restarts = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&restarts);
        let restart: Restart = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let pool = WorkerPool::new("test", 1, 4, || ()).unwrap();
        let (began, has_begun) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let job = then_restart(&readiness, &restart, move || {
            began.send(()).unwrap();
            let _ = wait.recv();
            Ok(())
        });
        let request = pool.run(move |()| job()).unwrap();
        has_begun.recv().unwrap();
        drop((request, release));
        // Waits for the job.
        drop(pool);
        assert_eq!(restarts.load(Ordering::Relaxed), 1);
        assert!(readiness.reasons().contains_key("server"));
    }

    #[test]
    fn a_failed_restore_does_not_restart_the_process() {
        let restart: Restart = Arc::new(|| panic!("nothing was restored"));
        let job = then_restart(&Arc::default(), &restart, || {
            Err::<(), _>(BackupError::NotFound)
        });
        assert!(job().is_err());
    }
}
