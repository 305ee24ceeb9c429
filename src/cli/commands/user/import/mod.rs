//! `playgate user import`: creates many users from one file that is streamed to the server. Invalid lines
//! are skipped, and an interrupted import can be repeated.
//!
//! Decision: one JSON object per line, no CSV. Every service can write it, and hashes contain commas.

mod auth0;
mod firebase;
mod foreign;
mod keycloak;

use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::client::request_body::{self, FileBody, Sent};
use crate::client::{Admin, path, with_query};
use crate::output::members::{elements, number};
use crate::output::{self, CommandResult, Failure};
use foreign::ForeignUsers;
use playgate_ports::named_file;

#[derive(Args)]
pub(crate) struct ImportCommand {
    /// File, `-` for standard input
    file: PathBuf,
    /// The file is an export of this service; without it, one JSON object per line
    #[arg(long, value_name = "SERVICE")]
    from: Option<IdentityService>,
    /// Firebase only: file with the `hash_config` that the console shows under "Password hash parameters"
    #[arg(long, value_name = "FILE", requires = "from")]
    hash_config: Option<PathBuf>,
    /// Partner (id or name) of users whose line names none
    #[arg(long)]
    partner: Option<String>,
    /// Leave out unknown members of lines and say so, instead of rejecting the lines
    #[arg(long)]
    ignore_unknown: bool,
    /// Report what would be created, without creating users
    #[arg(long)]
    dry_run: bool,
    /// List all rejected lines of the report instead of the first
    #[arg(long)]
    all: bool,
    /// Print {"dryRun","lines","added","existing","rejected","failed","noted","notes"}
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum IdentityService {
    /// NDJSON with `passwordHash`, as Auth0's support exports it, or of an export job
    Auth0,
    /// A realm export with users
    Keycloak,
    /// The JSON file of `firebase auth:export`
    Firebase,
}

pub(crate) async fn run(admin: &mut Admin, command: &ImportCommand) -> CommandResult {
    let users = match command.from {
        Some(service) => Some(read_foreign(service, command)?),
        None => playgate_array(&command.file)?,
    };
    let Some(users) = users else {
        let file = &command.file;
        let users = total(file).map_err(|error| Failure::file(file, &error))?;
        let report = upload(admin, request_body::file(file)?, users, command).await?;
        return show(&report, command);
    };
    // Read as a whole: these files are one JSON value each, and a mistake is found before anything is sent.
    let total = users.sent();
    let mut report = match total {
        // The server refuses an empty body, and here every user has been left out for a reason.
        0 => json!({"dryRun": command.dry_run, "lines": 0, "added": 0, "existing": 0,
            "rejected": 0, "failed": [], "noted": 0, "notes": []}),
        _ => {
            upload(
                admin,
                request_body::bytes(users.body())?,
                Some(total),
                command,
            )
            .await?
        }
    };
    users.complete(&mut report);
    show(&report, command)
}

/// Reads a file of our own format that has its users in an array; `None` if they are lines. A table, which has neither, is
/// refused here: each of its lines would be.
fn playgate_array(file: &Path) -> Result<Option<ForeignUsers>, Failure> {
    const BEGIN_BYTES: u64 = 4096;
    let failed = |error: io::Error| Failure::file(file, &error);
    if file.as_os_str() == "-" {
        return Ok(None);
    }
    let opened = named_file::open(file).map_err(failed)?;
    // A pipe cannot be read twice, and the server names the encoding of UTF-16.
    if !opened.metadata().map_err(failed)?.is_file() {
        return Ok(None);
    }
    let mut begin = Vec::new();
    opened
        .take(BEGIN_BYTES)
        .read_to_end(&mut begin)
        .map_err(failed)?;
    let begin = String::from_utf8_lossy(&begin);
    let begin = begin.trim_start_matches('\u{feff}').trim_start();
    let wrong = |what: &str| Failure::failed(format!("{}: {what}", file.display()));
    if begin.starts_with('[') {
        let text = utf8(named_file::read(file).map_err(failed)?).map_err(|what| wrong(&what))?;
        let users = ForeignUsers::from_array(&text).map_err(|what| wrong(&what))?;
        return Ok(Some(users));
    }
    let first = begin.lines().next().unwrap_or_default();
    let is_table = first.contains([',', ';', '\t']) && !first.contains(['{', '\0', '\u{fffd}']);
    if is_table {
        return Err(wrong("the file is a table (CSV)").hint(
            "write each user as a JSON object on a line, such as {\"email\":\"ann@example.com\",\"name\":\"Ann\"}",
        ));
    }
    Ok(None)
}

fn read_foreign(
    service: IdentityService,
    command: &ImportCommand,
) -> Result<ForeignUsers, Failure> {
    let read = |file: &Path| {
        let bytes = match file.as_os_str() == "-" {
            true => {
                let mut bytes = Vec::new();
                io::stdin().read_to_end(&mut bytes).map(|_| bytes)
            }
            false => named_file::read(file),
        };
        let bytes = bytes.map_err(|error| Failure::file(file, &error))?;
        utf8(bytes).map_err(|what| Failure::failed(format!("{}: {what}", file.display())))
    };
    if command.hash_config.is_some() && service != IdentityService::Firebase {
        return Err(Failure::usage("--hash-config is for --from firebase only"));
    }
    let text = read(&command.file)?;
    let users = match service {
        IdentityService::Auth0 => auth0::read(&text),
        IdentityService::Keycloak => keycloak::read(&text),
        IdentityService::Firebase => {
            let config = command.hash_config.as_deref().map(read).transpose()?;
            firebase::read(&text, config.as_deref())
        }
    };
    let wrong = |what: &str| Failure::failed(format!("{}: {what}", command.file.display()));
    match users {
        Ok(users) if users.is_empty() => Err(wrong("the file contains no users")),
        Ok(users) => Ok(users),
        Err(what) => Err(wrong(&what)),
    }
}

async fn upload(
    admin: &mut Admin,
    body: FileBody,
    users: Option<u64>,
    command: &ImportCommand,
) -> Result<Value, Failure> {
    let sent = Sent::default();
    let body = request_body::counted(body, &sent);
    let target = with_query(
        path(&["users", "import"]),
        &[
            ("partner", command.partner.as_deref()),
            ("dryRun", command.dry_run.then_some("true")),
            ("ignoreUnknown", command.ignore_unknown.then_some("true")),
        ],
    );
    let answer = admin
        .upload(&target, "application/x-ndjson", body, || match users {
            Some(users) if sent.lines() >= users => {
                "sent; the server is storing the last users".to_owned()
            }
            Some(users) => format!("{} of {}", short(sent.lines()), short(users)),
            None => short(sent.lines()),
        })
        .await?;
    match answer {
        Ok(report) => Ok(report),
        Err(refusal) => {
            // Users stored before the import failed are kept.
            if refusal.details.get("added").is_some() {
                output::print_note(&counts(&refusal.details));
                let hint = "run it again to continue; existing users are counted and not changed";
                return Err(Failure::from(refusal).hint(hint));
            }
            Err(refusal.into())
        }
    }
}

fn total(file: &Path) -> io::Result<Option<u64>> {
    // The lines are counted for the progress display only, which reads the file a second time.
    if !output::watched() || file.as_os_str() == "-" {
        return Ok(None);
    }
    let file = named_file::open(file)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let mut lines = 0;
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            return Ok(Some(lines));
        }
        lines += request_body::line_ends(bytes);
        let read = bytes.len();
        reader.consume(read);
    }
}

