//! `playgate mail`: the mail queue and the mails stored without a mail server.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::client::{path, with_query};
use crate::global::Global;
use crate::output::members::{elements, texts};
use crate::output::{self, CommandResult, Failure};

/// Mail sent by the service, or stored because no mail server is configured
#[derive(Subcommand)]
pub(crate) enum MailCommand {
    /// List messages, newest first
    List {
        #[command(flatten)]
        filter: MailFilter,
        /// Print a JSON array of {"id","to","subject","kind","status","createdAt"}, with "attempts",
        /// "nextAttempt" and "server" for mail sent through a mail server
        #[arg(long)]
        json: bool,
    },
    /// Show one message
    Show {
        /// Id from `mail list`
        #[arg(allow_hyphen_values = true)]
        id: String,
        /// Print only the HTML part
        #[arg(long, conflicts_with = "json")]
        html: bool,
        /// Print JSON, with the members "text" and "html"
        #[arg(long)]
        json: bool,
    },
    /// Preview a mail with sample values
    Preview {
        /// Kind of mail
        #[arg(value_parser = KINDS)]
        kind: String,
        /// Language, such as sv
        #[arg(long)]
        locale: Option<String>,
        /// Print only the HTML part
        #[arg(long, conflicts_with = "json")]
        html: bool,
        /// Print JSON, with the members "subject", "text" and "html"
        #[arg(long)]
        json: bool,
    },
    /// Send mail again that has failed or expired: one message, or all of the last seven days
    Retry {
        /// Id from `mail list`
        #[arg(allow_hyphen_values = true)]
        id: Option<String>,
        /// Print {"queued","skipped"}
        #[arg(long)]
        json: bool,
    },
    /// Send a test message and show the mail server's response
    Test {
        /// Recipient address
        to: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub(crate) struct MailFilter {
    /// Only mail to addresses that contain this text
    #[arg(long, value_name = "TEXT")]
    to: Option<String>,
    /// Only this kind of mail
    #[arg(long, value_parser = KINDS)]
    kind: Option<String>,
    /// Only mail in this state
    #[arg(long, value_parser = ["sink", "queued", "sent", "failed", "expired"])]
    status: Option<String>,
    /// Maximum number of messages
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

const KINDS: [&str; 5] = ["reset", "password-changed", "email-changed", "pin", "test"];

impl MailFilter {
    fn selects(&self, mail: &Value) -> bool {
        let is = |member: &str, wanted: &Option<String>| {
            wanted
                .as_deref()
                .is_none_or(|wanted| mail[member] == wanted)
        };
        let to = mail["to"].as_str().unwrap_or_default().to_lowercase();
        let is_to = self
            .to
            .as_deref()
            .is_none_or(|part| to.contains(&part.to_lowercase()));
        is_to && is("kind", &self.kind) && is("status", &self.status)
    }
}

pub(crate) async fn run(command: MailCommand, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    match command {
        MailCommand::List { filter, json } => {
            let mut mails = admin.get(&path(&["mail"])).await?;
            if let Some(mails) = mails.as_array_mut() {
                mails.retain(|mail| filter.selects(mail));
                mails.truncate(filter.limit.into());
            }
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
        MailCommand::Show { id, html, json } => {
            let mail = admin.get(&path(&["mail", &id])).await?;
            print_mail(&mail, html, json)
        }
        MailCommand::Preview {
            kind,
            locale,
            html,
            json,
        } => {
            let target = path(&["mail", "preview", &kind]);
            let target = with_query(target, &[("locale", locale.as_deref())]);
            let mail = admin.get(&target).await?;
            print_mail(&mail, html, json)
        }
        MailCommand::Retry { id, json } => {
            let body = id
                .as_ref()
                .map_or_else(|| json!({}), |id| json!({"id": id}));
            let report = admin.post(&path(&["mail", "retry"]), Some(&body)).await?;
            if json {
                output::json(&report)?;
            } else {
                print_retried(&report)?;
            }
            let nothing = elements(&report, "queued").is_empty();
            if nothing && !elements(&report, "skipped").is_empty() {
                return Err(Failure::failed("no message can be sent again"));
            }
            Ok(())
        }
        MailCommand::Test { to, json } => {
            let body = json!({"to": to});
            let report = admin.post(&path(&["mail", "test"]), Some(&body)).await?;
            if json {
                output::json(&report)?;
            } else {
                print_dialogue(&report)?;
            }
            match report.get("status").and_then(Value::as_str) {
                Some("failed") => Err(Failure::failed(
                    "the test mail was not accepted; the lines above show how far it came",
                )),
                // No failure: without a mail server this is the intended result.
                Some("sink") => {
                    output::print_note("mail is stored, not sent: `smtp.host` is not set");
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    }
}

fn print_retried(report: &Value) -> CommandResult {
    for skipped in elements(report, "skipped") {
        let (id, why) = (
            output::text(skipped, "id"),
            output::text(skipped, "message"),
        );
        output::print_note(&format!("{id}: {why}"));
    }
    output::line(&format!("queued {}", elements(report, "queued").len()))
}

fn print_dialogue(report: &Value) -> CommandResult {
    texts(report, "dialogue").try_for_each(output::line)?;
    let status = output::text(report, "status");
    let id = output::text(report, "id");
    match &*status {
        "sink" => output::line(&format!("stored: `playgate mail show {id}` shows it")),
        status => output::line(&format!("{id} is {status}")),
    }
}

fn print_mail(mail: &Value, html: bool, json: bool) -> CommandResult {
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
