//! `playgate epg`: the programme guide (EPG).

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{epg_report, rights};
use crate::client::request_body::{self, Sent};
use crate::client::{AdminError, fetch_url, path, read_secret, with_query};
use crate::global::Global;
use crate::output::{self, CommandResult, Failure};
use playgate_ports::FetchOptions;

/// Electronic programme guide
#[derive(Subcommand)]
pub(crate) enum EpgCommand {
    /// Import a guide: XMLTV (plain, gzip, xz, zip) or JSON; exit code 4 if it is held for approval
    Import(ImportGuide),
    /// Explain the rights of a broadcast: which default, rule or override sets each
    Why {
        /// Broadcast id
        broadcast: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the configured EPG sources and the result of their last import
    Sources(Sources),
    /// Fetch a source now; exit code 4 if its guide is held for approval
    Refresh(RefreshSource),
}

#[derive(Args)]
pub(crate) struct ImportGuide {
    /// File, `-` for standard input, or HTTP URL; without it the source is fetched
    #[arg(value_name = "FILE_OR_URL", required_unless_present = "source")]
    guide: Option<String>,
    /// EPG source of the guide: if configured, its settings apply
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    #[command(flatten)]
    request: UrlOptions,
    #[command(flatten)]
    options: EpgImportOptions,
}

// For a URL; those of a configured source apply as well. No doc comment: clap would show it as that of the command.
#[derive(Args)]
struct UrlOptions {
    /// Header to send to the URL; repeatable
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// User agent to send to the URL
    #[arg(long, value_name = "TEXT")]
    user_agent: Option<String>,
    /// User name for the URL
    #[arg(long, value_name = "NAME")]
    username: Option<String>,
    /// File with the password of the user
    #[arg(long, value_name = "FILE", requires = "username")]
    password_file: Option<PathBuf>,
    /// Seconds until the server begins to answer
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    timeout: Option<u64>,
}

impl UrlOptions {
    /// Adds the options to those of the source in the configuration.
    fn request(&self, global: &Global, source: Option<&str>) -> Result<FetchOptions, Failure> {
        let loaded = source.and_then(|_| global.load().ok());
        let sources = loaded.map(|loaded| loaded.config.epg.sources);
        let configured = sources.and_then(|all| {
            let mut all = all.into_iter();
            all.find(|one| Some(one.name.as_str()) == source)
        });
        let mut options = configured.map(|source| source.request).unwrap_or_default();
        let wrong = |flag: &str, why: String| Failure::usage(format!("`{flag}` {why}"));
        for header in &self.headers {
            let (name, value) = header.split_once(':').ok_or_else(|| {
                wrong(
                    "--header",
                    "must be a name and a value, such as \"X-Key: 1\"".to_owned(),
                )
            })?;
            let added = options.add_header(name.trim(), value.trim());
            added.map_err(|why| wrong("--header", why))?;
        }
        if let Some(agent) = &self.user_agent {
            let set = options.set_user_agent(agent);
            set.map_err(|why| wrong("--user-agent", why))?;
        }
        if let Some(user) = &self.username {
            let password = match &self.password_file {
                Some(file) => read_secret::read(file)?,
                None => String::new(),
            };
            let set = options.set_credentials(user, password.trim_end_matches(['\r', '\n']));
            set.map_err(|why| wrong("--username", why))?;
        }
        if let Some(seconds) = self.timeout {
            options.set_timeout(Duration::from_secs(seconds));
        }
        Ok(options)
    }
}

#[derive(Args)]
struct EpgImportOptions {
    /// Report the changes without applying them
    #[arg(long)]
    dry_run: bool,
    /// Import even if the guide looks wrong
    #[arg(long)]
    accept: bool,
    /// Create livestreams for channels that are not in the catalogue
    #[arg(long)]
    create_livestreams: bool,
    /// List all channels instead of the first
    #[arg(long)]
    all: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct Sources {
    /// Show only this source, in full
    #[arg(value_name = "NAME")]
    source: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct RefreshSource {
    /// EPG source
    #[arg(value_name = "NAME")]
    source: String,
    #[command(flatten)]
    options: EpgImportOptions,
}

pub(crate) async fn run(command: EpgCommand, global: &Global) -> CommandResult {
    match command {
        EpgCommand::Import(guide) => import(guide, global).await,
        EpgCommand::Sources(which) => sources(which, global).await,
        EpgCommand::Refresh(which) => refresh(which, global).await,
        EpgCommand::Why { broadcast, json } => rights::why(global, &broadcast, json).await,
    }
}

impl EpgImportOptions {
    fn parameters(&self) -> [(&'static str, Option<&'static str>); 3] {
        let flag = |set: bool| set.then_some("true");
        [
            ("dryRun", flag(self.dry_run)),
            ("accept", flag(self.accept)),
            ("createLivestreams", flag(self.create_livestreams)),
        ]
    }
}

async fn import(import: ImportGuide, global: &Global) -> CommandResult {
    let Some(guide) = &import.guide else {
        let which = RefreshSource {
            // The arguments require a source if no guide is given.
            source: import.source.unwrap_or_default(),
            options: import.options,
        };
        return refresh(which, global).await;
    };
    let sent = Sent::default();
    // Fetched by this process, with the rights and the network of its user, and streamed to the server.
    let body = if fetch_url::is_address(guide) {
        let request = import.request.request(global, import.source.as_deref())?;
        request_body::counted(fetch_url::get(guide, &request).await?, &sent)
    } else {
        request_body::counted(request_body::file(Path::new(guide))?, &sent)
    };
    let source = ("source", import.source.as_deref());
    let [dry_run, accept, create] = import.options.parameters();
    let target = with_query(path(&["epg", "import"]), &[source, dry_run, accept, create]);
    // An import may be the first command of an installation.
    let mut admin = global.admin_or_new().await?;
    let answer = admin
        .upload(&target, "application/octet-stream", body, || {
            sent.progress()
        })
        .await?;
    reported(answer, &import.options)
}

async fn sources(which: Sources, global: &Global) -> CommandResult {
    let mut admin = global.admin().await?;
    let Some(source) = which.source else {
        let mut all = admin.get(&path(&["epg", "sources"])).await?;
        if !which.json {
            for source in all.as_array_mut().into_iter().flatten() {
                // The other columns of a new source are dashes, which would look like a guide without programmes.
                if source["state"] == "new" {
                    source["state"] = "not fetched yet".into();
                }
            }
        }
        return output::list(&all, &COLUMNS, which.json);
    };
    let one = admin.get(&path(&["epg", "sources", &source])).await?;
    output::record(&one, which.json)
}

const COLUMNS: [output::Column; 7] = [
    ("NAME", "name"),
    ("STATE", "state"),
    ("PRIORITY", "priority"),
    ("PROGRAMMES", "lastImport/programmes"),
    ("UNMAPPED", "lastImport/unmapped"),
    ("URL", "url"),
    ("ERROR", "error"),
];

async fn refresh(which: RefreshSource, global: &Global) -> CommandResult {
    let target = with_query(
        path(&["epg", "sources", &which.source, "refresh"]),
        &which.options.parameters(),
    );
    let mut admin = global.admin().await?;
    let answer = admin.work(&target).await?;
    reported(answer, &which.options)
}

fn reported(answer: Result<Value, AdminError>, options: &EpgImportOptions) -> CommandResult {
    let EpgImportOptions {
        dry_run,
        accept,
        all,
        json,
        ..
    } = *options;
    match answer {
        Ok(report) => {
            epg_report::show(&report, !dry_run, all, json)?;
            if dry_run && !accept && epg_report::is_in_doubt(&report) {
                output::print_note("the import would be held for approval; `--accept` skips that");
            }
            Ok(())
        }
        Err(refusal) => {
            // A held import comes with the same report.
            if refusal.code == "IMPORT_HELD" {
                epg_report::show(&refusal.details, false, all, json)?;
                let hint = epg_report::hint(&refusal.details);
                return Err(Failure::from(refusal).hint(hint));
            }
            Err(refusal.into())
        }
    }
}
