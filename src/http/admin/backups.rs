//! Handlers of backups.

use crate::domain::audit::AuditedChange;
use crate::domain::backups::{BackupContents, BackupError};
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::bulk;
use crate::http::request::blocking_body::pipe;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::admin::backups::{
    BackupRequest, RestoreBackupRequest, RestoreSentBackupRequest,
};
use crate::http::wire::backups::{BackupLine, ContentsBody, RestoredBody};
use crate::services::{Restart, Services};

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
    Reply::json(&ContentsBody::from(contents))
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
    let restored = bulk(services, move || -> Result<BackupContents, BackupError> {
        let file = backups.directory().find(&request.name)?;
        backups.restore(&file, request.adopt, change)
    })
    .await?;
    restart_with(services, restart, restored)
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
    let restoring = bulk(services, move || {
        backups.restore_upload(&mut body, request.adopt, change)
    });
    let (uploaded, restored) = tokio::join!(upload.pass(request.file), restoring);
    // A failed upload also makes the restore fail; report the upload's error, which is the cause.
    uploaded?;
    restart_with(services, restart, restored?)
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

fn restart_with(
    services: &Services,
    restart: &Restart,
    restored: BackupContents,
) -> Result<Reply, ApiError> {
    let keys = restored.keys(services.backups.directory().key());
    let reply = Reply::json(&RestoredBody::new(restored, keys))?;
    // Readiness must fail from here on: a client that waits for the restored store must not see this process, which is
    // about to exit, as ready.
    services
        .readiness
        .not_ready("server", "restarting with a restored backup");
    restart();
    Ok(reply)
}
