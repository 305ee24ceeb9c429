//! Handlers of the request journal for operators.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::resolve;
use crate::domain::journal::{JournalFilter, JournalRecord};
use crate::http::access::auth::OperatorAuth;
use crate::http::errors::api_error::{ApiError, ErrorCode};
use crate::http::offload::cold;
use crate::http::request::context::Context;
use crate::http::response::reply::Reply;
use crate::http::routing::endpoint::admin::partners::PartnerIdOrName;
use crate::http::routing::endpoint::admin::requests::{
    RecordPosition, RequestRequest, RequestsRequest,
};
use crate::http::routing::endpoint::admin::users::UserIdOrEmail;
use crate::http::state::HttpState;
use crate::http::wire::har::HarReply;
use crate::http::wire::requests::RequestLine;
use crate::services::Services;
use crate::types::{PartnerId, UserId};

const LOOK_EVERY: Duration = Duration::from_millis(200);

pub(crate) async fn requests(
    services: &Services,
    _cx: &Context,
    _auth: OperatorAuth,
    request: RequestsRequest,
) -> Result<Reply, ApiError> {
    let records = list(services, request, None).await?;
    Reply::json(&lines(services, records))
}

pub(crate) async fn archive(
    http: &HttpState,
    _cx: &Context,
    _auth: OperatorAuth,
    request: RequestsRequest,
) -> Result<Reply, ApiError> {
    let records = list(&http.services, request, None).await?;
    Reply::json(&HarReply::new(records, &http.settings.public_url))
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

pub(crate) fn line(services: &Services, record: JournalRecord) -> RequestLine {
    let partner = record.partner.and_then(|id| services.partners.name(&id));
    let user = record.user.and_then(|id| services.accounts.user(&id));
    let email = user.map(|user| user.email.to_string());
    RequestLine::new(record, partner).with_email(email)
}

pub(crate) fn lines(services: &Services, records: Vec<JournalRecord>) -> Vec<RequestLine> {
    let records = records.into_iter();
    records.map(|record| line(services, record)).collect()
}

/// `own` is the lab partner that asks.
pub(crate) async fn list(
    services: &Services,
    request: RequestsRequest,
    own: Option<PartnerId>,
) -> Result<Vec<JournalRecord>, ApiError> {
    let (limit, wait) = (request.limit, request.wait);
    let filter = resolve_filter(services, request, own).await?;
    let until = Instant::now() + Duration::from_secs(wait.into());
    loop {
        // Read before the records, so that a record that arrives in between is not missed.
        let known = services.journal.last_number();
        let (journal, wanted) = (services.journal.clone(), filter.clone());
        let records = cold(services, move || journal.list(wanted, limit)).await?;
        if !records.is_empty() || Instant::now() >= until {
            return Ok(records);
        }
        while services.journal.last_number() == known && Instant::now() < until {
            sleep(LOOK_EVERY).await;
        }
    }
}

async fn resolve_filter(
    services: &Services,
    request: RequestsRequest,
    own: Option<PartnerId>,
) -> Result<JournalFilter, ApiError> {
    // A partner gets its own id, whatever the parameter says: it must not read the requests of another partner.
    let partner = match (own, &request.partner) {
        (Some(own), _) => Some(own),
        (None, Some(named)) => Some(resolve::partner(services, named)?),
        (None, None) => None,
    };
    let user = match request.user {
        Some(named) => Some(user(services, named, own).await?),
        None => None,
    };
    Ok(JournalFilter {
        partner,
        user,
        before: number(services, request.before, own).await?,
        after: number(services, request.after, own).await?,
        ..request.filter
    })
}

/// Resolves the number of a record.
pub(super) async fn number(
    services: &Services,
    position: Option<RecordPosition>,
    own: Option<PartnerId>,
) -> Result<Option<u64>, ApiError> {
    match position {
        Some(RecordPosition::Number(number)) => Ok(Some(number)),
        Some(RecordPosition::Id(id)) => {
            let request = RequestRequest { id, number: None };
            Ok(Some(find(services, request, own).await?.number))
        }
        None => Ok(None),
    }
}

async fn user(
    services: &Services,
    named: UserIdOrEmail,
    own: Option<PartnerId>,
) -> Result<UserId, ApiError> {
    // A partner looks an address up among its own users only.
    let named = match (named, own) {
        (UserIdOrEmail::Email(email, _), Some(own)) => {
            UserIdOrEmail::Email(email, Some(PartnerIdOrName::Id(own)))
        }
        (named, _) => named,
    };
    let user = resolve::user(services, &named).await?;
    // A partner must not learn which users another one has.
    if own.is_some_and(|own| user.partner != own) {
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
    own: Option<PartnerId>,
) -> Result<JournalRecord, ApiError> {
    let journal = services.journal.clone();
    let of_own = JournalFilter {
        partner: own,
        ..JournalFilter::default()
    };
    let by_id = JournalFilter {
        id: Some(request.id),
        ..of_own.clone()
    };
    // The bounds are exclusive. By id first: an id may consist of digits only.
    let by_number = request.number.map(|number| JournalFilter {
        before: Some(number.saturating_add(1)),
        after: Some(number.saturating_sub(1)),
        ..of_own
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
