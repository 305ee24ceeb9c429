//! Requests about the request journal.

use crate::domain::journal::{JournalFilter, StatusFilter};
use crate::http::errors::api_error::{ApiError, CombineResults};
use crate::http::routing::endpoint::admin::partners::PartnerIdOrName;
use crate::http::routing::endpoint::admin::users::UserIdOrEmail;
use crate::http::routing::endpoint::{Input, ParseRequest, Payload};
use crate::types::{AssetId, Malformed, SessionId};

/// Longest wait, in seconds. Proxies close a connection that is silent for a minute.
const WAIT_MAX: u32 = 30;

/// The filter as the request states it. User and partner are names that still have to be looked up.
pub(crate) struct RequestsRequest {
    pub partner: Option<PartnerIdOrName>,
    pub user: Option<UserIdOrEmail>,
    pub filter: JournalFilter,
    pub before: Option<RecordPosition>,
    pub after: Option<RecordPosition>,
    pub limit: usize,
    pub wait: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordPosition {
    Number(u64),
    Id(String),
}

impl RecordPosition {
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        // A generated id has 32 digits, so fewer digits are the number of a record.
        let plain = (1..=19).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(number) if plain => Ok(Self::Number(number)),
            _ if text.is_empty() => Err(Malformed("must be the number or the id of a record")),
            _ => Ok(Self::Id(text.to_owned())),
        }
    }
}

impl ParseRequest for RequestsRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let query = &input.query;
        let text = |text: &str| Ok::<_, Malformed>(text.to_owned());
        let wait = input.number_in("wait", 0..=WAIT_MAX, "must be from 0 to 30 seconds");
        let (user, session, asset, status, (from, to)) = (
            UserIdOrEmail::from_query(input),
            query.parsed("session", SessionId::parse),
            query.parsed("asset", AssetId::parse),
            query.parsed("status", StatusFilter::parse),
            input.time_range(),
        )
            .combine()?;
        let (partner, route, code, before, after, wait, limit) = (
            query.parsed("partner", |text| Ok(PartnerIdOrName::read(text))),
            query.parsed("route", text),
            query.parsed("code", text),
            query.parsed("before", RecordPosition::parse),
            query.parsed("after", RecordPosition::parse),
            wait,
            input.page(),
        )
            .combine()?;
        Ok(Self {
            partner,
            user,
            filter: JournalFilter {
                session,
                asset,
                route,
                status,
                code,
                from,
                to,
                ..JournalFilter::default()
            },
            before,
            after,
            limit,
            wait: wait.unwrap_or(0),
        })
    }
}

pub(crate) struct RequestRequest {
    pub id: String,
    /// Taken as the number of a record if no record has this id. Clients choose ids, so several records can share one.
    pub number: Option<u64>,
}

impl ParseRequest for RequestRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let id = input.text("request")?.into_owned();
        let number = match RecordPosition::parse(&id) {
            Ok(RecordPosition::Number(number)) => Some(number),
            Ok(RecordPosition::Id(_)) | Err(_) => None,
        };
        Ok(Self { id, number })
    }
}
