//! `playgate mail`: the sink and the queue.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use super::admin::{path, with_query};
use super::exit::{Failure, Outcome};
use super::{Global, output};

/// Mail that the service has sent, or keeps because no mail server is configured.
#[derive(Subcommand)]
pub enum Command {
    /// List messages, newest first
    List {
        /// Print a JSON array of {"id","to","subject","kind","status","createdAt"}, with "attempts",
        /// "nextAttempt" and "server" of those that go to a mail server
        #[arg(long)]
        json: bool,
    },
    /// Show one message
    Show {
        /// The id, from `mail list`
        #[arg(allow_hyphen_values = true)]
        id: String,
        /// Print the HTML part alone
        #[arg(long, conflicts_with = "json")]
        html: bool,
        /// Print JSON, with the members "text" and "html"
        #[arg(long)]
        json: bool,
    },
    /// Show how a mail looks, with made-up values
    Preview {
        /// What it is about
        #[arg(value_parser = ["reset", "password-changed", "pin", "test"])]
        kind: String,
        /// The language, such as sv
        #[arg(long)]
        locale: Option<String>,
        /// Print the HTML part alone
        #[arg(long, conflicts_with = "json")]
        html: bool,
        /// Print JSON, with the members "subject", "text" and "html"
        #[arg(long)]
        json: bool,
    },
    /// Send a test message and report how the mail server took it
    Test {
        /// The address to send it to
        to: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    let mut admin = global.admin().await?;
    match command {
        Command::List { json } => {
            let mails = admin.get(&path(&["mail"])).await?;
            let columns = [
                ("ID", "id"),
                ("TO", "to"),
                ("KIND", "kind"),
                ("STATUS", "status"),
                ("CREATED", "createdAt"),
                ("SUBJECT", "subject"),
                ("SERVER", "server"),
            ];
            output::list(&mails, &columns, json)
        }
        Command::Show { id, html, json } => {
            let mail = admin.get(&path(&["mail", &id])).await?;
            letter(&mail, html, json)
        }
        Command::Preview {
            kind,
            locale,
            html,
            json,
        } => {
            let target = path(&["mail", "preview", &kind]);
            let target = with_query(target, &[("locale", locale.as_deref())]);
            let mail = admin.get(&target).await?;
            letter(&mail, html, json)
        }
        Command::Test { to, json } => {
            let body = json!({"to": to});
            let report = admin
                .call(Method::POST, &path(&["mail", "test"]), Some(&body))
                .await?;
            if json {
                output::json(&report)?;
            } else {
                dialogue(&report)?;
            }
            match report.get("status").and_then(Value::as_str) {
                Some("failed") => Err(Failure::failed("the mail server has not taken the message")),
                Some("sink") => {
                    output::print_note("no mail leaves this machine: `smtp.host` is not set");
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    }
}

/// What was said to the mail server and by it, and what came of it.
fn dialogue(report: &Value) -> Outcome {
    let lines = report.get("dialogue").and_then(Value::as_array);
    for line in lines.into_iter().flatten().filter_map(Value::as_str) {
        output::line(line)?;
    }
    let status = output::text(report, "status");
    let id = output::text(report, "id");
    match &*status {
        "sink" => output::line(&format!("kept: `playgate mail show {id}` shows it")),
        status => output::line(&format!("{id} is {status}")),
    }
}

/// The message as a person reads it: headers, then the text; or what a program asked for.
fn letter(mail: &Value, html: bool, json: bool) -> Outcome {
    let member = |name: &str| mail.get(name).and_then(Value::as_str).unwrap_or("-");
    if json {
        return output::json(mail);
    }
    if html {
        return output::line(member("html").trim_end());
    }
    for (heading, name) in [
        ("To", "to"),
        ("Subject", "subject"),
        ("Status", "status"),
        ("Server", "server"),
    ] {
        if mail.get(name).is_some() {
            output::line(&format!("{heading}: {}", member(name)))?;
        }
    }
    output::line("")?;
    output::line(member("text").trim_end())
}
