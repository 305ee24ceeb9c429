//! Every change that an operator asks for is recorded before it is made, whatever route it takes, and
//! every reading of secrets before it is answered.

use std::borrow::Cow;
use std::sync::Arc;

use super::admin::resolve;
use super::auth::{AdminIdentity, OperatorAuth, claim};
use super::context::Context;
use super::dispatch::{Answer, Outcome, dispatch};
use super::endpoint::admin::users::UserRef;
use super::endpoint::{Endpoint, Input};
use super::headers::RequestHeaders;
use super::path_validation::decode;
use super::query::Query;
use super::route::Route;
use crate::app::App;
use crate::domain::audit::Change;

/// In the place of a user whom nobody has: what was typed is not kept, it may be an address.
const NOBODY: &str = "-";
/// The longest target, in bytes.
const TARGET_MAX: usize = 512;

/// What is recorded of a request.
pub(super) struct AuditDraft {
    auth: OperatorAuth,
    claimed: Option<String>,
    /// Whether the request only reads, and must not where it cannot be recorded.
    reads: bool,
    action: &'static str,
    /// The rest of the path, in segments; that of the user is empty.
    target: Vec<String>,
    query: Option<String>,
    user: Option<UserRef>,
}

impl AuditDraft {
    /// That of a request which changes something, and does not only try, or which reads secrets.
    pub(super) fn new(
        auth: OperatorAuth,
        route: &Route,
        input: &Input<'_>,
        query: Option<&str>,
        heads: &RequestHeaders<'_>,
    ) -> Option<Self> {
        let tried = || Query::new(query.unwrap_or_default()).flag("dryRun");
        if !route.is_recorded(auth.role()) || (route.can_be_tried() && matches!(tried(), Ok(true)))
        {
            return None;
        }
        // Both begin with the empty segment, `admin` and the version.
        let segments = route.pattern.split('/').zip(input.path.split('/')).skip(3);
        let target = segments.map(|(name, text)| match name {
            "{user}" => String::new(),
            _ => decode(text).map_or_else(|| text.to_owned(), Cow::into_owned),
        });
        let of_user = route.pattern.contains("/{user}");
        Some(Self {
            auth,
            claimed: match auth.asker() {
                AdminIdentity::Operator(_) => None,
                AdminIdentity::Administrator(administrator) => claim(administrator, heads),
            },
            reads: !route.is_change(),
            action: route.label,
            target: target.collect(),
            query: query.map(str::to_owned),
            user: of_user.then(|| UserRef::parse(input).ok()).flatten(),
        })
    }

    /// The change, with the user's id and not the address that may have been typed.
    async fn change(self, app: &App, cx: &Context) -> Change {
        let user = match self.user {
            Some(named) => resolve::user(app, &named).await.ok(),
            None => None,
        };
        let user = user.map_or_else(|| NOBODY.to_owned(), |user| user.id.to_string());
        let segments = self.target.into_iter();
        let named = segments.map(|text| if text.is_empty() { user.clone() } else { text });
        let mut target = named.collect::<Vec<_>>().join("/");
        if let Some(query) = self.query {
            target = format!("{target}?{query}");
        }
        target.truncate(target.floor_char_boundary(TARGET_MAX));
        Change {
            at: cx.now,
            operator: self.auth.operator(),
            name: match self.auth.asker() {
                // Who was removed meanwhile has an id still.
                AdminIdentity::Operator(id) => app.operators.name(id).unwrap_or_default(),
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

/// Records, calls the handler, and records what came of it.
///
/// Decision: where the store takes no record, on a full disk say, a change goes on and the log tells
/// of it: it may be the one that makes room. A reading of secrets makes no room and is refused.
pub(super) async fn run_audited(
    app: Arc<App>,
    mut cx: Context,
    asked: AuditDraft,
    endpoint: Endpoint,
) -> Answer {
    let reads = asked.reads;
    let change = asked.change(&app, &cx).await;
    cx.change = Some(Box::new(change.clone()));
    tracing::info!(
        request_id = change.request,
        operator = change.name,
        claimed = change.claimed,
        action = change.action,
        target = change.target,
        "change"
    );
    let number = app.audit.begin(change).await;
    if reads && let Err(error) = number {
        return Err(error.into());
    }
    let answer = match dispatch(&app, cx, endpoint) {
        Outcome::Now(answer) => answer,
        Outcome::Later(future) => future.await,
    };
    let (status, audited) = match &answer {
        Ok(reply) => (reply.status, reply.audited.clone()),
        Err(error) => (error.code().status(), None),
    };
    let ended = match number {
        Ok(number) => app.audit.end(number, status.as_u16(), audited).await,
        Err(error) => Err(error),
    };
    if let Err(error) = ended {
        tracing::warn!(%error, "failed to write the audit record");
    }
    answer
}
