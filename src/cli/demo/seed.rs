//! Fills the demo's store through the operators' interface.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::{content, epg};
use crate::client::{Admin, AdminError, path, request_body, with_query};
use crate::output::{CommandResult, Failure};
use playgate_config::Environment;
use playgate_domain::epg_sources::DemoGuide;
use playgate_http::HttpState;

pub(super) const IDENTITY: &str = "demo@example.com";
pub(super) const ACCESS_KEY: &str = "demo pass phrase";
pub(super) const PIN_CODE: &str = "2580";
const PARENTAL_LIMIT: u8 = 15;
/// Name of the demo's partner and operator.
const NAME: &str = "demo";

pub(super) struct DemoData {
    pub partner_token: String,
    pub operator_token: String,
    pub catchup: String,
}

/// Fills the store, or updates one that an earlier demo has filled.
pub(super) async fn fill(http: &Arc<HttpState>) -> Result<DemoData, Failure> {
    let services = &http.services;
    content::unpack(&services.config.origin.media_dir)?;
    let mut admin = Admin::to(Arc::clone(http)).await?;
    // The catalogue first: broadcasts of unknown livestreams would be skipped.
    import(
        &mut admin,
        path(&["catalog", "import"]),
        content::CATALOG.to_owned(),
    )
    .await?;
    let start = services.clock.now();
    let guide = epg::around(start);
    // After a long pause between two demos on one store, the guide would be held as implausible.
    let target = with_query(path(&["epg", "import"]), &[("accept", Some("true"))]);
    import(&mut admin, target, guide.json.to_string()).await?;
    // A process fills one demo only, so no guide was set before.
    let _ = services.demo.guide.set(DemoGuide {
        first_import: start,
        generate: Box::new(move |now| epg::continued(start, now).json.to_string()),
    });
    // A demo that was set to production has a standard partner.
    let lab = services.config.server.environment != Environment::Production;
    let partner_token = partner(&mut admin, lab).await?;
    user(&mut admin).await?;
    Ok(DemoData {
        partner_token,
        operator_token: operator(&mut admin).await?,
        catchup: guide.catchup,
    })
}

async fn import(admin: &mut Admin, target: String, text: String) -> CommandResult {
    let body = request_body::whole(text);
    let answer = admin
        .upload(&target, "application/octet-stream", body, String::new)
        .await?;
    answer?;
    Ok(())
}

/// Returns `None` if an earlier demo has created the object.
fn unless_taken(answer: Result<Value, AdminError>) -> Result<Option<Value>, Failure> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(refusal) if matches!(refusal.code.as_str(), "NAME_IN_USE" | "EMAIL_IN_USE") => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}

fn text(value: &Value, member: &str) -> Result<String, Failure> {
    let text = value.get(member).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| Failure::failed(format!("an answer of the demo server has no `{member}`")))
}

async fn partner(admin: &mut Admin, lab: bool) -> Result<String, Failure> {
    let kind = if lab { "lab" } else { "standard" };
    let body = json!({"name": NAME, "kind": kind});
    let answer = admin
        .ask(Method::POST, &path(&["partners"]), Some(&body))
        .await?;
    let made = match unless_taken(answer)? {
        Some(made) => made,
        // A second demo on one store: tokens are stored as hashes, so the old one cannot be printed again.
        None => {
            let tokens = path(&["partners", NAME, "tokens"]);
            admin.post(&tokens, None).await?
        }
    };
    text(&made, "accessToken")
}

async fn operator(admin: &mut Admin) -> Result<String, Failure> {
    let body = json!({"name": NAME, "role": "admin"});
    let operators = path(&["operators"]);
    let answer = admin.ask(Method::POST, &operators, Some(&body)).await?;
    let made = match unless_taken(answer)? {
        Some(made) => made,
        // As for the partner, the token cannot be printed again. The operator is removed first, because its name must
        // be free.
        None => {
            admin.delete(&path(&["operators", NAME])).await?;
            admin.post(&operators, Some(&body)).await?
        }
    };
    text(&made, "token")
}

async fn user(admin: &mut Admin) -> CommandResult {
    let body = json!({
        "partner": NAME,
        "email": IDENTITY,
        "password": ACCESS_KEY,
        "name": "Demo Viewer",
        "country": "SE",
        "locale": "en",
    });
    let answer = admin
        .ask(Method::POST, &path(&["users"]), Some(&body))
        .await?;
    unless_taken(answer)?;
    let of_demo = |below: &[&str]| {
        let mut segments = vec!["users", IDENTITY];
        segments.extend(below);
        with_query(path(&segments), &[("partner", Some(NAME))])
    };
    // Set the PIN first: enabling parental control without one would mail a random PIN. Keep the PIN of an
    // earlier demo: an operator's PIN would lift a lock on PIN entry.
    let user = admin.get(&of_demo(&[])).await?;
    if user.get("hasPin") != Some(&Value::Bool(true)) {
        let pin = json!({"pinCode": PIN_CODE});
        admin.put(&of_demo(&["pin"]), &pin).await?;
    }
    let parental = json!({"parentalControl": {"enabled": true, "limit": PARENTAL_LIMIT}});
    admin.put(&of_demo(&[]), &parental).await?;
    Ok(())
}
