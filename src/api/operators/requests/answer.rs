//! Records of the request journal in JSON.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::operators::asset_names::AssetNames;
use playgate_domain::partners::Partners;
use playgate_formats::decision_step::StepLine;
use playgate_http::response::body::{BodyError, BodyPiece, PIECE_BYTES};
use playgate_records::journal::{JournalDevice, JournalRecord, JournalRecords, NamedText};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestLine {
    id: String,
    number: u64,
    at: i64,
    at_millis: i64,
    micros: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    partner: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    login: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entitlement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<DeviceLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    method: String,
    route: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: BTreeMap<String, Value>,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Value>,
    steps: Vec<StepLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(flatten)]
    names: AssetNames,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DeviceLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_hash: Option<String>,
}

impl RequestLine {
    /// `partner` is the name; a partner that was removed has none, and its id is shown.
    pub(crate) fn new(record: JournalRecord, partner: Option<String>) -> Self {
        let json = |text: String| serde_json::from_str(&text).ok();
        Self {
            id: record.id,
            number: record.number,
            at: record.at_millis.div_euclid(1_000),
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
            device: record.device.map(DeviceLine::from),
            network: record.network,
            method: record.method,
            route: record.route,
            path: record.path,
            query: record.query.into_iter().map(pair).collect(),
            headers: record.headers.into_iter().map(pair).collect(),
            body: (record.body.into_iter())
                .filter_map(|NamedText { name, value }| Some((name, json(value)?)))
                .collect(),
            status: record.status,
            code: record.code,
            message: record.message,
            details: record.details.and_then(json),
            steps: record.steps.into_iter().map(StepLine::from).collect(),
            fault: record.fault,
            names: AssetNames::default(),
        }
    }
}

impl RequestLine {
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
            serde_json::to_writer(&mut out, &RequestLine::new(record, partner))?;
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
    (text.name, text.value)
}

impl From<JournalDevice> for DeviceLine {
    fn from(device: JournalDevice) -> Self {
        Self {
            platform: device.platform,
            r#type: device.kind,
            model: device.model,
            id_hash: device.id_hash,
        }
    }
}
