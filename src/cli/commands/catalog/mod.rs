//! `playgate catalog`: livestreams, assets, offers, keys and rights from one file.

mod m3u;
mod m3u_entry;
mod m3u_guide;
mod text;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::{Value, json};

use super::epg_report;
use crate::client::key_files::key_file;
use crate::client::{Admin, AdminError, missing_media, path, request_body, with_query};
use crate::global::Global;
use crate::output::members::{elements, number, text, texts};
use crate::output::{self, CommandResult, Failure};
use crate::server::Startup;
use playgate_formats::catalog_file::{FILE_MAX, inline_key_files};
use playgate_ports::named_file;

/// Catalogue: livestreams, assets, offers, keys and rights
#[derive(Subcommand)]
pub(crate) enum CatalogCommand {
    /// Import a catalogue file (TOML or JSON), or with --merge the livestreams of an M3U playlist. If it has
    /// errors, all are listed and nothing is imported. Exit code 4 if it removes so much that it is held for
    /// approval
    Import {
        /// File, `-` for standard input
        file: PathBuf,
        /// Keep items that the file does not name, instead of replacing the whole catalogue
        #[arg(long)]
        merge: bool,
        /// Report the changes without applying them
        #[arg(long)]
        dry_run: bool,
        /// Import even if it removes over 30 % of the livestreams, assets or offers, or an offer that users
        /// hold
        #[arg(long)]
        accept: bool,
        /// List all changes instead of the first
        #[arg(long)]
        all: bool,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the catalogue versions replaced by imports
    History {
        /// Print a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Restore the catalogue before the last import, or another version; an undo can be undone
    ///
    /// If the current catalogue has entries that the version lacks, the command lists what it would remove and asks.
    Undo {
        /// Version from `catalog history` [default: the newest]
        version: Option<u64>,
        /// Report the changes without applying them
        #[arg(long)]
        dry_run: bool,
        /// Skip the confirmation; required without a terminal if entries are removed
        #[arg(long)]
        yes: bool,
        /// List all changes instead of the first
        #[arg(long)]
        all: bool,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete the content keys that `keys/content.key` cannot decrypt, if that file was lost
    ///
    /// No server may be running. Content encrypted with these keys cannot be played until the catalogue is
    /// imported again with its keys. Keys that the file can decrypt are kept.
    DropKeys {
        /// Skip the confirmation; required without a terminal
        #[arg(long)]
        yes: bool,
        /// Print {"result","keys"}
        #[arg(long)]
        json: bool,
    },
    /// Print the catalogue in the format that `import` reads
    Export {
        /// Print JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(command: CatalogCommand, global: &Global) -> CommandResult {
    match command {
        CatalogCommand::Import {
            file,
            merge,
            dry_run,
            accept,
            all,
            json,
        } => {
            let mut admin = global.admin_or_new().await?;
            let how = CatalogImportOptions {
                merge,
                dry_run,
                accept,
                all,
                json,
            };
            import(&mut admin, &file, how).await?;
            // The import has succeeded: a failure of this check must not fail the command.
            if !dry_run
                && let Ok(loaded) = global.load()
                && let directory = loaded.config.origin.media_dir
                && let Ok(Some(missing)) = missing_media::missing(&mut admin, &directory).await
            {
                output::print_note(&format!("warning: {missing}"));
            }
            Ok(())
        }
        CatalogCommand::History { json } => {
            let versions = global
                .admin()
                .await?
                .get(&path(&["catalog", "history"]))
                .await?;
            let columns = [
                ("VERSION", "version"),
                ("REPLACED", "replacedAt"),
                ("BY", "replacedBy"),
                ("LIVESTREAMS", "livestreams"),
                ("ASSETS", "assets"),
                ("OFFERS", "offers"),
                ("RULES", "rules"),
            ];
            output::list(&versions, &columns, json)
        }
        CatalogCommand::Undo {
            version,
            dry_run,
            yes,
            all,
            json,
        } => {
            let mut admin = global.admin().await?;
            let how = UndoOptions {
                dry_run,
                yes,
                all,
                json,
            };
            undo(&mut admin, version, how).await
        }
        CatalogCommand::DropKeys { yes, json } => drop_keys(global, yes, json),
        CatalogCommand::Export { json } => {
            let format = if json { "json" } else { "toml" };
            let target = with_query(path(&["catalog"]), &[("format", Some(format))]);
            global.admin().await?.download(&target).await
        }
    }
}

/// Prints the changes of a report and their numbers; with `all`, the list is complete.
pub(crate) fn show(report: &Value, all: bool, json: bool) -> CommandResult {
    if json {
        return output::json(report);
    }
    let lines = change_lines(report, all);
    lines.iter().try_for_each(|line| output::line(line))?;
    let figures: Vec<String> = ["added", "changed", "removed", "unchanged"]
        .iter()
        .map(|name| format!("{} {name}", output::text(report, name)))
        .collect();
    output::print_note(&figures.join(", "));
    Ok(())
}

/// The changes, with the removals last: next to the numbers or the question that follows.
fn change_lines(report: &Value, all: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for what in ["added", "changed", "removed"] {
        let changes: Vec<&Value> = changes_of(report, what).collect();
        // Shortened by kind, so that a long list of additions does not hide a removal.
        let (shown, rest) = output::shortened(&changes, all);
        lines.extend(shown.iter().map(|change| output::text(change, "text")));
        lines.extend(rest.map(|rest| format!("{rest}: {what}")));
    }
    lines
}

fn changes_of<'a>(report: &'a Value, what: &'static str) -> impl Iterator<Item = &'a Value> {
    let changes = elements(report, "changes").iter();
    changes.filter(move |change| text(change, "change") == what)
}

#[derive(Clone, Copy)]
struct UndoOptions {
    dry_run: bool,
    yes: bool,
    all: bool,
    json: bool,
}

async fn undo(admin: &mut Admin, version: Option<u64>, how: UndoOptions) -> CommandResult {
    let mut version = version.map(|number| number.to_string());
    let mut asked = false;
    if !how.dry_run && !how.yes {
        let preview = restore(admin, version.as_deref(), true).await?;
        // The version that was shown, although an import may have added a newer one since.
        version = Some(output::text(&preview, "version"));
        if number(&preview, "removed") > 0 {
            let lines = change_lines(&preview, how.all);
            // Not on standard output, where `--json` has the report of what was done.
            lines.iter().for_each(|line| output::print_note(line));
            for doubt in texts(&preview, "doubts") {
                output::print_note(&format!("warning: {doubt}"));
            }
            output::confirm_removal(false, &format!("removes {}", removals(&preview)))?;
            asked = true;
        }
    }
    let report = restore(admin, version.as_deref(), how.dry_run).await?;
    // The list was shown with the question.
    if !asked || how.json {
        show(&report, how.all, how.json)?;
    }
    let version = output::text(&report, "version");
    output::print_note(&if how.dry_run {
        format!("an undo would restore version {version}")
    } else {
        format!("restored version {version}; `playgate catalog undo` reverts this")
    });
    Ok(())
}

async fn restore(
    admin: &mut Admin,
    version: Option<&str>,
    dry_run: bool,
) -> Result<Value, Failure> {
    let parameters = [("version", version), ("dryRun", flag(dry_run))];
    let target = with_query(path(&["catalog", "undo"]), &parameters);
    Ok(admin.work(&target).await??)
}

/// Counts what is removed by kind, such as `4 livestreams, 1 offer`.
fn removals(report: &Value) -> String {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for change in changes_of(report, "removed") {
        let kind = text(change, "kind");
        match kinds.iter_mut().find(|(name, _)| *name == kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((kind, 1)),
        }
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| match (*kind, *count) {
            ("broadcast", 1) => "1 override of a broadcast".to_owned(),
            ("broadcast", count) => format!("{count} overrides of broadcasts"),
            (kind, 1) => format!("1 {kind}"),
            (kind, count) => format!("{count} {kind}s"),
        })
        .collect();
    kinds.join(", ")
}

fn drop_keys(global: &Global, yes: bool, json: bool) -> CommandResult {
    let what = "deletes the content keys that `keys/content.key` cannot decrypt";
    output::confirm_removal(yes, what)?;
    let dropped = Startup::new(global.load()?).drop_content_keys()?;
    let report = json!({"result": "deleted", "keys": dropped});
    output::done(&format!("{dropped} content keys deleted"), &report, json)
}

#[derive(Clone, Copy)]
struct CatalogImportOptions {
    merge: bool,
    dry_run: bool,
    accept: bool,
    all: bool,
    json: bool,
}

fn flag(set: bool) -> Option<&'static str> {
    set.then_some("true")
}

async fn import(admin: &mut Admin, file: &Path, how: CatalogImportOptions) -> CommandResult {
    // Kept in memory, because a held import is sent again when the user accepts it.
    let mut text = read(file)?;
    if m3u::is_m3u(&text) {
        // A list of livestreams that replaced the catalogue would remove every offer.
        if !how.merge {
            return Err(Failure::usage(
                "a playlist has livestreams only: pass --merge",
            ));
        }
        let wrong = |what| Failure::usage(format!("{}: {what}", file.display()));
        let playlist = m3u::to_catalog(&text).map_err(wrong)?;
        for remark in &playlist.remarks {
            output::print_note(remark);
        }
        text = playlist.catalog;
    }
    match send(admin, text.clone(), how).await? {
        Ok(report) => {
            show(&report, how.all, how.json)?;
            print_doubts(&report);
            if how.dry_run && !how.accept && epg_report::is_in_doubt(&report) {
                output::print_note("the import would be held for approval; `--accept` skips that");
            }
            Ok(())
        }
        Err(refusal) if refusal.code == "IMPORT_HELD" => {
            show(&refusal.details, how.all, how.json)?;
            print_doubts(&refusal.details);
            if !how.json && output::can_ask() && output::confirmed("Import anyway?") {
                let how = CatalogImportOptions {
                    accept: true,
                    ..how
                };
                let report = send(admin, text, how).await??;
                return show(&report, how.all, how.json);
            }
            Err(Failure::from(refusal)
                .hint("`--accept` imports it; `--merge` keeps items that the file does not name"))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

async fn send(
    admin: &mut Admin,
    text: String,
    how: CatalogImportOptions,
) -> Result<Result<Value, AdminError>, Failure> {
    let target = with_query(
        path(&["catalog", "import"]),
        &[
            ("merge", flag(how.merge)),
            ("dryRun", flag(how.dry_run)),
            ("accept", flag(how.accept)),
        ],
    );
    let body = request_body::whole(text);
    admin
        // The text is in memory and sent immediately: there is no progress to show.
        .upload(&target, "application/octet-stream", body, String::new)
        .await
}

fn print_doubts(report: &Value) {
    for doubt in texts(report, "doubts") {
        output::print_note(&format!("held: {doubt}"));
    }
}

/// Reads a catalogue file, or standard input for `-`, and inlines the key files that it names: the server
/// may not be allowed to read them.
fn read(file: &Path) -> Result<String, Failure> {
    // One byte more than allowed, so that a longer file is refused and not cut.
    let limit = u64::try_from(FILE_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        named_file::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::file(file, &error))?;
    let wrong = |what| Failure::usage(format!("{}: {what}", file.display()));
    let (text, foreign) = text::decode(bytes).map_err(wrong)?;
    if foreign > 0 {
        output::print_note(&format!(
            "{foreign} lines are not UTF-8 and are read as windows-1252"
        ));
    }
    let read = |name: &str| {
        let mut key = Vec::new();
        named_file::open(&key_file(file, name))?
            .take(limit)
            .read_to_end(&mut key)?;
        Ok(key)
    };
    inline_key_files(&text, &read).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::failed(lines.join("\n  "))
    })
}
