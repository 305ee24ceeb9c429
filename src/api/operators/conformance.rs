//! The conformance report, which is made from the request journal and the telemetry of a partner.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::operators::requests;
use crate::operators::requests::request::RecordPosition;
use playgate_domain::conformance::{
    ClientCall, ClientEvent, ConformanceReport, Conversation, CoveredProgram, Profile,
    RULES_VERSION, RuleOutcome, RuleResult, judge,
};
use playgate_domain::schedule::Schedule;
use playgate_http::offload::bulk;
use playgate_http::pipeline::journal_entry::{SERVICE_CERTIFICATE, device_hash};
use playgate_http::routing::resolve;
use playgate_http::{
    ApiError, CombineResults, Context, ErrorCode, Input, OperatorAuth, ParseRequest,
    PartnerIdOrName, Payload, Reply,
};
use playgate_records::journal::{JournalDevice, JournalFilter, JournalRecord, NamedText};
use playgate_records::telemetry::{Selection, StoredEvent};
use playgate_services::Services;
use playgate_types::time::DAY;
use playgate_types::{
    Described, JsonType, LivestreamId, Malformed, PartnerId, SessionId, UnixSeconds,
};

crate::openapi::words::words! { ConformanceReportBody => r##"
[operations.admin_conformance]
summary = "Judge a partner's client"
text = "Judges the requests and the telemetry of a period by the rules of conformance. The request journal keeps everything of lab partners only; of others, unchanged heartbeats are missing."
query.session = "SessionId?: Judges only this playback session."
query.from = "Instant?: Start. Default: an hour before `to`, with `session` a day."
query.to = "Instant?: End, exclusive, at most a day after `from`. Default: now."
query.after = "RequestPosition?: Number or id of a request of the partner: judges only newer ones."
query.waived = "string?: JSON object of rule ids and the reasons for which they are waived."
returns."200" = "ConformanceReport: The report."
errors = ["INVALID_REQUEST", "PARTNER_NOT_FOUND", "REQUEST_NOT_FOUND", "SESSION_NOT_FOUND"]
"## }

pub(crate) struct ConformanceRequest {
    pub partner: PartnerIdOrName,
    pub session: Option<SessionId>,
    pub from: Option<UnixSeconds>,
    pub to: Option<UnixSeconds>,
    pub after: Option<RecordPosition>,
    /// Waived rules.
    pub profile: Profile,
}

/// Parses a JSON object of rule ids and reasons. It comes in the query, because a GET request has no body.
fn waived(text: &str) -> Result<BTreeMap<String, String>, Malformed> {
    serde_json::from_str(text).map_err(|_| {
        Malformed("must be a JSON object of rule ids and the reasons for which they are waived")
    })
}

impl ParseRequest for ConformanceRequest {
    fn parse(input: &Input<'_>, _payload: Payload) -> Result<Self, ApiError> {
        let (session, (from, to), after, waived) = (
            input.query.parsed("session", SessionId::parse),
            input.time_range(),
            input.query.parsed("after", RecordPosition::parse),
            input.query.parsed("waived", waived),
        )
            .combine()?;
        let profile = Profile::new(waived.unwrap_or_default())
            .map_err(|error| ApiError::field("waived", error.to_string()))?;
        Ok(Self {
            partner: PartnerIdOrName::read(&input.text("partner")?),
            session,
            from,
            to,
            after,
            profile,
        })
    }
}

/// Bounds the requests of a report, which are held in memory. A client under test sends some hundred an hour.
const CALLS_MAX: usize = 50_000;

const EVENTS_MAX: usize = 50_000;

const HOUR: i64 = 3_600;

pub(crate) async fn conformance(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: ConformanceRequest,
) -> Result<Reply, ApiError> {
    let partner = resolve::partner(services, &request.partner)?;
    let to = request.to.unwrap_or(cx.now + 1);
    let usual = if request.session.is_some() { DAY } else { HOUR };
    let from = request.from.unwrap_or(to - usual);
    if !(0..=DAY).contains(&to.since(from)) {
        return Err(ApiError::field(
            "from",
            "must be at most 24 hours before to",
        ));
    }
    let after = requests::number(services, request.after, Some(partner)).await?;
    let session = request.session.map(|session| session.to_string());
    let (wanted, profile) = (session.clone(), request.profile);
    let (journal, telemetry) = (services.journal.clone(), services.telemetry.clone());
    let schedule = services.schedule.clone();
    let report = bulk(services, move || {
        let filter = JournalFilter {
            partner: Some(partner),
            from: Some(from),
            to: Some(to),
            after,
            ..JournalFilter::default()
        };
        let records = journal.list(&filter, CALLS_MAX + 1)?;
        if records.len() > CALLS_MAX {
            return Err(too_long("requests"));
        }
        // The journal lists the newest first. The order matters among records of one millisecond.
        let records = records.into_iter().rev();
        // Reports of CMCD are sent by players, which do as their settings say. Telemetry has what they say.
        let records = records.filter(|record| record.route != "cmcd");
        let calls = records.map(|record| call(record, &schedule));
        let calls: Vec<ClientCall> = calls.collect();
        let selection = Selection {
            from: Some(from),
            to: Some(to),
            user: None,
        };
        let mut events = Vec::new();
        for stored in telemetry.events(selection)? {
            events.extend(event(&stored?, partner));
            // Bounds the memory: a report of a day of a large partner would otherwise hold all its events.
            if events.len() > EVENTS_MAX {
                return Err(too_long("events"));
            }
        }
        let mut conversation = Conversation::new(calls, events);
        if let Some(session) = &wanted {
            conversation = conversation.of_session(session);
        }
        Ok(judge(&conversation, &profile))
    })
    .await?;
    if session.is_some() && report.calls == 0 {
        let message = "the journal has no request of this session in the period";
        return Err(ApiError::new(ErrorCode::SessionNotFound, message));
    }
    let name = services.partners.name(&partner);
    let name = name.unwrap_or_else(|| partner.to_string());
    Reply::json(&ConformanceReportBody::new(
        name,
        session,
        (from, to),
        report,
    ))
}

/// Part of the data is not judged: what is missing could have failed.
fn too_long(what: &str) -> ApiError {
    let message = format!("the period has more than 50000 {what}; choose a shorter one");
    ApiError::field("from", message)
}

fn call(record: JournalRecord, schedule: &Schedule) -> ClientCall {
    let details: Option<Value> = record
        .details
        .as_deref()
        .and_then(|text| serde_json::from_str(text).ok());
    let pairs = record
        .query
        .iter()
        .map(|pair| format!("{}={}", pair.name, pair.value));
    let query = pairs.collect::<Vec<_>>().join("&");
    let device = record
        .device
        .as_ref()
        .and_then(|device| device.id_hash.clone());
    let finding = |check: &str| {
        let step = record.steps.iter().find(|step| step.check == check);
        step.map(|step| step.finding.to_string())
    };
    let events = finding("events");
    let keys = finding("keys");
    let mut call = ClientCall {
        id: record.id,
        at: record.at_millis,
        took: i64::try_from(record.micros / 1_000).unwrap_or(i64::MAX),
        route: record.route.into_owned(),
        status: record.status,
        cut: record.fault.is_some_and(|fault| fault.contains("cut=")),
        code: record.code.map(Cow::into_owned),
        user: record.user.map(|user| user.to_string()),
        session: record.session.map(|session| session.to_string()),
        asset: record.asset.map(|asset| asset.as_str().to_owned()),
        model: record.device.as_ref().map(model),
        query,
        retry_after: details.and_then(|details| details.get("retryAfter")?.as_i64()),
        events: events.and_then(|count| count.parse().ok()),
        login: record.login,
        path: record.path,
        client: client(&record.headers, record.network.as_deref()),
        revalidates: header(&record.headers, "if-none-match").is_some(),
        keys: keys.filter(|keys| keys != SERVICE_CERTIFICATE),
        sends_pin: record.body.iter().any(|member| member.name == "pinCode"),
        ..ClientCall::default()
    };
    // Header names are recorded with the prefix, which is a setting.
    let headers = record.headers.iter().filter_map(|header| {
        let name = header.name.to_ascii_lowercase();
        let (_, rest) = name.split_once("play-")?;
        Some((rest.to_owned(), header.value.clone()))
    });
    call.headers = headers.collect();
    if let Some(id) = &device {
        call.headers.insert("deviceid".to_owned(), id.clone());
    }
    call.device = device;
    if call.is("entitlement") && call.is_ok() {
        call.program = program(&call, schedule);
    }
    call
}

fn header<'a>(headers: &'a [NamedText], name: &str) -> Option<&'a str> {
    let found = headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case(name))?;
    Some(&found.value)
}

