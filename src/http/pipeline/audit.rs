//! Audit record of the administration interface. Every change is recorded before it is made, and every read
//! of secrets before it is answered, whatever route it takes.

use std::borrow::Cow;
use std::sync::Arc;

use crate::access::auth::{AdminIdentity, OperatorAuth};
use crate::access::local_admin::claim;
use crate::request::context::Context;
use crate::request::head_validation::decode;
use crate::request::headers::RequestHeaders;
use crate::request::query::Query;
use crate::response::reply::Answer;
use crate::routing::endpoint::{BoundRequest, HandlerOutcome, Input};
use crate::routing::resolve::{self, UserIdOrEmail};
use crate::routing::route::Route;
use crate::state::HttpState;
use playgate_domain::audit::AuditedChange;

/// Recorded for a user that does not exist. The text from the request is not stored, since it may be an
/// e-mail address.
const NOBODY: &str = "-";
const TARGET_MAX: usize = 512;

pub(crate) struct AuditDraft {
    auth: OperatorAuth,
    claimed: Option<String>,
    /// Whether the request only reads secrets. It is refused if it cannot be recorded.
    reads: bool,
    action: &'static str,
    /// The rest of the path, by segment; a user's segment is empty until the user id is known.
    target: Vec<String>,
    query: Option<String>,
    user: Option<UserIdOrEmail>,
}

impl AuditDraft {
    /// Returns a draft for requests that change something or read secrets, and `None` for others and for dry
    /// runs.
    pub(crate) fn new(
        auth: OperatorAuth,
        route: &Route,
        input: &Input<'_>,
        query: Option<&str>,
        heads: &RequestHeaders<'_>,
    ) -> Option<Self> {
        let dry_run = || Query::new(query.unwrap_or_default()).flag("dryRun");
        if !route.is_recorded(auth.role()) || (route.has_dry_run && matches!(dry_run(), Ok(true))) {
            return None;
        }
        // Skips the empty segment, `admin` and the version, with which both begin.
        let segments = route.pattern.split('/').zip(input.path.split('/')).skip(3);
        // Decoded, so that an object has one spelling in the record.
        let target = segments.map(|(name, text)| match name {
            // Filled in by `change` with the id: an address in the record would outlive its user.
            "{user}" => String::new(),
            _ => decode(text).map_or_else(|| text.to_owned(), Cow::into_owned),
        });
        let of_user = route.pattern.contains("/{user}");
        Some(Self {
            auth,
            claimed: match auth.identity() {
                AdminIdentity::Operator(_) => None,
                AdminIdentity::Administrator(administrator) => claim(administrator, heads),
            },
            reads: !route.is_change,
            action: route.label,
            target: target.collect(),
            query: query.map(str::to_owned),
            user: of_user.then(|| UserIdOrEmail::parse(input).ok()).flatten(),
        })
    }

    /// Builds the entry. It names the user by id, because the request may contain the e-mail address.
    async fn change(self, http: &HttpState, cx: &Context) -> AuditedChange {
        // An unknown user is refused by the handler; the entry then says `-`.
        let user = match self.user {
            Some(named) => resolve::user(&http.services, &named).await.ok(),
            None => None,
        };
        let user = user.map_or_else(|| NOBODY.to_owned(), |user| user.id.to_string());
        let segments = self.target.into_iter();
        let named = segments.map(|text| if text.is_empty() { user.clone() } else { text });
        let mut target = named.collect::<Vec<_>>().join("/");
        if let Some(query) = self.query {
            target = format!("{target}?{query}");
        }
        // The query is part of the target and may be as long as the request line.
        target.truncate(target.floor_char_boundary(TARGET_MAX));
        AuditedChange {
            at: cx.now,
            operator: self.auth.operator(),
            name: match self.auth.identity() {
                // A removed operator has no name any more; the entry still has the id.
                AdminIdentity::Operator(id) => {
                    http.services.operators.name(&id).unwrap_or_default()
                }
                AdminIdentity::Administrator(administrator) => administrator.to_string(),
            },
            role: self.auth.role(),
            action: self.action.to_owned(),
            target,
            request: cx.request_id.to_string(),
            claimed: self.claimed,
        }
    }
}

/// Records the request, calls the handler and records the result. A change is made even if the entry cannot
/// be written; the log then has a line about it.
pub(crate) async fn run_audited(
    http: Arc<HttpState>,
    mut cx: Context,
    draft: AuditDraft,
    request: Box<dyn BoundRequest>,
) -> Answer {
    let reads = draft.reads;
    let (request_id, action) = (cx.request_id.to_string(), draft.action);
    let change = draft.change(&http, &cx).await;
    cx.change = Some(Box::new(change.clone()));
    tracing::info!(
        request_id = change.request,
        operator = change.name,
        claimed = change.claimed,
        action = change.action,
        target = change.target,
        "audited change"
    );
    // Before the handler: a crash in between leaves an entry without a result, and never a change without an entry.
    let number = http.services.audit.begin(change).await;
    // A change may be the one that frees space on a full disk; a read of secrets frees nothing.
    if reads && let Err(error) = number {
        return Err(error.into());
    }
    let answer = match request.handle(&http, cx) {
        HandlerOutcome::Now(answer) => answer,
        HandlerOutcome::Later(future) => future.await,
    };
    let (status, audited) = match &answer {
        Ok(reply) => (reply.status, reply.audited.clone()),
        Err(error) => (error.code().status(), None),
    };
    let ended = match number {
        Ok(number) => {
            http.services
                .audit
                .end(number, status.as_u16(), audited)
                .await
        }
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::warn!(request_id, action, %error, "failed to write audit entry");
    }
    answer
}
