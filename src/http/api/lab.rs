//! Handlers for lab partners, which use their partner token: the clock of the lab, and the mail to its users.

use serde::Serialize;

use crate::domain::mail::Secrets;
use crate::http::access::auth::PartnerAuth;
use crate::http::admin::lab::own_lab;
use crate::http::errors::api_error::ApiError;
use crate::http::offload::cold;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::wire::mail::MailReply;
use crate::services::Services;

/// Users whose mail is read, and mails in a response. A lab has few of both.
const USERS_MAX: usize = 100;
const MAILS_MAX: usize = 100;

#[derive(Serialize)]
struct LabClockBody {
    now: i64,
    offset: i64,
}

pub(crate) fn clock(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    let partner = own_lab(services, &auth)?;
    Reply::json(&LabClockBody {
        now: cx.now.0,
        offset: services.lab.clock_offset(&partner),
    })
}

pub(crate) async fn mails(
    services: &Services,
    _cx: &Context,
    auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    let partner = own_lab(services, &auth)?;
    let (accounts, mail) = (services.accounts.clone(), services.mail.clone());
    let mails = cold(services, move || {
        let mut mails = Vec::new();
        for user in accounts.list(Some(partner), None, USERS_MAX) {
            for masked in mail.mails_of_user(&user.id)? {
                mails.extend(mail.show(&masked.summary.id, Secrets::Shown)?);
            }
        }
        Ok::<_, ApiError>(mails)
    })
    .await?;
    let mut replies: Vec<_> = mails.into_iter().map(MailReply::from).collect();
    replies.sort_by_key(|mail| std::cmp::Reverse(mail.entry.line.created_at));
    replies.truncate(MAILS_MAX);
    Reply::json(&replies)
}