fn client(headers: &[NamedText], network: Option<&str>) -> String {
    let program = header(headers, "user-agent").unwrap_or_default();
    format!("{} {program}", network.unwrap_or_default())
}

fn model(device: &JournalDevice) -> String {
    let parts = [&device.platform, &device.kind, &device.model];
    let parts = parts.map(|part| part.as_deref().unwrap_or_default());
    parts.join("/")
}

fn program(call: &ClientCall, schedule: &Schedule) -> Option<CoveredProgram> {
    let livestream = LivestreamId::parse(call.asset.as_deref()?).ok()?;
    let offset: i64 = call
        .parameter("offset")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let at = UnixSeconds(call.at.div_euclid(1_000).saturating_add(offset));
    let program = schedule.snapshot().program_at(&livestream, at)?;
    Some(CoveredProgram {
        id: program.id()?.as_str().to_owned(),
        stop: program.stop().0,
    })
}

fn event(stored: &StoredEvent, partner: PartnerId) -> Option<ClientEvent> {
    // A report must not show another partner's events.
    if stored.sender.partner != partner {
        return None;
    }
    let json: Value = serde_json::from_slice(&stored.json).ok()?;
    let text = |pointer: &str| json.pointer(pointer).and_then(Value::as_str);
    let extra = json
        .get("extra")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let extra = extra.map(|(name, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        (name.clone(), value)
    });
    Some(ClientEvent {
        received: stored.received.0.saturating_mul(1_000),
        timestamp: stored.timestamp_millis,
        user: Some(stored.sender.user.to_string()),
        device: text("/context/device_id").map(device_hash),
        asset: text("/context/asset_id").map(str::to_owned),
        action: text("/action").unwrap_or_default().to_owned(),
        sequence: u64::try_from(stored.sequence).unwrap_or(0),
        extra: extra.collect(),
        state: text("/context/cmcd/sta").map(str::to_owned),
    })
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConformanceReportBody {
    /// Name of the partner whose clients were judged.
    partner: String,
    /// The session that was judged, if only one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Named("SessionId"))]
    session: Option<String>,
    /// Start of the judged period, inclusive.
    from: UnixSeconds,
    /// End of the judged period, exclusive.
    to: UnixSeconds,
    /// Version of rules and thresholds.
    rules_version: u32,
    /// Verdict on the client.
    #[described(JsonType::Named("ConformanceVerdict"))]
    verdict: &'static str,
    /// Number of requests that were judged.
    requests: usize,
    /// Number of playback sessions among them.
    sessions: usize,
    /// Number of telemetry events that were judged.
    events: usize,
    /// Number of rules that passed.
    passed: usize,
    /// Number of rules that failed, of either level.
    failed: usize,
    /// Number of rules that no request was about.
    not_seen: usize,
    /// Number of rules that the profile takes out.
    waived: usize,
    /// The rules with their results.
    rules: Vec<ConformanceRule>,
}

#[derive(Described, Serialize)]
struct ConformanceRule {
    /// Id of the rule, such as `login-after-401`.
    id: &'static str,
    /// Whether a broken rule fails the client.
    #[described(JsonType::Named("ConformanceLevel"))]
    level: &'static str,
    /// What the client has to do.
    title: &'static str,
    /// What is tolerated, such as a number or a time.
    threshold: &'static str,
    /// Part of the interface that the rule rests on.
    interface: &'static str,
    /// What the requests show about the rule.
    #[described(JsonType::Named("ConformanceResult"))]
    result: &'static str,
    /// Number of cases that were judged.
    checked: usize,
    /// Number of cases that break the rule.
    breaches: usize,
    /// What the first of the cases that break the rule was. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    finding: Option<String>,
    /// Why the profile waives the rule. Absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Ids of the requests that break the rule, at most 20.
    evidence: Vec<String>,
}

const fn result(outcome: &RuleOutcome) -> &'static str {
    match outcome {
        RuleOutcome::Passed => "passed",
        RuleOutcome::Failed => "failed",
        RuleOutcome::NotSeen => "notSeen",
        RuleOutcome::Waived(_) => "waived",
    }
}

