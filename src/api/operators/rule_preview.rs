//! What a rule would apply to, before it is added.

use std::sync::Arc;

use serde::Serialize;

use playgate_domain::catalog::{CatalogError, CatalogImport, Livestream};
use playgate_domain::schedule::Broadcast;
use playgate_formats::catalog_file;
use playgate_http::offload::bulk;
use playgate_http::{ApiError, Context, Input, OperatorAuth, ParseRequest, Payload, Reply};
use playgate_services::Services;
use playgate_types::{BroadcastId, Described, LivestreamId, UnixSeconds};

crate::openapi::words::words! { RulePreview => r##"
[operations.admin_preview_rule]
summary = "Preview a rule"
text = "Names the broadcasts that the rule would apply to, and changes nothing."
send = "Rule: The rule."
returns."200" = "RulePreview: The broadcasts."
errors = ["IMPORT_INVALID"]
"## }

/// Broadcasts that a preview names.
const NAMED_MAX: usize = 20;

pub(crate) struct PreviewRuleRequest {
    pub rule: CatalogImport,
}

impl ParseRequest for PreviewRuleRequest {
    fn parse(_input: &Input<'_>, payload: Payload) -> Result<Self, ApiError> {
        let body = payload.whole()?;
        let text = std::str::from_utf8(&body);
        let text = text.map_err(|_| ApiError::malformed("the body is not UTF-8"))?;
        Ok(Self {
            rule: catalog_file::parse_rule(text),
        })
    }
}

#[derive(Default, Described, Serialize)]
struct RulePreview {
    /// Number of broadcasts that match and are not over.
    broadcasts: usize,
    /// Number of livestreams that have some.
    livestreams: usize,
    /// The first of them by start, at most 20.
    first: Vec<RuleHit>,
}

#[derive(Described, Serialize)]
#[serde(rename_all = "camelCase")]
struct RuleHit {
    /// Id of the broadcast.
    broadcast_id: BroadcastId,
    /// Id of the livestream of the broadcast.
    livestream_id: LivestreamId,
    /// Name of the livestream of the broadcast.
    livestream_name: String,
    /// Title of the broadcast.
    title: String,
    /// Start time, inclusive.
    start: UnixSeconds,
    /// End time, exclusive.
    stop: UnixSeconds,
}

impl RuleHit {
    fn new(livestream: &Livestream, broadcast: &Broadcast) -> Self {
        Self {
            broadcast_id: broadcast.id.clone(),
            livestream_id: livestream.id.clone(),
            livestream_name: livestream.name.clone(),
            title: broadcast.metadata.title.to_string(),
            start: broadcast.start,
            stop: broadcast.stop,
        }
    }
}

pub(crate) async fn preview(
    services: &Services,
    cx: &Context,
    _auth: OperatorAuth,
    request: PreviewRuleRequest,
) -> Result<Reply, ApiError> {
    let (schedule, catalog, now) = (
        Arc::clone(&services.schedule),
        services.catalog.snapshot(),
        cx.now,
    );
    let CatalogImport {
        rules, problems, ..
    } = request.rule;
    let reply = bulk(services, move || -> Result<_, ApiError> {
        let Some(rule) = rules.into_iter().next().filter(|_| problems.is_empty()) else {
            return Err(CatalogError::Invalid(problems).into());
        };
        let mut reply = RulePreview::default();
        for livestream in catalog.livestreams() {
            if !rule.item.condition.concerns(&livestream.id) {
                continue;
            }
            let mut broadcasts = schedule.broadcasts(&livestream.id)?;
            broadcasts.retain(|one| one.stop > now && rule.item.matches(livestream, one));
            reply.broadcasts += broadcasts.len();
            reply.livestreams += usize::from(!broadcasts.is_empty());
            let named = broadcasts.iter().take(NAMED_MAX);
            (reply.first).extend(named.map(|one| RuleHit::new(livestream, one)));
        }
        reply.first.sort_by_key(|hit| hit.start);
        reply.first.truncate(NAMED_MAX);
        Ok(reply)
    })
    .await?;
    Reply::json(&reply)
}
