//! `playgate requests`: the request journal.

use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::explain_output::show_step;
use crate::client::time_arg::{TimeRange, server_time};
use crate::client::{Admin, path, with_query};
use crate::global::Global;
use crate::output::{self, CommandResult, Failure, Tone, members};

/// Request journal: what clients asked, what they were answered, and why
#[derive(Subcommand)]
pub(crate) enum RequestsCommand {
    /// List requests, newest first
    List {
        #[command(flatten)]
        filter: RequestFilter,
        /// Only requests before this one: its number or id
        #[arg(long, value_name = "NUMBER")]
        before: Option<String>,
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Show a request and the decision behind its answer
    Show {
        /// Request id, as in X-Request-Id, or number
        id: String,
        /// Print a curl command that repeats the request; tokens are left for you to fill in
        #[arg(long, conflicts_with = "json")]
        curl: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print requests as an HTTP archive (HAR 1.2), oldest first
    Har {
        #[command(flatten)]
        filter: RequestFilter,
        /// Only requests before this one: its number or id
        #[arg(long, value_name = "NUMBER")]
        before: Option<String>,
    },
    /// Print requests as they come, oldest first; ends with Ctrl-C
    Tail {
        #[command(flatten)]
        filter: RequestFilter,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct RequestFilter {
    /// Only requests of this partner: id or name
    #[arg(long)]
    partner: Option<String>,
    /// Only requests of this user: id or e-mail address
    #[arg(long)]
    user: Option<String>,
    /// Only requests of this playback session
    #[arg(long, allow_hyphen_values = true)]
    session: Option<String>,
    /// Only requests about this asset
    #[arg(long, value_name = "ID")]
    asset: Option<String>,
    /// Only this route, such as entitlement or heartbeat, or license for all license routes
    #[arg(long)]
    route: Option<String>,
    /// Only this status, such as 403, a class, such as 4xx, answered or refused
    #[arg(long)]
    status: Option<String>,
    /// Only this error code, such as NOT_ENTITLED
    #[arg(long)]
    code: Option<String>,
    #[command(flatten)]
    range: TimeRange,
    /// Maximum number of requests
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

/// Seconds for which the server holds a request of `tail` open.
const WAIT: &str = "20";
/// Number of requests that `tail` shows at its start.
const TAIL_BEGIN: u16 = 10;

const COLUMNS: [output::Column; 9] = [
    ("TIME", "at"),
    ("PARTNER", "partner"),
    ("USER", "email"),
    ("ROUTE", "route"),
    ("ASSET", "asset"),
    ("STATUS", "status"),
    ("CODE", "code"),
    ("FAULT", FAULT),
    ("ID", "id"),
];
const FAULT: &str = "fault";

fn columns(records: &Value) -> Vec<output::Column> {
    let mut records = members::all(records).iter();
    // Only lab partners have faults: without one the column would always be empty.
    let has_fault = records.any(|record| record.get(FAULT).is_some());
    let columns = COLUMNS.into_iter();
    columns
        .filter(|(_, member)| *member != FAULT || has_fault)
        .collect()
}

impl RequestFilter {
    /// Returns the path of the list with this filter and further parameters. Spans count back from `now`.
    fn target(&self, limit: u16, more: &[(&str, Option<&str>)], now: i64) -> String {
        let ([from, to], limit) = (self.range.seconds(now), limit.to_string());
        let mut parameters = vec![
            ("partner", self.partner.as_deref()),
            ("user", self.user.as_deref()),
            ("session", self.session.as_deref()),
            ("asset", self.asset.as_deref()),
            ("route", self.route.as_deref()),
            ("status", self.status.as_deref()),
            ("code", self.code.as_deref()),
            ("from", from.as_deref()),
            ("to", to.as_deref()),
            ("limit", Some(limit.as_str())),
        ];
        parameters.extend(more);
        with_query(path(&["requests"]), &parameters)
    }
}

pub(crate) async fn run(command: RequestsCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    match command {
        RequestsCommand::List {
            filter,
            before,
            json,
        } => {
            let now = server_time(&mut admin).await?;
            let more = [("before", before.as_deref())];
            let target = filter.target(filter.limit, &more, now);
            let records = listed(&mut admin, target, filter.limit.into()).await?;
            output::list(&records, &columns(&records), json)
        }
        RequestsCommand::Show { id, curl, json } => {
            let record = admin.get(&path(&["requests", &id])).await?;
            if curl {
                let base = admin.get(&path(&["about"])).await?;
                return output::line(&curl_command(&record, &output::text(&base, "publicUrl")));
            }
            show(&record, json)
        }
        RequestsCommand::Har { filter, before } => {
            let now = server_time(&mut admin).await?;
            let more = [("before", before.as_deref())];
            let target = filter.target(filter.limit, &more, now);
            let target = target.replacen("/requests", "/requests.har", 1);
            output::json(&archived(&mut admin, target, filter.limit.into()).await?)
        }
        RequestsCommand::Tail { filter, json } => tail(&mut admin, &filter, json).await,
    }
}

/// Reads on where the server has interrupted a long search, until there are `limit` records.
async fn listed(admin: &mut Admin, target: String, limit: usize) -> Result<Value, Failure> {
    let (mut records, mut next) = (Vec::new(), Some(target));
    while let Some(target) = next
        && records.len() < limit
    {
        let page = admin.page(&target).await?;
        records.extend_from_slice(members::all(&page.value));
        next = page.next();
    }
    records.truncate(limit);
    Ok(records.into())
}

/// Like [`listed`], as one archive.
async fn archived(admin: &mut Admin, target: String, limit: usize) -> Result<Value, Failure> {
    let mut page = admin.page(&target).await?;
    let mut archive = page.value.take();
    let entries = |archive: &Value| {
        let entries = archive.pointer("/log/entries").and_then(Value::as_array);
        entries.cloned().unwrap_or_default()
    };
    // The oldest first, and each page is older than the one before.
    let mut found = entries(&archive);
    while let Some(target) = page.next()
        && found.len() < limit
    {
        page = admin.page(&target).await?;
        found.splice(0..0, entries(&page.value));
    }
    found.drain(..found.len().saturating_sub(limit));
    if let Some(entries) = archive.pointer_mut("/log/entries") {
        *entries = found.into();
    }
    Ok(archive)
}

async fn tail(admin: &mut Admin, filter: &RequestFilter, json: bool) -> CommandResult {
    let now = server_time(admin).await?;
    let mut page = admin.page(&filter.target(TAIL_BEGIN, &[], now)).await?;
    let mut last = 0;
    loop {
        for record in members::all(&page.value).iter().rev() {
            last = record["number"].as_u64().unwrap_or(last).max(last);
            let line = match json {
                true => record.to_string(),
                false => one_line(record),
            };
            if output::stream_line(&line)? == output::Reader::Gone {
                return Ok(());
            }
        }
        // Also behind records that the filter leaves out, which would be searched again.
        last = page.position().unwrap_or(last);
        let number = last.to_string();
        let more = [("after", Some(number.as_str())), ("wait", Some(WAIT))];
        page = admin.page(&filter.target(filter.limit, &more, now)).await?;
        // A burst is printed in pieces, not record by record.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn one_line(record: &Value) -> String {
    let columns = columns(&Value::Array(vec![record.clone()]));
    let cells = columns.into_iter();
    let cells = cells.map(|(_, member)| output::cell(member, record.get(member)));
    cells.collect::<Vec<_>>().join("  ")
}

fn show(record: &Value, json: bool) -> CommandResult {
    if json {
        return output::json(record);
    }
    let text = |member: &str| output::text(record, member);
    let refused = record.get("code").is_some();
    let (verdict, tone) = match refused {
        true => (format!("{} {}", text("status"), text("code")), Tone::Bad),
        false => (text("status"), Tone::Good),
    };
    let verdict = output::tinted(&verdict, tone);
    let (at, method, path) = (text("at"), text("method"), text("path"));
    output::line(&format!("{at}  {verdict}  {method} {path}"))?;
    if refused {
        output::line(&text("message"))?;
    }
    let mut steps = members::elements(record, "steps").iter();
    steps.try_for_each(show_step)?;
    output::line("")?;
    let mut facts = record.clone();
    if let Some(facts) = facts.as_object_mut() {
        for shown in [
            "at", "atMillis", "code", "message", "method", "path", "status", "steps",
        ] {
            facts.remove(shown);
        }
    }
    output::record(&facts, false)
}

/// Builds a curl command from a record. Angle brackets stand for values that the journal never stores.
fn curl_command(record: &Value, base: &str) -> String {
    let text = |member: &str| output::text(record, member);
    // curl would expand braces as a pattern.
    let path = text("path").replace('{', "<").replace('}', ">");
    let mut target = format!("{}{path}", base.trim_end_matches('/'));
    let pairs = |member: &str| -> Vec<(String, String)> {
        let pairs = record.get(member).and_then(Value::as_object);
        let pairs = pairs.into_iter().flatten();
        pairs
            .map(|(name, value)| {
                let value = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                (name.clone(), value)
            })
            .collect()
    };
    let query: Vec<(String, String)> = pairs("query");
    let query: Vec<(&str, Option<&str>)> = query
        .iter()
        .map(|(name, value)| (name.as_str(), Some(value.as_str())))
        .collect();
    target = with_query(target, &query);
    // With `-X HEAD` curl would wait for a body.
    let verb = match text("method").as_str() {
        "HEAD" => "-I".to_owned(),
        method => format!("-X {method}"),
    };
    let mut parts = vec![format!("curl {verb} {}", quoted(&target))];
    let mut header = |name: &str, value: &str| {
        parts.push(format!("-H {}", quoted(&format!("{name}: {value}"))));
    };
    if record.get("tokenId").is_some() {
        header("Service-AccessToken", "<partner token>");
    }
    if record.get("user").is_some() {
        header("Authorization", "Bearer <user token>");
    }
    if record.get("entitlement").is_some() {
        header("Service-Play-EntitlementId", "<entitlement token>");
    }
    if record.pointer("/device/idHash").is_some() {
        header("Service-Play-DeviceId", "<device id>");
    }
    for (name, value) in pairs("headers") {
        header(&name, &value);
    }
    let body = record.get("body").filter(|body| {
        let members = body.as_object();
        members.is_some_and(|members| !members.is_empty())
    });
    if let Some(body) = body {
        header("Content-Type", "application/json");
        parts.push(format!("-d {}", quoted(&body.to_string())));
    }
    parts.join(" \\\n  ")
}

/// Quotes text for a POSIX shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fault_that_was_applied_has_a_column() {
        let heads = |records: &Value| {
            let columns = columns(records).into_iter();
            columns.map(|(head, _)| head).collect::<Vec<_>>().join(" ")
        };
        let (usual, disturbed) = (
            json!({"id": "a"}),
            json!({"id": "b", "fault": "f1 cut=head"}),
        );
        assert_eq!(
            heads(&json!([usual])),
            "TIME PARTNER USER ROUTE ASSET STATUS CODE ID"
        );
        assert_eq!(
            heads(&json!([usual, disturbed])),
            "TIME PARTNER USER ROUTE ASSET STATUS CODE FAULT ID"
        );
        assert_eq!(one_line(&usual).matches('-').count(), 7);
        assert!(one_line(&disturbed).ends_with("f1 cut=head  b"));
    }

    #[test]
    fn a_curl_command_names_what_the_journal_never_has() {
        let record = json!({
            "method": "POST", "path": "/api/entitlement/v2/asset/it's{a}", "query": {"offset": "-60"},
            "headers": {"User-Agent": "tv"}, "body": {"pinCode": "***"}, "tokenId": "a", "user": "b",
        });
        assert_eq!(
            curl_command(&record, "https://tv.example/"),
            r#"curl -X POST 'https://tv.example/api/entitlement/v2/asset/it'\''s<a>?offset=-60' \
  -H 'Service-AccessToken: <partner token>' \
  -H 'Authorization: Bearer <user token>' \
  -H 'User-Agent: tv' \
  -H 'Content-Type: application/json' \
  -d '{"pinCode":"***"}'"#
        );
    }
}
