//! Records of the request journal in JSON.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::operators::asset_names::AssetNames;
use playgate_domain::partners::Partners;
use playgate_formats::decision_step::StepBody;
use playgate_http::response::body::{BodyError, BodyPiece, PIECE_BYTES};
use playgate_records::journal::{JournalDevice, JournalRecord, JournalRecords, NamedText};
use playgate_types::{Described, JsonType, UnixSeconds};

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JournaledRequest {
    /// Request id, as in `X-Request-Id`. A client may send its own, so several requests can have the same.
    id: String,
    /// Position in the journal. A later request has a higher number.
    number: u64,
    /// Time at which the request came.
    at: UnixSeconds,
    /// The same time in milliseconds.
    at_millis: i64,
    /// Duration of the answer in microseconds.
    micros: u64,
    /// Name of the partner, or its id if it was removed. Absent if no partner token was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    partner: Option<String>,
    /// Id of the partner token. Absent if no partner token was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    /// Id of the user. Absent if no user token was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// E-mail address of the user. Absent if there is no user.
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// Id of the user's login session. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<String>,
    /// Id of the playback session. Absent if the request is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Id of the asset. Absent if the request is about none.
    #[serde(skip_serializing_if = "Option::is_none")]
    asset: Option<String>,
    /// Identifies the Entitlement Token without revealing it: equal values mean the same token.
    #[serde(skip_serializing_if = "Option::is_none")]
    entitlement: Option<String>,
    /// The device, as its headers describe it.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<JournaledDevice>,
    /// The client's network: /24 of IPv4, /48 of IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    /// Method of the request, such as `GET`.
    method: String,
    /// Operation id, or its short name in the journal, such as `live` for `schedule_live`; `none` if no route matches.
    route: String,
    /// Path. Values that could tell something of a person or a secret are left as `{name}`.
    path: String,
    /// Query parameters of which the journal keeps the value.
    query: BTreeMap<String, String>,
    /// Listed headers: those of the player without tokens, `User-Agent`, `If-None-Match` and `traceparent`.
    headers: BTreeMap<String, String>,
    /// Listed members of a JSON body. Passwords and PINs are `***`.
    #[described(JsonType::AnyObject)]
    body: BTreeMap<String, Value>,
    /// HTTP status of the response.
    status: u16,
    /// Error code. Absent if the request was not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// Message of the error, for developers. Absent if the request was not refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Details of the error. Absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[described(JsonType::Any)]
    details: Option<Value>,
    /// The decision as it was made, check by check.
    steps: Vec<StepBody>,
    /// The fault that a lab applied. Absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(flatten)]
    names: AssetNames,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct JournaledDevice {
    /// Platform of the device. Absent if the client did not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    /// Type of the device. Absent if the client did not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    /// Model of the device. Absent if the client did not send it.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Hash of the device id: equal values mean the same device. Absent if the client did not send an id.
    #[serde(skip_serializing_if = "Option::is_none")]
    id_hash: Option<String>,
}

impl JournaledRequest {
    /// `partner` is the name; a partner that was removed has none, and its id is shown.
    pub(crate) fn new(record: JournalRecord, partner: Option<String>) -> Self {
        let json = |text: String| serde_json::from_str(&text).ok();
        Self {
            id: record.id,
            number: record.number,
            at: UnixSeconds(record.at_millis.div_euclid(1_000)),
            at_millis: record.at_millis,
            micros: record.micros,
            partner: partner.or_else(|| record.partner.map(|id| id.to_string())),
            token_id: record.token_id,
            user: record.user.map(|user| user.to_string()),
            email: None,
            login: record.login,
            session: record.session.map(|session| session.to_string()),
            asset: record.asset.map(|asset| asset.to_string()),
            entitlement: record.entitlement,
            device: record.device.map(JournaledDevice::from),
            network: record.network,
            method: record.method,
            route: record.route.into_owned(),
            path: record.path,
            query: record.query.into_iter().map(pair).collect(),
            headers: record.headers.into_iter().map(pair).collect(),
            body: (record.body.into_iter())
                .filter_map(|NamedText { name, value }| Some((name.into_owned(), json(value)?)))
                .collect(),
            status: record.status,
            code: record.code.map(Cow::into_owned),
            message: record.message,
            details: record.details.and_then(json),
            steps: record.steps.into_iter().map(StepBody::from).collect(),
            fault: record.fault,
            names: AssetNames::default(),
        }
    }
}

impl JournaledRequest {
    /// Adds what records do not contain: the current e-mail address of the user, and the names of the asset.
    pub(crate) fn with_names(self, email: Option<String>, names: AssetNames) -> Self {
        Self {
            email,
            names,
            ..self
        }
    }
}

/// Writes the records of a user as a member of a JSON object that stays open at its end.
pub(crate) struct RequestPieces {
    head: Option<Bytes>,
    records: JournalRecords,
    partners: Partners,
    first: bool,
    ended: bool,
}

impl RequestPieces {
    /// Appends a member to an object that has at least one other member, and leaves the object open.
    ///
    /// # Errors
    /// `object` is not such an object, which is a defect of the caller.
    pub(crate) fn open_member(
        mut object: Vec<u8>,
        name: &str,
        records: JournalRecords,
        partners: Partners,
    ) -> Result<Self, BodyError> {
        // Appended to the text of a complete object: the list is streamed, because it may not fit in memory.
        if object.len() < 3 || object.pop() != Some(b'}') {
            return Err("cannot append records: not a JSON object".into());
        }
        object.extend_from_slice(format!(",\"{name}\":[").as_bytes());
        Ok(Self {
            head: Some(object.into()),
            records,
            partners,
            first: true,
            ended: false,
        })
    }

    fn piece(&mut self) -> Result<Vec<u8>, BodyError> {
        let mut out = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 8);
        // A piece has many records, because each piece is a trip to a blocking thread and back.
        while out.len() < PIECE_BYTES
            && let Some(record) = self.records.next()
        {
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            let record = record?;
            let partner = record.partner.and_then(|id| self.partners.name(&id));
            serde_json::to_writer(&mut out, &JournaledRequest::new(record, partner))?;
        }
        Ok(out)
    }
}

impl Iterator for RequestPieces {
    type Item = BodyPiece;

    fn next(&mut self) -> Option<BodyPiece> {
        if let Some(head) = self.head.take() {
            return Some(Ok(head));
        }
        match self.piece() {
            Ok(piece) if piece.is_empty() => {
                let ended = std::mem::replace(&mut self.ended, true);
                (!ended).then(|| Ok(Bytes::from_static(b"]")))
            }
            piece => Some(piece.map(Bytes::from)),
        }
    }
}

fn pair(text: NamedText) -> (String, String) {
    (text.name.into_owned(), text.value)
}

impl From<JournalDevice> for JournaledDevice {
    fn from(device: JournalDevice) -> Self {
        Self {
            platform: device.platform,
            r#type: device.kind,
            model: device.model,
            id_hash: device.id_hash,
        }
    }
}
