//! Handlers of the request journal for operators.

pub(crate) mod answer;
pub(crate) mod request;

use std::time::Duration;

use http::HeaderValue;
use http::header::LINK;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use crate::operators::asset_names::AssetNames;
use crate::operators::requests::answer::JournaledRequest;
use crate::operators::requests::request::{
    ListAddress, RecordPosition, RequestRequest, RequestsRequest,
};
use playgate_formats::har::HttpArchive;
use playgate_http::offload::cold;
use playgate_http::routing::resolve;
use playgate_http::{
    ApiError, Context, ErrorCode, HttpState, OperatorAuth, PartnerIdOrName, Reply, UserIdOrEmail,
};
use playgate_process::Turn;
use playgate_records::journal::{
    ArrivedRecords, JournalFilter, JournalPage, JournalRecord, ReadBudget,
};
use playgate_services::Services;
use playgate_types::{PartnerId, UnixSeconds, UserId};

crate::openapi::words::words! { answer::JournaledRequest, HttpArchive => r##"
[operations.admin_requests]
summary = "List requests"
text = "Newest first. A search reads a bounded part of the journal: follow `rel=next` of the `Link` header, also from an empty list. `rel=prev` is the address for later requests; with `wait` it is answered when one comes."
query.partner = "Partner?: Only requests of this partner."
"##, crate::openapi::words::request_filters!(), r##"returns."200" = { text = "The requests, newest first.", type = "[JournaledRequest]", headers = { Link = "string?: Where the search continues: `rel=next` has older requests, if there may be some; `rel=prev` those that come later." } }
errors = ["PARTNER_NOT_FOUND", "USER_NOT_FOUND", "REQUEST_NOT_FOUND"]

[operations.admin_requests_har]
summary = "List requests as an HTTP archive"
text = "HAR 1.2, oldest first. It has what the journal has: no tokens, and of bodies only listed members and errors."
query.partner = "Partner?: Only requests of this partner."
"##, crate::openapi::words::request_filters!(), r##"returns."200" = { text = "The archive.", type = "HttpArchive", headers = { Link = "string?: Where the search continues: `rel=next` has older requests, if there may be some; `rel=prev` those that come later." } }
errors = ["PARTNER_NOT_FOUND", "USER_NOT_FOUND", "REQUEST_NOT_FOUND"]

[operations.admin_request]
summary = "Show a request"
text = "The newest request with this id, or else the one with this number."
returns."200" = "JournaledRequest: The request."
errors = ["REQUEST_NOT_FOUND"]
"## }

/// Segments that are read in one turn of the pool, so that those of others come in between.
const SEGMENTS_A_TURN: u32 = 2;

/// Turns of a request. After them the response says where the search continues.
const TURNS_MAX: usize = 4;

/// A part of the list, newest first, and its `Link` header.
pub(crate) struct RequestPage {
    records: Vec<JournalRecord>,
    links: Option<HeaderValue>,
}

impl RequestPage {
    pub(crate) fn reply<T: Serialize>(
        self,
        body: impl FnOnce(Vec<JournalRecord>) -> T,
    ) -> Result<Reply, ApiError> {
        let reply = Reply::json(&body(self.records))?;
        Ok(match self.links {
            Some(links) => reply.with_header(LINK, links),
            None => reply,
        })
    }
}

pub(crate) async fn requests(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: RequestsRequest,
) -> Result<Reply, ApiError> {
    let page = list(services, cx, request, None).await?;
    page.reply(|records| lines(services, records))
}

pub(crate) async fn archive(
    http: &HttpState,
    cx: &Context,
    _auth: OperatorAuth,
    request: RequestsRequest,
) -> Result<Reply, ApiError> {
    let page = list(&http.services, cx, request, None).await?;
    page.reply(|records| HttpArchive::new(records, &http.settings.public_url))
}

pub(crate) async fn request(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: RequestRequest,
) -> Result<Reply, ApiError> {
    let record = find(services, request, None).await?;
    Reply::json(&line(services, record))
}

pub(crate) fn line(services: &Services, record: JournalRecord) -> JournaledRequest {
    let partner = record.partner.and_then(|id| services.partners.name(&id));
    let user = record.user.and_then(|id| services.accounts.user(&id));
    let email = user.map(|user| user.email.to_string());
    let at = UnixSeconds(record.at_millis.div_euclid(1_000));
    let place = (&services.catalog, &*services.schedule);
    let names = (record.asset.as_ref()).map(|asset| AssetNames::new(place, asset, None, at));
    JournaledRequest::new(record, partner).with_names(email, names.unwrap_or_default())
}

pub(crate) fn lines(services: &Services, records: Vec<JournalRecord>) -> Vec<JournaledRequest> {
    let records = records.into_iter();
    records.map(|record| line(services, record)).collect()
}

/// `only` is the lab partner that asks: it reads its own requests only.
pub(crate) async fn list(
    services: &Services,
    cx: &Context,
    request: RequestsRequest,
    only: Option<PartnerId>,
) -> Result<RequestPage, ApiError> {
    let (limit, wait) = (request.limit, Duration::from_secs(request.wait.into()));
    let until = Instant::now() + wait;
    let filter = resolve_filter(services, &request, only).await?;
    let turn = Turn::for_client(only, cx.peer);
    // Older records are there already.
    let waits = wait > Duration::ZERO && filter.before.is_none();
    // Before the search, so that no record is missed between both.
    let arrival = waits.then(|| services.journal.arrival(filter.clone()));
    let arrival = arrival.map(|arrival| arrival.ok_or_else(ApiError::overloaded));
    let arrival = arrival.transpose()?;
    let mut page = search(services, turn, &filter, limit).await?;
    // All records up to now have been searched, and the next ones are handed over.
    if let Some(arrival) = arrival.filter(|_| page.records.is_empty() && page.rest.is_none())
        && let Ok(Some(arrived)) = timeout_at(until, arrival).await
    {
        page = arrived_page(arrived, &filter, limit);
    }
    Ok(answered(page, &filter, &request.address))
}

fn arrived_page(arrived: ArrivedRecords, filter: &JournalFilter, limit: usize) -> JournalPage {
    let ArrivedRecords { mut records, upto } = arrived;
    if filter.after.is_none() {
        records.reverse();
    }
    let is_whole = records.len() <= limit;
    records.truncate(limit);
    let last = records.last().filter(|_| !is_whole);
    JournalPage {
        rest: last.map(|record| record.number),
        records,
        upto,
    }
}

/// Searches in several turns of the pool.
async fn search(
    services: &Services,
    turn: Turn,
    filter: &JournalFilter,
    limit: usize,
) -> Result<JournalPage, ApiError> {
    let mut found = JournalPage::default();
    for _ in 0..TURNS_MAX {
        let mut wanted = filter.clone();
        match (found.rest, filter.after) {
            (Some(rest), Some(_)) => wanted.after = Some(rest),
            (Some(rest), None) => wanted.before = Some(rest),
            (None, _) => {}
        }
        let (journal, room) = (services.journal.clone(), limit - found.records.len());
        let searching = services.cold.run_for(turn, move |()| {
            journal.page(&wanted, room, ReadBudget::segments(SEGMENTS_A_TURN))
        });
        let mut page = searching?.await??;
        found.records.append(&mut page.records);
        // Later records were written during the search, and are not in its first part.
        found.upto = match found.rest {
            Some(_) if filter.after.is_none() => found.upto,
            _ => page.upto,
        };
        found.rest = page.rest;
        if found.rest.is_none() || found.records.len() >= limit {
            break;
        }
    }
    Ok(found)
}

fn answered(page: JournalPage, filter: &JournalFilter, address: &ListAddress) -> RequestPage {
    let JournalPage {
        mut records,
        rest,
        upto,
    } = page;
    let mut links = Vec::new();
    if filter.after.is_some() {
        // Newest first, like every list.
        records.reverse();
        links.push((address.newer(rest.unwrap_or(upto)), "prev"));
    } else {
        links.extend(rest.map(|rest| (address.older(rest), "next")));
        if filter.before.is_none() {
            links.push((address.newer(upto), "prev"));
        }
    }
    let links = links
        .iter()
        .map(|(address, relation)| format!("<{address}>; rel=\"{relation}\""));
    let links = links.collect::<Vec<_>>().join(", ");
    let links = Some(links).filter(|links| !links.is_empty());
    RequestPage {
        records,
        links: links.and_then(|links| HeaderValue::try_from(links).ok()),
    }
}

async fn resolve_filter(
    services: &Services,
    request: &RequestsRequest,
    only: Option<PartnerId>,
) -> Result<JournalFilter, ApiError> {
    // A partner gets its own id, whatever the parameter says: it must not read the requests of another partner.
    let partner = match (only, &request.partner) {
        (Some(only), _) => Some(only),
        (None, Some(named)) => Some(resolve::partner(services, named)?),
        (None, None) => None,
    };
    let user = match &request.user {
        Some(named) => Some(user(services, named.clone(), only).await?),
        None => None,
    };
    Ok(JournalFilter {
        partner,
        user,
        before: number(services, request.before.clone(), only).await?,
        after: number(services, request.after.clone(), only).await?,
        ..request.filter.clone()
    })
}

/// Resolves the number of a record.
pub(super) async fn number(
    services: &Services,
    position: Option<RecordPosition>,
    only: Option<PartnerId>,
) -> Result<Option<u64>, ApiError> {
    match position {
        Some(RecordPosition::Number(number)) => Ok(Some(number)),
        Some(RecordPosition::Id(id)) => {
            let request = RequestRequest { id, number: None };
            Ok(Some(find(services, request, only).await?.number))
        }
        None => Ok(None),
    }
}

async fn user(
    services: &Services,
    named: UserIdOrEmail,
    only: Option<PartnerId>,
) -> Result<UserId, ApiError> {
    // A partner looks an address up among its own users only.
    let named = match (named, only) {
        (UserIdOrEmail::Email(email, _), Some(only)) => {
            UserIdOrEmail::Email(email, Some(PartnerIdOrName::Id(only)))
        }
        (named, _) => named,
    };
    let user = resolve::user(services, &named).await?;
    // A partner must not learn which users another one has.
    if only.is_some_and(|only| user.partner != only) {
        return Err(ApiError::new(
            ErrorCode::UserNotFound,
            "there is no such user",
        ));
    }
    Ok(user.id)
}

pub(crate) async fn find(
    services: &Services,
    request: RequestRequest,
    only: Option<PartnerId>,
) -> Result<JournalRecord, ApiError> {
    let journal = services.journal.clone();
    let of_partner = JournalFilter {
        partner: only,
        ..JournalFilter::default()
    };
    let by_id = JournalFilter {
        id: Some(request.id),
        ..of_partner.clone()
    };
    // The bounds are exclusive. By id first: an id may consist of digits only.
    let by_number = request.number.map(|number| JournalFilter {
        before: Some(number.saturating_add(1)),
        after: Some(number.saturating_sub(1)),
        ..of_partner
    });
    let found = cold(services, move || {
        let filters = std::iter::once(by_id).chain(by_number);
        let mut records = filters.flat_map(|filter| journal.records(filter));
        records.next().transpose()
    });
    found.await?.ok_or_else(|| {
        ApiError::new(
            ErrorCode::RequestNotFound,
            "the journal has no request with this id: it keeps refusals, sign-ups, logins, entitlements, preflights, \
             licenses and ends of sessions, and heartbeats whose answer changes, for `journal.keep`",
        )
    })
}