/// Formats a count briefly: `950`, `12.3 k`, `1.2 M`.
fn short(count: u64) -> String {
    let tenths = |unit: u64| format!("{}.{}", count / unit, count % unit * 10 / unit);
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{} k", tenths(1_000)),
        _ => format!("{} M", tenths(1_000_000)),
    }
}

/// Returns the text of a file without its byte order mark.
fn utf8(mut bytes: Vec<u8>) -> Result<String, String> {
    let is_utf16 = matches!(bytes.as_slice(), [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
        || bytes.iter().take(2).any(|&byte| byte == 0);
    if is_utf16 {
        return Err(
            "the file is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8"
                .to_owned(),
        );
    }
    if bytes.starts_with("\u{feff}".as_bytes()) {
        bytes.drain(.."\u{feff}".len());
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error
            .as_bytes()
            .iter()
            .take(valid)
            .filter(|&&b| b == b'\n')
            .count()
            + 1;
        format!("line {line}: the file is not UTF-8; convert it, for example with iconv")
    })
}

fn print_reported(reported: &Value) {
    let (line, message) = (
        output::text(reported, "line"),
        output::text(reported, "message"),
    );
    // In a file of one line only the address tells which user it is.
    let account = match reported.get("account") {
        Some(_) => format!(", {}", output::text(reported, "account")),
        None => String::new(),
    };
    output::print_note(&format!("line {line}{account}: {message}"));
}

fn counts(report: &Value) -> String {
    let rows = ["added", "existing", "rejected"];
    let rows = rows.map(|name| format!("{name:9} {}", output::text(report, name)));
    rows.join("\n")
}

fn show(report: &Value, command: &ImportCommand) -> CommandResult {
    let as_json = command.json;
    let rejected = number(report, "rejected");
    if as_json {
        output::json(report)?;
    } else {
        output::line(&counts(report))?;
    }
    if !as_json {
        let failed = elements(report, "failed");
        let (shown, rest) = output::shortened(failed, command.all);
        shown.iter().for_each(print_reported);
        // The report lists only the first failures.
        let more = rejected.saturating_sub(u64::try_from(failed.len()).unwrap_or(0));
        if let Some(rest) = rest {
            output::print_note(&rest);
        } else if more > 0 {
            output::print_note(&format!("and {more} more lines"));
        }
    }
    if !as_json {
        let notes = elements(report, "notes");
        let (shown, rest) = output::shortened(notes, command.all);
        if !notes.is_empty() {
            let noted = number(report, "noted");
            output::print_note(&format!("repaired or left out in {noted} lines:"));
        }
        shown.iter().for_each(print_reported);
        if let Some(rest) = rest {
            output::print_note(&rest);
        }
    }
    if report.get("dryRun") == Some(&Value::Bool(true)) {
        output::print_note("dry run: nothing was stored");
    }
    match rejected {
        0 => Ok(()),
        rejected => Err(Failure::failed(format!("{rejected} lines rejected"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        let texts = [0, 999, 1_000, 12_345, 999_999, 1_000_000, 2_070_000].map(short);
        assert_eq!(
            texts,
            ["0", "999", "1.0 k", "12.3 k", "999.9 k", "1.0 M", "2.0 M"]
        );
    }
}
