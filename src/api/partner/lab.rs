//! Handlers for lab partners, which use their partner token: the clock of the lab, the mail to its users, and its
//! requests.

use serde::Serialize;

use crate::operators::lab::requesting_lab_partner;
use crate::operators::mail::MailBody;
use crate::operators::requests;
use crate::operators::requests::request::{RequestRequest, RequestsRequest};
use playgate_domain::mail::Secrets;
use playgate_http::offload::cold_for;
use playgate_http::{ApiError, Context, PartnerAuth, Reply};
use playgate_services::Services;
use playgate_types::{Described, UnixSeconds};

crate::openapi::words::words! { LabClockBody => r##"
[operations.lab_requests]
summary = "List the partner's requests"
text = "Newest first. A search reads a bounded part of the journal: follow `rel=next` of the `Link` header, also from an empty list. `rel=prev` is the address for later requests; with `wait` it is answered when one comes. Everything that the partner's clients send is kept, apart from tokens, passwords, PINs and challenges."
"##, crate::openapi::words::request_filters!(), r##"returns."200" = { text = "The requests, newest first.", type = "[JournaledRequest]", headers = { Link = "string?: Where the search continues: `rel=next` has older requests, if there may be some; `rel=prev` those that come later." } }
errors = ["LAB_NOT_ALLOWED", "USER_NOT_FOUND", "REQUEST_NOT_FOUND"]

[operations.lab_request]
summary = "Show a request of the partner"
text = "The newest request with this id, or else the one with this number."
returns."200" = "JournaledRequest: The request."
errors = ["LAB_NOT_ALLOWED", "REQUEST_NOT_FOUND"]

[operations.lab_clock]
summary = "Read the clock of the lab"
text = "What the server takes for the present when it answers this partner, and how far that is from the clock of the service."
returns."200" = "LabClock: The clock."
errors = ["LAB_NOT_ALLOWED"]

[operations.lab_mail]
summary = "List the mail to the partner's users"
text = "Newest first, at most 100, with the links and PINs that users get."
returns."200" = "[Mail]: The mails."
errors = ["LAB_NOT_ALLOWED"]
"## }

/// Users that are listed at a time.
const USERS_PAGE: usize = 100;

/// Mails in a response.
const MAILS_MAX: usize = 100;

#[derive(Described, Serialize)]
struct LabClockBody {
    /// Time of the partner's requests.
    now: UnixSeconds,
    /// Offset from the clock of the service, in seconds.
    offset: i64,
}

pub(crate) fn clock(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    let partner = requesting_lab_partner(services, &auth)?;
    Reply::json(&LabClockBody {
        now: cx.now,
        offset: services.lab.clock_offset(&partner),
    })
}

pub(crate) async fn mails(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
) -> Result<Reply, ApiError> {
    let partner = requesting_lab_partner(services, &auth)?;
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
    Reply::json(&mails.map(MailBody::from).collect::<Vec<_>>())
}

pub(crate) async fn requests(
    services: &Services,
    cx: &Context,
    auth: PartnerAuth,
    request: RequestsRequest,
) -> Result<Reply, ApiError> {
    let partner = requesting_lab_partner(services, &auth)?;
    let page = requests::list(services, cx, request, Some(partner)).await?;
    page.reply(|records| requests::lines(services, records))
}

pub(crate) async fn request(
    services: &Services,
    _cx: &Context,
    auth: PartnerAuth,
    request: RequestRequest,
) -> Result<Reply, ApiError> {
    let partner = requesting_lab_partner(services, &auth)?;
    let record = requests::find(services, request, Some(partner)).await?;
    Reply::json(&requests::line(services, record))
}
