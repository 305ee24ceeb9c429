//! `playgate catalog`: livestreams, assets, offers, keys and rights from one file.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::Value;

use super::admin::upload;
use super::admin::{Admin, path, with_query};
use super::exit::{Failure, Outcome};
use super::{Global, media, output};
use crate::catalog_file::{FILE_MAX, inline_key_files};

/// The catalogue: livestreams, assets, offers, keys and rights.
#[derive(Subcommand)]
pub enum Command {
    /// Import a catalogue file, TOML or JSON; every mistake is reported, and then nothing is imported
    Import {
        /// The file, `-` for standard input
        file: PathBuf,
        /// Keep what the file does not name, instead of replacing the whole catalogue
        #[arg(long)]
        merge: bool,
        /// Report what would change, and change nothing
        #[arg(long)]
        dry_run: bool,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the catalogue in the form that `import` reads
    Export {
        /// Write JSON instead of TOML
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub async fn run(command: Command, global: &Global) -> Outcome {
    match command {
        Command::Import {
            file,
            merge,
            dry_run,
            json,
        } => {
            let mut admin = global.admin_or_new().await?;
            let report = import(&mut admin, &file, merge, dry_run).await?;
            show(&report, json)?;
            // It is taken, whatever becomes of this look.
            if !dry_run
                && let Ok(loaded) = global.load()
                && let directory = loaded.config.origin.media_dir
                && let Ok(Some(missing)) = media::missing(&mut admin, &directory).await
            {
                output::note(&format!("warning: {missing}"));
            }
            Ok(())
        }
        Command::Export { json } => {
            let format = if json { "json" } else { "toml" };
            let target = with_query(path(&["catalog"]), &[("format", Some(format))]);
            global.admin().await?.download(&target).await
        }
    }
}

/// The changes, one a line, then the figures.
pub fn show(report: &Value, json: bool) -> Outcome {
    if json {
        return output::json(report);
    }
    let changes = report.get("changes").and_then(Value::as_array);
    for change in changes.into_iter().flatten() {
        output::line(&output::text(change, "text"))?;
    }
    let figures: Vec<String> = ["added", "changed", "removed", "unchanged"]
        .iter()
        .map(|name| format!("{} {name}", output::text(report, name)))
        .collect();
    output::note(&figures.join(", "));
    Ok(())
}

async fn import(
    admin: &mut Admin,
    file: &Path,
    merge: bool,
    dry_run: bool,
) -> Result<Value, Failure> {
    let text = read(file)?;
    let flag = |set: bool| set.then_some("true");
    let target = with_query(
        path(&["catalog", "import"]),
        &[("merge", flag(merge)), ("dryRun", flag(dry_run))],
    );
    let answer = admin
        .upload(
            &target,
            "application/octet-stream",
            upload::whole(text),
            String::new,
        )
        .await?;
    Ok(answer?)
}

/// Reads a catalogue file, or standard input for `-`, with the keys that it names: the server may
/// not be allowed to see their files.
fn read(file: &Path) -> Result<String, Failure> {
    let limit = u64::try_from(FILE_MAX)
        .unwrap_or(u64::MAX)
        .saturating_add(1);
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        io::stdin().take(limit).read_to_string(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(limit).read_to_string(&mut text))
    };
    read.map_err(|error| Failure::file(file, &error))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    inline_key_files(&text, &|name| fs::read(folder.join(name))).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        Failure::failed(lines.join("\n  "))
    })
}
