//! Handlers of the mail queue.

pub(crate) mod answer;
pub(crate) mod request;

use crate::operators::mail::answer::{MailEntry, MailReply, PreviewReply, RetryReply, TestReply};
use crate::operators::mail::request::{
    MailRequest, PreviewMailRequest, RetryMailRequest, TestMailRequest,
};
use playgate_domain::mail::Secrets;
use playgate_http::access::auth::OperatorAuth;
use playgate_http::errors::api_error::{ApiError, ErrorCode};
use playgate_http::offload::{bulk, cold};
use playgate_http::request::context::Context;
use playgate_http::response::reply::Reply;
use playgate_services::Services;

const MAILS_LISTED_MAX: usize = 1_000;

pub(crate) async fn mails(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
) -> Result<Reply, ApiError> {
    let queue = services.mail.clone();
    let mails = cold(services, move || queue.list(MAILS_LISTED_MAX)).await?;
    let lines: Vec<_> = mails.iter().map(MailEntry::from).collect();
    Reply::json(&lines)
}

pub(crate) async fn show(
    services: &Services,
    _cx: &Context,
    auth: OperatorAuth,
    request: MailRequest,
) -> Result<Reply, ApiError> {
    let queue = services.mail.clone();
    let secrets = if auth.role().sees_secrets() {
        Secrets::Shown
    } else {
        Secrets::Masked
    };
    let mail = cold(services, move || queue.show(&request.mail, secrets))
        .await?
        .ok_or_else(|| ApiError::new(ErrorCode::MailNotFound, "there is no such message"))?;
    Reply::json(&MailReply::from(mail))
}

pub(crate) fn preview(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: PreviewMailRequest,
) -> Result<Reply, ApiError> {
    let (subject, text, html) = services.mail.preview(request.kind, request.locale.as_ref());
    Reply::json(&PreviewReply {
        subject,
        text,
        html,
    })
}

pub(crate) async fn retry(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RetryMailRequest,
) -> Result<Reply, ApiError> {
    let (queue, now) = (services.mail.clone(), cx.now);
    let retried = cold(services, move || queue.retry(request.mail.as_ref(), now)).await?;
    if request.mail.is_some() && retried.is_empty() {
        return Err(ApiError::new(
            ErrorCode::MailNotFound,
            "there is no such message",
        ));
    }
    Reply::json(&RetryReply::from(retried))
}

pub(crate) async fn test(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: TestMailRequest,
) -> Result<Reply, ApiError> {
    let (mail, now) = (services.mail.clone(), cx.now);
    // In the bulk pool: a mail server may be slow at each step of the dialogue.
    let tested = bulk(services, move || mail.test(request.to, now)).await?;
    Reply::json(&TestReply::from(tested))
}
