//! Handlers for lab partners, which use their partner token: the clock of the lab, the mail to its users, and its
//! requests.

use serde::Serialize;

use crate::operators::lab::own_lab;
use crate::operators::mail::MailReply;
use crate::operators::requests;
use crate::operators::requests::request::{RequestRequest, RequestsRequest};
use playgate_domain::mail::Secrets;
use playgate_http::offload::cold_for;
use playgate_http::{ApiError, Context, PartnerAuth, Reply};
use playgate_services::Services;

/// Users that are listed at a time.
const USERS_PAGE: usize = 100;

/// Mails in a response.
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
    cx: &Context,
    auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    let partner = own_lab(services, &auth)?;
    let (accounts, mail) = (services.accounts.clone(), services.mail.clone());
    let mails = cold_for(services, cx, Some(partner), move || {
        let (mut mails, mut after) = (Vec::new(), None);
        loop {
            let users = accounts.list(Some(partner), after, USERS_PAGE);
            for user in &users {
                for masked in mail.mails_of_user(&user.id)? {
                    mails.push(masked.summary);
                }
            }
            after = users.last().map(|user| user.id);
            if users.len() < USERS_PAGE {
                break;
            }
        }
        // The newest first, as ids sort. Not by time: mails of one second, and the clock of the partner may move.
        mails.sort_unstable_by_key(|summary| summary.id);
        mails.truncate(MAILS_MAX);
        let shown = mails
            .iter()
            .map(|summary| mail.show(&summary.id, Secrets::Shown));
        let shown: Result<Vec<_>, _> = shown.collect();
        Ok::<_, ApiError>(shown?.into_iter().flatten())
    })
    .await?;
    Reply::json(&mails.map(MailReply::from).collect::<Vec<_>>())
}

pub(crate) async fn requests(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
    request: RequestsRequest,
) -> Result<Reply, ApiError> {
    let own = own_lab(services, &auth)?;
    let page = requests::list(services, cx, request, Some(own)).await?;
    page.reply(|records| requests::lines(services, records))
}

pub(crate) async fn request(
    services: &Services,
    _cx: &Context,
    auth: PartnerAuth,
    request: RequestRequest,
) -> Result<Reply, ApiError> {
    let partner = own_lab(services, &auth)?;
    let record = requests::find(services, request, Some(partner)).await?;
    Reply::json(&requests::line(services, record))
}
