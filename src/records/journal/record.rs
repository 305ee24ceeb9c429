//! The record of a request, and its form in a segment.
//!
//! The HTTP layer decides by lists of allowed names what a record contains. This module limits lengths and removes control
//! characters, which no frame may contain.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use playgate_domain::decision::DecisionStep;
use playgate_segment_log::frame::FrameBody;
use playgate_store::{Record, VALUE_MAX, decode_note};
use playgate_types::{AssetId, PartnerId, SessionId, UserId};

/// Maximum characters of most texts.
const TEXT_MAX: usize = 256;
const MESSAGE_MAX: usize = 512;
/// Steps that a shortened record keeps.
const STEPS_KEPT: usize = 12;
/// Longer details are dropped and not cut: cut JSON would not parse.
const DETAILS_MAX: usize = 4_096;
const LIST_MAX: usize = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalRecord {
    /// Position in the journal, from 1. Set by the journal.
    pub number: u64,
    /// The request id. A client may choose it, so it need not be unique.
    pub id: String,
    /// When the request was checked, in Unix milliseconds.
    pub at_millis: i64,
    /// Microseconds from the head of the request to its answer.
    pub micros: u64,
    pub partner: Option<PartnerId>,
    /// Identifies the partner token without revealing it.
    pub token_id: Option<String>,
    pub user: Option<UserId>,
    pub login: Option<String>,
    pub session: Option<SessionId>,
    pub asset: Option<AssetId>,
    /// Identifies the entitlement token without revealing it.
    pub entitlement: Option<String>,
    pub device: Option<JournalDevice>,
    /// The client's network: /24 of IPv4, /48 of IPv6.
    pub network: Option<String>,
    pub method: String,
    pub route: Cow<'static, str>,
    /// The path of the route, with the values of harmless parameters.
    pub path: String,
    pub query: Vec<NamedText>,
    pub headers: Vec<NamedText>,
    /// Members of the body, as JSON.
    pub body: Vec<NamedText>,
    pub status: u16,
    pub code: Option<Cow<'static, str>>,
    pub message: Option<String>,
    pub details: Option<String>,
    pub steps: Vec<DecisionStep>,
    /// The fault that a lab applied.
    pub fault: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalDevice {
    pub platform: Option<String>,
    pub kind: Option<String>,
    pub model: Option<String>,
    /// Shows whether two requests come from the same device, but not which one.
    pub id_hash: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedText {
    pub name: Cow<'static, str>,
    pub value: String,
}

/// Adds facts that are read from disk. It runs on the thread of the journal: no request waits for it.
pub type LateFacts = Box<dyn FnOnce(&mut JournalRecord) + Send>;

impl JournalRecord {
    pub const fn is_refusal(&self) -> bool {
        self.status >= 400
    }

    /// Returns the record without the parts whose length a client controls: every refusal must fit into a frame.
    pub(super) fn shortened(&self) -> Self {
        let mut steps = self.steps.clone();
        steps.truncate(STEPS_KEPT);
        Self {
            query: Vec::new(),
            headers: Vec::new(),
            body: Vec::new(),
            details: None,
            steps,
            ..self.clone()
        }
    }

    /// Enforces the bounds that keep a record storable, and removes control characters.
    pub(super) fn bounded(mut self) -> Self {
        for text in [&mut self.id, &mut self.method, &mut self.path] {
            shorten(text, TEXT_MAX);
        }
        shorten_if_owned(&mut self.route, TEXT_MAX);
        let device = self.device.iter_mut().flat_map(|device| {
            [
                &mut device.platform,
                &mut device.kind,
                &mut device.model,
                &mut device.id_hash,
            ]
        });
        let optional = [
            &mut self.token_id,
            &mut self.login,
            &mut self.entitlement,
            &mut self.network,
            &mut self.fault,
        ];
        for text in device.chain(optional).flatten() {
            shorten(text, TEXT_MAX);
        }
        self.code
            .iter_mut()
            .for_each(|text| shorten_if_owned(text, TEXT_MAX));
        self.message
            .iter_mut()
            .for_each(|text| shorten(text, MESSAGE_MAX));
        for list in [&mut self.query, &mut self.headers, &mut self.body] {
            list.truncate(LIST_MAX);
            for NamedText { name, value } in list {
                shorten_if_owned(name, TEXT_MAX);
                shorten(value, TEXT_MAX);
            }
        }
        self.details = self.details.filter(|text| text.len() <= DETAILS_MAX);
        self.steps.truncate(LIST_MAX);
        for step in &mut self.steps {
            step.subject
                .iter_mut()
                .for_each(|text| shorten(text, TEXT_MAX));
            shorten_if_owned(&mut step.finding, MESSAGE_MAX);
        }
        self
    }
}

/// A borrowed text is a constant in the program. It needs no limit.
fn shorten_if_owned(text: &mut Cow<'static, str>, most: usize) {
    if let Cow::Owned(text) = text {
        shorten(text, most);
    }
}

fn shorten(text: &mut String, most: usize) {
    // A text has at most as many characters as bytes. Most texts are short, and counting took 2 % of an entitlement.
    if text.len() > most
        && let Some((end, _)) = text.char_indices().nth(most)
    {
        text.truncate(end);
    }
    // Most texts are plain ASCII, and decoding their characters took 2 % of an entitlement.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if !is_plain && text.contains(char::is_control) {
        *text = text.replace(char::is_control, " ");
    }
}

impl Record for JournalRecord {}

impl FrameBody for JournalRecord {
    /// Texts of a record contain no control characters, and each body has its own checksum.
    const MARK: [u8; 4] = *b"PGj\x01";
    const HOLE: [u8; 4] = *b"PGj\x02";
    const BODY_MAX: usize = VALUE_MAX;

    fn parse(body: &[u8]) -> Option<Self> {
        decode_note(body)
    }
}
