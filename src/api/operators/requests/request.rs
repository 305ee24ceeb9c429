//! Requests about the request journal.

use crate::operators::faults::targets;
use playgate_decode::nearest;
use playgate_http::{
    ApiError, CombineResults, ErrorCode, Input, ParseRequest, PartnerIdOrName, Payload, Query,
    RouteFacts, UserIdOrEmail,
};
use playgate_records::journal::{JournalFilter, StatusFilter};
use playgate_types::{AssetId, Malformed, SessionId};

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
    pub address: ListAddress,
}

/// The address of the list, of which the response names other pages.
pub(crate) struct ListAddress {
    path: String,
    /// The parameters that all pages have in common.
    query: String,
    wait: u32,
}

impl ListAddress {
    fn new(input: &Input<'_>, wait: u32) -> Self {
        Self {
            path: input.path.to_owned(),
            query: input.query.without(&["before", "after", "wait"]),
            wait,
        }
    }

    /// Records before a number. They are there already, so the request does not wait.
    pub(crate) fn older(&self, before: u64) -> String {
        self.with(&format!("before={before}"))
    }

    pub(crate) fn newer(&self, after: u64) -> String {
        match self.wait {
            0 => self.with(&format!("after={after}")),
            wait => self.with(&format!("after={after}&wait={wait}")),
        }
    }

    fn with(&self, more: &str) -> String {
        let separator = if self.query.is_empty() { "" } else { "&" };
        format!("{}?{}{separator}{more}", self.path, self.query)
    }
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
        let wait = input.number_in("wait", 0..=WAIT_MAX, "must be from 0 to 30 seconds");
        let (user, session, asset, status, (from, to)) = (
            UserIdOrEmail::from_query(input),
            query.parsed("session", SessionId::parse),
            query.parsed("asset", AssetId::parse),
            query.parsed("status", StatusFilter::parse),
            input.time_range(),
        )
            .combine()?;
        let (partner, routes, code, before, after, wait, limit) = (
            query.parsed("partner", |text| Ok(PartnerIdOrName::read(text))),
            routes(input.partner_routes, query),
            code(query),
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
                routes,
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
            address: ListAddress::new(input, wait.unwrap_or(0)),
        })
    }
}

/// A misspelt name would select nothing, and a developer would look for the reason elsewhere.
fn routes(known: &[RouteFacts], query: &Query<'_>) -> Result<Vec<&'static str>, ApiError> {
    let Some(name) = query.one("route")? else {
        return Ok(Vec::new());
    };
    let name = name.trim();
    let labels = targets::journaled(known, name);
    match labels.is_empty() {
        false => Ok(labels),
        true => Err(unknown(
            "route",
            "no route",
            targets::nearest_name(known, name),
        )),
    }
}

fn code(query: &Query<'_>) -> Result<Option<String>, ApiError> {
    let Some(name) = query.one("code")? else {
        return Ok(None);
    };
    let name = name.trim().to_ascii_uppercase();
    let code = ErrorCode::parse(&name).ok_or_else(|| {
        let codes = ErrorCode::ALL.iter().map(|code| code.as_str());
        unknown("code", "no error code", nearest(&name, codes))
    })?;
    Ok(Some(code.as_str().to_owned()))
}

fn unknown(name: &'static str, what: &str, near: Option<&str>) -> ApiError {
    let hint = near.map(|near| format!("; did you mean {near}?"));
    let hint = hint.unwrap_or_default();
    ApiError::field(name, format!("is {what} of the interface{hint}"))
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