impl ConformanceRule {
    fn new(judged: RuleResult) -> Self {
        let rule = judged.rule;
        Self {
            id: rule.id,
            level: rule.level.as_str(),
            title: rule.title,
            threshold: rule.threshold,
            interface: rule.interface,
            result: result(&judged.outcome),
            checked: judged.checked,
            breaches: judged.breaches,
            finding: judged.what,
            reason: match judged.outcome {
                RuleOutcome::Waived(reason) => Some(reason),
                RuleOutcome::Passed | RuleOutcome::Failed | RuleOutcome::NotSeen => None,
            },
            evidence: judged.evidence,
        }
    }
}

impl ConformanceReportBody {
    pub(crate) fn new(
        partner: String,
        session: Option<String>,
        (from, to): (UnixSeconds, UnixSeconds),
        report: ConformanceReport,
    ) -> Self {
        let verdict = report.verdict().as_str();
        let (requests, sessions, events) = (report.calls, report.sessions, report.events);
        let rules: Vec<_> = report
            .results
            .into_iter()
            .map(ConformanceRule::new)
            .collect();
        let count = |result| rules.iter().filter(|rule| rule.result == result).count();
        Self {
            partner,
            session,
            from,
            to,
            rules_version: RULES_VERSION,
            verdict,
            requests,
            sessions,
            events,
            passed: count("passed"),
            failed: count("failed"),
            not_seen: count("notSeen"),
            waived: count("waived"),
            rules,
        }
    }
}
