//! Handlers of backups.

use crate::app::{App, Restart};
use crate::domain::audit::Change;
use crate::domain::backups::{BackupError, Contents};
use crate::http::auth::OperatorAuth;
use crate::http::blocking_body::pipe;
use crate::http::context::Context;
use crate::http::endpoint::admin::backups::{
    BackupRequest, RestoreBackupRequest, RestoreSentBackupRequest,
};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::offload::bulk;
use crate::http::reply::Reply;
use crate::http::wire::backups::{BackupLine, ContentsBody, RestoredBody};

/// GET the backups, the newest first.
///
/// # Errors
/// `BACKUP_FAILED` if the directory cannot be read.
pub async fn list(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    let backups = app.backups.clone();
    let listed = bulk(app, move || backups.shelf().list()).await?;
    let lines: Vec<_> = listed.iter().map(BackupLine::from).collect();
    Reply::json(&lines)
}

/// POST: makes one.
///
/// # Errors
/// `BACKUP_FAILED`.
pub async fn create(app: &App, cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    let (backups, now) = (app.backups.clone(), cx.now);
    let made = bulk(app, move || backups.create(now)).await?;
    let line = BackupLine::from(&made);
    Reply::made(&line.name, &line)
}

/// POST verify: reads one to its end.
///
/// # Errors
/// `BACKUP_NOT_FOUND`, `BACKUP_UNUSABLE`.
pub async fn verify(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: BackupRequest,
) -> Result<Reply, ApiError> {
    let backups = app.backups.clone();
    let contents = bulk(app, move || backups.verify(&request.name)).await?;
    Reply::json(&ContentsBody::from(contents))
}

/// POST restore: brings one back. The process begins again with it, once this is answered.
///
/// # Errors
/// `BACKUP_NOT_FOUND`, `BACKUP_UNUSABLE`, `BACKUP_FOREIGN`, `RESTART_NOT_POSSIBLE`.
pub async fn restore(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: RestoreBackupRequest,
) -> Result<Reply, ApiError> {
    let restart = restart(app)?;
    let change = change(cx)?;
    let backups = app.backups.clone();
    let restored = bulk(app, move || -> Result<Contents, BackupError> {
        let file = backups.shelf().find(&request.name)?;
        backups.restore(&file, request.adopt, change)
    })
    .await?;
    begin_again(app, restart, restored)
}

/// POST restore with the backup as the body.
///
/// # Errors
/// `BACKUP_UNUSABLE`, `BACKUP_FOREIGN`, `RESTART_NOT_POSSIBLE`.
pub async fn restore_sent(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: RestoreSentBackupRequest,
) -> Result<Reply, ApiError> {
    let restart = restart(app)?;
    let change = change(cx)?;
    let (feed, mut body) = pipe();
    let backups = app.backups.clone();
    let restoring = bulk(app, move || {
        backups.restore_sent(&mut body, request.adopt, change)
    });
    let (fed, restored) = tokio::join!(feed.pass(request.file), restoring);
    // What is wrong with the upload is the cause of whatever the restore thinks of it.
    fed?;
    begin_again(app, restart, restored?)
}

fn restart(app: &App) -> Result<&Restart, ApiError> {
    app.restart.as_ref().ok_or_else(|| {
        ApiError::new(
            ErrorCode::RestartNotPossible,
            "this process cannot begin again with another store; restore with it stopped",
        )
    })
}

/// The record of the restore, which the store that comes of it is to have too.
fn change(cx: &Context) -> Result<Change, ApiError> {
    let change = cx.change.as_deref().cloned();
    change.ok_or_else(|| ApiError::internal("a restore is not recorded"))
}

fn begin_again(app: &App, restart: &Restart, restored: Contents) -> Result<Reply, ApiError> {
    let keys = restored.keys(app.backups.shelf().key());
    let reply = Reply::json(&RestoredBody::new(restored, keys))?;
    // Whoever waits for the service with the restored store is not told that it is ready by this one.
    app.readiness
        .not_ready("server", "it begins again with a restored backup");
    restart();
    Ok(reply)
}
