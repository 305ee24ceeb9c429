//! Handlers of mail.

use crate::app::App;
use crate::domain::mail::Secrets;
use crate::http::auth::OperatorAuth;
use crate::http::context::Context;
use crate::http::endpoint::admin::system::{MailRequest, PreviewMailRequest, TestMailRequest};
use crate::http::error::{ApiError, ErrorCode};
use crate::http::offload::{bulk, cold};
use crate::http::reply::Reply;
use crate::http::wire::mail::{MailEntry, MailReply, PreviewReply, TestReply};

/// How many mails the list has at the most, the newest.
const LISTED: usize = 1_000;

/// GET the queue and the sink.
///
/// # Errors
/// That the store failed.
pub async fn mails(app: &App, _cx: &Context, _auth: OperatorAuth) -> Result<Reply, ApiError> {
    let mail = app.mail.clone();
    let mails = cold(app, move || mail.list(LISTED)).await?;
    let lines: Vec<_> = mails.iter().map(MailEntry::from).collect();
    Reply::json(&lines)
}

/// GET a message: masked, unless the role sees secrets; the audit record has every such reading.
///
/// # Errors
/// `MAIL_NOT_FOUND`.
pub async fn show(
    app: &App,
    _cx: &Context,
    auth: OperatorAuth,
    request: MailRequest,
) -> Result<Reply, ApiError> {
    let mail = app.mail.clone();
    let secrets = if auth.role().sees_secrets() {
        Secrets::Shown
    } else {
        Secrets::Masked
    };
    let letter = cold(app, move || mail.show(&request.mail, secrets))
        .await?
        .ok_or_else(|| ApiError::new(ErrorCode::MailNotFound, "there is no such message"))?;
    Reply::json(&MailReply::from(letter))
}

/// GET how a mail of a kind looks, with made-up values.
///
/// # Errors
/// None.
pub fn preview(
    app: &App,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PreviewMailRequest,
) -> Result<Reply, ApiError> {
    let (subject, text, html) = app.mail.preview(request.kind, request.locale.as_ref());
    Reply::json(&PreviewReply {
        subject,
        text,
        html,
    })
}

/// POST a test message. A mail server may take its time for each of its answers, so this is long work.
///
/// # Errors
/// That the store failed.
pub async fn test(
    app: &App,
    cx: &Context,
    _auth: OperatorAuth,
    request: TestMailRequest,
) -> Result<Reply, ApiError> {
    let (mail, now) = (app.mail.clone(), cx.now);
    let tested = bulk(app, move || mail.test(request.to, now)).await?;
    Reply::json(&TestReply::from(tested))
}
